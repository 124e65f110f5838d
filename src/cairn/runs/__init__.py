"""One training run: assembly, counters, logs, checkpoints, evaluation and the run folder."""
