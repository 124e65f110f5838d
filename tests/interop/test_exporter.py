"""Agents of Cairn as zips: the real Stable-Baselines3 loads them, acts equally and trains them on."""

import re
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch

import cairn
from cairn import CairnError
from cairn.algorithms.a2c import A2CConfig
from cairn.algorithms.dqn import DQNConfig
from cairn.algorithms.ppo import PPOConfig
from cairn.algorithms.registry import build
from cairn.algorithms.reinforce import ReinforceConfig
from cairn.algorithms.sac import SACConfig
from cairn.algorithms.settings import in_single_precision
from cairn.algorithms.td3 import TD3Config
from cairn.cli.main import main
from cairn.core.types import Box, Discrete, MultiDiscrete, ObsPart, Spec
from cairn.envs.task import Task
from cairn.interop.sb3.exporter import as_sb3
from cairn.nets.normalizer import Normalizer
from cairn.runs.serving import export_sb3
from cairn.vector.spaces import spec_of_env
from tests.envs.toys import Plane
from tests.interop.test_beside_sb3 import observations
from tests.interop.test_trainable import Wide

sb3 = pytest.importorskip("stable_baselines3")
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

TWO = (20, 30)
OFF = {"hidden": TWO, "capacity": 500, "learning_starts": 10, "batch_size": 8}
CASES = {
    "ppo": (sb3.PPO, PPOConfig(hidden=TWO, horizon=32, log_std=-0.7), "Pendulum-v1"),
    "ppo-normalised": (sb3.PPO, PPOConfig(hidden=TWO, horizon=32, normalise_obs=True, clip_obs=1.5), "Pendulum-v1"),
    "ppo-goals": (sb3.PPO, PPOConfig(hidden=TWO, horizon=32, normalise_obs=True), "toys/Plane-v0"),
    "ppo-pixels": (sb3.PPO, PPOConfig(horizon=16, bf16=True), "toys/Wide-v0"),
    "dqn-pixels": (sb3.DQN, DQNConfig(**OFF), "toys/Wide-v0"),
    "a2c": (sb3.A2C, A2CConfig(hidden=TWO, activation="silu", rmsprop=False), "CartPole-v1"),
    "dqn": (sb3.DQN, DQNConfig(**OFF, normalise=True), "CartPole-v1"),
    "sac": (sb3.SAC, SACConfig(**OFF, activation="tanh", ensemble=3, alpha=0.2), "Pendulum-v1"),
    "sac-goals": (sb3.SAC, SACConfig(**OFF), "toys/Plane-v0"),
    "td3": (sb3.TD3, TD3Config(**OFF, normalise=True), "Pendulum-v1"),
}


@pytest.fixture(autouse=True)
def plane():
    gym.register("toys/Plane-v0", Plane, max_episode_steps=20)
    gym.register("toys/Wide-v0", Wide)
    yield
    del gym.registry["toys/Wide-v0"]
    del gym.registry["toys/Plane-v0"]


def agent(name):
    """With statistics as if it had seen something."""
    _, cfg, env = CASES[name]
    made = build(cfg, spec_of_env(gym.make(env))[0], seed=3)
    for part in made.policy_parts.values():
        for module in part.modules() if isinstance(part, torch.nn.Module) else ():
            if isinstance(module, Normalizer):
                module.update(
                    0.3 + 0.5 * torch.randn(64, *module.mean.shape, generator=torch.Generator().manual_seed(0))
                )
    return made


