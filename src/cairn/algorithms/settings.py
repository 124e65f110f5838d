"""Questions about the config of any algorithm, answered from its registry entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from cairn.algorithms.registry import WEIGHTS_DEPEND_ON, algorithm_of


def setting(cfg: Any, name: str, default: Any) -> Any:
    """A setting of the part that acts in the task (a hierarchy's high level, a learner), or `default`."""
    entry = algorithm_of(cfg)
    part = getattr(cfg, entry.acts_by) if entry.acts_by else cfg
    return getattr(part, name, default)


def weights_meaning(cfg: Any) -> dict[str, Any]:
    """The settings that saved weights depend on, those of the parts included."""
    entry, own = algorithm_of(cfg), {f.name for f in fields(cfg)}
    found = {name: getattr(cfg, name) for name in (*WEIGHTS_DEPEND_ON, *entry.weights_depend_on) if name in own}
    for part in entry.parts:
        found |= {f"{part}.{name}": value for name, value in weights_meaning(getattr(cfg, part)).items()}
    return found


def as_trainable(agent: Any, like: Any = None) -> Any:
    """The same policy as a trainable agent, for a config like `like`. Raises CairnError if there is none."""
    return algorithm_of(agent.cfg).trainable(agent, getattr(like, "normalise_reward", None))


def in_single_precision(cfg: Any) -> Any:
    """The config with all networks in single precision, as exported files have it."""
    changes = {name: in_single_precision(getattr(cfg, name)) for name in algorithm_of(cfg).parts}
    return replace(cfg, **changes, **({"bf16": False} if getattr(cfg, "bf16", False) else {}))


def no_hindsight(cfg: Any) -> str:
    """Why hindsight cannot be used with a config; "" if it can."""
    if why := algorithm_of(cfg).hindsight:
        return why
    remembers = setting(cfg, "memory", "none") != "none"
    return "hindsight works without memory only; leave one of hindsight and agent.memory out." if remembers else ""


def relabels_goals(cfg: Any) -> bool:
    """Whether a config itself asks for hindsight, apart from a recipe's `hindsight`."""
    return bool(getattr(cfg, "high_hindsight", 0.0) > 0)


def horizon(cfg: Any) -> int:
    """Steps per environment in a rollout if that is a setting, else 0."""
    steps: int = getattr(cfg, "horizon", 0)
    return steps


def capacities(cfg: Any) -> dict[str, int]:
    """Replay capacities by the name of the part; "" is the config itself."""
    return {part: one.config.capacity for part, one in algorithm_of(cfg).learners(cfg).items()}


def most_useful(cfg: Any, steps: int) -> dict[str, int]:
    """How many transitions a run of `steps` steps can add to each replay, by the name of the part."""
    return {part: max(steps // one.every, 1) for part, one in algorithm_of(cfg).learners(cfg).items()}


def capped_capacity(cfg: Any, most: Mapping[str, int]) -> Any:
    """The config with every replay capacity at most that of `most`."""
    for part, size in capacities(cfg).items():
        size = min(size, most[part])
        inner = replace(getattr(cfg, part), capacity=size) if part else None
        cfg = replace(cfg, capacity=size) if inner is None else replace(cfg, **{part: inner})
    return cfg
