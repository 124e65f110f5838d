"""What is measured: one typed value a case. Plain data only, so that the process that starts the others stays small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PEER = "stable-baselines3"
SCORE_SEED = 10_000  # of the first episode that judges; training's seeds are far from it
PEERS = {"stable-baselines3": "SB3", "sbx-rl": "SBX"}  # by the name of the package


@dataclass(frozen=True, kw_only=True)
class Case:
    """A task and settings that both libraries run with. `steps / seconds` is counted from step `warm` on."""

    name: str
    about: str
    env: str
    envs: int = 1
    hidden: tuple[int, ...]  # of every network; games are read by the convolutions of Mnih et al. 2015 on both sides
    batch_size: int
    lr: float
    gamma: float = 0.99
    bf16: bool = False  # ours: convolutions in half precision, for which theirs has no option
    vector: Literal["sync", "async", "atari", "envpool"] = "sync"  # ours
    threads_ours: int = 2  # torch's CPU threads
    threads_theirs: int = 2
    pace: int  # steps for each second that a measurement should take: fixes its length, the same for all sides
    sbx: bool = False  # whether SBX (JAX) runs it too
    episodes: int = 20  # played at the end by each policy, on seeds from SCORE_SEED on

    @property
    def warm(self) -> int:
        """Steps before the clock starts: random actions and the first updates, which pay for allocations."""
        raise NotImplementedError

    @property
    def block(self) -> int:
        """Steps come in whole blocks, so that both sides do the same number of updates."""
        raise NotImplementedError

    def steps(self, seconds: float) -> int:
        """Timed steps of a measurement that should take about `seconds`."""
        return max(round(seconds * self.pace / self.block), 1) * self.block


@dataclass(frozen=True, kw_only=True)
class PPOCase(Case):
    """Collecting from many environments, then epochs over the rollout. No normalisation on either side."""

    horizon: int  # steps of each environment in a rollout
    epochs: int
    clip: float = 0.2
    lam: float = 0.95
    vec_env: Literal["DummyVecEnv", "SubprocVecEnv"]  # theirs

    @property
    def warm(self) -> int:
        return self.block

    @property
    def block(self) -> int:
        return self.envs * self.horizon


@dataclass(frozen=True, kw_only=True)
class SACCase(Case):
    """One environment, one update a step: how fast a step of learning is."""

    learning_starts: int
    tau: float = 0.005
    capacity: int = 1_000_000

    @property
    def warm(self) -> int:
        return self.learning_starts + 100

    @property
    def block(self) -> int:
        return 100


@dataclass(frozen=True, kw_only=True)
class DQNCase(Case):
    """A tiny network and a tiny task: what is left is the cost of the library itself."""

    learning_starts: int
    train_freq: int  # steps of every environment between trainings
    gradient_steps: int  # of each training
    target_steps: int  # steps between copies of Q to its target; theirs copies between trainings, so never within one
    epsilon_end: float
    epsilon_share: float  # of the steps, until ε stands at its end
    capacity: int

    @property
    def warm(self) -> int:
        return -(-(self.learning_starts + 250) // self.block) * self.block

    @property
    def block(self) -> int:
        return self.train_freq * self.envs

    @property
    def updates_per_step(self) -> float:
        return self.gradient_steps / self.block

    @property
    def target_updates(self) -> int:
        """Updates between copies of Q to its target, on both sides."""
        return max(round(self.target_steps * self.updates_per_step), self.gradient_steps)


def _bipedal(
    name: str,
    about: str,
    *,
    batch_size: int,
    pace: int,
    subproc: bool = False,
    envpool: bool = False,
    sbx: bool = False,
) -> PPOCase:
    return PPOCase(
        name=name,
        about=about,
        env="BipedalWalker-v3",
        hidden=(256, 256),
        batch_size=batch_size,
        lr=3e-4,
        pace=pace,
        envs=16,
        horizon=512,
        epochs=10,
        vector="envpool" if envpool else "async",
        vec_env="SubprocVecEnv" if subproc else "DummyVecEnv",
        sbx=sbx,
    )


def _pong_ppo(name: str, about: str, *, subproc: bool = False, bf16: bool = False) -> PPOCase:
    """The settings of both libraries' own results on Atari games."""
    return PPOCase(
        name=name,
        about=about,
        env="ALE/Pong-v5",
        hidden=(512,),
        batch_size=256,
        lr=2.5e-4,
        pace=120,
        envs=8,
        horizon=128,
        epochs=4,
        clip=0.1,
        bf16=bf16,
        vector="atari",
        episodes=2,
        vec_env="SubprocVecEnv" if subproc else "DummyVecEnv",
    )


