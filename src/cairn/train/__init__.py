"""The loops, the run folder, checkpoints and evaluation."""
