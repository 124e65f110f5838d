"""HIRO: two levels, its replay of segments and its loop."""
