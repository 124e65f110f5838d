"""Exported policies act as the agent does, to rounding; a file that does not is not kept."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cairn import PPO, CairnError
from cairn.algorithms import build
from cairn.algorithms.dqn import DQNConfig
from cairn.algorithms.hiro import HIROConfig
from cairn.algorithms.ppo import PPOConfig
from cairn.algorithms.sac import SACConfig
from cairn.algorithms.td3 import TD3Config
from cairn.cli.main import main
from cairn.core.goals import Region
from cairn.core.state import pack, unpack
from cairn.core.types import Box, Composite, Discrete, GoalSpec, MultiDiscrete, ObsPart, Spec
from cairn.nets.normalizer import Normalizer
from cairn.runs import serving
from cairn.runs.evaluation import as_policy

ort = pytest.importorskip("onnxruntime")
ROOT = Path(__file__).parents[2]
VALVES = Box((2, 2), (-1.0, 0.0, -300.0, 2.0), (3.0, 10.0, 300.0, 2.5))
STEPS = Box((2,), (0.0, -5.0), (9.0, 5.0), "int64")
OPEN = Box((2,), (-np.inf, -np.inf), (np.inf, np.inf))
MAZE = Spec((8,), "float32", VALVES, GoalSpec(4, 2), Region((((0.0, 0.0), (1.0, 1.0)), ((1.0, 0.5), (2.0, 1.0)))))
HIGH = DQNConfig(hidden=(8,))
HIRO = HIROConfig(high=TD3Config(hidden=(8,)), low=TD3Config(hidden=(8,)), subgoal_range=(1.0, 2.0), every=3)
SEEN = Spec((4, 44, 44), "uint8", Discrete(5))
HANDS = MultiDiscrete((3, 4), (1, -2), (2,), "int64")
MASKED = Spec((9,), "float32", Discrete(5), parts=(ObsPart("at", "numbers", (4,)),), masked=5)
CAMERA = Spec(
    (36 * 36 + 12 + 5,),
    "uint8",
    Discrete(5),
    parts=(
        ObsPart("camera", "image", (1, 36, 36)),
        ObsPart("at", "numbers", (2,)),
        ObsPart("place", "category", (1,), 9),
    ),
    masked=5,
)
CASES = {
    "ppo": (PPOConfig(hidden=(16,)), Spec((4,), "float32", Discrete(3))),
    "ppo-open": (PPOConfig(hidden=(16,), normalise_obs=True), Spec((4,), "float32", OPEN)),
    "ppo-pixels": (PPOConfig(bf16=True), SEEN),
    "sac-scaled": (SACConfig(hidden=(16,), layer_norm=True, normalise=True), Spec((5,), "float64", VALVES)),
    "sac-goals": (SACConfig(hidden=(16,), relative_goals=True, normalise=True), replace(MAZE, reachable=None)),
    "td3-whole": (TD3Config(hidden=(16,)), Spec((5,), "float32", STEPS)),
    "dqn-start": (DQNConfig(hidden=(16,), layer_norm=True), Spec((3, 2), "int64", Discrete(4, start=-2))),
    "dqn-pixels": (DQNConfig(hidden=(16,), dueling=True, quantiles=3, layer_norm=True), SEEN),
    "ppo-masked": (PPOConfig(hidden=(16,)), MASKED),
    "dqn-masked": (DQNConfig(hidden=(16,)), replace(MASKED, action=HANDS, obs_shape=(11,), masked=7)),
    "ppo-hands": (PPOConfig(hidden=(16,)), Spec((4,), "float32", HANDS)),
    "ppo-camera": (PPOConfig(hidden=(16,)), CAMERA),
    "sac-camera": (SACConfig(hidden=(16,)), replace(CAMERA, action=VALVES, masked=0, obs_shape=(36 * 36 + 12,))),
    "hiro": (HIRO, MAZE),
    "hiro-dqn": (replace(HIRO, high=HIGH, low=HIGH), replace(MAZE, action=Discrete(3))),
}


def agent(case):
    """With statistics as if it had seen something."""
    cfg, spec = CASES[case]
    made = build(cfg, spec, seed=1)
    for part in made.policy_parts.values():
        for module in part.modules() if isinstance(part, torch.nn.Module) else ():
            if isinstance(module, Normalizer):
                module.update(
                    3.0 + 2.0 * torch.randn(64, *module.mean.shape, generator=torch.Generator().manual_seed(0))
                )
    return made


def rows(spec, steps=6, count=7):
    draw = np.random.default_rng(1)
    if spec.parts:
        return serving.drawn_observations(spec)[:steps, :count]
    if spec.obs_dtype in ("uint8", "int64"):
        return draw.integers(0, 256, (steps, count, *spec.obs_shape)).astype(spec.obs_dtype)
    return draw.normal(1.0, 2.0, (steps, count, *spec.obs_shape)).astype(spec.obs_dtype)


@pytest.mark.parametrize("case", CASES)
def test_an_exported_policy_acts_as_the_agent_in_the_units_of_the_environment(case, tmp_path):
    made = agent(case)
    onnx, script = tmp_path / "policy.onnx", tmp_path / "policy.pt"
    serving.export_onnx(made, onnx, task="toys/Any-v0")
    serving.export_torchscript(made, script)
    session, loaded = ort.InferenceSession(str(onnx)), torch.jit.load(str(script))
    names = [one.name for one in session.get_inputs()]
    begin = [
        np.zeros((7, *one.shape[1:]), np.int64 if "int64" in one.type else np.float32) for one in session.get_inputs()
    ]
    masked = made.spec.masked
    assert (len(names) > 1) is (case.startswith("hiro") or masked > 0)
    assert (names[1:] == ["action_mask"]) is (masked > 0)
    begin = begin[2:] if masked else begin[1:]
    states = [begin, [torch.from_numpy(x) for x in begin]]
    player = as_policy(build(serving.in_single_precision(made.cfg), made.spec))
    unpack(player.agent.policy_parts, pack(made.policy_parts))
    for obs in rows(made.spec):
        want = made.spec.action.to_env(player(obs))
        given = [obs[:, :-masked], obs[:, -masked:] != 0] if masked else [obs]
        first, *states[0] = session.run(None, dict(zip(names, [*given, *states[0]], strict=True)))
        second, *states[1] = loaded(*(torch.from_numpy(x) for x in given), *states[1])
        for got in (first, second.detach().numpy()):
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_each_part_of_an_action_is_an_output(tmp_path):
    arm = Box((2,), (-0.1, 0.3), (0.1, 0.3), "float64")  # the second number is fixed
    parts = Composite((arm, Discrete(3, start=2), HANDS), ((".arm",), (".more", "[0]"), (".more", "[1]")))
    made = build(PPOConfig(hidden=(16,), memory="gru", memory_size=8), Spec((4,), "float32", parts), seed=1)
    told = serving.export_onnx(made, tmp_path / "policy.onnx", task="")
    serving.export_torchscript(made, tmp_path / "policy.pt")
    names = ["action.arm", "action.more[0]", "action.more[1]", "next_memory"]
    assert told.signature == f"obs [N, 4], memory [N, 8] -> {', '.join(names)}"
    session, loaded = ort.InferenceSession(str(tmp_path / "policy.onnx")), torch.jit.load(str(tmp_path / "policy.pt"))
    given = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32), np.zeros((7, 8), np.float32)
    want = parts.leaves(as_policy(made)(given[0]))
    for got in (
        session.run(names[:3], dict(zip(("obs", "memory"), given, strict=True))),
        [x.numpy() for x in loaded(*map(torch.from_numpy, given))[:3]],
    ):
        for mine, theirs in zip(got, want, strict=True):
            assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_the_agent_is_left_as_it_is(tmp_path):
    made = agent("ppo-pixels")
    serving.export_torchscript(made, tmp_path / "policy.pt")
    assert all(p.requires_grad for p in made.net.parameters()) and made.cfg.bf16


def test_the_file_describes_itself(tmp_path):
    serving.export_onnx(agent("sac-goals"), tmp_path / "policy.onnx", task="toys/Maze-v0")
    told = json.loads(ort.InferenceSession(str(tmp_path / "policy.onnx")).get_modelmeta().custom_metadata_map["cairn"])
    assert told["agent"] == "sac" and told["task"] == "toys/Maze-v0"
    assert told["obs"] == {"observation": 4, "achieved_goal": 2, "desired_goal": 2}


@pytest.mark.parametrize(("case", "off"), [("sac-scaled", 1.001), ("dqn-start", 2)])
def test_a_file_that_acts_otherwise_is_not_kept(case, off, tmp_path, monkeypatch):
    from cairn.core import policy_module

    right = policy_module.in_env_units
    monkeypatch.setattr(policy_module, "in_env_units", lambda space, action: right(space, action * off))
    for write in (
        lambda out: serving.export_onnx(agent(case), out, task=""),
        lambda out: serving.export_torchscript(agent(case), out),
    ):
        with pytest.raises(CairnError, match="is not kept: over 1,000 observations its actions differ"):
            write(tmp_path / "policy")
    assert list(tmp_path.iterdir()) == []


def test_a_policy_without_a_choice_of_its_own_is_refused(tmp_path):
    cfg, spec = CASES["hiro"]
    with pytest.raises(CairnError, match="a hierarchy whose subgoals are random cannot be exported"):
        serving.export_torchscript(build(replace(cfg, subgoals="random"), spec), tmp_path / "policy.pt")


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(serving.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CairnError, match=re.escape("pip install 'cairn-rl[onnx]'")):
        serving.export_onnx(agent("ppo"), tmp_path / "policy.onnx", task="")


def test_the_guides_examples_run_without_cairn(tmp_path, capsys):
    """In a process that cannot import it."""
    for entry, file in (("cartpole-ppo", "policy.onnx"), ("point-maze-hiro", "maze.onnx")):
        with pytest.raises(SystemExit, match="0"):
            main(["export", str(ROOT / "zoo" / entry), "--onnx", str(tmp_path / file)])
    said = " ".join(capsys.readouterr().out.split())
    assert "obs [N, 4] -> action, " in said and "over 1,000 observations its actions differ from the agent's" in said
    assert "obs [N, 8], target [N, 2], clock [N] -> action, next_target, next_clock, " in said
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "serving.md").read_text(), re.S)
    assert len(blocks) == 2
    (tmp_path / "cairn.py").write_text("raise ImportError('this must run without Cairn')")
    for block, printed in zip(blocks, ("500.0\n", ""), strict=True):
        done = subprocess.run(
            [sys.executable, "-c", block],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and done.stdout == printed, done.stderr


def test_a_model_exports_itself(tmp_path):
    model = PPO("Pendulum-v1", hidden=(8,))
    model.export(onnx=tmp_path / "a.onnx", torchscript=tmp_path / "a.pt")
    obs = np.float32([[0.1, 0.2, 0.3]])
    want, _ = model.predict(obs, deterministic=True)
    (got,) = ort.InferenceSession(str(tmp_path / "a.onnx")).run(None, {"obs": obs})
    np.testing.assert_allclose(got, want, atol=1e-5)
    np.testing.assert_allclose(torch.jit.load(str(tmp_path / "a.pt"))(torch.from_numpy(obs))[0], want, atol=1e-5)
    with pytest.raises(CairnError, match="export needs a file"):
        model.export()
    with pytest.raises(CairnError, match="it must name a file"):
        model.export(onnx=tmp_path)
