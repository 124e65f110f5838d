"""A rollout says what happened: every successor is the true one, though only those of ends are carried along."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cairn.algorithms.loops import TOGETHER, collect, learn
from cairn.core.types import Step, Transition


class Script:
    """A vector that shows random numbers, with ends and lost steps, and remembers every step it returned."""

    def __init__(self, envs, seed):
        self.num_envs, self.rng, self.steps = envs, np.random.default_rng(seed), []

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


class Dice:
    def __init__(self, horizon):
        self.horizon = horizon

    def act(self, obs, *, explore):
        assert obs.dtype == torch.uint8 and explore
        return obs[:, 0, 0].long() % 3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("due", [False, True])
def test_a_rollout_is_what_happened(seed, due):
    envs = Script(3, seed)
    first = envs.look()
    run = SimpleNamespace(interrupted=None, device="cpu", advance=lambda step, valid: None, checkpoint_due=lambda: due)
    rollout, obs = collect(Dice(12), envs, first, run)
    assert len(envs.steps) == 12 and np.array_equal(obs, envs.steps[-1].obs)
    seen = [first, *(step.obs for step in envs.steps)]
    for t, step in enumerate(envs.steps):
        np.testing.assert_array_equal(rollout.obs[t], seen[t])
        np.testing.assert_array_equal(rollout.action[t], seen[t][:, 0, 0] % 3)
        np.testing.assert_array_equal(rollout.reward[t], step.reward)
        np.testing.assert_array_equal(rollout.terminated[t], step.terminated)
        np.testing.assert_array_equal(rollout.valid[t], step.valid)
        np.testing.assert_array_equal(rollout.next_obs[t][step.valid], step.next_obs[step.valid])
        lost = envs.steps[t + 1].valid if t < 11 else np.full(3, not due)
        np.testing.assert_array_equal(
            rollout.truncated[t] | rollout.terminated[t], step.truncated | step.terminated | ~lost
        )


def test_an_interrupted_rollout_is_dropped():
    envs = Script(2, 0)
    run = SimpleNamespace(interrupted="SIGINT", device="cpu")
    assert collect(Dice(4), envs, envs.look(), run)[0] is None


def test_updates_are_as_many_as_the_steps_allow_each_with_a_batch_of_its_own():
    seen, numbers = [], iter(range(10**6))

    def sample(size):
        z = torch.tensor([next(numbers) for _ in range(size)])
        return Transition(z, z, z, z, z)

    cfg = SimpleNamespace(batch_size=4, learning_starts=10, updates_per_step=0.5)
    agent = SimpleNamespace(cfg=cfg, update=lambda batch: seen.append(batch.obs.tolist()) or {})
    run = SimpleNamespace(step=10 + 4 * TOGETHER + 7, updates=0, device="cpu", log=lambda metrics: None)
    learn(agent, SimpleNamespace(sample=sample), run)
    assert run.updates == len(seen) == 2 * TOGETHER + 3
    assert all(len(batch) == 4 for batch in seen) and len({n for batch in seen for n in batch}) == 4 * len(seen)
    learn(agent, SimpleNamespace(sample=sample), run)
    assert run.updates == len(seen)
