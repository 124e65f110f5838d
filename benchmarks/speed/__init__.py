"""How fast Cairn is and how much memory it takes, mostly beside Stable-Baselines3 doing the same work."""
