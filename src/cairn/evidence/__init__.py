"""Recorded results: writing them, statistics over seeds, tables."""
