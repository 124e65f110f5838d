"""How experience reaches the learner: from environments here, or from samplers on a Ray cluster."""
