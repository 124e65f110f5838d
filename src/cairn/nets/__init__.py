"""Networks, policy distributions, the running normaliser and the optimiser over one flat vector."""
