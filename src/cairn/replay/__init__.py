"""Where transitions wait to be learned from."""
