"""Samplers elsewhere: what they send is what was played, and what is lost is counted."""

import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from cairn.algorithms import DQNConfig, HIROConfig, PPOConfig, ReinforceConfig, SACConfig, build
from cairn.algorithms.registry import maker
from cairn.collect.chunk import joined
from cairn.collect.protocol import Order
from cairn.collect.ray import Sampler, SamplerPool
from cairn.core.errors import CairnError
from cairn.core.schedules import constant
from cairn.core.state import pack
from cairn.envs.task import Task
from cairn.recipes.recipe import Recipe
from cairn.runs.train import train
from cairn.vector.in_process import Sync

CARTPOLE = Task("CartPole-v1")


def sampler(cfg, count=2, task=CARTPOLE, seed=3):
    spec = Sync([task]).spec
    one = Sampler(task, count, maker(cfg)(spec), seed)
    weights = {name: value.numpy() for name, value in pack(build(cfg, spec, seed=9, device="cpu").policy_parts).items()}
    return one, weights


def test_a_chunk_is_what_the_same_actions_do_here():
    one, weights = sampler(DQNConfig(hidden=(8,)))
    chunk = one.play(weights, Order(60, random=True, seeds=(5, 6)))
    envs = Sync([CARTPOLE] * 2)
    obs = envs.reset([5, 6])
    for t, (step, ours) in enumerate(zip(chunk.steps(), (envs.step(a) for a in chunk.action), strict=True)):
        np.testing.assert_array_equal(chunk.obs[t], obs)
        for name in ("obs", "next_obs", "reward", "terminated", "truncated", "valid"):
            np.testing.assert_array_equal(getattr(step, name), getattr(ours, name))
        assert step.episodes == ours.episodes
        obs = ours.obs
    assert chunk.terminated.sum() > 2


def test_a_chunk_goes_on_where_the_last_one_ended_and_acts_with_the_weights_it_was_sent():
    one, weights = sampler(DQNConfig(hidden=(8,), epsilon=constant(0.0)))
    first = one.play(weights, Order(7, seeds=(5, 6)))
    second = one.play(weights, Order(7))
    np.testing.assert_array_equal(first.obs[-1], second.obs[0])
    agent = build(DQNConfig(hidden=(8,), epsilon=constant(0.0)), one.agent.spec, seed=9, device="cpu")
    for chunk in (first, second):
        for obs, action in zip(chunk.obs, chunk.action, strict=False):
            np.testing.assert_array_equal(agent.act(torch.from_numpy(obs), explore=False).numpy(), action)


def test_whole_episodes_end_once_each_and_shorter_chunks_are_filled_up():
    one, weights = sampler(ReinforceConfig(hidden=(8,)), 3)
    chunks = [one.play(weights, Order(0, seeds=seeds)) for seeds in ((1, 2, 3), (4, 5, 6))]
    rows = max(len(c.reward) for c in chunks)
    whole = joined(chunks, rows)
    assert whole.obs.shape == (rows + 1, 6, 4) and whole.reward.shape == (rows, 6)
    np.testing.assert_array_equal(whole.ends.sum(0), 1)
    lengths = whole.valid.sum(0)
    assert {(e.env, e.length) for _, e in whole.episodes} == {(i, int(n)) for i, n in enumerate(lengths)}
    for i, n in enumerate(lengths):
        assert whole.valid[:n, i].all() and whole.ends[n - 1, i]
        source = chunks[i // 3]
        np.testing.assert_array_equal(whole.next_obs()[n - 1, i], source.next_obs()[n - 1, i % 3])


RECIPES = {
    "ppo": Recipe("CartPole-v1", PPOConfig(hidden=(16,), horizon=16, batch_size=32), steps=600, envs=4),
    "reinforce": Recipe("CartPole-v1", ReinforceConfig(hidden=(16,)), steps=300, envs=4),
    "dqn": Recipe("CartPole-v1", DQNConfig(hidden=(16,), learning_starts=100, batch_size=16), steps=900, envs=4),
    "sac-her": Recipe(
        "cairn/BitFlip-v0",
        DQNConfig(hidden=(16,), learning_starts=100, batch_size=16),
        steps=600,
        envs=4,
        env_args={"n": 5},
        hindsight="future",
    ),
    "hiro": Recipe(
        "Pendulum-v1",
        HIROConfig(
            SACConfig(hidden=(16,), learning_starts=200, batch_size=16, updates_per_step=0.1),
            SACConfig(hidden=(16,), learning_starts=100, batch_size=16, updates_per_step=0.1),
            subgoal=(0, 2),
            subgoal_range=(0.5, 0.5),
            every=5,
        ),
        steps=600,
        envs=4,
    ),
}


@pytest.fixture(scope="module")
def ray():
    found = pytest.importorskip("ray")
    yield found
    found.shutdown()


@pytest.mark.parametrize("kind", RECIPES)
def test_every_kind_of_agent_learns_from_samplers_and_the_books_balance(kind, ray, tmp_path, monkeypatch):
    """Only it counts what samplers were asked for and gave, and resumes on other samplers; the first starts Ray."""
    seen = []
    close = SamplerPool.close
    monkeypatch.setattr(SamplerPool, "close", lambda self: (seen.append(self), close(self)))
    plan = replace(RECIPES[kind], vector="ray", workers=2, eval_every=10**6, eval_episodes=1, checkpoint_every=400)
    outcome = train(plan, tmp_path)
    pool = seen[0]
    assert pool.asked == pool.used + pool.dropped
    assert outcome.step == pool.used >= plan.steps
    again = train(replace(plan, steps=plan.steps + 200), tmp_path, resume=True)  # on another pool
    assert again.step >= plan.steps + 200


def test_samplers_that_are_killed_are_replaced_and_the_books_balance(ray, capfd):
    task, cfg = CARTPOLE, DQNConfig(hidden=(8,))
    pool = SamplerPool(task, 4, maker(cfg), workers=2, seed=1, timeout=300)
    agent = build(cfg, pool.spec, seed=0, device="cpu")
    pool.ask(agent, 0, Order(10, random=True, seeds=(1, 2, 3, 4)))
    pool.answer()
    lost = 0
    for kill in (0, 1, 1):
        pid = ray.get(pool.actors[kill].__ray_call__.remote(lambda self: os.getpid()))
        killer = threading.Timer(0.0, os.kill, (pid, signal.SIGKILL))
        killer.start()
        killer.join()
        time.sleep(0.2)
        pool.ask(agent, 0, Order(10, random=True))
        chunk = pool.answer()
        lost += int((~chunk.valid).sum())
        pool.ask(agent, 0, Order(10, random=True))
        assert pool.answer().valid.all()
    assert (pool.restarts, lost, pool.dropped) == (3, 60, 60)
    assert pool.asked == pool.used + pool.dropped == 10 * 4 * 7
    pool.close()
    time.sleep(1.0)  # Ray reports a dead worker from another thread
    out, err = capfd.readouterr()
    assert "(raylet)" not in out + err
    assert err.count("lost its sampler; its sampler was replaced.") == 3


def test_an_imitator_is_refused(tmp_path):
    from cairn.recipes import find

    with pytest.raises(CairnError, match="plays here"):
        train(replace(find("bipedal-dagger"), vector="ray"), tmp_path / "run")
