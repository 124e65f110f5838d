"""Networks of the user's own: learned with, saved, loaded, resumed; nothing is imported from a file."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import cairn
from cairn.core.errors import CairnError
from cairn.envs.task import Task
from tests import any_tasks  # noqa: F401  registers the tasks

PPO = {"horizon": 64, "envs": 4, "lr": 3e-3}


class Encoder(nn.Module):
    """Reads one array."""

    def __init__(self, spec):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(spec.obs_shape[0], 32), nn.ReLU())

    def forward(self, obs):
        return self.layers(obs)


class DictEncoder(nn.Module):
    """Reads a dictionary of parts, the picture by its mean over each half."""

    def __init__(self, spec):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())

    def forward(self, obs):
        camera = obs["camera"].float().mean((1, 3)) / 255
        halves = camera.unflatten(1, (2, -1)).mean(2)
        return self.layers(torch.cat([halves, obs["number"], obs["mode"]], 1))


class Head(nn.Module):
    """A whole actor or critic of CartPole."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, width))

    def forward(self, obs):
        return self.layers(obs)


class Noisy(nn.Module):
    """Has layers that work otherwise in training."""

    def __init__(self, spec):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5))

    def forward(self, obs):
        return self.layers(obs)


def actor(spec):
    return Head(spec.action.outputs)


def critic(spec):
    return Head(1)


def q_values(spec):
    return Head(spec.action.n)


@pytest.mark.parametrize("name", ["PPO", "A2C", "Reinforce", "DQN", "SAC", "TD3"])
def test_every_algorithm_takes_a_network(name):
    model = getattr(cairn, name)("Pendulum-v1" if name in ("SAC", "TD3") else "CartPole-v1", network=Encoder)
    own = [part for part in model.agent.policy_parts.values() if isinstance(part, nn.Module)]
    inside = [module for part in own for module in part.modules() if isinstance(module, Encoder)]
    assert inside
    before = [p.clone() for p in inside[0].parameters()]
    settings = {"SAC": 150, "TD3": 150, "DQN": 150}
    model.config = model.agent.cfg
    model.learn(settings.get(name, 600) + (1_000 if name in settings else 0), eval_every=10_000)
    inside = [
        module
        for part in model.agent.policy_parts.values()
        if isinstance(part, nn.Module)
        for module in part.modules()
        if isinstance(module, Encoder)
    ]
    assert any(not torch.equal(a, b) for a, b in zip(before, inside[0].parameters(), strict=True))


def test_a_dictionary_reaches_the_network_and_is_learned_from():
    task = Task("toys/Camera-v0")
    slow = {**PPO, "lr": 5e-4, "entropy_weight": 0.1}  # the sum modulo 2 is not seen at once
    model = cairn.PPO(task, network=DictEncoder, seed=1, **slow).learn(12_000)
    assert model.evaluate(100).mean > 0.9


def test_whole_actor_and_critic():
    model = cairn.PPO("CartPole-v1", actor=actor, critic=critic, seed=1, **PPO).learn(12_000)
    assert model.evaluate(10).mean > 80
    model = cairn.DQN("CartPole-v1", critic=q_values, seed=1).learn(1_500)
    assert model.predict(np.zeros(4, np.float32))[0] in (0, 1)


def test_saved_loaded_and_resumed(tmp_path):
    run = {"checkpoint_every": 256, "eval_every": 1024}
    whole = cairn.PPO("CartPole-v1", network=Encoder, **PPO).learn(1024, out=tmp_path / "a", **run)
    cairn.PPO("CartPole-v1", network=Encoder, **PPO).learn(512, out=tmp_path / "b", **run)
    with pytest.raises(CairnError, match=r"has a network of its own, .*Encoder; load it with network=Encoder"):
        cairn.PPO("CartPole-v1", **PPO).learn(1024, out=tmp_path / "b", resume=True, **run)
    again = cairn.PPO("CartPole-v1", network=Encoder, **PPO).learn(1024, out=tmp_path / "b", resume=True, **run)
    mine, theirs = (m.agent.policy_parts["net"].state_dict() for m in (whole, again))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)

    whole.save(tmp_path / "policy")
    card = json.loads((tmp_path / "policy" / "policy.json").read_text())
    assert card["own"] == {"network": f"{__name__}:Encoder"}
    with pytest.raises(CairnError, match="load it with network=Encoder"):
        cairn.PPO.load(tmp_path / "policy")
    loaded = cairn.PPO.load(tmp_path / "policy", network=Encoder)
    obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    assert (loaded.predict(obs, deterministic=True)[0] == whole.predict(obs, deterministic=True)[0]).all()

    plain = cairn.PPO("CartPole-v1")
    plain.save(tmp_path / "plain")
    with pytest.raises(CairnError, match="has no network of its own"):
        cairn.PPO.load(tmp_path / "plain", network=Encoder)


