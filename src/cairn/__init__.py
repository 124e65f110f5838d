"""Cairn: reinforcement learning for tasks whose reward is far away.

from cairn import SAC
model = SAC("Pendulum-v1", seed=1).learn(20_000)
action, _ = model.predict(obs, deterministic=True)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
# Where each public name is defined. Names are loaded on first use (PEP 562), because the command line and environment
# workers import this package and should not import torch.
_MODULES = {
    "cairn.api": ["A2C", "BC", "DQN", "HIRO", "PPO", "SAC", "TD3", "AggreVaTe", "AggreVaTeD", "DAgger", "Reinforce"],
    "cairn.core.errors": ["CairnError"],
    "cairn.doctor": ["Finding", "diagnose"],
    "cairn.envs.task": ["Task"],
    "cairn.recipes.recipe": ["Recipe"],
}
_MODULES["cairn.api"] += ["model", "sample", "train"]
_MODULES["cairn.algorithms"] = [f"{name}Config" for name in _MODULES["cairn.api"] if name[0].isupper()]
_MODULES["cairn.algorithms"] += ["OFF_POLICY", "ON_POLICY", "Algorithm", "register"]
_HOME = {name: module for module, names in _MODULES.items() for name in names}
__all__ = [*_HOME]

if TYPE_CHECKING:
    from cairn.algorithms import (
        OFF_POLICY,
        ON_POLICY,
        A2CConfig,
        AggreVaTeConfig,
        AggreVaTeDConfig,
        Algorithm,
        BCConfig,
        DAggerConfig,
        DQNConfig,
        HIROConfig,
        PPOConfig,
        ReinforceConfig,
        SACConfig,
        TD3Config,
        register,
    )
    from cairn.api import (
        A2C,
        BC,
        DQN,
        HIRO,
        PPO,
        SAC,
        TD3,
        AggreVaTe,
        AggreVaTeD,
        DAgger,
        Reinforce,
        model,
        sample,
        train,
    )
    from cairn.core.errors import CairnError
    from cairn.doctor import Finding, diagnose
    from cairn.envs.task import Task
    from cairn.recipes.recipe import Recipe


def __getattr__(name: str) -> Any:
    if name not in _HOME and not name[:1].isupper():
        raise AttributeError(f"module 'cairn' has no attribute {name!r}")
    home = _HOME.get(name, "cairn.api")  # the class of an algorithm that a user registered
    try:
        return getattr(importlib.import_module(home), name)
    except AttributeError:
        from cairn.core.errors import closest

        raise AttributeError(f"module 'cairn' has no attribute {name!r}.{closest(name, _HOME)}") from None


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
