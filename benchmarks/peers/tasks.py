"""What every library is asked to do, and how it is judged. Imported in each one's own environment: nothing but
Gymnasium and NumPy is needed here."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

EVAL_SEED = 10_000  # the first episode's; training's seeds are far from it


@dataclass(frozen=True)
class Task:
    """Settings that all libraries run with, where they have them; those of RL Baselines3 Zoo for CartPole."""

    env: str
    algo: Literal["dqn", "ppo"]
    target: float  # mean return of an evaluation
    steps: int  # at most
    every: int  # steps between evaluations
    envs: int
    hidden: tuple[int, int]
    lr: float
    batch_size: int
    gamma: float = 0.99
    episodes: int = 20
    horizon: int = 0  # ppo: steps of each environment in a rollout
    epochs: int = 0
    lam: float = 0.95
    clip: float = 0.2
    normalise: bool = False  # observations and returns
    learning_starts: int = 1_000  # dqn
    train_freq: int = 256  # dqn: steps between bouts of `gradient_steps`
    gradient_steps: int = 128
    target_steps: int = 10  # dqn: steps between target updates
    epsilon_end: float = 0.04
    epsilon_steps: int = 8_000
    capacity: int = 100_000


TASKS = {
    "cartpole-dqn": Task("CartPole-v1", "dqn", 475, 100_000, 5_000, 1, (256, 256), 2.3e-3, 64),
    "cartpole-ppo": Task(
        "CartPole-v1", "ppo", 475, 200_000, 10_000, 8, (64, 64), 1e-3, 256, 0.98, horizon=32, epochs=20, lam=0.8
    ),
    "bipedal-ppo": Task(
        "BipedalWalker-v3",
        "ppo",
        300,
        10_000_000,
        100_000,
        16,
        (256, 256),
        3e-4,
        512,
        horizon=2048,
        epochs=10,
        normalise=True,
    ),
}


class Judge:
    """Counts the seconds of training alone, evaluates now and then, and says when it is enough.

    `policy` is a function of one observation, deterministic. A library calls `ask(steps)` whenever it can; where that
    is only every so often, evaluations come later than `every` would have them. One that evaluates by itself gives
    `mean` instead.
    """

    def __init__(
        self,
        task: Task,
        limit: float,
        policy: Callable[[Any], Any] | None,
        *,
        mean: Callable[[], float] | None = None,
    ) -> None:
        import gymnasium as gym

        self.task, self.limit, self.policy = task, limit, policy
        self.mean = mean or self._mean
        self.env = gym.make(task.env)
        self.spent, self.steps, self.next = 0.0, 0, task.every
        self.scores: list[tuple[int, float, float]] = []  # steps, seconds, mean return
        self.reached: float | None = None
        self.warm: tuple[int, float] | None = None  # steps and seconds when first asked: compiling is not speed
        self.begun = time.perf_counter()

    def ask(self, steps: int) -> bool:
        """Whether to go on."""
        now = time.perf_counter()
        self.spent += now - self.begun
        self.steps = steps
        self.warm = self.warm or (steps, self.spent)
        if steps >= self.next or self.spent >= self.limit or steps >= self.task.steps:
            self.next = steps - steps % self.task.every + self.task.every
            self.scores.append((steps, round(self.spent, 2), self.mean()))
            if self.scores[-1][2] >= self.task.target and self.reached is None:
                self.reached = round(self.spent, 2)
        self.begun = time.perf_counter()
        return self.reached is None and self.spent < self.limit and steps < self.task.steps

    def _mean(self) -> float:
        assert self.policy is not None
        totals = []
        for episode in range(self.task.episodes):
            obs, _ = self.env.reset(seed=EVAL_SEED + episode)
            total, over = 0.0, False
            while not over:
                obs, reward, terminated, truncated, _ = self.env.step(self.policy(obs))
                total, over = total + float(reward), terminated or truncated
            totals.append(total)
        return float(np.mean(totals))

    def tell(self, versions: dict[str, str]) -> None:
        """One JSON object on the last line."""
        steps, seconds = self.warm if self.warm and self.warm[0] < self.steps else (0, 0.0)
        memory = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        found = {
            "steps": self.steps,
            "seconds": round(self.spent, 2),
            "speed": round((self.steps - steps) / max(self.spent - seconds, 1e-9), 1),
            "seconds_to_target": self.reached,
            "score": self.scores[-1][2] if self.scores else None,
            "memory_mb": round(memory / 1024),
            "scores": self.scores,
            "task": asdict(self.task),
            "versions": versions,
        }
        print(json.dumps(found))


def asked() -> tuple[Task, float]:
    """The task and the limit in seconds that this process was started for."""
    return TASKS[sys.argv[1]], float(sys.argv[2])
