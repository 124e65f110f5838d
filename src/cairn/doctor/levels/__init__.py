"""The doctor of a hierarchy: says which of its two levels keeps it from reaching the goal."""
