"""Policies to learn from that others made."""
