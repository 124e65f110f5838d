"""Our own tasks, and how any task is made."""