def made(module):
    return lambda spec: module


class Wide(nn.Module):
    def forward(self, obs):
        return obs[:, :, None]


class Tuples(nn.Module):
    def forward(self, obs):
        return obs, obs


def broken(spec):
    raise ValueError("no such layer")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cairn.PPO("CartPole-v1", network=made(Wide())), r"returns a tensor of shape \(2, 4, 1\)"),
        (lambda: cairn.PPO("CartPole-v1", network=made(Tuples())), "returns a tuple for 2 observations"),
        (lambda: cairn.PPO("CartPole-v1", network=made(nn.Linear(7, 3))), r"cannot read observations \(4,\)"),
        (lambda: cairn.PPO("CartPole-v1", network=made("net")), "makes a str; it must make an nn.Module"),
        (lambda: cairn.PPO("CartPole-v1", network=nn.Linear(4, 3)), "must be a class or a function that makes"),
        (
            lambda: cairn.PPO("CartPole-v1", network=broken),
            "network=broken could not be made: ValueError: no such layer",
        ),
        (lambda: cairn.PPO("CartPole-v1", actor=lambda s: Head(3)), r"it must return a float tensor of shape \(2, 2\)"),
        (lambda: cairn.SAC("Pendulum-v1", actor=actor), "sac takes no actor of your own; it takes network"),
        (lambda: cairn.HIRO("FetchReach-v4", network=Encoder), "hiro takes no network of your own"),
    ],
)
def test_a_wrong_network_is_one_sentence(call, words):
    with pytest.raises(CairnError, match=words):
        call()


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (cairn.PPO, PPO),
        (cairn.A2C, {"horizon": 16}),
        (cairn.DQN, {"learning_starts": 32, "batch_size": 16, "target_every": 10**6}),
    ],
)
def test_dropout_and_batch_normalisation_are_on_in_gradient_steps_only(cls, settings, tmp_path):
    model = cls("CartPole-v1", network=Noisy, seed=1, **settings).learn(300)
    obs = torch.randn(8, 4)
    first = model.agent.act(obs, explore=False)
    assert all(torch.equal(first, model.agent.act(obs, explore=False)) for _ in range(20))
    alone = [model.agent.act(row[None], explore=False)[0] for row in obs]  # not normalised by the others in a batch
    assert torch.equal(first, torch.stack(alone))
    parts = model.agent.policy_parts
    norms = [m for part in parts.values() for m in part.modules() if isinstance(m, nn.BatchNorm1d)]
    assert len(norms) == (2 if cls is cairn.DQN else 1)
    assert all(norm.running_mean.any() and norm.num_batches_tracked > 0 for norm in norms)  # of the target too
    model.save(tmp_path / "policy")
    again = cls.load(tmp_path / "policy", network=Noisy)
    assert torch.equal(again.agent.act(obs, explore=False), first)


@pytest.mark.parametrize("cls", [cairn.PPO, cairn.DQN, cairn.SAC, cairn.TD3])
def test_what_a_network_of_ones_own_reads_is_not_normalised(cls):
    task = "CartPole-v1" if cls is cairn.DQN else "Pendulum-v1"
    name = "normalise_obs" if cls is cairn.PPO else "normalise"
    with pytest.raises(CairnError, match=f"read observations as they are; leave {name} off"):
        cls(task, network=Encoder, **{name: True})
