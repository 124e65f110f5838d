"""A rollout says what happened: every successor is the true one, though only those of ends are carried along."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cairn.algorithms.off_policy import learn
from cairn.algorithms.on_policy import on_policy
from cairn.collect.local import LocalCollector
from cairn.collect.protocol import Order
from cairn.core.agent import BaseAgent
from cairn.core.types import Discrete, Rollout, Spec, Step, Transition
from cairn.replay.protocol import BATCHES_AT_ONCE, EvenDraw


class Script:
    """A vector that shows random numbers, with ends and lost steps, and remembers every step it returned."""

    def __init__(self, envs, seed):
        self.num_envs, self.rng, self.steps = envs, np.random.default_rng(seed), []
        self.spec, self.restarts = Spec((2, 3), "uint8", Discrete(3)), 0

    def reset(self, seeds):
        self.first = self.look()
        return self.first

    def look(self):
        return self.rng.integers(0, 256, (self.num_envs, 2, 3), np.uint8)

    def step(self, action):
        valid = self.rng.random(self.num_envs) > 0.1
        terminated, truncated = (self.rng.random((2, self.num_envs)) < 0.2) & valid
        after = self.look()
        fresh = terminated | truncated | ~valid
        obs = np.where(fresh[:, None, None], self.look(), after)
        self.steps.append(
            Step(obs, after, self.rng.random(self.num_envs).astype(np.float32), terminated, truncated, valid)
        )
        return self.steps[-1]


class Dice(BaseAgent):
    spec = Spec((2, 3), "uint8", Discrete(3))

    def act(self, obs, *, explore):
        assert obs.dtype == torch.uint8 and explore
        return obs[:, 0, 0].long() % 3


@pytest.mark.parametrize("seed", range(5))
def test_a_rollout_is_what_happened(seed):
    envs = Script(3, seed)
    collector = LocalCollector(envs, "cpu")
    run = SimpleNamespace(interrupted=None, advance=lambda step, valid: None)
    rollout = collector.rollout(Dice(), Order(12, seeds=(1, 2, 3)), run)
    assert len(envs.steps) == 12 and np.array_equal(collector.obs, envs.steps[-1].obs)
    seen = [envs.first, *(step.obs for step in envs.steps)]
    for t, step in enumerate(envs.steps):
        np.testing.assert_array_equal(rollout.obs[t], seen[t])
        np.testing.assert_array_equal(rollout.action[t], seen[t][:, 0, 0] % 3)
        np.testing.assert_array_equal(rollout.reward[t], step.reward)
        np.testing.assert_array_equal(rollout.terminated[t], step.terminated)
        np.testing.assert_array_equal(rollout.valid[t], step.valid)
        np.testing.assert_array_equal(rollout.next_obs[t][step.valid], step.next_obs[step.valid])
        lost = envs.steps[t + 1].valid if t < 11 else np.ones(3, bool)
        np.testing.assert_array_equal(
            rollout.truncated[t] | rollout.terminated[t], step.truncated | step.terminated | ~lost
        )


def test_an_interrupted_rollout_is_dropped():
    run = SimpleNamespace(interrupted="SIGINT")
    assert LocalCollector(Script(2, 0), "cpu").rollout(Dice(), Order(4, seeds=(1, 2)), run) is None


@pytest.mark.parametrize("due", [False, True])
def test_a_rollout_before_a_checkpoint_ends_its_episodes_since_the_environments_are_reset(due):
    flags = torch.zeros(4, 2, dtype=torch.bool)
    rollout = Rollout(flags, flags, flags, flags, flags, flags.clone(), ~flags)
    seen, orders, turns = [], [], iter([True, True, False])
    agent = SimpleNamespace(horizon=4, update=lambda rollout: seen.append(rollout.truncated.clone()) or {})
    collector = SimpleNamespace(
        rollout=lambda agent, order, run: orders.append(order) or rollout, restarts=0, metrics=lambda step: {}
    )
    run = SimpleNamespace(
        going=lambda: next(turns), progress=0.5, step=0, log=lambda metrics: None, meet=lambda valid: None
    )
    run.env_seeds, run.checkpoint_due, run.house_keeping = lambda: [7, 8], lambda: due, lambda *given: due
    on_policy(agent, collector, None, run)
    assert seen[0][-1].all() == due and not seen[0][:-1].any()
    assert [order.seeds for order in orders] == [(7, 8), (7, 8) if due else ()]


def test_updates_are_as_many_as_the_steps_allow_each_with_a_batch_of_its_own():
    seen, numbers = [], iter(range(10**6))

    class Numbers(EvenDraw):
        def sample(self, size):
            z = torch.tensor([next(numbers) for _ in range(size)])
            return Transition(z, z, z, z, z)

    cfg = SimpleNamespace(batch_size=4, learning_starts=10, updates_per_step=0.5)
    agent = SimpleNamespace(cfg=cfg, update=lambda batch: seen.append(batch.obs.tolist()) or {})
    run = SimpleNamespace(step=10 + 4 * BATCHES_AT_ONCE + 7, updates=0, device="cpu", log=lambda metrics: None)
    learn(agent, Numbers(), run)
    assert run.updates == len(seen) == 2 * BATCHES_AT_ONCE + 3
    assert all(len(batch) == 4 for batch in seen) and len({n for batch in seen for n in batch}) == 4 * len(seen)
    learn(agent, Numbers(), run)
    assert run.updates == len(seen)
