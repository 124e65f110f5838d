"""Five libraries on the same tasks, with the same settings, each in an environment of its own."""
