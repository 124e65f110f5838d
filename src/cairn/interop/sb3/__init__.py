"""Reads policies of Stable-Baselines3."""
