"""Experiments behind recipes and documents: what one change does to learning."""
