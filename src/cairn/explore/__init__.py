"""Directed exploration: what was visited so far, and the way there."""
