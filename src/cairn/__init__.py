"""Cairn: reinforcement learning for tasks whose reward is far away.

from cairn import SAC
model = SAC("Pendulum-v1", seed=1).learn(20_000)
action, _ = model.predict(obs, deterministic=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "A2C",
    "BC",
    "DQN",
    "HIRO",
    "PPO",
    "SAC",
    "TD3",
    "AggreVaTe",
    "AggreVaTeD",
    "CairnError",
    "DAgger",
    "Finding",
    "Reinforce",
    "diagnose",
    "sample",
    "train",
]

if TYPE_CHECKING:
    from cairn.api import A2C, BC, DQN, HIRO, PPO, SAC, TD3, AggreVaTe, AggreVaTeD, DAgger, Reinforce, sample, train
    from cairn.core.errors import CairnError
    from cairn.doctor import Finding, diagnose


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: environment workers import this package and must not pay for torch."""
    if name == "CairnError":
        from cairn.core.errors import CairnError

        return CairnError
    if name in ("Finding", "diagnose"):
        from cairn import doctor

        return getattr(doctor, name)
    if name in __all__:
        from cairn import api

        return getattr(api, name)
    raise AttributeError(f"module 'cairn' has no attribute {name!r}")
