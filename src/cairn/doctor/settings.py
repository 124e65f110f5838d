"""What the doctor needs from an algorithm's config. No other file of this package reads a config.

The registry is imported inside the functions, because it needs torch and the process that probes a task does not.
"""

from __future__ import annotations

from typing import Any

GAMMA = 0.99  # γ for configs without one, such as behaviour cloning


def discount(cfg: Any) -> float:
    """γ of the values that are learned: a hierarchy's high level's, or an imitation algorithm's learner's."""
    from cairn.algorithms.settings import setting

    return float(setting(cfg, "gamma", GAMMA))


def discount_per_step(cfg: Any) -> float:
    """γ per environment step. A high level acts every c steps, so it looks c times as far ahead."""
    from cairn.algorithms.registry import algorithm_of

    every = max((learner.every for learner in algorithm_of(cfg).learners(cfg).values()), default=1)
    return discount(cfg) if every == 1 else max(0.0, 1 - (1 - discount(cfg)) / every)


def is_hierarchy(cfg: Any) -> bool:
    """Whether the config is that of a hierarchy."""
    from cairn.algorithms.registry import algorithm_of

    return algorithm_of(cfg).levels


def learns_from_judgement(cfg: Any) -> bool:
    """Whether a nested learner is trained on an expert's actions or values instead of rewards."""
    from cairn.algorithms.registry import algorithm_of

    return "learner" in algorithm_of(cfg).parts


def normalises_observations(cfg: Any) -> bool:
    """Whether the acting network gets normalised observations."""
    from cairn.algorithms.settings import setting

    acting = cfg.low if is_hierarchy(cfg) else cfg
    return bool(setting(acting, "normalise", False) or setting(acting, "normalise_obs", False))


def remembers(cfg: Any) -> bool:
    """Whether the acting network has memory."""
    from cairn.algorithms.settings import setting

    return setting(cfg, "memory", None) not in (None, "", "none")


def normalises_rewards(cfg: Any) -> bool:
    """Whether the learner normalises rewards."""
    from cairn.algorithms.settings import setting

    return not learns_from_judgement(cfg) and bool(setting(cfg, "normalise_reward", False))


def replay_batch_size(cfg: Any) -> int | None:
    """Transitions per update from a replay; None without a replay, and for a hierarchy."""
    from cairn.algorithms.registry import algorithm_of

    learner = algorithm_of(cfg).learners(cfg).get("")
    return None if learner is None else learner.config.batch_size
