"""Reads files of other libraries."""
