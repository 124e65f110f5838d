"""What the `metric` of a recipe means: the number of a score that is judged, the curves that show it, its name."""

from __future__ import annotations

MEASURES = {"success": "eval/success_rate", "return": "eval/mean_reward"}  # the curve a recipe is judged by
TRAINING = {"success": "rollout/success_rate", "return": "rollout/ep_rew_mean"}  # the same of training episodes
WORDS = {"success": "success", "return": "mean return"}


def figure(metric: str, mean: float, success: float | None) -> float:
    """The one number of a score that a recipe is judged by. A task that reports no success has none of it."""
    if metric == "success":
        return 0.0 if success is None else success
    return mean
