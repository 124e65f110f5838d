"""The two metrics a recipe can be judged by: their curves, their names, and the number to compare."""

from __future__ import annotations

MEASURES = {"success": "eval/success_rate", "return": "eval/mean_reward"}  # the curve a recipe is judged by
TRAINING = {
    "success": "rollout/success_rate",
    "return": "rollout/ep_rew_mean",
}  # the same metric over training episodes
WORDS = {"success": "success", "return": "mean return"}


def figure(metric: str, mean: float, success: float | None) -> float:
    """The number of a score that a recipe is judged by; 0 where a task reports no success."""
    if metric == "success":
        return 0.0 if success is None else success
    return mean
