"""What a run logs, as numbers: metrics of updates, and statistics of recent episodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from torch import Tensor

Ended = tuple[float, int, bool | None]  # return, length and success (None if unknown) of an episode


def headline(recent: Collection[Ended], metric: str) -> str:
    """The one number on the progress line."""
    if not recent:
        return "no episode yet"
    if metric == "success" and any(s is not None for _, _, s in recent):
        return f"success {sum(bool(s) for _, _, s in recent) / len(recent):.0%}"
    return f"return {sum(r for r, _, _ in recent) / len(recent):.1f}"


def averages(recent: Collection[Ended]) -> dict[str, float]:
    """Means over recent episodes, under the names of Stable-Baselines3."""
    if not recent:
        return {}
    returns, lengths, told = zip(*recent, strict=True)
    values = {"rollout/ep_rew_mean": sum(returns) / len(returns), "rollout/ep_len_mean": sum(lengths) / len(lengths)}
    if any(s is not None for s in told):
        values["rollout/success_rate"] = sum(bool(s) for s in told) / len(told)
    return values


def as_numbers(metrics: Mapping[str, Tensor | Callable[[], Tensor]]) -> dict[str, float]:
    """Metrics of an update as numbers: functions are called, and tensors become their means."""
    found = {name: value() if callable(value) else value for name, value in metrics.items()}
    return {name: float(value.mean() if isinstance(value, Tensor) else value) for name, value in found.items()}
