"""Measurements of Cairn: speed, studies, checks, and other libraries beside it. README.md lists the scripts."""
