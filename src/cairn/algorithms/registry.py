"""One algorithm, one file. This table names them."""

from __future__ import annotations

from typing import Any

from cairn.algorithms.a2c import A2C, A2CConfig
from cairn.algorithms.dqn import DQN, DQNConfig
from cairn.algorithms.hiro.agent import HIRO, HIROConfig
from cairn.algorithms.imitation.aggrevate import AggreVaTe, AggreVaTeConfig
from cairn.algorithms.imitation.aggrevated import AggreVaTeD, AggreVaTeDConfig
from cairn.algorithms.imitation.bc import BC, BCConfig
from cairn.algorithms.imitation.dagger import DAgger, DAggerConfig
from cairn.algorithms.imported import Imported, ImportedConfig
from cairn.algorithms.ppo import PPO, PPOConfig
from cairn.algorithms.reinforce import Reinforce, ReinforceConfig
from cairn.algorithms.sac import SAC, SACConfig
from cairn.algorithms.td3 import TD3, TD3Config
from cairn.core.calls import keywords
from cairn.core.checks import validated
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError, closest
from cairn.core.types import Spec

__all__ = [
    "A2C",
    "AGENTS",
    "BC",
    "DQN",
    "HIRO",
    "PPO",
    "SAC",
    "TD3",
    "A2CConfig",
    "AgentConfig",
    "AggreVaTe",
    "AggreVaTeConfig",
    "AggreVaTeD",
    "AggreVaTeDConfig",
    "BCConfig",
    "DAgger",
    "DAggerConfig",
    "DQNConfig",
    "HIROConfig",
    "Imitator",
    "Imported",
    "ImportedConfig",
    "PPOConfig",
    "Reinforce",
    "ReinforceConfig",
    "SACConfig",
    "TD3Config",
    "agent_name",
    "build",
    "config_type",
]

Imitator = BCConfig | DAggerConfig | AggreVaTeConfig | AggreVaTeDConfig  # those that learn from an expert
AgentConfig = (
    A2CConfig
    | AggreVaTeConfig
    | AggreVaTeDConfig
    | BCConfig
    | DAggerConfig
    | DQNConfig
    | HIROConfig
    | ImportedConfig
    | PPOConfig
    | ReinforceConfig
    | SACConfig
    | TD3Config
)

AGENTS: dict[str, tuple[type[Any], type[Any]]] = {
    "a2c": (A2CConfig, A2C),
    "aggrevate": (AggreVaTeConfig, AggreVaTe),
    "aggrevated": (AggreVaTeDConfig, AggreVaTeD),
    "bc": (BCConfig, BC),
    "dagger": (DAggerConfig, DAgger),
    "dqn": (DQNConfig, DQN),
    "hiro": (HIROConfig, HIRO),
    "imported": (ImportedConfig, Imported),
    "ppo": (PPOConfig, PPO),
    "reinforce": (ReinforceConfig, Reinforce),
    "sac": (SACConfig, SAC),
    "td3": (TD3Config, TD3),
}


for _config, _ in AGENTS.values():
    keywords(_config)


def config_type(name: str) -> type[Any]:
    """'sac' -> SACConfig, of an agent to be trained."""
    if name == "imported":
        raise CairnError("an imported policy comes from `cairn import` and is not trained.")
    if name not in AGENTS:
        known = [agent for agent in AGENTS if agent != "imported"]
        raise CairnError(f"there is no agent {name!r}; the agents are {', '.join(known)}.{closest(name, known)}")
    return AGENTS[name][0]


def agent_name(cfg: AgentConfig) -> str:
    """SACConfig() -> 'sac'."""
    return next(name for name, (config, _) in AGENTS.items() if isinstance(cfg, config))


def build(cfg: AgentConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> Any:
    """The agent that a config describes."""
    return AGENTS[agent_name(cfg)][1](validated(cfg, "agent."), spec, seed=seed, device=resolve_device(device))
