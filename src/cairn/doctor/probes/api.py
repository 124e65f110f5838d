"""Whether the task follows Gymnasium's interface."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from cairn.core.errors import CairnError
from cairn.doctor.finding import Finding
from cairn.doctor.play import draw
from cairn.doctor.task_probe import TaskProbe
from cairn.envs.broken import known_fault
from cairn.vector.spaces import spec_of

CONTRACT = "See https://gymnasium.farama.org/api/env."


def version(p: TaskProbe) -> Iterator[Finding]:
    """Report tasks and versions that are known to be broken."""
    for name in _names(p):
        fault = known_fault(name)
        if fault:
            what = f"{name} is known to be broken."
            yield Finding("known-broken", "error", what, fault, "Use the version named there.")
            return


def _names(p: TaskProbe) -> Iterator[str]:
    """The names of the task, first the one known before it is made, since making it may fail."""
    yield p.case.name
    if p.bare.spec is not None:
        yield p.bare.spec.id


def interface(p: TaskProbe) -> Iterator[Finding]:
    """Check spaces, `reset(seed=, options=)` -> (obs, info), and the five values of `step`."""
    yield from _spaces(p.bare) or _resets(p, p.bare) or _steps(p, p.bare)


def _broken(code: str, what: str, evidence: str, remedy: str) -> list[Finding]:
    return [Finding(code, "error", what, evidence, f"{remedy} {CONTRACT}")]


def _spaces(env: Any) -> list[Finding]:
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, spaces.Space):
            remedy = f"Set self.{name} in __init__."
            return _broken("spaces", f"{name} is not a Gymnasium space.", f"it is {space!r}", remedy)
    try:
        spec_of(env.observation_space, env.action_space)
    except CairnError as error:
        return _broken("spaces", "Cairn cannot work in these spaces.", str(error), "Wrap the task.")
    return []


def _resets(p: TaskProbe, env: Any) -> list[Finding]:
    known = inspect.signature(env.unwrapped.reset).parameters
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    missing = [name for name in ("seed", "options") if name not in known and not anything]
    if missing:
        what = f"reset() does not take {' and '.join(missing)}."
        remedy = "Write def reset(self, *, seed=None, options=None) and call super().reset(seed=seed)."
        return _broken("reset-api", what, f"its parameters are {', '.join(known) or 'none'}", remedy)
    answer = p.ask("reset", lambda: env.reset(seed=0, options={}))
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)):
        what = "reset() does not return (observation, info)."
        return _broken("reset-api", what, f"it returned {_kinds(answer)}", "Return a pair, the info a dictionary.")
    return _shape(env.observation_space, answer[0], "reset()")


def _steps(p: TaskProbe, env: Any) -> list[Finding]:
    p.first.raw_reset(seed=0)
    action = p.first.allowed(draw(env.action_space, p.rng))
    answer = p.ask("step", lambda: env.step(action))
    if not (isinstance(answer, tuple) and len(answer) == 5):
        what = "step() does not return five values."
        remedy = "Return (observation, reward, terminated, truncated, info)."
        return _broken("step-api", what, f"it returned {_kinds(answer)}", remedy)
    obs, reward, terminated, truncated, info = answer
    kinds = [
        ("reward", reward, np.isscalar(reward) or np.ndim(reward) == 0, "a number"),
        ("terminated", terminated, isinstance(terminated, (bool, np.bool_)), "a bool"),
        ("truncated", truncated, isinstance(truncated, (bool, np.bool_)), "a bool"),
        ("info", info, isinstance(info, dict), "a dictionary"),
    ]
    for name, value, right, wanted in kinds:
        if not right:
            evidence = f"it was {value!r:.80}, of type {type(value).__name__}"
            return _broken("step-api", f"step() returned a {name} that is not {wanted}.", evidence, "Convert it.")
    return _shape(env.observation_space, obs, "step()")


def _shape(space: Any, obs: Any, where: str, key: str = "") -> list[Finding]:
    """Check the structure of an observation; other probes check its values."""
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict) or set(obs) != set(space.spaces):
            have = sorted(obs) if isinstance(obs, dict) else _kinds(obs)
            what = f"{where} returned an observation that is not laid out as its space."
            return _broken("obs-shape", what, f"expected {sorted(space.spaces)}, got {have}", "Make them agree.")
        return [f for name, part in space.spaces.items() for f in _shape(part, obs[name], where, f" {name!r}")]
    if isinstance(space, spaces.Box):
        array = np.asarray(obs)
        same_kind = np.can_cast(array.dtype, space.dtype, "same_kind") if array.dtype != object else False
        if array.shape != space.shape or not same_kind:
            what = f"{where} returned an observation{key} of another shape or type than its space."
            evidence = f"expected {space.shape} of {space.dtype}, got {array.shape} of {array.dtype}"
            return _broken("obs-shape", what, evidence, "Make observation_space and observation agree.")
    return []


def _kinds(answer: Any) -> str:
    if isinstance(answer, tuple):
        return f"{len(answer)} values ({', '.join(type(part).__name__ for part in answer)})"
    return type(answer).__name__
