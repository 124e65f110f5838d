"""Exports a policy as an ONNX or a TorchScript file, which other programs run without Cairn.

The file takes observations as Cairn's agents do, with masks of allowed actions as an input of their own. It returns
the environment's own actions; normalisation, squashing and scaling are included. It is written under a temporary name,
compared with the agent, and kept if they agree.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from cairn.algorithms.player import Player
from cairn.algorithms.registry import agent_name, build
from cairn.algorithms.settings import in_single_precision
from cairn.core.actions import Simple
from cairn.core.agent import Agent
from cairn.core.errors import CairnError
from cairn.core.layout import allowed, examples, slices
from cairn.core.policy_module import InEnvUnits
from cairn.core.state import pack, unpack
from cairn.core.types import Array, Composite, Discrete, Spec
from cairn.envs.task import Task
from cairn.interop.sb3.exporter import as_sb3
from cairn.nets.own import NONE
from cairn.runs.disk import writing
from cairn.vector.checks import close_env
from cairn.vector.spaces import GOAL_KEYS

ROWS, STEPS = 25, 40  # of the comparison: 1,000 observations in parallel episodes
# Of an action in Cairn's units, whose bounds are ±1; relative where there are none. Rounding alone can make differences
# of a few 1e-5 for inputs far from the training data, as here. A wrong file differs by far more.
TOLERANCE = 1e-4
TIES = 1  # integer actions that may differ: rounding decides between equal values
OPSET = 17

Served = Callable[[list[Array]], list[Array]]  # a loaded file: inputs -> outputs


@dataclass(frozen=True)
class Parity:
    """The comparison of a file with its agent over `count` observations.

    difference  largest difference of an action in Cairn's units, among rows that are not ties
    ties        rows with another integer action
    """

    difference: float
    ties: int
    count: int = ROWS * STEPS
    size: int = 0  # bytes of the file
    signature: str = ""  # its inputs and outputs

    def __str__(self) -> str:
        told = f"{self.signature}, {self.size / 1e3:,.0f} kB; over {self.count:,} observations its actions differ from"
        return f"{told} the agent's by at most {self.difference:.1g}"


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs of a file: name -> one row. `state` belongs to both; `actions` names the actions."""

    inputs: dict[str, Tensor]
    state: dict[str, Tensor]
    actions: list[str]

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [*self.actions, *(f"next_{name}" for name in self.state)]

    @property
    def signature(self) -> str:
        """Inputs and outputs as text."""
        given = (f"{name} {['N', *row.shape[1:]]}".replace("'", "") for name, row in self.inputs.items())
        return f"{', '.join(given)} -> {', '.join(self.outputs)}"


def export_onnx(agent: Agent, out: Path, *, task: str, seen: Array | None = None) -> Parity:
    """Write an ONNX file and return its comparison with the agent.

    The comparison uses the observations `seen` [steps, rows, ...], or random ones. Raises CairnError if onnx or
    onnxruntime, which runs the comparison, is not installed, or if the file disagrees.
    """
    if not all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
        raise CairnError("ONNX files need an extra: pip install 'cairn-rl[onnx]'.")
    import onnx
    import onnxruntime

    module, twin, interface = _served(agent)

    def write(path: Path) -> None:
        names: dict[str, Any] = {"input_names": list(interface.inputs), "output_names": interface.outputs}
        axes = {name: {0: "N"} for name in (*interface.inputs, *interface.outputs)}
        # The tracing exporter. The newer one (dynamo=True) needs onnxscript, takes 40 times as long and refuses
        # networks that depend on the batch size.
        torch.onnx.export(
            module, _example(interface), str(path), dynamo=False, opset_version=OPSET, dynamic_axes=axes, **names
        )
        model = onnx.load(str(path))
        told = {"cairn": json.dumps(_described(agent, task))}
        onnx.helper.set_model_props(model, told)
        onnx.save(model, str(path))

    def read(path: Path) -> Served:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

        def run(values: list[Array]) -> list[Array]:
            found: list[Array] = session.run(None, dict(zip(interface.inputs, values, strict=True)))
            return found

        return run

    return _kept(out, twin, interface, write, read, seen)