@pytest.mark.parametrize("name", CASES)
def test_theirs_acts_and_judges_as_ours_learns_on_and_comes_back(name, tmp_path):
    cls, _, env = CASES[name]
    ours = agent(name)
    if "pixels" in name:  # in half precision it differs by more
        ours = build(in_single_precision(ours.cfg), ours.spec, seed=3)
    _, beside = export_sb3(ours, tmp_path / "model.zip", task=Task(env))
    envs = DummyVecEnv([lambda: gym.make(env)])
    assert (beside is not None) is ("normalised" in name or name in ("ppo-goals", "dqn", "td3"))
    if beside is not None:
        envs = VecNormalize.load(str(beside), envs)
    theirs = cls.load(tmp_path / "model.zip", env=envs, device="cpu")
    seen, rows = observations(env)
    seen, obs = envs.normalize_obs(seen) if beside else seen, torch.from_numpy(rows)
    mine = ours.act(obs, explore=False)
    action, _ = theirs.predict(seen, deterministic=True)
    np.testing.assert_allclose(action, ours.spec.action.to_env(mine.numpy()), atol=3e-5)

    x = theirs.policy.obs_to_tensor(seen)[0]
    with torch.no_grad():
        if name.startswith(("ppo", "a2c")):
            judged, value = theirs.policy.predict_values(x)[:, 0], ours.net.value(ours.net.normalise(obs))
        elif name.startswith("dqn"):
            judged, value = theirs.q_net(x), ours.q(ours.encoder(obs))
        else:
            judged, value = torch.cat(theirs.critic(x, mine), 1).T, ours.q(ours.critic, ours.encoder(obs), mine)
    np.testing.assert_allclose(judged, value, rtol=1e-3, atol=1e-4)
    if name == "sac":
        torch.testing.assert_close(theirs.log_ent_coef.detach()[0].exp(), torch.tensor(0.2))
    if name == "ppo":  # torques reach from -2 to 2
        torch.testing.assert_close(theirs.policy.log_std.detach().exp(), 2.0 * ours.net.log_std.detach().exp())

    back = cairn.model(name.split("-")[0]).load(tmp_path / "model.zip", env=env)
    torch.testing.assert_close(back.agent.act(obs, explore=False), mine, atol=3e-5, rtol=1e-4)
    theirs.learn(64)


def test_the_command_and_the_model_write_it(tmp_path, capsys):
    model = cairn.PPO("CartPole-v1", hidden=(8,), normalise_obs=True)
    model.export(sb3=tmp_path / "a.zip")
    model.save(tmp_path / "m")
    with pytest.raises(SystemExit, match="0"):
        main(["export", str(tmp_path / "m"), "--sb3", str(tmp_path / "b.zip")])
    said = "".join(capsys.readouterr().out.split())
    assert f"Itsobservationsarenormalisedby{tmp_path}/b.vecnormalize.pkl" in said
    assert {path.name for path in tmp_path.iterdir()} >= {"a.zip", "a.vecnormalize.pkl", "b.zip", "b.vecnormalize.pkl"}
    weights = [sb3.PPO.load(tmp_path / f"{name}.zip").policy.state_dict() for name in "ab"]
    torch.testing.assert_close(*weights)
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(tmp_path / "m"), "--sb3", str(tmp_path / "b.tar")])
    assert "must end in .zip" in capsys.readouterr().err


FOUR, ONE = Spec((4,), "float32", Discrete(2)), Box((1,), (-2.0,), (2.0,))
PICTURE_AND_SPEED = (ObsPart("picture", "image", (84, 84, 1)), ObsPart("speed", "numbers", (1,)))
REFUSED = {
    "reinforce has no counterpart there; ppo, a2c, dqn, sac, td3 have one": (ReinforceConfig(), FOUR),
    "agent.dueling, which is not offered there": (DQNConfig(dueling=True), FOUR),
    "agent.layer_norm": (SACConfig(layer_norm=True), Spec((4,), "float32", ONE)),
    "images are read by agent.cnn impala": (PPOConfig(cnn="impala"), Spec((4, 84, 84), "uint8", Discrete(2))),
    "its actions begin at 1": (PPOConfig(), replace(FOUR, action=Discrete(2, start=1))),
    "it was trained with action masks": (PPOConfig(), replace(FOUR, obs_shape=(6,), masked=2)),
    "several parts (picture, speed)": (
        PPOConfig(),
        replace(FOUR, parts=PICTURE_AND_SPEED, obs_shape=(7060,), obs_dtype="uint8"),
    ),
    "several choices": (PPOConfig(), replace(FOUR, action=MultiDiscrete((2, 3), (0, 0), (2,)))),
    "whole numbers in a Box": (PPOConfig(), replace(FOUR, action=replace(ONE, dtype="int64"))),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_they_cannot_do_is_refused_in_one_sentence(words):
    with pytest.raises(CairnError, match=f"this policy cannot be written for Stable-Baselines3: .*{re.escape(words)}"):
        as_sb3(build(*REFUSED[words]), gym.make("CartPole-v1"))
