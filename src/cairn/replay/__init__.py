"""Replay buffers: uniform, prioritised, hindsight, stacked frames, and data sets for imitation."""
