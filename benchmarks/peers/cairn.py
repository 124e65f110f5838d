"""Cairn's side: the same settings through its own loops."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import torch

from benchmarks.peers.tasks import Judge, Task, asked
from cairn.algorithms import DQNConfig, PPOConfig, build
from cairn.algorithms.off_policy import off_policy
from cairn.algorithms.on_policy import on_policy
from cairn.algorithms.registry import AgentConfig
from cairn.collect.local import LocalCollector
from cairn.core.agent import Agent
from cairn.core.memory import keep_freed_memory
from cairn.core.schedules import constant, linear
from cairn.core.types import Box
from cairn.recipes.recipe import Recipe
from cairn.replay.ring import Ring
from cairn.runs.evaluation import as_policy
from cairn.runs.run import Run
from cairn.vector.choose import make_vector


def config(task: Task) -> AgentConfig:
    common: Any = {"hidden": task.hidden, "lr": constant(task.lr), "batch_size": task.batch_size, "gamma": task.gamma}
    if task.algo == "ppo":
        rollout: Any = {"horizon": task.horizon, "epochs": task.epochs, "lam": task.lam, "clip": constant(task.clip)}
        scale: Any = {"normalise_obs": task.normalise, "normalise_reward": task.normalise}
        return PPOConfig(**rollout, **scale, **common)
    return DQNConfig(
        learning_starts=task.learning_starts,
        updates_per_step=task.gradient_steps / task.train_freq,
        target_every=task.gradient_steps,  # theirs stands still within a bout of updates, however often it is moved
        epsilon=linear(1.0, task.epsilon_end, task.epsilon_steps / task.steps),
        capacity=task.capacity,
        double=False,
        **common,
    )


class Judged(Run):
    """A run that writes nothing and asks the judge instead of evaluating."""

    def __init__(self, recipe: Recipe, judge: Judge) -> None:
        super().__init__(recipe, None)
        self.judge, self.on = judge, True

    def house_keeping(self, *args: Any) -> bool:
        self.on = self.judge.ask(self.step)
        return False

    def going(self) -> bool:
        return self.on and super().going()


def main() -> None:
    task, limit = asked()
    keep_freed_memory()
    torch.set_num_threads(1 if task.env == "CartPole-v1" else 2)
    vector: Any = "async" if task.env == "BipedalWalker-v3" else "sync"
    recipe = Recipe(
        env=task.env, agent=config(task), steps=task.steps, envs=task.envs, vector=vector, eval_every=task.steps
    )
    envs = make_vector(recipe.task, recipe.envs, backend=recipe.vector)
    agent: Any = build(recipe.agent, envs.spec, seed=1)
    judge = Judge(task, limit, one_by_one(agent))
    run = Judged(recipe, judge)
    if task.algo == "ppo":
        on_policy(agent, LocalCollector(envs, "cpu"), None, run)
    else:
        generator = torch.Generator().manual_seed(1)
        replay = Ring(task.capacity, task.envs, envs.spec, generator=generator, gamma=task.gamma)
        off_policy(agent, LocalCollector(envs, "cpu"), replay, run)
    envs.close()
    judge.tell({name: version(name) for name in ("cairn-rl", "torch", "gymnasium")})


def one_by_one(agent: Agent) -> Any:
    policy, bounded = as_policy(agent), isinstance(agent.spec.action, Box)

    def act(obs: Any) -> Any:
        action = policy(obs[None])[0]
        return action.clip(-1, 1) if bounded else action

    return act


if __name__ == "__main__":
    main()
