"""Where Stable-Baselines3 is installed: what it saves today is read, and acts and judges as it does itself."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from cairn.interop.sb3.importer import read
from cairn.runs.evaluation import as_policy
from cairn.vector.spaces import spec_of
from tests.envs.toys import Plane

sb3 = pytest.importorskip("stable_baselines3")
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

SMALL = {"buffer_size": 100}
CASES = {
    "ppo": (sb3.PPO, "Pendulum-v1", {"n_steps": 64}, {}),
    "ppo-sde": (sb3.PPO, "Pendulum-v1", {"n_steps": 64, "use_sde": True}, {"squash_output": True, "net_arch": [32]}),
    "a2c": (sb3.A2C, "CartPole-v1", {}, {"activation_fn": nn.LeakyReLU, "net_arch": {"pi": [], "vf": [8]}}),
    "sac": (sb3.SAC, "Pendulum-v1", SMALL, {"net_arch": {"pi": [20], "qf": [30, 10]}}),
    "sac-sde": (sb3.SAC, "Pendulum-v1", {**SMALL, "use_sde": True}, {"net_arch": [32], "n_critics": 3}),
    "sac-goals": (sb3.SAC, "toys/Plane-v0", SMALL, {"net_arch": [32]}),
    "td3": (sb3.TD3, "Pendulum-v1", SMALL, {"net_arch": [32], "activation_fn": nn.ELU}),
    "ddpg": (sb3.DDPG, "MountainCarContinuous-v0", SMALL, {"net_arch": [32]}),
    "dqn": (sb3.DQN, "CartPole-v1", SMALL, {}),
}


@pytest.fixture(autouse=True)
def plane():
    gym.register("toys/Plane-v0", Plane, max_episode_steps=20)
    yield
    del gym.registry["toys/Plane-v0"]


def observations(env, count=100):
    """As the task gives them."""
    task, rows = gym.make(env), []
    task.action_space.seed(0)
    task.reset(seed=0)
    for _ in range(count):
        obs, _, terminated, truncated, _ = task.step(task.action_space.sample())
        rows.append(obs)
        if terminated or truncated:
            task.reset()
    if task.observation_space.dtype == np.uint8:
        return np.stack(rows), np.stack(rows)
    layout = spec_of(task.observation_space, task.action_space)[1]
    ours = np.stack([layout(row) for row in rows]).astype(np.float32)
    if isinstance(rows[0], dict):
        return {key: np.stack([row[key] for row in rows]).astype(np.float32) for key in rows[0]}, ours
    return np.stack(rows).astype(np.float32), ours


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_it_acts_and_judges_as_theirs(name, normalised, tmp_path):
    cls, env, options, settings = CASES[name]
    envs = DummyVecEnv([lambda: gym.make(env)])
    envs = VecNormalize(envs) if normalised else envs
    kind = "MultiInputPolicy" if "goals" in name else "MlpPolicy"
    theirs = cls(kind, envs, seed=1, device="cpu", policy_kwargs=settings, **options).learn(64)
    theirs.save(tmp_path / "model.zip")
    if normalised:
        envs.save(tmp_path / "vec.pkl")
    ours = read(tmp_path / "model.zip", env=env, normalizer=tmp_path / "vec.pkl" if normalised else None).agent
    assert ours.cfg.algorithm == name.split("-")[0] and ours.cfg.normalise is normalised

    seen, rows = observations(env)
    seen = envs.normalize_obs(seen) if normalised else seen
    action, _ = theirs.predict(seen, deterministic=True)
    mine = as_policy(ours)(rows)
    assert np.abs(ours.spec.action.to_env(mine) - action).max() < 1e-6

    x, obs = theirs.policy.obs_to_tensor(seen)[0], torch.from_numpy(rows)
    with torch.no_grad():
        if name.startswith(("ppo", "a2c")):
            value = theirs.policy.predict_values(x)[:, 0]
        elif name == "dqn":
            value = theirs.q_net(x).amax(1)
        else:
            value = torch.cat(theirs.critic(x, torch.from_numpy(mine)), 1).amin(1)
    np.testing.assert_allclose(ours.value(obs), value * ours.cfg.reward_scale, rtol=1e-4, atol=1e-4)
