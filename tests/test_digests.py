"""Learning is unchanged: short runs of every algorithm end in the recorded weights, metrics and files, to the last bit.

`python -m tests.test_digests --record [NAME ...]` records them anew. Floating-point arithmetic differs between
processors, so digests are kept per processor type. On a type without a record only the file names are compared.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sys
import tempfile
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from cairn.algorithms import (
    A2CConfig,
    AggreVaTeConfig,
    AggreVaTeDConfig,
    BCConfig,
    DAggerConfig,
    DQNConfig,
    HIROConfig,
    PPOConfig,
    ReinforceConfig,
    SACConfig,
    TD3Config,
)
from cairn.core.schedules import constant
from cairn.recipes import find
from cairn.recipes.recipe import Recipe
from cairn.runs.policy_files import checkpoints
from cairn.runs.train import train

RECORD = Path(__file__).with_name("digests.json")
EXPERT = str(Path(__file__).parent.parent / "zoo" / "cartpole-ppo")
SMALL = {"hidden": (16, 16)}
REPLAY = {**SMALL, "learning_starts": 100, "batch_size": 16, "updates_per_step": 0.25}
LEVEL = {"hidden": (16,), "learning_starts": 100, "batch_size": 16, "updates_per_step": 0.1}
ARM = {"every": 5, "low_hindsight": 0.3, "high_hindsight": 0.3, "subgoal_range": (0.2, 0.2, 0.2)}
ARM |= {"near": 0.05}


def recipe(env: str, agent: object, steps: int, **more: object) -> Recipe:
    # Without the native core, which rounds differently and which not every machine has.
    often = {
        "native": "off",
        "eval_every": steps // 2,
        "eval_episodes": 2,
        "log_every": steps // 4,
        "checkpoint_every": steps // 3,
    }
    return Recipe(env, agent, steps=steps, seed=3, **{**often, **more})  # type: ignore[arg-type]


def levels(kind: type) -> HIROConfig:
    return HIROConfig(kind(**LEVEL), kind(**LEVEL), **ARM)


ROOMS = find("rooms-hiro-dqn")
RECIPES = {
    "dqn": recipe("CartPole-v1", DQNConfig(**REPLAY), 600, envs=2),
    "dqn-prioritised": recipe("CartPole-v1", DQNConfig(**REPLAY, priority=0.6, n_step=3, quantiles=4), 600, envs=2),
    "dqn-pixels": recipe(
        "ALE/Pong-v5",
        DQNConfig(**{**REPLAY, "hidden": (32,), "updates_per_step": 0.05}, capacity=500),
        400,
        envs=2,
        vector="atari",
        eval_episodes=1,
        time_limit=60,
    ),
    "reinforce": recipe("CartPole-v1", ReinforceConfig(**SMALL), 400, envs=2),
    "a2c": recipe("CartPole-v1", A2CConfig(**SMALL), 400, envs=2),
    "ppo-discrete": recipe("CartPole-v1", PPOConfig(**SMALL, horizon=32, batch_size=32), 512, envs=2),
    "ppo-continuous": recipe("Pendulum-v1", PPOConfig(**SMALL, horizon=32, batch_size=32), 512, envs=2),
    "ppo-pixels": recipe(
        "ALE/Pong-v5",
        PPOConfig(hidden=(32,), horizon=32, batch_size=64, epochs=1),
        256,
        envs=2,
        vector="atari",
        eval_episodes=1,
        time_limit=60,
    ),
    "sac": recipe("Pendulum-v1", SACConfig(**REPLAY), 500),
    "td3": recipe("Pendulum-v1", TD3Config(**REPLAY), 500),
    "dqn-her": recipe(
        "cairn/BitFlip-v0", DQNConfig(**REPLAY), 500, envs=2, env_args={"n": 5}, hindsight="future", metric="success"
    ),
    "sac-her": recipe("FetchReach-v4", SACConfig(**REPLAY), 300, hindsight="future", metric="success"),
    "hiro-td3": recipe("cairn/FetchReachFar-v0", levels(TD3Config), 400, envs=2, metric="success"),
    "hiro-sac": recipe("cairn/FetchReachFar-v0", levels(SACConfig), 400, envs=2, metric="success"),
    "hiro-dqn": replace(
        recipe(ROOMS.env, replace(ROOMS.agent, high=DQNConfig(**LEVEL), low=DQNConfig(**LEVEL)), 400, envs=2),
        metric="success",
        time_limit=50,
    ),
    "bc": recipe("CartPole-v1", BCConfig(hidden=(16,), batch_size=32), 400, envs=2, expert=EXPERT, time_limit=60),
    "dagger": recipe("CartPole-v1", DAggerConfig(BCConfig(hidden=(16,))), 400, envs=2, expert=EXPERT, time_limit=60),
    "aggrevate": recipe(
        "CartPole-v1",
        AggreVaTeConfig(hidden=(16,), batch_size=16, values="rollouts", judged=4),
        400,
        envs=2,
        expert=EXPERT,
        time_limit=40,
    ),
    "aggrevated-reinforce": recipe(
        "CartPole-v1",
        AggreVaTeDConfig(ReinforceConfig(hidden=(16,)), values="rollouts", judged=4),
        400,
        envs=2,
        expert=EXPERT,
        time_limit=40,
    ),
    "aggrevated-ppo": recipe(
        "CartPole-v1",
        AggreVaTeDConfig(PPOConfig(hidden=(16,), lr=constant(1e-3)), values="rollouts", judged=4),
        400,
        envs=2,
        expert=EXPERT,
        time_limit=40,
    ),
}
THROUGH_RAY = ("dqn", "dqn-prioritised", "reinforce", "ppo-discrete", "sac", "td3", "dqn-her", "hiro-td3", "hiro-sac")
RECIPES |= {f"{name}-ray": replace(RECIPES[name], vector="ray", workers=2, envs=2) for name in THROUGH_RAY}
CHEAP = ("dqn", "ppo-discrete")  # those of `make quick`


@cache
def processor() -> str:
    """A digest of how this processor rounds: of small networks that torch trains for a few steps.

    Products of other sizes can run in other kernels, so that one product says too little.
    """
    draw = torch.Generator().manual_seed(0)
    found = hashlib.sha256()
    for inputs, batch in product((3, 4, 8, 16, 28), (1, 2, 16, 32, 64, 100)):
        weights = [torch.randn(2, a, b, generator=draw).mul_(0.1) for a, b in pairwise((inputs, 16, 16, 4))]
        adam = torch.optim.Adam([weight.requires_grad_() for weight in weights], fused=True)
        for _ in range(3):
            x = torch.randn(2, batch, inputs, generator=draw)
            for weight in weights:
                x = torch.baddbmm(weight[:, :1], x, weight).tanh()
            adam.zero_grad()
            (x.log_softmax(-1).exp() + x.relu() @ torch.ones(4, 1)).square().mean().backward()
            adam.step()
        flat = [weight.detach()[0] @ torch.randn(weight.shape[2], batch, generator=draw) for weight in weights]
        for value in (*weights, *flat, x):
            found.update(value.detach().numpy().tobytes())
    image, kernel = torch.randn(16, 4, 84, 84, generator=draw), torch.randn(32, 4, 8, 8, generator=draw)
    pixels = torch.conv2d(image, kernel.requires_grad_(), stride=4)
    pixels.square().mean().backward()
    for value in (pixels, kernel.grad):
        assert value is not None
        found.update(value.detach().numpy().tobytes())
    return found.hexdigest()[:12]


def digest(plan: Recipe, folder: Path) -> dict[str, str]:
    """Train, and digest the run."""
    train(plan, folder)
    return digest_of(folder)


def digest_of(folder: Path) -> dict[str, str]:
    """Digests of a run: the tensors of its last checkpoint, its logs without times, the names of its files."""
    last = checkpoints(folder / "checkpoints")[-1]
    weights, metrics = hashlib.sha256(last.name.encode()), hashlib.sha256()
    for file in ("policy.safetensors", "training.safetensors"):
        for name, value in sorted(safetensors.torch.load_file(last / file).items()):
            weights.update(f"{file} {name} {value.dtype} {tuple(value.shape)}".encode() + value.numpy().tobytes())
    with open(folder / "metrics.csv") as file:
        for row in csv.DictReader(file):
            kept = {k: v for k, v in row.items() if v and "time" not in k and k not in ("seconds", "wall")}
            if not str(row.get("name", "")).startswith("time/"):
                metrics.update(json.dumps(kept, sort_keys=True).encode())
    with np.load(folder / "evaluations.npz") as found:
        for name in sorted(found.files):
            metrics.update(name.encode() + np.ascontiguousarray(found[name]).tobytes())
    names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
    names = [re.sub(r"(events\.out\.tfevents).*", r"\1", re.sub(r"\d{10,}", "STEP", name)) for name in names]
    return {
        "weights": weights.hexdigest()[:16],
        "metrics": metrics.hexdigest()[:16],
        "files": hashlib.sha256("\n".join(names).encode()).hexdigest()[:16],
    }


@pytest.mark.parametrize("name", RECIPES)
def test_a_short_run_ends_in_the_recorded_weights_metrics_and_files(name, tmp_path):
    if name.endswith("-ray"):
        pytest.importorskip("ray")
    recorded = json.loads(RECORD.read_text())
    found = digest(RECIPES[name], tmp_path / "run")
    here = recorded.get(processor())
    any_of = next(iter(recorded.values()))
    assert found["files"] == any_of[name]["files"]
    if here is None:
        pytest.skip("the digests were recorded on a processor with other rounding")
    assert found == here[name]


if __name__ == "__main__":
    assert sys.argv[1:2] == ["--record"], __doc__
    table = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    mine = table.setdefault(processor(), {})
    for case in sys.argv[2:] or RECIPES:
        with tempfile.TemporaryDirectory() as root:
            mine[case] = digest(RECIPES[case], Path(root) / "run")
            with tempfile.TemporaryDirectory() as again:
                same = digest(RECIPES[case], Path(again) / "run") == mine[case]
        print(case, mine[case], "" if same else "DIFFERS FROM RUN TO RUN", flush=True)
    RECORD.write_text(json.dumps(table, indent=1) + "\n")