def export_torchscript(agent: Agent, out: Path) -> Parity:
    """Write a TorchScript file, for `torch.jit.load` and LibTorch. Raises CairnError if it disagrees."""
    module, twin, interface = _served(agent)

    def write(path: Path) -> None:
        torch.jit.trace(module, _example(interface), check_trace=False).save(str(path))

    def read(path: Path) -> Served:
        loaded = torch.jit.load(str(path))

        @torch.no_grad()
        def run(values: list[Array]) -> list[Array]:
            return [x.numpy() for x in loaded(*(torch.from_numpy(value) for value in values))]

        return run

    return _kept(out, twin, interface, write, read)


def export_sb3(agent: Agent, out: Path, *, task: Task) -> tuple[Parity, Path | None]:
    """Write a zip for Stable-Baselines3; returns the comparison, and the path of a VecNormalize file if one is needed.

    The task is made, because the zip contains its spaces. Raises CairnError if the zip disagrees with the agent.
    """
    _, twin, interface = _served(agent)
    env = task()
    try:
        model, normalizer = as_sb3(agent, env)
        space = env.observation_space
    finally:
        close_env(env)

    def read(path: Path) -> Served:
        loaded = type(model).load(path, device="cpu")

        def run(values: list[Array]) -> list[Array]:
            obs: Any = values[0].reshape(-1, *(space.shape or ()))
            if isinstance(space, spaces.Dict):
                ends = np.cumsum([spaces.flatdim(space[key]) for key in GOAL_KEYS])
                parts = np.split(values[0], ends[:-1], axis=1)
                obs = {key: x.reshape(-1, *(space[key].shape or ())) for key, x in zip(GOAL_KEYS, parts, strict=True)}
            seen = obs if normalizer is None else normalizer.normalize_obs(obs)
            return [np.asarray(loaded.predict(seen, deterministic=True)[0])]

        return run

    found = _kept(out, twin, interface, model.save, read)
    if normalizer is None:
        return found, None
    beside = out.with_name(f"{out.stem}.vecnormalize.pkl")
    with writing(beside):
        normalizer.save(str(beside))
    return found, beside


def _served(agent: Agent) -> tuple[nn.Module, Agent, Interface]:
    """The module to export, the agent it is made of and compared with, and its inputs and outputs.

    The agent is a copy in single precision: the original may be in training.
    """
    twin: Agent = build(in_single_precision(agent.cfg), agent.spec, own=agent.own or NONE)
    unpack(twin.policy_parts, pack(agent.policy_parts))
    twin.settle()
    twin.progress = agent.progress
    for part in twin.policy_parts.values():
        if isinstance(part, nn.Module):
            part.requires_grad_(False)  # so that weights can become constants
    policy = twin.policy_module()
    shape, masked = agent.spec.obs_shape, agent.spec.masked
    shape = (shape[0] - masked,) if masked else shape
    obs = torch.zeros(1, *shape, dtype=getattr(torch, agent.spec.obs_dtype))
    module = InEnvUnits(policy, agent.spec.action)
    interface = Interface({"obs": obs, **policy.extra, **policy.state}, dict(policy.state), module.outputs)
    return module.eval(), twin, interface


def _example(interface: Interface) -> tuple[Tensor, ...]:
    """Two rows of each input: with one, an axis of length 1 could be mistaken for the batch."""
    return tuple(row.repeat(2, *(1 for _ in row.shape[1:])) for row in interface.inputs.values())


def _kept(
    out: Path,
    agent: Agent,
    interface: Interface,
    write: Callable[[Path], None],
    read: Callable[[Path], Served],
    seen: Array | None = None,
) -> Parity:
    """Write to a temporary file, compare, and rename it to `out`. Raises CairnError, without a file, on a mismatch."""
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
            path = Path(folder) / out.name
            with _quiet(), torch.no_grad():
                write(path)
                found = compared(read(path), agent, interface, seen)
            if found.difference > TOLERANCE or found.ties > TIES:
                raise CairnError(
                    f"{out} is not kept: over {found.count:,} observations its actions differ from the agent's by up to"
                    f" {found.difference:.1e}, or in {found.ties} choices. Please report this policy."
                )
            os.replace(path, out)
    return replace(found, size=out.stat().st_size, signature=interface.signature)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide torch's warnings about exporters and constant sizes: the comparison checks the result."""
    with warnings.catch_warnings(action="ignore"):
        yield


