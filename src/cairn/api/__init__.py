"""The Python interface: one class per algorithm, `train` and `sample`."""

from typing import TYPE_CHECKING, Any

from cairn.algorithms.registry import ALGORITHMS, KINDS
from cairn.api.functions import Sampled, sample, train
from cairn.api.model import Model, model

__all__ = ["Model", "Sampled", "model", "sample", "train"]

if TYPE_CHECKING:  # at run time `__getattr__` finds these, and those registered later
    A2C: type[Model]
    BC: type[Model]
    DQN: type[Model]
    HIRO: type[Model]
    PPO: type[Model]
    SAC: type[Model]
    TD3: type[Model]
    AggreVaTe: type[Model]
    AggreVaTeD: type[Model]
    DAgger: type[Model]
    Reinforce: type[Model]


def __getattr__(name: str) -> type[Any]:
    """The class or the config of an algorithm: PPO, PPOConfig, ..."""
    if name in KINDS.types:
        return KINDS.types[name]
    for algorithm in ALGORITHMS.values():
        if algorithm.label == name and algorithm.trained:
            return model(algorithm.name)
    raise AttributeError(f"module 'cairn.api' has no attribute {name!r}")