def _pong_dqn(name: str, about: str, *, bf16: bool = False) -> DQNCase:
    return DQNCase(
        name=name,
        about=about,
        env="ALE/Pong-v5",
        hidden=(512,),
        batch_size=32,
        lr=1e-4,
        pace=60,
        envs=8,
        learning_starts=1_000,
        train_freq=4,
        gradient_steps=8,  # one for every four steps, as in the paper
        target_steps=1_000,
        epsilon_end=0.01,
        epsilon_share=0.1,
        capacity=10_000,
        bf16=bf16,
        vector="atari",
        episodes=2,
    )


_ALL: tuple[Case, ...] = (
    _bipedal("ppo-bipedal", "small batches: mostly updates", batch_size=64, pace=1_500),
    _bipedal("ppo-bipedal-512", "large batches: mostly environments", batch_size=512, pace=2_500, sbx=True),
    _bipedal(
        "ppo-bipedal-512-subproc",
        "the same against their process-per-environment vector, to compare with the better of the two",
        batch_size=512,
        pace=1_600,
        subproc=True,
    ),
    _bipedal(
        "ppo-bipedal-envpool", "small batches, our walkers stepped by EnvPool", batch_size=64, pace=1_500, envpool=True
    ),
    _bipedal("ppo-bipedal-512-envpool", "large batches, likewise", batch_size=512, pace=2_500, envpool=True),
    SACCase(
        name="sac-halfcheetah",
        about="an actor, two critics and a temperature updated at every step",
        env="HalfCheetah-v5",
        hidden=(256, 256),
        batch_size=256,
        lr=3e-4,
        pace=330,  # 5,000 steps, after which both sides run
        sbx=True,
        episodes=5,
        learning_starts=1_000,
    ),
    DQNCase(
        name="dqn-cartpole",
        about="the peer's default settings: mostly acting and storing",
        env="CartPole-v1",
        hidden=(64, 64),
        batch_size=32,
        lr=1e-4,
        pace=3_400,  # 50,000 steps
        sbx=True,
        threads_ours=1,
        threads_theirs=1,
        learning_starts=100,
        train_freq=4,
        gradient_steps=1,
        target_steps=10_000,
        epsilon_end=0.05,
        epsilon_share=0.1,
        capacity=1_000_000,
    ),
    DQNCase(
        name="dqn-cartpole-zoo",
        about="the settings the peer's zoo solves CartPole with: one update every two steps",
        env="CartPole-v1",
        hidden=(256, 256),
        batch_size=64,
        lr=2.3e-3,
        pace=3_400,  # 50,000 steps, by which the peer's zoo solves it
        sbx=True,
        threads_ours=1,
        threads_theirs=1,
        learning_starts=1_000,
        train_freq=256,
        gradient_steps=128,
        target_steps=10,
        epsilon_end=0.04,
        epsilon_share=0.16,
        capacity=100_000,
    ),
    _pong_ppo("ppo-pong", "an Atari game: mostly convolutions"),
    _pong_ppo("ppo-pong-subproc", "the same against their process-per-environment vector", subproc=True),
    _pong_ppo("ppo-pong-bf16", "ours in half precision, theirs whole", bf16=True),
    _pong_dqn("dqn-pong", "an Atari game, an update every four steps, each frame stored once"),
    _pong_dqn("dqn-pong-bf16", "ours in half precision, theirs whole", bf16=True),
)

CASES: dict[str, Case] = {case.name: case for case in _ALL}
