"""Tasks that need memory: a cue shown at the first step only. Each is beside a control that cannot remember."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import cairn
from cairn.algorithms import DQNConfig, PPOConfig, build
from cairn.algorithms.dqn import DQN
from cairn.algorithms.imitation.aggrevated import AggreVaTeD, AggreVaTeDConfig
from cairn.algorithms.player import Player, Solo
from cairn.algorithms.ppo import PPO
from cairn.algorithms.reinforce import ReinforceConfig
from cairn.collect.local import LocalCollector
from cairn.collect.protocol import Order
from cairn.collect.ray import SamplerPool
from cairn.core.errors import CairnError
from cairn.core.types import Discrete, Spec
from cairn.envs.task import Task
from cairn.nets.recurrent import starts
from cairn.runs import serving
from cairn.vector.choose import make_vector
from tests import any_tasks  # noqa: F401 registers the tasks

KINDS = ["gru", "lstm"]
ALGORITHMS = {
    "ppo": (cairn.PPO, {"horizon": 64, "envs": 4, "lr": 1e-3, "memory_size": 32}, 4_000),
    "a2c": (cairn.A2C, {"horizon": 16, "envs": 8, "lr": 3e-3, "memory_size": 32}, 8_000),
    "reinforce": (cairn.Reinforce, {"envs": 16, "lr": 3e-3, "memory_size": 32}, 6_000),
    "dqn": (cairn.DQN, {"envs": 2, "lr": 3e-3, "memory_size": 32, "hidden": 32, "learning_starts": 200}, 1_500),
}
ALGORITHMS["dqn"][1].update(batch_size=128, updates_per_step=0.1, target_every=50)


def corridor(**args):
    return Task("toys/Corridor-v0", args=args)


def trained(name, task, memory, steps=None, **more):
    cls, settings, usual = ALGORITHMS[name]
    return cls(task, seed=1, memory=memory, **{**settings, **more}).learn(steps or usual)


@pytest.mark.parametrize("memory", KINDS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_was_shown_once_is_remembered(name, memory):
    assert trained(name, corridor(), memory).evaluate(100).mean > 0.95


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_cannot_be_solved_without_memory(name):
    assert trained(name, corridor(), "none").evaluate(100).mean < 0.75


@pytest.mark.parametrize(
    ("name", "kind", "length", "steps", "more"),
    [
        ("ppo", "picture", 3, 2_000, {"lr": 1e-3}),
        ("ppo", "masked", 5, 4_000, {"lr": 1e-3, "normalise_obs": True}),
        ("dqn", "picture", 3, 1_200, {"lr": 1e-3, "batch_size": 64}),
        ("dqn", "masked", 5, 1_500, {"normalise": True}),
        ("dqn", "numbers", 6, 1_500, {"n_step": 3, "dueling": True}),
    ],
)
def test_memory_reads_pictures_and_masked_observations(name, kind, length, steps, more):
    model = trained(name, corridor(kind=kind, length=length), "gru", steps, **more)
    assert model.evaluate(50).mean > 0.95


# -- states follow episodes


SPEC = Spec((4,), "float32", Discrete(2))


class Going:
    interrupted = None

    def advance(self, step, valid):
        pass


def check_states(agent, rollout):
    """What was recorded before each row is what the rows before it leave in an unrolled cell."""
    begins = starts(rollout)
    assert begins.any() and (rollout.state[begins] == 0).all()
    states = agent.net.core.unroll(agent.net.normalise(rollout.obs), rollout.state[0], begins)
    after = torch.where(begins[1:, :, None], 0.0, states[:-1])
    torch.testing.assert_close(rollout.state[1:], after, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("memory", KINDS)
def test_a_rollout_carries_the_state_before_each_step(memory):
    envs = make_vector(Task("CartPole-v1"), 3, backend="sync")
    try:
        agent, collector = PPO(PPOConfig(memory=memory), SPEC), LocalCollector(envs, "cpu")
        first = collector.rollout(agent, Order(60, seeds=(1, 2, 3)), Going())
        assert not first.state[0].any()
        check_states(agent, first)
        second = collector.rollout(agent, Order(60), Going())
        assert second.state[0].any()  # open episodes go on
        check_states(agent, second)
    finally:
        envs.close()


def test_ray_samplers_carry_the_state():
    pytest.importorskip("ray")
    cfg = PPOConfig(memory="gru")
    pool = SamplerPool(Task("CartPole-v1"), 4, registry_maker(cfg), workers=2, seed=1, timeout=60)
    try:
        agent = PPO(cfg, SPEC)
        run = Going()
        run.step = 0
        check_states(agent, pool.rollout(agent, Order(60, seeds=(1, 2, 3, 4)), run))
        run.step = 1
        second = pool.rollout(agent, Order(60), run)
        assert second.state[0].any()
        check_states(agent, second)
    finally:
        pool.close()


def test_ray_samplers_send_the_states_that_dqn_replays():
    pytest.importorskip("ray")
    cfg = DQNConfig(memory="lstm", memory_size=8, hidden=(8,))
    pool = SamplerPool(Task("CartPole-v1"), 4, registry_maker(cfg), workers=2, seed=1, timeout=60)
    try:
        agent = DQN(cfg, SPEC)
        pool.begin(agent, Order(50, seeds=(1, 2, 3, 4)), updates=0, generator=None)
        played = list(pool.end())
        state = torch.zeros(4, 16)
        for obs, _, step, recorded in played:
            torch.testing.assert_close(torch.from_numpy(recorded), state, rtol=1e-5, atol=1e-5)
            with torch.no_grad():
                state = agent.q.step(torch.from_numpy(obs), state)[1]
            state[torch.from_numpy(step.terminated | step.truncated | ~step.valid)] = 0
        assert any(step.terminated.any() for _, _, step, _ in played)
    finally:
        pool.close()


def registry_maker(cfg):
    from cairn.algorithms.registry import maker

    return maker(cfg)


@pytest.mark.parametrize("memory", KINDS)
def test_a_learning_step_fits_what_the_acting_policy_did(memory):
    """Before the first gradient step the unrolled policy is the one that acted: its ratio is 1 and its KL is 0."""
    envs = make_vector(Task("CartPole-v1"), 3, backend="sync")
    try:
        agent = PPO(PPOConfig(memory=memory, sequence=16, batch_size=10_000), SPEC, seed=1)
        rollout = LocalCollector(envs, "cpu").rollout(agent, Order(50, seeds=(1, 2, 3)), Going())
        fields = agent.net.drawn(agent.prepare(rollout), rollout)
        assert fields[0].shape == (12, 13, 4) and len(fields[0].flatten(0, 1).unique(dim=0)) == 150
        agent.opt.lr = 0.0
        assert agent._learn([*fields, 0.2, 0.0])["train/approx_kl"] < 1e-6
    finally:
        envs.close()


# -- saved, resumed, predicted, exported


@pytest.mark.parametrize("name", ALGORITHMS)
def test_memory_is_saved_loaded_and_resumed_exactly(name, tmp_path):
    cls, settings, _ = ALGORITHMS[name]
    every = {"checkpoint_every": 256, "eval_every": 1024}
    settings = {**settings, "memory": "gru", "seed": 2}
    whole = cls(corridor(), **settings).learn(1024, out=tmp_path / "whole", **every)
    cls(corridor(), **settings).learn(512, out=tmp_path / "parts", **every)
    parts = cls(corridor(), **settings).learn(1024, out=tmp_path / "parts", resume=True, **every)
    for name, part in whole.agent.policy_parts.items():
        again = parts.agent.policy_parts[name].state_dict()
        assert all(torch.equal(one, again[key]) for key, one in part.state_dict().items())
    whole.save(tmp_path / "policy")
    assert cls.load(tmp_path / "policy").evaluate(20).returns == whole.evaluate(20).returns


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_predict_carries_the_state(name):
    model = trained(name, corridor(), "gru")
    cue = np.array([[1, 0], [-1, 0]], np.float32)
    nothing, end = np.zeros((2, 2), np.float32), np.array([[0, 1], [0, 1]], np.float32)
    _, state = model.predict(cue, deterministic=True)
    for _ in range(4):
        _, state = model.predict(nothing, state=state, deterministic=True)
    action, after = model.predict(end, state=state, deterministic=True)
    assert action.tolist() == [1, 0]
    assert model.predict(end, state=state, deterministic=True)[0].tolist() == [1, 0]  # a state is not changed
    assert after is not state
    _, fresh = model.predict(cue, state=after, episode_start=[True, True], deterministic=True)
    assert torch.equal(fresh.state, model.predict(cue, deterministic=True)[1].state)
    _, mixed = model.predict(cue, state=after, episode_start=[True, False], deterministic=True)
    assert torch.equal(mixed.state[0], fresh.state[0]) and not torch.equal(mixed.state[1], fresh.state[1])
    with pytest.raises(CairnError, match="state must be the one that predict returned"):
        model.predict(cue[0], state=after)


@pytest.mark.parametrize("config", [PPOConfig, DQNConfig])
@pytest.mark.parametrize("memory", KINDS)
def test_a_score_does_not_depend_on_how_episodes_are_grouped(memory, config):
    agent = build(config(memory=memory, hidden=(16,)), SPEC, seed=1)
    rows = np.random.default_rng(0).normal(size=(9, 5, 4)).astype(np.float32)
    many, one = Solo(agent, 5), Solo(agent, 1)
    together = []
    for row in range(5):
        many.begin(row, row)
    for obs in rows:
        many(obs, np.ones(5, bool))
        together.append(many.memories[0].state[many.places[:5]].clone() if len(many.memories) == 1 else None)
    one.begin(0, 3)
    for obs, states in zip(rows, together, strict=True):
        one(obs[3:4], np.ones(1, bool))
        if states is not None:
            assert torch.equal(one.memories[0].state[one.places[0]], states[3])


@pytest.mark.parametrize("config", [PPOConfig, DQNConfig])
@pytest.mark.parametrize("memory", KINDS)
def test_an_exported_policy_has_its_state_as_input_and_output(memory, config, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    agent = build(config(memory=memory, hidden=(16,), memory_size=8), SPEC, seed=1)
    serving.export_onnx(agent, tmp_path / "policy.onnx", task="CartPole-v1")
    serving.export_torchscript(agent, tmp_path / "policy.pt")
    session = ort.InferenceSession(str(tmp_path / "policy.onnx"))
    width = agent.core.width
    assert [(one.name, one.shape[1:]) for one in session.get_inputs()] == [("obs", [4]), ("memory", [width])]
    assert [one.name for one in session.get_outputs()] == ["action", "next_memory"]
    player, state = Player(agent), np.zeros((6, width), np.float32)
    for obs in np.random.default_rng(0).normal(size=(20, 6, 4)).astype(np.float32):
        action, state = session.run(None, {"obs": obs, "memory": state})
        assert action.tolist() == player(obs).tolist()
        np.testing.assert_allclose(state, player.memory.state, atol=1e-5)


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_an_exported_policy_with_memory_takes_masks(name, tmp_path):
    """The first input is the observation without its mask, the second the mask, the third the state."""
    ort = pytest.importorskip("onnxruntime")
    agent = trained(name, corridor(kind="masked"), "gru", 1).agent
    serving.export_torchscript(agent, tmp_path / "policy.pt")
    serving.export_onnx(agent, tmp_path / "policy.onnx", task="corridor")
    session = ort.InferenceSession(str(tmp_path / "policy.onnx"))
    assert [one.name for one in session.get_inputs()] == ["obs", "action_mask", "memory"]
    state = np.zeros((3, agent.core.width), np.float32)
    given = {"obs": np.ones((3, 2), np.float32), "action_mask": np.eye(3, dtype=bool), "memory": state}
    action, state = session.run(None, given)
    assert action.tolist() == [0, 1, 2] and state.any()


# -- where there is none


def test_those_without_memory_say_so():
    with pytest.raises(CairnError, match="batch_size is 8; with memory gru it must be 0"):
        cairn.Reinforce("CartPole-v1", memory="gru", batch_size=8)
    cfg = AggreVaTeDConfig(ReinforceConfig(memory="gru"))
    with pytest.raises(CairnError, match=r"agent.learner.memory is gru, and aggrevated has no memory"):
        AggreVaTeD(replace(cfg), SPEC)
    for model in (cairn.PPO, cairn.DQN):
        with pytest.raises(CairnError, match="memory is 'rnn'"):
            model("CartPole-v1", memory="rnn")
    with pytest.raises(CairnError, match="sequence is 0; it must be at least 1"):
        cairn.DQN("CartPole-v1", memory="gru", sequence=0)
