"""Each agent solves a toy in seconds: a one-step bandit, a corridor whose reward is at its end, a target to hit."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from cairn.algorithms import A2CConfig, DQNConfig, HIROConfig, PPOConfig, ReinforceConfig, SACConfig, TD3Config, build
from cairn.core.checks import validated
from cairn.core.errors import CairnError
from cairn.core.schedules import constant, linear
from cairn.core.types import Box, Discrete, Rollout, Spec
from cairn.recipes.recipe import Recipe
from cairn.runs.train import train


class Corridor(gym.Env):
    """Six cells, start at the left, reward 1 at the right end only; 20 steps."""

    observation_space = gym.spaces.Box(0, 1, (6,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def obs(self):
        out = np.zeros(6, np.float32)
        out[self.at] = 1
        return out

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.obs(), {}

    def step(self, action):
        self.at = max(0, self.at + (1 if action == 1 else -1))
        done = self.at == 5
        return self.obs(), float(done), done, False, {"is_success": done}


class Aim(gym.Env):
    """See a point in [-1, 1], name it; reward is minus the squared distance; three rounds an episode."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-3, 3, (1,), np.float32)

    def draw(self):
        self.point = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.point

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.draw(), {}

    def step(self, action):
        reward = -float(((action - self.point) ** 2).sum())
        self.t += 1
        return self.draw(), reward, False, self.t == 3, {}


gym.register("toy/Corridor-v0", Corridor, max_episode_steps=20)
gym.register("toy/Aim-v0", Aim)

CORRIDOR = {
    "dqn": (
        DQNConfig(hidden=(32,), batch_size=32, learning_starts=200, epsilon=linear(1, 0.1, 0.5), target_every=50),
        3000,
        2,
    ),
    "ppo": (PPOConfig(hidden=(32,), horizon=64, batch_size=64, epochs=4, lr=constant(3e-3)), 6000, 4),
    "a2c": (A2CConfig(hidden=(32,), horizon=16, lr=constant(5e-3)), 10000, 4),
    "reinforce": (ReinforceConfig(hidden=(32,), lr=constant(1e-2)), 10000, 4),
}
AIM = {
    "sac": (SACConfig(hidden=(32,), batch_size=64, learning_starts=200, lr=constant(3e-3), gamma=0.5), 1500, 1),
    "td3": (TD3Config(hidden=(32,), batch_size=64, learning_starts=200, lr=constant(3e-3), gamma=0.5), 1500, 1),
    "ppo": (PPOConfig(hidden=(32,), horizon=64, batch_size=64, lr=constant(3e-3), gamma=0.5), 8000, 4),
    "a2c": (A2CConfig(hidden=(32,), horizon=16, lr=constant(3e-3), gamma=0.5, rmsprop=False), 20000, 4),
    "reinforce": (ReinforceConfig(hidden=(32,), lr=constant(1e-2), gamma=0.5, max_norm=5.0), 40000, 16),
}


@pytest.mark.parametrize("name", CORRIDOR)
def test_reaches_the_end_of_the_corridor(name):
    agent, steps, envs = CORRIDOR[name]
    recipe = Recipe(env="toy/Corridor-v0", agent=agent, steps=steps, envs=envs, eval_every=steps, eval_episodes=5)
    outcome = train(recipe)
    assert outcome.score.success == 1.0
    assert outcome.score.steps == 5 * 5  # and by the shortest way


@pytest.mark.parametrize("name", AIM)
def test_hits_the_target(name):
    agent, steps, envs = AIM[name]
    recipe = Recipe(env="toy/Aim-v0", agent=agent, steps=steps, envs=envs, eval_every=steps, eval_episodes=20)
    assert train(recipe).score.mean > -0.3  # doing nothing scores -1


@pytest.mark.parametrize(
    ("agent", "spec", "words"),
    [
        (
            SACConfig(),
            Spec((3,), "float32", Discrete(2)),
            "SAC acts in continuous action spaces only",
        ),
        (TD3Config(), Spec((3,), "float32", Box((1,), (-np.inf,), (np.inf,))), "is unbounded; use ppo"),
    ],
)
def test_what_an_agent_cannot_do_is_one_sentence(agent, spec, words):
    with pytest.raises(CairnError, match=words):
        build(agent, spec)


def test_a_number_or_a_word_is_a_schedule_wherever_one_is_meant():
    nested = HIROConfig(low=TD3Config(actor_lr=1e-4), high=TD3Config(lr="linear(1e-3,0)"))  # type: ignore[arg-type]
    made = validated(nested)
    assert made.low.actor_lr == constant(1e-4) and made.high.lr == linear(1e-3, 0.0) and made.low.lr is nested.low.lr
    build(PPOConfig(lr=3e-4), Spec((3,), "float32", Discrete(2)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "steps"), [(0, 1), (4, 3), (10, 1)])
def test_reinforce_takes_every_step_that_was_played_once(size, steps):
    agent = build(ReinforceConfig(hidden=(8,), batch_size=size), Spec((2,), "float32", Discrete(2)))
    seen, learn = [], agent._learn
    agent._learn = lambda obs, *rest: seen.append(obs) or learn(obs, *rest)
    no = torch.zeros(6, 2, dtype=torch.bool)
    valid = torch.ones(6, 2, dtype=torch.bool)
    valid[4:, 1] = False
    obs = torch.arange(24.0).view(6, 2, 2)
    agent.update(Rollout(obs, no.long(), torch.rand(6, 2), obs, no, no, valid))
    assert len(seen) == steps and len(torch.cat(seen)) == 10
    assert torch.equal(torch.cat(seen)[:, 0].sort().values, obs[valid][:, 0].sort().values)
