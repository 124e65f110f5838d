"""MuJoCo tasks in one batch: physics in threads, observations and rewards of all environments at once."""
