"""Zips of Stable-Baselines3, read without it: they act as their weights dictate, or are refused in one sentence."""

import io
import json
import math
import pickle
import sys
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st
from torch.nn.functional import elu, linear

from cairn import CairnError
from cairn.algorithms import ImportedConfig, build
from cairn.cli.main import main
from cairn.core.types import Discrete, Spec
from cairn.envs.task import Task
from cairn.interop.sb3.archive import TENSORS
from cairn.interop.sb3.importer import read
from cairn.interop.sb3.old_tensors import old_tensors
from cairn.recipes.recipe import Recipe
from cairn.runs.checkpoint import load_policy, save_policy
from cairn.runs.evaluation import as_policy
from cairn.runs.train import train
from tests.interop.zips import (
    Bomb,
    Weights,
    actor_critic,
    box,
    choice,
    dumps,
    kind,
    off_policy,
    old,
    packed,
    parted,
    seen,
    statistics,
    write,
)

PENDULUM = (seen(3), box([-2.0], [2.0]))
CARTPOLE = (seen(4), choice(2))
ELU = "torch.nn.modules.activation.ELU"


class Valve(gym.Env):
    """Two numbers to choose, in units of their own."""

    observation_space = gym.spaces.Box(-9, 9, (3,), np.float32)
    action_space = gym.spaces.Box(np.array([-1, 0], np.float32), np.array([3, 10], np.float32))

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}


class Reach(Valve):
    """The same with goals."""

    observation_space = gym.spaces.Dict(
        {
            "observation": gym.spaces.Box(-9, 9, (3,), np.float32),
            "achieved_goal": gym.spaces.Box(-9, 9, (2,), np.float32),
            "desired_goal": gym.spaces.Box(-9, 9, (2,), np.float32),
        }
    )


@pytest.fixture(autouse=True)
def tasks():
    gym.register("toys/Valve-v0", Valve)
    gym.register("toys/Reach-v0", Reach)
    yield
    del gym.registry["toys/Valve-v0"], gym.registry["toys/Reach-v0"]


def rows(width, count=64, seed=0):
    return np.random.default_rng(seed).normal(0, 1.5, (count, width)).astype(np.float32)


def through(w, x, *names, act=torch.tanh):
    """Layers by name, with an activation after each but the last."""
    for name in names[:-1]:
        x = act(linear(x, w[f"{name}.weight"], w[f"{name}.bias"]))
    return linear(x, w[f"{names[-1]}.weight"], w[f"{names[-1]}.bias"])


def actions(agent, obs):
    """In the environment's units."""
    return agent.spec.action.to_env(as_policy(agent)(obs))


def again(saved, folder):
    """After a stay on disk."""
    save_policy(folder, saved.agent, saved.task, saved.about)
    return load_policy(folder)


# -- what it does


def ppo_box(path):
    w = actor_critic(3, 1, log_std=(1,))
    write(path, "ppo", dict(w), *PENDULUM)
    return lambda x: through(w, x, *pi(0, 2), "action_net").clamp(-2, 2)


def pi(*layers):
    return [f"mlp_extractor.policy_net.{i}" for i in layers]


def ppo_linear(path):
    w = actor_critic(3, 1, (), (), log_std=(1,))
    write(path, "ppo", dict(w), *PENDULUM, {"net_arch": []})
    return lambda x: through(w, x, "action_net").clamp(-2, 2)


def ppo_elu_apart(path):
    w = actor_critic(3, 1, (32, 16, 8), (7,), log_std=(1,))
    settings = {"net_arch": {"pi": [32, 16, 8], "vf": [7]}, "activation_fn": kind(ELU)}
    write(path, "ppo", dict(w), *PENDULUM, settings)
    return lambda x: through(w, x, *pi(0, 2, 4), "action_net", act=elu).clamp(-2, 2)


def ppo_shared(path):
    """As before 1.8: first layers in common."""
    w = Weights().mlp("mlp_extractor.shared_net", 3, 32).mlp("mlp_extractor.policy_net", 32, 16)
    w.mlp("mlp_extractor.value_net", 32, 8).linear("action_net", 16, 1).linear("value_net", 8, 1)
    w["log_std"] = torch.zeros(1)
    write(path, "ppo", dict(w), *PENDULUM, {"net_arch": [32, {"pi": [16], "vf": [8]}]})
    return lambda x: through(w, x, "mlp_extractor.shared_net.0", *pi(0), "action_net").clamp(-2, 2)


