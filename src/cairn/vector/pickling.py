"""Functions that make environments, packed for another process with the registrations they may need.

`gym.make("Mine-v0")` works where the caller's script registered that id. A fresh process never ran that script.
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
    """Pickle `what` with every registration that is neither Gymnasium's own nor ours. What cannot be sent raises."""
    body: bytes = cloudpickle.dumps(what)
    return pickle.dumps((_registrations(), body))


def unpack(packed: bytes) -> Any:
    """What was packed, with the caller's registrations made here too."""
    entries, body = pickle.loads(packed)
    for entry in entries:
        with contextlib.suppress(Exception):  # one that cannot be read here is missed only by who asks for it
            spec = cloudpickle.loads(entry)
            gym.registry[spec.id] = spec
    return cloudpickle.loads(body)


def _registrations() -> list[bytes]:
    pickled = []
    for spec in list(gym.registry.values()):
        if isinstance(spec.entry_point, str) and spec.entry_point.startswith(("gymnasium.", "cairn.")):
            continue
        with contextlib.suppress(Exception):  # an entry that cannot be sent
            pickled.append(cloudpickle.dumps(_by_value(spec)))
    return pickled


def _by_value(spec: EnvSpec) -> EnvSpec:
    """With a creator that is read when the task is made: reading it may import a whole module of the caller's.

    An entry point in the script that was started is sent as the class itself: nobody else can import it.
    """
    creator: Any = spec.entry_point
    if isinstance(creator, str) and creator.startswith("__main__:"):
        creator = load_env_creator(creator)
    return spec if isinstance(creator, str) else replace(spec, entry_point=Creator(cloudpickle.dumps(creator)))


class Creator:
    """An entry point that is unpickled when it is first called."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return cloudpickle.loads(self.packed)(*args, **kwargs)