def compared(served: Served, agent: Agent, interface: Interface, seen: Array | None = None) -> Parity:
    """Compare file and agent on observations [steps, rows, ...], by default random ones, each with its own state."""
    spec, player = agent.spec, Player(agent)
    seen = drawn_observations(spec) if seen is None else seen
    state = [row.repeat(seen.shape[1], *(1 for _ in row.shape[1:])).numpy() for row in interface.state.values()]
    difference, ties, count = 0.0, 0, len(interface.actions)
    act = spec.action
    spaces_of = act.parts if isinstance(act, Composite) else (act,)
    for obs in seen:
        found = served([*_inputs(spec, obs), *state])
        mine, state, rows = found[:count], found[count:], player(obs)
        theirs = act.leaves(rows) if isinstance(act, Composite) else [act.to_env(rows)]
        tied = np.zeros(len(obs), bool)
        for space, one, other in zip(spaces_of, mine, theirs, strict=True):
            apart = _apart(space, one, other)
            off = apart > TOLERANCE if one.dtype.kind in "iu" else np.zeros(len(apart), bool)
            difference, tied = max(difference, float(np.where(off, 0.0, apart).max())), tied | off
        ties += int(tied.sum())
    return Parity(difference, ties, seen.shape[0] * seen.shape[1])


def _inputs(spec: Spec, rows: Array) -> list[Array]:
    """Rows as a file takes them: the mask is an input of its own."""
    if not spec.masked:
        return [rows]
    return [np.ascontiguousarray(rows[:, : -spec.masked]), allowed(spec, rows)]


def _apart(space: Simple, mine: Array, theirs: Array) -> Array:
    """[N] the largest difference per row in Cairn's units; relative for values beyond 1, as without bounds."""
    a, b = (np.asarray(space.from_env(x), np.float64).reshape(len(x), -1) for x in (mine, theirs))
    apart: Array = (np.abs(a - b) / np.maximum(1.0, np.abs(b))).max(1)
    return apart


def drawn_observations(spec: Spec) -> Array:
    """Random observations [STEPS, ROWS, ...]: integers of all values, or floats of different magnitudes.

    Their masks allow about half of the options.
    """
    draw, shape = np.random.default_rng(0), (STEPS, ROWS, *spec.obs_shape)
    if spec.parts:
        rows = examples(spec, STEPS * ROWS, draw)
        for i, mask in enumerate(_drawn_masks(spec, len(rows), draw)):
            rows[i, spec.obs_shape[0] - spec.masked :] = mask
        return rows.reshape(shape)
    if np.dtype(spec.obs_dtype).kind in "iub":
        most = {"bool": 1, "int8": 127}.get(spec.obs_dtype, 255)
        return draw.integers(0, most + 1, shape).astype(spec.obs_dtype)
    size = 10.0 ** draw.uniform(-1, 1, (STEPS, ROWS, *(1 for _ in spec.obs_shape)))
    return (draw.normal(size=shape) * size).astype(spec.obs_dtype)


def _drawn_masks(spec: Spec, count: int, draw: np.random.Generator) -> Array:
    """[count, masked] random masks that allow at least one option of each choice."""
    masks = draw.random((count, spec.masked)) < 0.5
    for start, n in zip(np.cumsum([0, *spec.action.choices]), spec.action.choices if spec.masked else (), strict=False):
        masks[np.arange(count), start + draw.integers(n, size=count)] = True
    return masks


def _described(agent: Agent, task: str) -> dict[str, Any]:
    """Metadata for the file."""
    spec, goal = agent.spec, agent.spec.goal
    told: dict[str, Any] = {"agent": agent_name(agent.cfg), "task": task, "spaces": spec.brief}
    if goal is not None:
        told["obs"] = {"observation": goal.observation, "achieved_goal": goal.goal, "desired_goal": goal.goal}
    elif spec.parts:
        told["obs"] = {part.name: [part.form, list(part.shape), [at.start, at.stop]] for part, at in slices(spec)}
    if isinstance(spec.action, Discrete):
        told["actions"] = [spec.action.start, spec.action.start + spec.action.n - 1]
    return told
