"""Networks, policy distributions, running normalisers, and the optimiser over one flat vector."""
