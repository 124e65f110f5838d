"""How experience reaches the learner: from local environments, or from samplers on a Ray cluster."""
