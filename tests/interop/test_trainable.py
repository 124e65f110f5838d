"""A policy of Stable-Baselines3 is trained on: Cairn's agents act as it did, and start from it."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import cairn
from cairn import CairnError
from cairn.algorithms.imported import ImportedConfig
from cairn.algorithms.registry import build
from cairn.algorithms.settings import as_trainable
from cairn.cli.main import main
from cairn.core.types import Box, Discrete, Spec
from tests.envs.pixels import Lamps
from tests.envs.toys import Plane
from tests.interop.test_beside_sb3 import observations
from tests.interop.zips import actor_critic, choice, seen, write

sb3 = pytest.importorskip("stable_baselines3")
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402


class Wide(Lamps):
    """The same with channels last, and wider than high."""

    observation_space = gym.spaces.Box(0, 255, (36, 48, 3), np.uint8)

    def look(self):
        self.before, self.lit = self.lit, int(self.np_random.integers(3))
        return self.np_random.integers(0, 256, (36, 48, 3), np.uint8)


SMALL = {"buffer_size": 200, "learning_starts": 10}
CASES = {
    "PPO": (sb3.PPO, "Pendulum-v1", {"n_steps": 64, "gae_lambda": 0.8}, {}),
    "PPO-goals": (sb3.PPO, "toys/Plane-v0", {"n_steps": 64}, {"net_arch": [20, 30]}),
    "A2C": (sb3.A2C, "CartPole-v1", {"ent_coef": 0.01}, {"activation_fn": nn.SiLU, "net_arch": [32]}),
    "SAC": (sb3.SAC, "Pendulum-v1", SMALL, {"net_arch": [20, 30], "n_critics": 3}),
    "TD3": (sb3.TD3, "Pendulum-v1", SMALL, {"net_arch": [32]}),
    "PPO-pixels": (sb3.PPO, "toy/Lamps-v0", {"n_steps": 32, "batch_size": 32}, {}),
    "A2C-pixels": (sb3.A2C, "toys/Wide-v0", {}, {}),
    "DQN-pixels": (sb3.DQN, "toys/Wide-v0", SMALL, {}),
    "DQN": (sb3.DQN, "CartPole-v1", {**SMALL, "exploration_final_eps": 0.07}, {"net_arch": [32]}),
}


@pytest.fixture(autouse=True)
def plane():
    gym.register("toys/Plane-v0", Plane, max_episode_steps=20)
    gym.register("toys/Wide-v0", Wide)
    yield
    del gym.registry["toys/Wide-v0"]
    del gym.registry["toys/Plane-v0"]


def trained(name, folder, normalised):
    """Theirs, after a few updates, as a zip with the file of its VecNormalize beside it."""
    cls, env, options, settings = CASES[name]
    envs = DummyVecEnv([lambda: gym.make(env)])
    envs = VecNormalize(envs, clip_obs=1.5) if normalised else envs
    kind = "MultiInputPolicy" if "goals" in name else "CnnPolicy" if "pixels" in name else "MlpPolicy"
    theirs = cls(kind, envs, seed=1, device="cpu", policy_kwargs=settings, **options).learn(128)
    theirs.save(folder / "model.zip")
    if normalised:
        envs.save(folder / "model.vecnormalize.pkl")
    return theirs, envs


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_it_acts_and_judges_as_theirs_and_learns_on(name, normalised, tmp_path):
    if normalised and "pixels" in name:
        pytest.skip("images are not normalised by running statistics")
    theirs, envs = trained(name, tmp_path, normalised)
    env = CASES[name][1]
    ours = cairn.model(name.split("-")[0].lower()).load(tmp_path / "model.zip", env=env)
    seen, rows = observations(env)
    seen = envs.normalize_obs(seen) if normalised else seen
    action, _ = theirs.predict(seen, deterministic=True)
    mine = ours.agent.act(torch.from_numpy(rows), explore=False)
    np.testing.assert_allclose(ours.spec.action.to_env(mine.numpy()), action, atol=3e-5)

    x, obs = theirs.policy.obs_to_tensor(seen)[0], torch.from_numpy(rows)
    scale = float(np.sqrt(envs.ret_rms.var + envs.epsilon)) if normalised else 1.0
    with torch.no_grad():
        if name.startswith(("PPO", "A2C")):
            scale = 1.0 if name.startswith("PPO") else scale  # its rewards go on being normalised
            assert ours.agent.cfg.gamma == 0.99
            net = ours.agent.net
            judged, value = net.value(net.normalise(obs)), theirs.policy.predict_values(x)[:, 0]
        elif name.startswith("DQN"):
            judged, value = ours.agent.q(ours.agent.encoder(obs)), theirs.q_net(x)
        else:
            judged = ours.agent.q(ours.agent.critic, ours.agent.encoder(obs), mine)
            value = torch.cat(theirs.critic(x, mine), 1).T
    np.testing.assert_allclose(judged, value * scale, rtol=1e-3, atol=1e-4)
    before = mine.clone()
    ours.learn(400, eval_episodes=1)
    assert not torch.equal(ours.agent.act(obs, explore=False), before) or name.startswith(("DQN", "A2C"))
    if normalised:
        part = ours.agent.policy_parts.get("encoder", ours.agent.policy_parts.get("net"))
        assert float(part.normalizer.count) > 400 - 64 + 100  # what they saw counts


def test_the_spread_of_its_actions_is_theirs(tmp_path):
    theirs, _ = trained("PPO", tmp_path, normalised=False)
    with torch.no_grad():
        theirs.policy.log_std.fill_(-1.5)
    theirs.save(tmp_path / "model.zip")
    ours = cairn.PPO.load(tmp_path / "model.zip", env="Pendulum-v1")
    torch.testing.assert_close(
        ours.agent.net.log_std.detach().exp() * 2.0, torch.tensor([np.exp(-1.5)], dtype=torch.float32)
    )


def test_settings_of_their_training_are_taken_over(tmp_path):
    trained("PPO", tmp_path, normalised=True)
    cfg = cairn.PPO.load(tmp_path / "model.zip", env="Pendulum-v1").config
    assert (cfg.horizon, cfg.lam, cfg.normalise_obs, cfg.clip_obs, cfg.normalise_reward) == (64, 0.8, True, 1.5, True)
    (tmp_path / "model.vecnormalize.pkl").unlink()
    trained("DQN", tmp_path, normalised=False)
    assert cairn.DQN.load(tmp_path / "model.zip", env="CartPole-v1").config.epsilon(0.0) == 0.07
    theirs, _ = trained("SAC", tmp_path, normalised=False)
    ours = cairn.SAC.load(tmp_path / "model.zip", env="Pendulum-v1")
    torch.testing.assert_close(ours.agent.log_alpha[0].detach(), theirs.log_ent_coef.detach()[0])
    assert ours.config.learn_alpha and ours.config.ensemble == 3


def cairn_says(capsys, *args, code=0):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in args])
    said = capsys.readouterr()
    assert (stop.value.code or 0) == code, said.err
    return " ".join(said.err.split())


@pytest.mark.parametrize("imported", [False, True])
def test_a_run_starts_from_it(imported, tmp_path, monkeypatch, capsys):
    """The zip itself, or what `cairn import` made of it. The first evaluation is theirs."""
    monkeypatch.chdir(tmp_path)
    trained("PPO", tmp_path, normalised=True)
    start = "model.zip"
    if imported:
        cairn_says(
            capsys, "import", start, "--env", "Pendulum-v1", "--normalizer", "model.vecnormalize.pkl", "--out", "p"
        )
        start = "p"
    settings = ["--agent.normalise-obs", "--agent.clip-obs", 1.5, "--agent.lr", 1e-12, "--agent.horizon", 32]
    base = ["train", "--env", "Pendulum-v1", "--agent", "ppo", "--start", start, "--eval-episodes", 2]
    said = cairn_says(capsys, *base, *settings, "--steps", 32, "--out", "run")
    assert f"training starts from the policy in {start}" in said
    assert imported or "and the observations are normalised by model.vecnormalize.pkl." in said
    theirs = cairn.PPO.load(start, **({} if imported else {"env": "Pendulum-v1"}))
    mine = cairn.PPO.load("run")
    obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    apart = mine.predict(obs, deterministic=True)[0] - theirs.predict(obs, deterministic=True)[0]
    assert np.abs(apart).max() < 0.1  # the statistics of observations moved a little

    said = cairn_says(capsys, *base, "--steps", 32, "--out", "other", code=2)
    same = "add --agent.clip-obs 1.5 --agent.normalise-obs."
    assert f"the policy in {start} was trained with other settings; to start from it, {same}" in said
    narrow = [*settings, "--agent.hidden", 8, "--steps", 32, "--out", "narrow"]
    said = cairn_says(capsys, *base, *narrow, code=2)
    assert "to start from it, add --agent.hidden 64 64." in said


BOX, TWO = Spec((3,), "float32", Box((1,), (-1.0,), (1.0,))), Spec((3,), "float32", Discrete(2))
PPO = ImportedConfig(algorithm="ppo")
REFUSED = {
    "behind its convolutions": (replace(PPO, images=True), Spec((3, 44, 44), "uint8", Discrete(2))),
    "gSDE": (replace(PPO, noise="features"), BOX),
    "are squashed": (replace(PPO, squash=True), BOX),
    "no hidden layer": (replace(PPO, hidden=(), critic_hidden=()), TWO),
    "no critic": (replace(PPO, critics=0), TWO),
    r"hidden layers \(64, 64\) and its critics \(8,\)": (replace(PPO, critic_hidden=(8,)), TWO),
    "its activation is elu, and ppo has relu, tanh, silu": (replace(PPO, activation="elu"), TWO),
    "its activation is tanh, and dqn has relu only": (ImportedConfig(algorithm="dqn"), TWO),
    "Cairn has no ddpg": (ImportedConfig(algorithm="ddpg"), BOX),
    "has 3 critics": (ImportedConfig(algorithm="td3", activation="relu", critics=3), BOX),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_trained_on_is_refused_in_one_sentence(words):
    with pytest.raises(CairnError, match=f"this imported policy cannot be trained: .*{words}"):
        as_trainable(build(*REFUSED[words]))


def test_a_zip_is_loaded_as_what_it_is(tmp_path):
    path = write(tmp_path / "a2c-CartPole-v1.zip", "a2c", dict(actor_critic(4, 2)), seen(4), choice(2), n_steps=7)
    assert cairn.A2C.load(path).config.horizon == 7
    with pytest.raises(CairnError, match="holds a policy of a2c, not ppo; load it with cairn.A2C.load"):
        cairn.PPO.load(path)
    with pytest.raises(CairnError, match="has 2 discrete actions and Acrobot|observes 4 numbers and Acrobot"):
        cairn.A2C.load(path, env="Acrobot-v1")
    with pytest.raises(CairnError, match="normalizer is for zips"):
        cairn.PPO.load("zoo/cartpole-ppo", normalizer="vecnormalize.pkl")
    write(tmp_path / "ppo-CartPole-v1.zip", "ppo", dict(actor_critic(4, 2)), seen(4), choice(2), learning_rate=-1.0)
    with pytest.raises(CairnError, match="lr is -1"):
        cairn.PPO.load(tmp_path / "ppo-CartPole-v1.zip")
