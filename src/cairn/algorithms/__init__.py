"""Learning algorithms, one file each, and the registry that lists them."""
