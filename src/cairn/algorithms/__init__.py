"""Learning algorithms, one file each, and the registry that lists them."""

from cairn.algorithms.a2c import A2C, A2CConfig
from cairn.algorithms.dqn import DQN, DQNConfig
from cairn.algorithms.hiro import HIRO, HIROConfig
from cairn.algorithms.imitation import (
    BC,
    AggreVaTe,
    AggreVaTeConfig,
    AggreVaTeD,
    AggreVaTeDConfig,
    BCConfig,
    DAgger,
    DAggerConfig,
)
from cairn.algorithms.imported import Imported, ImportedConfig
from cairn.algorithms.ppo import PPO, PPOConfig
from cairn.algorithms.registry import ALGORITHMS, OFF_POLICY, ON_POLICY, Algorithm, build, register
from cairn.algorithms.reinforce import Reinforce, ReinforceConfig
from cairn.algorithms.sac import SAC, SACConfig
from cairn.algorithms.td3 import TD3, TD3Config

__all__ = [
    "A2C",
    "ALGORITHMS",
    "BC",
    "DQN",
    "HIRO",
    "OFF_POLICY",
    "ON_POLICY",
    "PPO",
    "SAC",
    "TD3",
    "A2CConfig",
    "AggreVaTe",
    "AggreVaTeConfig",
    "AggreVaTeD",
    "AggreVaTeDConfig",
    "Algorithm",
    "BCConfig",
    "DAgger",
    "DAggerConfig",
    "DQNConfig",
    "HIROConfig",
    "Imported",
    "ImportedConfig",
    "PPOConfig",
    "Reinforce",
    "ReinforceConfig",
    "SACConfig",
    "TD3Config",
    "build",
    "register",
]
