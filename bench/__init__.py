"""Cairn measured beside other libraries: the same task, network, batch and number of updates. Cairn never imports it.

python -m bench.run             steps a second and peak memory, case by case
python -m bench.time_to_target  seconds of training until a score is reached
python -m bench.hindsight       hindsight replay by itself: batches a second, adds a second, memory
python -m bench.frames          the replay of stacked frames by itself: memory, batches and adds a second
python -m bench.shares          where the time of a training goes: environments, acting, learning
python -m bench.reach           seconds until FetchReach is solved, by hindsight on both sides
"""
