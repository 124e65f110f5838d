"""Cairn's side: a case becomes a recipe, and its loop is timed. It learns in the form that `train` would choose."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

from benchmarks.speed.cases import SCORE_SEED, Case, DQNCase, PPOCase, SACCase
from benchmarks.speed.memory import peak_memory_mb
from benchmarks.speed.timing import Timing
from cairn.algorithms import DQNConfig, PPOConfig, SACConfig, build
from cairn.algorithms.off_policy import off_policy
from cairn.algorithms.on_policy import on_policy
from cairn.algorithms.registry import AgentConfig, able_by_hand
from cairn.collect.local import LocalCollector
from cairn.core.memory import keep_freed_memory
from cairn.core.schedules import constant, linear
from cairn.core.types import Spec
from cairn.native.use import by_hand, resolved
from cairn.recipes.recipe import Recipe
from cairn.replay.frames import Frames
from cairn.replay.ring import Ring
from cairn.runs.evaluation import as_policy, evaluate
from cairn.runs.run import Run
from cairn.vector.choose import make_vector


class TimedRun(Run):
    """A run without folder or evaluator, whose clock starts at the first iteration that finds `warm` steps taken."""

    def __init__(self, recipe: Recipe, agent: Any, warm: int) -> None:
        super().__init__(recipe, folder=None, evaluator=None)
        self.agent, self.warm = agent, warm
        self.mark: tuple[float, int, int] | None = None  # when the clock started: seconds, steps, updates

    def going(self) -> bool:
        if self.mark is None and self.step >= self.warm:
            self.mark = time.perf_counter(), self.step, updates_of(self.agent)
        return super().going()

    def timing(self) -> Timing:
        now = time.perf_counter()
        assert self.mark is not None
        start, step, updates = self.mark
        return Timing(now - start, self.step - step, updates_of(self.agent) - updates, peak_memory_mb(), float("nan"))


def measure(case: Case, steps: int, threads: int) -> Timing:
    """Time `steps` steps of a case after its warm-up, put together as `cairn.runs.train` does."""
    recipe = recipe_of(case, case.warm + steps)
    keep_freed_memory()  # as train() does
    torch.set_num_threads(threads)
    envs = make_vector(recipe.task, recipe.envs, backend=recipe.vector)
    try:
        agent = build(recipe.agent, envs.spec)
        run = TimedRun(recipe, agent, case.warm)
        able = able_by_hand(agent)
        with by_hand(resolved(recipe.native, able), able):
            if isinstance(case, PPOCase):
                on_policy(agent, LocalCollector(envs, "cpu"), None, run)
            else:
                off_policy(agent, LocalCollector(envs, "cpu"), ring_of(recipe, envs.spec), run)
            timing = run.timing()
        return replace(timing, score=score_of(case, recipe, agent))
    finally:
        envs.close()


def score_of(case: Case, recipe: Recipe, agent: Any) -> float:
    """Mean return over the case's episodes, on Gymnasium's own task."""
    seeds = range(SCORE_SEED, SCORE_SEED + case.episodes)
    envs = make_vector(recipe.task.for_scoring(), case.episodes, backend="atari" if case.vector == "atari" else "sync")
    try:
        score = evaluate(as_policy(agent), envs, list(seeds))
    finally:
        envs.close()
    assert score is not None
    return score.mean


def recipe_of(case: Case, steps: int) -> Recipe:
    return Recipe(
        env=case.env,
        agent=config_of(case),
        steps=steps,
        envs=case.envs,
        vector=case.vector,
        eval_every=steps + 1,
    )


def config_of(case: Case) -> AgentConfig:
    common: dict[str, Any] = {
        "hidden": case.hidden,
        "lr": constant(case.lr),
        "gamma": case.gamma,
        "batch_size": case.batch_size,
    }
    match case:
        case PPOCase():
            rollout: Any = {"horizon": case.horizon, "epochs": case.epochs, "bf16": case.bf16}
            return PPOConfig(lam=case.lam, clip=constant(case.clip), **rollout, **common)
        case SACCase():
            return SACConfig(
                learning_starts=case.learning_starts,
                updates_per_step=1.0,
                tau=case.tau,
                capacity=case.capacity,
                **common,
            )
        case DQNCase():
            return DQNConfig(
                learning_starts=case.learning_starts,
                updates_per_step=case.updates_per_step,
                target_every=case.target_updates,
                epsilon=linear(1.0, case.epsilon_end, case.epsilon_share),
                double=False,  # theirs is not: the same forward passes on both sides
                capacity=case.capacity,
                bf16=case.bf16,
                **common,
            )
    raise TypeError(f"no Cairn agent for {case.name}")


def ring_of(recipe: Recipe, spec: Spec) -> Ring | Frames:
    cfg = recipe.agent
    assert isinstance(cfg, SACConfig | DQNConfig)
    kind = Frames if spec.stack > 1 else Ring
    return kind(cfg.capacity, recipe.envs, spec, generator=torch.Generator().manual_seed(0), gamma=cfg.gamma)


def updates_of(agent: Any) -> int:
    """Steps of Adam so far, by its own counter (the critics' for SAC)."""
    opt = agent.critic_opt if hasattr(agent, "critic_opt") else agent.opt
    return int(opt.state()["count"])
