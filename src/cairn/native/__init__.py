"""Updates of small networks on a CPU, with gradients written by hand: in C++ if it was compiled, else in torch.

`use.py` puts them in place of an agent's own, which go through autograd. One file per algorithm derives the gradient of
its loss; `networks.py` says what they are made of and is the form in torch; `compiled.py` calls `core.cpp`.
"""
