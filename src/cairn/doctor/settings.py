"""What the doctor asks of an algorithm's config. No other file of this package reads a config's fields.

Every function takes the config of any algorithm. Hierarchies have `high` and `low` levels; imitators such as DAgger and
AggreVaTeD have a nested `learner`.
"""

from __future__ import annotations

from typing import Any

GAMMA = 0.99  # γ where a config has none, as behaviour cloning has


def discount(cfg: Any) -> float:
    """γ of the values that are learned: of a hierarchy the high level's, of an imitator its learner's."""
    cfg = getattr(cfg, "learner", cfg)
    return float(getattr(getattr(cfg, "high", cfg), "gamma", GAMMA))


def discount_per_step(cfg: Any) -> float:
    """γ for one step of the environment. A high level acts every c steps: it looks c times as far as its γ says."""
    if is_hierarchy(cfg):
        return max(0.0, 1 - (1 - float(cfg.high.gamma)) / int(cfg.every))
    return discount(cfg)


def bootstraps(cfg: Any) -> bool:
    """Whether what follows a step has any value to the learner: not where γ = 0."""
    return bool(getattr(cfg, "gamma", 1.0) != 0)


def is_hierarchy(cfg: Any) -> bool:
    return hasattr(cfg, "high")


def has_expert_critic(cfg: Any) -> bool:
    """Whether a nested learner is trained on an expert's judgement in place of the rewards."""
    return hasattr(cfg, "learner")


def normalises_observations(cfg: Any) -> bool:
    """Whether observations are put on one scale before the network that acts sees them."""
    cfg = cfg.low if is_hierarchy(cfg) else getattr(cfg, "learner", cfg)
    return bool(getattr(cfg, "normalise", False) or getattr(cfg, "normalise_obs", False))


def normalises_rewards(cfg: Any) -> bool:
    return bool(getattr(cfg, "normalise_reward", False))


def uses_replay(cfg: Any) -> bool:
    return hasattr(cfg, "capacity")


def batch_size(cfg: Any) -> int | None:
    """Transitions of one update; None where the config does not say."""
    size: int | None = getattr(cfg, "batch_size", None)
    return size
