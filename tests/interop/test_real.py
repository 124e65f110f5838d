"""Published experts, where CAIRN_EXPERTS names a folder of them: ALGORITHM/TASK.zip and TASK.vecnormalize.pkl.

CAIRN_EXPERTS=/path/to/experts python -m pytest tests/experts/test_real.py
"""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import linear

from cairn.envs.task import Task
from cairn.interop.sb3 import safe_unpickle as inert
from cairn.interop.sb3.importer import ADMITTED, read
from cairn.runs.checkpoint import load_policy, save_policy
from cairn.runs.evaluation import as_policy, evaluate
from cairn.vector.choose import make_vector

ROOT = Path(os.environ.get("CAIRN_EXPERTS", "nowhere"))
FILES = sorted(ROOT.glob("*/*.zip"))
pytestmark = pytest.mark.skipif(not FILES, reason="CAIRN_EXPERTS names no folder of published experts")


def normalizer(path):
    beside = path.with_name(f"{path.stem}.vecnormalize.pkl")
    return beside if beside.exists() else None


def weights(path):
    blob = zipfile.ZipFile(path).read("policy.pth")
    return torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True)


def normalised(path, obs):
    if normalizer(path) is None:
        return obs
    state = inert.load(normalizer(path).read_bytes(), ADMITTED, "it").state
    mean, var = (inert.array(state["obs_rms"].state[name]) for name in ("mean", "var"))
    return np.clip((obs - mean) / np.sqrt(var + state["epsilon"]), -state["clip_obs"], state["clip_obs"])


def directly(path, obs):
    """The weights, multiplied out: actions in the environment's units."""
    w, x = weights(path), torch.from_numpy(normalised(path, obs).astype(np.float32))

    def layer(name, x):
        return linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    kind = path.parent.name
    if kind == "dqn":
        for i in (0, 2):
            x = layer(f"q_net.q_net.{i}", x).relu()
        return layer("q_net.q_net.4", x).argmax(1)
    if kind == "sac":
        for i in (0, 2):
            x = layer(f"actor.latent_pi.{i}", x).relu()
        return 2.0 * layer("actor.mu.0", x).clamp(-2, 2).tanh()  # Pendulum's torque
    for i in (0, 2):
        x = layer(f"mlp_extractor.policy_net.{i}", x).tanh()
    out = layer("action_net", x)
    return out.argmax(1) if path.stem == "CartPole-v1" else out.clamp(-1, 1)


def visited(task, policy, steps=300):
    """What a policy sees on its way, and what it would see where it does not go."""
    envs = make_vector(task, 4, backend="sync")
    rows = [envs.reset([0, 1, 2, 3]).copy()]
    for _ in range(steps):
        rows.append(envs.step(policy(rows[-1])).obs.copy())
    envs.close()
    seen = np.concatenate(rows)
    rng = np.random.default_rng(0)
    return np.concatenate([seen, seen + rng.normal(0, 0.3, seen.shape)]).astype(np.float32)


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_it_acts_as_its_weights_dictate(path, tmp_path):
    saved = read(path, normalizer=normalizer(path))
    assert saved.task == Task(path.stem) and saved.agent.cfg.algorithm == path.parent.name
    save_policy(tmp_path / "policy", saved.agent, saved.task, saved.about)
    policy = as_policy(load_policy(tmp_path / "policy").agent)
    obs = visited(saved.task, policy)
    mine = saved.agent.spec.action.to_env(policy(obs))
    gap = np.abs(mine - directly(path, obs).numpy()).max()
    assert gap < 1e-6, gap


@pytest.mark.parametrize(
    ("name", "least"), [("ppo/CartPole-v1", 500), ("dqn/CartPole-v1", 490), ("sac/Pendulum-v1", -250)]
)
def test_it_plays_as_well_as_its_makers_say(name, least):
    saved = read(ROOT / f"{name}.zip")
    envs = make_vector(saved.task, 10, backend="sync")
    assert evaluate(as_policy(saved.agent), envs, range(20)).mean >= least
    envs.close()


def test_the_walker_walks():
    """Seeds 0 to 9; over hundreds of seeds it falls in a few per cent of episodes."""
    path = ROOT / "a2c" / "BipedalWalker-v3.zip"
    saved = read(path, normalizer=normalizer(path))
    envs = make_vector(saved.task, 10, backend="sync")
    score = evaluate(as_policy(saved.agent), envs, range(10))
    envs.close()
    assert np.median(score.returns) >= 300
