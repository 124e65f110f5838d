"""What a file may describe: the task it names, the shapes it tells, and the networks that are built from it.

Nothing that a file names is imported unless the user trusts the file, and nothing is allocated that is out of
proportion to the weights the file holds.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from cairn.algorithms import build
from cairn.algorithms.registry import AgentConfig
from cairn.core.calls import option
from cairn.core.checks import fit
from cairn.core.errors import CairnError
from cairn.core.memory import memory
from cairn.core.types import Box, Discrete, Spec
from cairn.core.untrusted import MODULE_ID, NAME, shown
from cairn.envs.task import Task

AXES = 8  # of an observation
NUMBERS = 2**31  # in one observation
ACTIONS = 2**24
STEPS_SHOWN = 10_000  # observations that a task may show at once
RESETS = 1_000
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
FREE = 2**24  # numbers that an agent may be made of, however small its file is,
SMALL = 1_000  # and tensors,
SHARE = 16  # or so many times those of the file: a copy as target, two moments of an optimiser
LAYERS = 10_000  # tensors of an agent that is to be trained
FACTORIES = ("empty", "zeros", "ones", "full", "rand", "randn", "eye", "arange", "linspace")


def check_task(task: Task, path: Path, *, trust: bool, typed: Task | None = None) -> None:
    """CairnError where a task that a file names would run code of its own, or is past the limits.

    `typed` is the task as the user named it: what it says itself needs no trust.
    """
    trust = fit("trust", trust, bool)  # "no" is no leave
    if not (1 <= task.history <= STEPS_SHOWN and 1 <= task.resets <= RESETS):
        raise CairnError(f"{path} asks for {task.history:,} observations at once, or {task.resets:,} resets; too many.")
    if len(task.id) > NAME:
        raise CairnError(f"{path} names a task of {len(task.id):,} characters; the most is {NAME}.")
    if trust:
        return
    module, colon, _ = task.id.partition(":")
    if colon and module not in sys.modules and (typed is None or typed.id != task.id):
        raise CairnError(
            f"{path} names the task {shown(task.id)}, which would run the module {shown(module)}. Cairn imports nothing"
            f" that a file names: if you trust it, {_say_so()}."
        )
    own = {} if typed is None else typed.args
    told = _named_in({key: value for key, value in task.args.items() if key not in own or own[key] != value})
    if told is not None:
        what, does = ("name", "imports") if MODULE_ID.fullmatch(told) else ("path", "opens")
        raise CairnError(
            f"{path} gives its task the {what} {shown(told)}. Cairn {does} nothing that a file names: if you trust it,"
            f" {_say_so().partition(',')[0]}."
        )


def _say_so() -> str:
    told = option("trust")
    return f"say {told}" if told.startswith("--") else "say trust=True, or import that module first"


def runs_code(task: Task) -> bool:
    """Whether `check_task` would ask for trust."""
    return ":" in task.id or _named_in(task.args) is not None


def _named_in(value: Any) -> str | None:
    """The first text in a task's arguments that looks like the path of a file, or like a name of a module."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        return next((found for item in value if (found := _named_in(item)) is not None), None)
    if not isinstance(value, str):
        return None
    return value if any(mark in value for mark in ("/", "\\", "~")) or MODULE_ID.fullmatch(value) else None


def check_spec(spec: Spec, path: Path) -> None:
    """CairnError where the shapes that a card tells do not fit together, or are past the limits."""
    action, goal, shape = spec.action, spec.goal, spec.obs_shape
    fits = len(shape) <= AXES and all(n >= 0 for n in shape) and math.prod(shape) <= NUMBERS
    fits = fits and spec.obs_dtype in DTYPES and spec.stack >= 1 and (spec.stack == 1 or spec.stack <= math.prod(shape))
    fits = fits and (1 <= action.n <= ACTIONS if isinstance(action, Discrete) else _box_fits(action))
    if goal is not None:
        fits = fits and min(goal.observation, goal.goal) >= 0 and shape == (goal.observation + 2 * goal.goal,)
    if spec.reachable is not None:
        sides = {len(side) for box in spec.reachable.boxes for side in box}
        fits = fits and len(sides) == 1 and sides != {0}
    if not fits:
        raise CairnError(f"{path} describes observations or actions that no task has.")


def _box_fits(box: Box) -> bool:
    whole = len(box.shape) <= AXES and all(n >= 0 for n in box.shape)
    return whole and math.prod(box.shape) == len(box.low) == len(box.high) <= ACTIONS


class Budget(TorchFunctionMode):
    """Inside it no more tensors, and no larger ones, are made than was granted; the rest is a CairnError."""

    def __init__(self, numbers: int, tensors: int, sentence: str) -> None:
        super().__init__()
        self.numbers, self.tensors, self.sentence = numbers, tensors, sentence

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in FACTORIES:
            sizes = (kwargs or {}).get("size", args)
            self.numbers -= math.prod(_whole_numbers(sizes))
            self.tensors -= 1
            if self.numbers < 0 or self.tensors < 0:
                raise CairnError(self.sentence)
        return func(*args, **(kwargs or {}))


def _whole_numbers(sizes: Any) -> list[int]:
    return [n for size in sizes for n in (size if isinstance(size, (tuple, list)) else [size]) if type(n) is int]


def build_described(
    cfg: AgentConfig, spec: Spec, tensors: Mapping[str, Tensor], path: Path, *, seed: int, device: str
) -> Any:
    """The agent that a card describes, if it is in proportion to the tensors that the card comes with."""
    held = sum(x.numel() for x in tensors.values())
    sentence = "it describes a far larger network than the weights that lie beside it."
    if _longest(cfg) > SMALL + len(tensors):  # each entry would be checked, and a layer made of it
        raise CairnError(f"{path} cannot be used: {sentence}")
    try:
        with Budget(FREE + SHARE * held, SMALL + SHARE * len(tensors), sentence):
            return build(cfg, spec, seed=seed, device=device)
    except CairnError as error:
        raise CairnError(f"{path} cannot be used: {error}") from error
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise CairnError(f"{path} describes an agent that cannot be made ({shown(str(error))}).") from error


def _longest(cfg: Any) -> int:
    """The longest list among an agent's settings and those of its parts."""
    found = [0]
    for field in dataclasses.fields(cfg):
        value = getattr(cfg, field.name)
        found.append(_longest(value) if dataclasses.is_dataclass(value) else len(value) if type(value) is tuple else 0)
    return max(found)


def build_fitting(cfg: AgentConfig, spec: Spec, *, seed: int, device: str) -> Any:
    """The agent to be trained, if its networks fit into memory."""
    room = memory()[0]
    sentence = f"the networks of this agent do not fit into the {room / 1e9:.1f} GB of memory; lower agent.hidden."
    with Budget(room // 4, LAYERS, sentence):
        return build(cfg, spec, seed=seed, device=device)


def must_be_numbers(tensors: Mapping[str, Tensor], path: Path) -> None:
    """CairnError where a weight is no number."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
            raise CairnError(f"{path}: the tensor {shown(name)} holds numbers that are not finite (NaN).")
