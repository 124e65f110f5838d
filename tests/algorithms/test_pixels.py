"""The agents that take images solve a pixel toy in seconds, by a convolution and from frames stored once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tests.envs.pixels  # noqa: F401  (registers the toy)
from cairn.algorithms import A2CConfig, DQNConfig, PPOConfig, build
from cairn.algorithms.registry import ALGORITHMS, algorithm_of
from cairn.core.errors import CairnError
from cairn.core.schedules import constant, linear
from cairn.core.types import Discrete, Spec
from cairn.nets.cnn import ImpalaCNN, NatureCNN
from cairn.recipes.recipe import Recipe
from cairn.replay.frames import Frames
from cairn.replay.prioritised import Prioritised
from cairn.runs import train as trainer

PPO = PPOConfig(horizon=64, batch_size=64, epochs=4, lr=linear(1e-3, 0), gamma=0.0)
DQN = DQNConfig(
    lr=constant(1e-3),
    batch_size=32,
    learning_starts=200,
    gamma=0.0,
    updates_per_step=0.25,
    epsilon=linear(1, 0.1, 0.5),
)
LEARNERS = {
    "ppo": (PPO, 3000, 4),
    "ppo-bf16": (replace(PPO, bf16=True), 3000, 4),
    "a2c": (A2CConfig(horizon=16, lr=constant(1e-3), gamma=0.0, rmsprop=False), 6000, 4),
    "ppo-impala": (replace(PPO, cnn="impala", lr=linear(5e-4, 0)), 3000, 4),
    "dqn": (DQN, 2000, 2),
    "dqn-all": (replace(DQN, dueling=True, quantiles=8, priority=0.6), 2000, 2),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_learns_what_was_shown_a_frame_ago(name, monkeypatch):
    """Only it shows that each network of images learns, from stacked frames."""
    agent, steps, envs = LEARNERS[name]
    made = []
    entry = algorithm_of(agent)
    noted = replace(entry, replay=lambda *args: made.append(entry.replay(*args)) or made[-1])
    monkeypatch.setitem(ALGORITHMS, entry.name, noted)
    recipe = Recipe(env="toy/Lamps-v0", agent=agent, steps=steps, envs=envs, eval_every=steps, eval_episodes=10)
    outcome = trainer.train(recipe)
    assert outcome.score.mean >= 8.5  # of nine that can be known; guessing brings three
    replay = made[0].replay if name == "dqn-all" else made[0]
    assert isinstance(replay, Frames) == name.startswith("dqn") and isinstance(made[0], Prioritised) == (
        name[3:] == "-all"
    )
    net = outcome.agent.q if name.startswith("dqn") else outcome.agent.net.trunk
    assert isinstance(net.body if name == "dqn-all" else net, ImpalaCNN if "impala" in name else NatureCNN)


SPEC = Spec((4, 84, 84), "uint8", Discrete(6), stack=4)


@pytest.mark.parametrize("cfg", [PPOConfig(), A2CConfig(), DQNConfig()], ids=lambda c: type(c).__name__)
def test_images_are_read_by_the_convolution_and_never_copied_as_floats(cfg):
    agent = build(cfg, SPEC)
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (5, 4, 84, 84), np.uint8))
    assert agent.act(images, explore=False).shape == (5,)
    layer = agent.encoder if isinstance(cfg, DQNConfig) else agent.net.normalise
    assert layer(images) is images


@pytest.mark.parametrize(
    "cfg", [PPOConfig(normalise_obs=True), A2CConfig(normalise_obs=True), DQNConfig(normalise=True)]
)
def test_images_are_not_normalised(cfg):
    with pytest.raises(CairnError, match="images are not normalised"):
        build(cfg, SPEC)


def test_what_is_no_image_keeps_its_layers():
    for shape, dtype in (((7, 7, 3), "uint8"), ((4, 84, 84), "float32"), ((128,), "uint8")):
        agent = build(DQNConfig(hidden=(8,)), Spec(shape, dtype, Discrete(2)))
        assert not isinstance(agent.q, NatureCNN)
        assert agent.act(torch.zeros(3, *shape, dtype=getattr(torch, dtype)), explore=False).shape == (3,)
