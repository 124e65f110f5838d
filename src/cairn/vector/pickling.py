"""Pickles functions that make environments, together with the registrations that they may need.

`gym.make("Mine-v0")` works where the user's script registered that id. A new process never ran that script.
"""

from __future__ import annotations

import contextlib
import pickle
from dataclasses import replace
from typing import Any

import cloudpickle
import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator


def pack(what: Any) -> bytes:
    """Pickle `what` with all registrations but Gymnasium's and Cairn's own. Raises what pickling raises."""
    body: bytes = cloudpickle.dumps(what)
    return pickle.dumps((_registrations(), body))


def unpack(packed: bytes) -> Any:
    """Unpickle what `pack` returned, after registering the same ids here."""
    entries, body = pickle.loads(packed)
    for entry in entries:
        with contextlib.suppress(Exception):  # an entry that cannot be read matters only if its task is made
            spec = cloudpickle.loads(entry)
            gym.registry[spec.id] = spec
    return cloudpickle.loads(body)


def _registrations() -> list[bytes]:
    pickled = []
    for spec in list(gym.registry.values()):
        if isinstance(spec.entry_point, str) and spec.entry_point.startswith(("gymnasium.", "cairn.")):
            continue
        with contextlib.suppress(Exception):  # skip an entry that cannot be pickled
            pickled.append(cloudpickle.dumps(_by_value(spec)))
    return pickled


def _by_value(spec: EnvSpec) -> EnvSpec:
    """A registration that is unpickled only when its task is made, because that may import the user's module.

    A class of the main script is pickled by value: no other process can import it.
    """
    creator: Any = spec.entry_point
    if isinstance(creator, str) and creator.startswith("__main__:"):
        creator = load_env_creator(creator)
    return spec if isinstance(creator, str) else replace(spec, entry_point=Creator(cloudpickle.dumps(creator)))


class Creator:
    """An entry point that is unpickled when it is called."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return cloudpickle.loads(self.packed)(*args, **kwargs)