def ppo_all_shared(path):
    w = Weights().mlp("mlp_extractor.shared_net", 3, 16, 8).linear("action_net", 8, 1).linear("value_net", 8, 1)
    w["log_std"] = torch.zeros(1)
    write(path, "ppo", dict(w), *PENDULUM, {"net_arch": [16, 8]})
    return lambda x: through(w, x, *(f"mlp_extractor.shared_net.{i}" for i in (0, 2)), "action_net").clamp(-2, 2)


def a2c_sde(path):
    w = actor_critic(3, 1, log_std=(64, 1))
    write(path, "a2c", dict(w), *PENDULUM, use_sde=True)
    return lambda x: through(w, x, *pi(0, 2), "action_net").clamp(-2, 2)


def a2c_sde_squashed(path):
    w = actor_critic(3, 1, log_std=(64, 1))
    write(path, "a2c", dict(w), *PENDULUM, {"squash_output": True}, use_sde=True)
    return lambda x: 2 * through(w, x, *pi(0, 2), "action_net").tanh()


def a2c_sde_features(path):
    """As before 1.8: the noise has features of its own."""
    w = actor_critic(3, 1, log_std=(5, 1)).mlp("sde_features_extractor.latent_sde", 3, 5)
    write(path, "a2c", dict(w), *PENDULUM, {"sde_net_arch": [5]}, use_sde=True)
    return lambda x: through(w, x, *pi(0, 2), "action_net").clamp(-2, 2)


def a2c_choice(path):
    w = actor_critic(4, 2)
    write(path, "a2c", dict(w), *CARTPOLE)
    return lambda x: through(w, x, *pi(0, 2), "action_net").argmax(1)


def sac(path):
    w = off_policy(3, 1, (256, 256), (256, 256), mu="actor.mu")
    write(path, "sac", dict(w), *PENDULUM)
    return lambda x: 2 * through(w, x, "actor.latent_pi.0", "actor.latent_pi.2", "actor.mu", act=torch.relu).tanh()


def sac_sde(path):
    w = off_policy(3, 1, (20, 10), (30,), critics=3, sde=True, mu="actor.mu.0")
    settings = {"net_arch": {"pi": [20, 10], "qf": [30]}, "clip_mean": 0.4, "n_critics": 3}
    write(path, "sac", dict(w), *PENDULUM, settings, use_sde=True)
    names = "actor.latent_pi.0", "actor.latent_pi.2", "actor.mu.0"
    return lambda x: 2 * through(w, x, *names, act=torch.relu).clamp(-0.4, 0.4).tanh()


def td3(path):
    w = off_policy(3, 1, (400, 300), (400, 300))
    write(path, "td3", dict(w), *PENDULUM)
    return lambda x: 2 * through(w, x, *(f"actor.mu.{i}" for i in (0, 2, 4)), act=torch.relu).tanh()


def ddpg(path):
    w = off_policy(3, 1, (16,), (16,), critics=1)
    write(path, "ddpg", dict(w), *PENDULUM, {"net_arch": [16], "n_critics": 1})
    return lambda x: 2 * through(w, x, "actor.mu.0", "actor.mu.2", act=torch.relu).tanh()


def dqn(path):
    w = Weights().mlp("q_net.q_net", 4, 64, 64, 2).mlp("q_net_target.q_net", 4, 64, 64, 2)
    write(path, "dqn", dict(w), *CARTPOLE, exploration_rate=0.05)
    return lambda x: through(w, x, *(f"q_net.q_net.{i}" for i in (0, 2, 4)), act=torch.relu).argmax(1)


