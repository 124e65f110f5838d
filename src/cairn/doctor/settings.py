"""What the doctor asks of an algorithm's config. No other file of this package reads a config.

The registry is imported when a question is asked: it needs torch, and the process that probes a task does not.
"""

from __future__ import annotations

from typing import Any

GAMMA = 0.99  # γ where a config has none, as behaviour cloning has


def discount(cfg: Any) -> float:
    """γ of the values that are learned: of a hierarchy the high level's, of an imitator its learner's."""
    from cairn.algorithms.registry import setting

    return float(setting(cfg, "gamma", GAMMA))


def discount_per_step(cfg: Any) -> float:
    """γ for one step of the environment. A high level acts every c steps: it looks c times as far as its γ says."""
    from cairn.algorithms.registry import algorithm_of

    every = max((learner.every for learner in algorithm_of(cfg).learners(cfg).values()), default=1)
    return discount(cfg) if every == 1 else max(0.0, 1 - (1 - discount(cfg)) / every)


def is_hierarchy(cfg: Any) -> bool:
    from cairn.algorithms.registry import algorithm_of

    return algorithm_of(cfg).levels


def learns_from_judgement(cfg: Any) -> bool:
    """Whether a nested learner is trained on an expert's actions or values in place of the rewards."""
    from cairn.algorithms.registry import algorithm_of

    return "learner" in algorithm_of(cfg).parts


def normalises_observations(cfg: Any) -> bool:
    """Whether observations are put on one scale before the network that acts sees them."""
    from cairn.algorithms.registry import setting

    acting = cfg.low if is_hierarchy(cfg) else cfg
    return bool(setting(acting, "normalise", False) or setting(acting, "normalise_obs", False))


def normalises_rewards(cfg: Any) -> bool:
    from cairn.algorithms.registry import setting

    return not learns_from_judgement(cfg) and bool(setting(cfg, "normalise_reward", False))


def replay_batch_size(cfg: Any) -> int | None:
    """Transitions that an update draws from the replay; None for an algorithm without one, and for a hierarchy."""
    from cairn.algorithms.registry import algorithm_of

    learner = algorithm_of(cfg).learners(cfg).get("")
    return None if learner is None else learner.config.batch_size