CASES = [
    *(ppo_box, ppo_linear, ppo_elu_apart, ppo_shared, ppo_all_shared, a2c_sde, a2c_sde_squashed, a2c_sde_features),
    *(a2c_choice, sac, sac_sde, td3, ddpg, dqn),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_it_acts_as_its_weights_dictate(case, tmp_path):
    path = tmp_path / "model.zip"
    directly = case(path)
    discrete = case in (a2c_choice, dqn)
    saved = read(path, env="CartPole-v1" if discrete else "Pendulum-v1")
    assert saved.agent.cfg.algorithm == case.__name__.split("_")[0] and saved.agent.cfg.gamma == 0.98
    obs = rows(4 if discrete else 3)
    expected = directly(torch.from_numpy(obs)).numpy()
    mine = actions(again(saved, tmp_path / "policy").agent, obs)
    assert mine.shape == expected.shape and len(np.unique(expected)) > 1
    assert np.abs(mine - expected).max() < 1e-6


def test_tensors_that_an_older_torch_saved_are_the_same(tmp_path):
    """Parameters, parts of one storage, and other numbers than floats too."""
    whole = torch.arange(12.0)
    parts = {"a": whole[:6].view(2, 3), "b": whole[6:].view(3, 2).T, "c": torch.tensor([2, 3]), "d": torch.tensor(1.5)}
    parts["e"] = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    for name, tensor in old_tensors(old(parts), TENSORS, "it").items():
        assert tensor.dtype == parts[name].dtype and torch.equal(tensor, parts[name])
    w = actor_critic(4, 2)
    new = read(write(tmp_path / "new.zip", "ppo", dict(w), *CARTPOLE), env="CartPole-v1")
    same = read(write(tmp_path / "old.zip", "ppo", old(dict(w)), *CARTPOLE), env="CartPole-v1")
    assert np.array_equal(actions(same.agent, rows(4)), actions(new.agent, rows(4)))


@limits(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_tensors_of_an_older_torch_are_read_or_refused(data, tmp_path_factory):
    blob = bytearray(old({"a": torch.ones(2, 3), "b": torch.zeros(2)}))
    for _ in range(data.draw(st.integers(0, 3))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "old.zip"
    write(path, "ppo", bytes(blob[: data.draw(st.integers(0, len(blob)))]), *CARTPOLE)
    with pytest.raises(CairnError):
        read(path, env="CartPole-v1")


def test_nothing_of_theirs_is_imported(tmp_path):
    ppo_box(tmp_path / "model.zip")
    before = set(sys.modules)
    read(tmp_path / "model.zip", env="Pendulum-v1")
    assert not [m for m in set(sys.modules) - before if m.split(".")[0] in ("gym", "stable_baselines3", "cloudpickle")]


def test_units_of_the_environment_become_ours(tmp_path):
    """Bounds of two sizes, neither around 0: means, spreads and clipping."""
    w = actor_critic(3, 2, (8,), (8,), log_std=(2,))
    write(tmp_path / "m.zip", "ppo", dict(w), seen(3), box([-1.0, 0.0], [3.0, 10.0]), {"net_arch": [8]})
    agent = read(tmp_path / "m.zip", env="toys/Valve-v0").agent
    obs = rows(3)
    mean = through(w, torch.from_numpy(obs), *pi(0), "action_net")
    low, high = torch.tensor([-1.0, 0.0]), torch.tensor([3.0, 10.0])
    np.testing.assert_allclose(actions(agent, obs), mean.clamp(low, high), atol=1e-6)
    assert (mean < low).any() and ((mean > low) & (mean < high)).any()
    policy = agent.policy(torch.from_numpy(obs))
    np.testing.assert_allclose(policy.log_std.exp() * (high - low) / 2, w["log_std"].exp(), rtol=1e-5)


def test_bounds_that_are_open_on_one_side_are_refused(tmp_path):
    class Half(Valve):
        action_space = gym.spaces.Box(np.array([0, 0], np.float32), np.array([np.inf, 1], np.float32))

    gym.register("toys/Half-v0", Half)
    w = actor_critic(3, 2, (8,), (8,), log_std=(2,))
    write(tmp_path / "m.zip", "ppo", dict(w), seen(3), box([0.0, 0.0], [np.inf, 1.0]), {"net_arch": [8]})
    with pytest.raises(CairnError, match="infinite bounds"):
        read(tmp_path / "m.zip", env="toys/Half-v0")
    del gym.registry["toys/Half-v0"]


def test_unbounded_actions_pass_as_they_are(tmp_path):
    class Free(Valve):
        action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    gym.register("toys/Free-v0", Free)
    w = actor_critic(3, 2, (8,), (8,), log_std=(2,))
    write(tmp_path / "m.zip", "ppo", dict(w), seen(3), seen(2), {"net_arch": [8]})
    agent, obs = read(tmp_path / "m.zip", env="toys/Free-v0").agent, rows(3)
    np.testing.assert_allclose(actions(agent, obs), through(w, torch.from_numpy(obs), *pi(0), "action_net"), atol=1e-6)
    del gym.registry["toys/Free-v0"]


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_observations_are_normalised_as_in_training(protocol, tmp_path):
    w = actor_critic(3, 1, log_std=(1,))
    write(tmp_path / "m.zip", "ppo", dict(w), *PENDULUM, _last_original_obs=b"never opened")
    mean, var = np.array([0.5, -1.0, 2.0]), np.array([4.0, 0.01, 1.0])
    blob = statistics(mean, var, protocol=protocol)
    (tmp_path / "vec.pkl").write_bytes(blob.replace(b"numpy._core", b"numpy.core") if protocol == 3 else blob)
    saved = again(read(tmp_path / "m.zip", env="Pendulum-v1", normalizer=tmp_path / "vec.pkl"), tmp_path / "policy")
    obs = rows(3)
    x = np.clip((obs - mean) / np.sqrt(var + 1e-8), -2, 2).astype(np.float32)
    assert (np.abs(x) == 2).any()
    expected = through(w, torch.from_numpy(x), *pi(0, 2), "action_net").clamp(-2, 2).numpy()
    assert np.abs(actions(saved.agent, obs) - expected).max() < 1e-6
    assert saved.agent.cfg.reward_scale == pytest.approx(2.0) and "note" not in saved.about
    assert "VecNormalize" in read(tmp_path / "m.zip", env="Pendulum-v1").about["note"]


def test_rewards_alone_may_have_been_normalised(tmp_path):
    ppo_box(tmp_path / "m.zip")
    (tmp_path / "vec.pkl").write_bytes(statistics(np.zeros(3), np.ones(3), norm_obs=False))
    cfg = read(tmp_path / "m.zip", env="Pendulum-v1", normalizer=tmp_path / "vec.pkl").agent.cfg
    assert not cfg.normalise and cfg.reward_scale == pytest.approx(2.0)


@pytest.mark.parametrize("sde", [False, True])
@pytest.mark.parametrize("pi", [[16], []])
def test_goals_are_put_where_the_networks_want_them(pi, sde, tmp_path):
    """Theirs come in the order of the alphabet, ours do not; one part is not normalised."""
    mu = "actor.mu.0" if sde else "actor.mu"
    w = off_policy(7, 2, pi, (12,), sde=sde, mu=mu)
    parts = parted(achieved_goal=seen(2), desired_goal=seen(2), observation=seen(3))
    settings = {"net_arch": {"pi": pi, "qf": [12]}, "clip_mean": 9.0}
    write(tmp_path / "m.zip", "sac", dict(w), parts, box([-1.0, 0.0], [3.0, 10.0]), settings, use_sde=sde)
    moments = {"desired_goal": np.array([1.0, -1.0]), "observation": np.array([0.5, 0.0, 2.0])}
    (tmp_path / "v.pkl").write_bytes(statistics(moments, {k: np.abs(v) + 1 for k, v in moments.items()}))
    agent = read(tmp_path / "m.zip", env="toys/Reach-v0", normalizer=tmp_path / "v.pkl").agent
    observation, achieved, desired = np.split(3 * rows(7), [3, 5], 1)

    def scaled(x, mean):
        return np.clip((x - mean) / np.sqrt(np.abs(mean) + 1), -2, 2)

    theirs = [achieved, scaled(desired, moments["desired_goal"]), scaled(observation, moments["observation"])]
    x = torch.from_numpy(np.concatenate(theirs, 1).astype(np.float32))
    obs = torch.from_numpy(np.concatenate([observation, achieved, desired], 1))
    trunk = ["actor.latent_pi.0"] if pi else []
    squashed = through(w, x, *trunk, mu, act=torch.relu).clamp(-9, 9).tanh()
    np.testing.assert_allclose(agent.act(obs, explore=False), squashed, atol=1e-6)
    if sde:
        features = torch.relu(through(w, x, *trunk)) if pi else x
        spread = 0.5 * (features.square() @ (2 * w["actor.log_std"]).exp() + 1e-6).log()
    else:
        spread = through(w, x, *trunk, "actor.log_std", act=torch.relu).clamp(-20, 2)
    np.testing.assert_allclose(agent.policy(obs).log_std, spread, atol=1e-5)
    x = torch.cat([x, squashed], 1)
    both = [through(w, x, f"critic.qf{i}.0", f"critic.qf{i}.2", act=torch.relu) for i in (0, 1)]
    np.testing.assert_allclose(agent.value(obs), 2 * torch.minimum(*both)[:, 0], rtol=1e-4, atol=1e-5)


def test_values_are_in_true_rewards(tmp_path):
    obs = torch.from_numpy(rows(3))
    w = actor_critic(3, 1, log_std=(1,))
    write(tmp_path / "p.zip", "ppo", dict(w), *PENDULUM)
    (tmp_path / "v.pkl").write_bytes(statistics(np.zeros(3), np.ones(3), ret_var=9.0, clip_obs=100.0, epsilon=0.0))
    agent = read(tmp_path / "p.zip", env="Pendulum-v1", normalizer=tmp_path / "v.pkl").agent
    value = through(w, obs, "mlp_extractor.value_net.0", "mlp_extractor.value_net.2", "value_net")[:, 0]
    np.testing.assert_allclose(agent.value(obs), 3 * value, rtol=1e-5, atol=1e-5)
    with pytest.raises(CairnError, match="has no Q function"):
        agent.q(obs, torch.zeros(64, 1))

    w = off_policy(3, 1, (16,), (16,), mu="actor.mu")
    write(tmp_path / "s.zip", "sac", dict(w), *PENDULUM, {"net_arch": [16]})
    agent, action = read(tmp_path / "s.zip", env="Pendulum-v1").agent, torch.rand(64, 1) * 2 - 1
    both = [
        through(w, torch.cat([obs, action], 1), f"critic.qf{i}.0", f"critic.qf{i}.2", act=torch.relu) for i in (0, 1)
    ]
    np.testing.assert_allclose(agent.q(obs, action), torch.minimum(*both)[:, 0], rtol=1e-5, atol=1e-6)

    w = Weights().mlp("q_net.q_net", 4, 64, 64, 2)
    write(tmp_path / "d.zip", "dqn", dict(w), *CARTPOLE)
    agent, obs = read(tmp_path / "d.zip", env="CartPole-v1").agent, torch.from_numpy(rows(4))
    q = through(w, obs, *(f"q_net.q_net.{i}" for i in (0, 2, 4)), act=torch.relu)
    np.testing.assert_allclose(agent.value(obs), q.amax(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(agent.q(obs, torch.ones(64, dtype=torch.int64)), q[:, 1], rtol=1e-5, atol=1e-6)


def test_it_explores_as_it_did(tmp_path):
    """Spreads: constant, by the state, by features (exponential or expln); a dqn tosses coins, td3 has no noise."""
    obs = torch.from_numpy(rows(3))
    for shape, settings in (((8, 1), {}), ((8, 1), {"full_std": False, "use_expln": True})):
        w = actor_critic(3, 1, (8,), (8,), log_std=shape)
        w["log_std"][:4] += 2.0  # on both sides of 0
        write(tmp_path / "m.zip", "a2c", dict(w), *PENDULUM, {"net_arch": [8], **settings}, use_sde=True)
        x, std = through(w, obs, *pi(0), "action_net"), w["log_std"].exp()
        features = torch.tanh(linear(obs, w[f"{pi(0)[0]}.weight"], w[f"{pi(0)[0]}.bias"]))
        if settings:
            std = torch.where(w["log_std"] > 0, 1 + w["log_std"].clamp(min=0).log1p(), std)
        policy = read(tmp_path / "m.zip", env="Pendulum-v1").agent.policy(obs)
        np.testing.assert_allclose(2 * policy.mean, x, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(2 * policy.log_std.exp(), (features.square() @ std.square()).sqrt(), rtol=1e-4)
    sac(tmp_path / "s.zip")
    agent = read(tmp_path / "s.zip", env="Pendulum-v1").agent
    drawn = torch.stack([agent.act(obs, explore=True) for _ in range(50)])
    assert drawn.std(0).min() > 1e-3 and drawn.abs().max() <= 1
    td3(tmp_path / "t.zip")
    agent = read(tmp_path / "t.zip", env="Pendulum-v1").agent
    assert torch.equal(agent.act(obs, explore=True), agent.act(obs, explore=False))
    dqn(tmp_path / "d.zip")
    agent, obs = read(tmp_path / "d.zip", env="CartPole-v1").agent, torch.from_numpy(rows(4, 20_000))
    other = agent.act(obs, explore=True) != agent.act(obs, explore=False)
    assert other.float().mean().item() == pytest.approx(0.05 / 2, abs=0.005)


def test_it_is_not_trained(tmp_path):
    agent = build(ImportedConfig(), Spec((4,), "float32", Discrete(2)))
    with pytest.raises(CairnError, match="cannot be trained"):
        agent.update(None)
    with pytest.raises(CairnError, match="cannot be trained"):
        train(Recipe(env="CartPole-v1", agent=ImportedConfig(), steps=100))
    with pytest.raises(CairnError, match="agent.activation is 'magic'"):
        build(ImportedConfig(activation="magic"), Spec((4,), "float32", Discrete(2)))


# -- the command


def cairn(*args, code=0, capsys):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in args])
    said = capsys.readouterr()
    assert (stop.value.code or 0) == code, said.err
    return said


def test_import_eval_watch(tmp_path, capsys):
    a2c_choice(tmp_path / "a2c-CartPole-v1.zip")
    said = cairn("import", tmp_path / "a2c-CartPole-v1.zip", "--out", tmp_path / "policy", capsys=capsys)
    told = f"{tmp_path}/policy: a2c-CartPole-v1.zip, a policy of a2c for CartPole-v1."
    assert " ".join(said.out.split()) == told
    assert {p.name for p in (tmp_path / "policy").iterdir()} == {"policy.json", "policy.safetensors"}
    said = cairn("eval", tmp_path / "policy", "--episodes", 2, "--json", capsys=capsys)
    assert json.loads(said.out)["env"] == "CartPole-v1"
    cairn("watch", tmp_path / "policy", "--out", tmp_path / "v.mp4", capsys=capsys)
    assert (tmp_path / "v.mp4").stat().st_size > 1000


def test_the_statistics_beside_a_zip_are_found(tmp_path, capsys):
    """Under the name that the zip has, and whatever --normalizer says comes first."""
    path = write(tmp_path / "ppo-CartPole-v1.zip", "ppo", dict(actor_critic(4, 2)), *CARTPOLE, _last_original_obs=[1])
    alone = cairn("import", path, "--out", tmp_path / "alone", capsys=capsys).out
    assert "it was trained with VecNormalize; name its file (.pkl) with --normalizer." in " ".join(alone.split())
    (tmp_path / "ppo-CartPole-v1.vecnormalize.pkl").write_bytes(statistics(np.full(4, 3.0), np.ones(4)))
    said = cairn("import", path, "--out", tmp_path / "found", capsys=capsys).out
    assert "are normalised by ppo-CartPole-v1.vecnormalize.pkl." in " ".join(said.split())
    found = load_policy(tmp_path / "found").agent
    assert found.cfg.normalise and not load_policy(tmp_path / "alone").agent.cfg.normalise
    assert (found.policy_parts["statistics"].mean == 3).all()


def test_the_task_is_told_by_the_name_or_by_a_word(tmp_path):
    for name in ("CartPole-v1.zip", "ppo-CartPole-v1.zip", "dqn-CartPole-v1.zip"):
        a2c_choice(tmp_path / name)
        assert read(tmp_path / name).task == Task("CartPole-v1")
    a2c_choice(tmp_path / "best_model.zip")
    task = read(tmp_path / "best_model.zip", env="CartPole-v1", env_args={"sutton_barto_reward": True}).task
    assert task == Task("CartPole-v1", args={"sutton_barto_reward": True})


def rezip(path, **changes):
    """The same zip with other entries; None takes one out."""
    with zipfile.ZipFile(path) as entries:
        kept = {name: entries.read(name) for name in entries.namelist()}
    kept |= changes
    with zipfile.ZipFile(path, "w") as entries:
        for name, blob in kept.items():
            if blob is not None:
                entries.writestr(name, blob)


def retensor(path, change):
    with zipfile.ZipFile(path) as entries:
        tensors = torch.load(io.BytesIO(entries.read("policy.pth")), weights_only=True)
    change(tensors)
    file = io.BytesIO()
    torch.save(tensors, file)
    rezip(path, **{"policy.pth": file.getvalue()})


def redata(path, **changes):
    with zipfile.ZipFile(path) as entries:
        data = json.loads(entries.read("data"))
    rezip(path, data=json.dumps(data | changes))


def without(name):
    return lambda path: retensor(path, lambda tensors: tensors.pop(name))


def other(policy, **data):
    def spoil(path):
        write(path, "ppo", dict(actor_critic(4, 2)), *CARTPOLE, policy_class=kind(policy), **data)

    return spoil


def with_settings(**settings):
    return lambda path: write(path, "ppo", dict(actor_critic(4, 2)), *CARTPOLE, settings)


def with_extra(name):
    return lambda path: retensor(path, lambda tensors: tensors.update({name: torch.zeros(3)}))


BAD = {
    "another algorithm": (
        other("sb3_contrib.tqc.policies.TQCPolicy"),
        "sb3_contrib.tqc.policies.TQCPolicy; Cairn imports",
    ),
    "trpo": (other("stable_baselines3.common.policies.ActorCriticPolicy", cg_max_steps=15), "Cairn imports ppo, a2c"),
    "convolutions": (other("stable_baselines3.common.policies.ActorCriticCnnPolicy"), "(it does not see one image)"),
    "an extractor": (
        with_settings(features_extractor_class=kind("stable_baselines3.common.torch_layers.MineCNN")),
        "(MineCNN)",
    ),
    "layers more": (with_extra("features_extractor.cnn.0.weight"), "'features_extractor.cnn.0.weight'"),
    "an unknown activation": (
        with_settings(activation_fn=kind("torch.nn.modules.activation.PReLU")),
        "PReLU; Cairn has",
    ),
    "no head": (without("action_net.weight"), "lacks the tensor action_net.weight"),
    "no bias": (without("mlp_extractor.policy_net.2.bias"), "lacks the tensor mlp_extractor.policy_net.2.bias"),
    "a layer less": (
        lambda path: retensor(path, lambda t: [t.pop(f"mlp_extractor.policy_net.2.{n}") for n in ("weight", "bias")]),
        "lacks the tensor mlp_extractor.policy_net.2.weight",
    ),
    "other widths": (with_settings(net_arch=[64, 32]), "has shape (64, 64) instead of (32, 64)"),
    "widths that are none": (with_settings(net_arch=["wide"]), "its net_arch is ['wide']"),
    "not finite": (
        lambda path: retensor(path, lambda t: t["action_net.bias"].fill_(math.nan)),
        "action_net.bias holds numbers that are not finite",
    ),
    "another observation": (
        lambda path: write(path, "ppo", dict(actor_critic(24, 2)), seen(24), choice(2)),
        "observes 24 numbers and CartPole-v1 has 4 numbers; name the task it was trained on with --env",
    ),
    "other actions": (
        lambda path: write(path, "ppo", dict(actor_critic(4, 3)), seen(4), choice(3)),
        "has 3 discrete actions and CartPole-v1 has 2 discrete actions",
    ),
    "actions of another kind": (
        lambda path: write(path, "ppo", dict(actor_critic(4, 2, log_std=(2,))), seen(4), box([-1, -1], [1, 1])),
        "has continuous actions of 2 numbers from -1 to 1 and CartPole-v1 has 2 discrete",
    ),
    "many choices": (
        lambda path: write(path, "ppo", {}, seen(4), kind("gym.spaces.multi_discrete.MultiDiscrete")()),
        "acts in a MultiDiscrete space",
    ),
    "pictures": (
        lambda path: write(path, "ppo", {}, box(np.zeros((3, 3, 3)), np.ones((3, 3, 3))), choice(2)),
        "it sees pictures",
    ),
    "not a zip": (lambda path: path.write_bytes(b"weights"), "is not a zip"),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:3000]), "is cut short or damaged"),
    "altered": (
        lambda path: path.write_bytes(path.read_bytes().replace(b"policy_kwargs", b"policy_kwarks")),
        "damaged",
    ),
    "no data": (lambda path: rezip(path, data=None), "there is no 'data' in it"),
    "no tensors": (lambda path: rezip(path, **{"policy.pth": None}), "there is no 'policy.pth' in it"),
    "data that is not JSON": (lambda path: rezip(path, data=b"{"), "'data' in it is not JSON"),
    "data of something else": (lambda path: rezip(path, data=b"[1]"), "names no policy_class"),
    "tensors cut short": (
        lambda path: rezip(path, **{"policy.pth": b"PK no"}),
        "is damaged, or holds more than tensors",
    ),
    "other things than tensors": (lambda path: retensor(path, lambda t: t.update(n=3)), "does not hold named tensors"),
    "a space that says nothing": (
        lambda path: redata(path, observation_space=None),
        "not laid out as Stable-Baselines3",
    ),
    "base64 that is none": (lambda path: redata(path, action_space={":serialized:": "A"}), "'action_space' in"),
    "gamma that is none": (lambda path: redata(path, gamma="much"), "not laid out as"),
    "gamma out of range": (lambda path: redata(path, gamma=1.5), "agent.gamma is 1.5"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_one_sentence_and_exit_2(case, tmp_path, capsys):
    path = tmp_path / "ppo-CartPole-v1.zip"
    write(path, "ppo", dict(actor_critic(4, 2)), *CARTPOLE)
    spoil, words = BAD[case]
    spoil(path)
    refused(capsys, words, "import", path, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def refused(capsys, words, *args):
    said = cairn(*args, code=2, capsys=capsys)
    assert words in said.err and said.out == "" and len(said.err.splitlines()) == 1 and said.err.startswith("cairn: ")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere.zip"], "there is no file nowhere.zip"),
        (["ppo-CartPole-v1.zip", "--normalizer", "nowhere.pkl"], "there is no file nowhere.pkl"),
        (["best_model.zip"], "the name of best_model.zip does not contain its task; name it with --env."),
        (
            ["ppo-CartPool-v1.zip"],
            "Did you mean CartPole-v1? The task is taken from the file name; name another with --env.",
        ),
        (["ppo-CartPole-v1.zip", "--env", "CartPool-v1"], "there is no environment 'CartPool-v1'"),
        (["ppo-CartPole-v1.zip", "--env", "Acrobot-v1"], "observes 4 numbers and Acrobot-v1 has 6 numbers"),
        (["ppo-CartPole-v1.zip", "--env", "toys/Reach-v0"], "has observation 3, achieved_goal 2, desired_goal 2"),
        (["ppo-CartPole-v1.zip", "--normaliser", "x"], "Did you mean --normalizer?"),
        (["ppo-CartPole-v1.zip", "--out", "full"], "holds other files than a policy's"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_2(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("ppo-CartPole-v1", "best_model", "ppo-CartPool-v1"):
        write(tmp_path / f"{name}.zip", "ppo", dict(actor_critic(4, 2)), *CARTPOLE)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years")
    refused(capsys, words, "import", *args, *(() if "--out" in args else ("--out", "out")))
    assert not (tmp_path / "out").exists()


def test_out_must_be_given_and_an_import_is_not_trained(tmp_path, capsys):
    refused(capsys, "--out", "import", "m.zip")
    refused(capsys, "with --agent ppo --start FOLDER", "train", "--env", "CartPole-v1", "--agent", "imported")


@pytest.mark.parametrize(
    ("blob", "words"),
    [
        (lambda: statistics(np.zeros(3), np.ones(3)), "is for 3 numbers and the policy observes 4 numbers"),
        (lambda: statistics({"observation": np.zeros(4)}, {"observation": np.ones(4)}), "is for observation 4 numbers"),
        (lambda: statistics(np.full(4, np.nan), np.ones(4)), "statistics that are NaN or infinite"),
        (lambda: statistics(np.zeros(4), -np.ones(4)), "statistics that are NaN or infinite"),
        (lambda: dumps({"mean": 0}), "holds no statistics of a VecNormalize"),
        (lambda: statistics(np.zeros(4), np.ones(4))[:500], "is cut short or damaged"),
        (lambda: statistics(np.array(["a"] * 4), np.ones(4)), "is not laid out as"),
        (lambda: statistics(np.zeros(4), np.ones(4), clip_obs="far"), "is not laid out as"),
        (lambda: b"mean,var\n", "is cut short or damaged"),
    ],
)
def test_a_bad_normaliser_is_one_sentence_and_exit_2(blob, words, tmp_path, capsys):
    path = write(tmp_path / "ppo-CartPole-v1.zip", "ppo", dict(actor_critic(4, 2)), *CARTPOLE)
    (tmp_path / "vec.pkl").write_bytes(blob())
    refused(capsys, words, "import", path, "--normalizer", tmp_path / "vec.pkl", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -- hostile files


def test_a_hostile_pickle_is_refused_and_not_run(tmp_path, capsys):
    marker, path, out = tmp_path / "boom", tmp_path / "ppo-CartPole-v1.zip", tmp_path / "out"
    tensors, bomb = dict(actor_critic(4, 2)), pickle.dumps(Bomb(marker))
    for key in ("policy_class", "policy_kwargs", "observation_space", "action_space", "gamma"):
        write(path, "ppo", tensors, *CARTPOLE)
        redata(path, **{key: packed(bomb)})
        refused(capsys, f"{key!r} in {path} names 'posix.system', which does not belong", "import", path, "--out", out)
    write(path, "ppo", tensors, *CARTPOLE, {"net_arch": [64, 64], "optimizer_class": Bomb(marker)})
    refused(capsys, "nothing in it was executed", "import", path, "--out", out)
    for blob in (bomb, saved_by_torch({**tensors, "action_net.bias": Bomb(marker)}), saved_by_torch(Bomb(marker))):
        write(path, "ppo", blob, *CARTPOLE)
        refused(capsys, "holds more than tensors; nothing in it was executed", "import", path, "--out", out)
    write(path, "ppo", tensors, *CARTPOLE)
    for blob in (bomb, statistics(np.zeros(4), np.ones(4), venv=Bomb(marker)), statistics(Bomb(marker), np.ones(4))):
        (tmp_path / "vec.pkl").write_bytes(blob)
        refused(capsys, "'posix.system'", "import", path, "--normalizer", tmp_path / "vec.pkl", "--out", out)
    assert not marker.exists() and not out.exists()
    pickle.loads(bomb)
    assert marker.exists()  # it would have gone off


def test_a_pickle_that_is_not_needed_stays_closed(tmp_path, capsys):
    marker, path = tmp_path / "boom", tmp_path / "ppo-CartPole-v1.zip"
    write(path, "ppo", dict(actor_critic(4, 2)), *CARTPOLE, lr_schedule=pickle.dumps(Bomb(marker)))
    rezip(path, **{"policy.optimizer.pth": pickle.dumps(Bomb(marker)), "pytorch_variables.pth": b"nonsense"})
    cairn("import", path, "--out", tmp_path / "out", capsys=capsys)
    cairn("eval", tmp_path / "out", "--episodes", 1, capsys=capsys)
    assert not marker.exists()


def test_a_zip_that_unpacks_to_gigabytes_is_refused(tmp_path, capsys, monkeypatch):
    path = write(tmp_path / "ppo-CartPole-v1.zip", "ppo", dict(actor_critic(4, 2)), *CARTPOLE)
    monkeypatch.setattr("cairn.interop.sb3.archive.LIMIT", 5000)
    refused(capsys, "'policy.pth' in it unpacks to more than 5,000 bytes", "import", path, "--out", tmp_path / "out")


def saved_by_torch(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()
