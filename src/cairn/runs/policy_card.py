"""What a policy file describes: its task, its spaces, and the networks that are built from it.

Nothing that a file names is imported unless the user trusts the file, and the memory of the networks must be in
proportion to the weights in the file.
"""

from __future__ import annotations

import dataclasses
import math
import re
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
from cairn.core.layout import width
from cairn.core.memory import memory
from cairn.core.serialise import from_json
from cairn.core.types import ActionSpec, Box, Composite, Discrete, MultiDiscrete, Spec
from cairn.core.untrusted import MODULE_ID, NAME, shown
from cairn.envs.task import Task
from cairn.nets.own import NONE, Own

AXES = 8  # axes of an observation
NUMBERS = 2**31  # elements of an observation
ACTIONS = 2**24
STEPS_SHOWN = 10_000  # stacked observations
RESETS = 1_000
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
WHOLE, FLOAT = re.compile("bool|u?int(8|16|32|64)"), re.compile("float(16|32|64)")  # types of actions
PLACE = re.compile(r"\[\d{1,4}\]")  # an index of a Tuple
FREE = 2**24  # elements that an agent may have, however small its file is,
SMALL = 1_000  # tensors,
SHARE = 16  # or this many times those of the file, for target networks and moments of optimisers
LAYERS = 10_000  # tensors of an agent for training
FACTORIES = ("empty", "zeros", "ones", "full", "rand", "randn", "eye", "arange", "linspace")


def check_task(task: Task, path: Path, *, trust: bool, typed: Task | None = None) -> None:
    """Raise CairnError where a task from a file would run code of its own, or exceeds limits.

    `typed` is the task as the user named it; what the user typed needs no trust.
    """
    trust = fit("trust", trust, bool)  # a string such as "no" is an error
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
            f" that a file names: if you trust it, {say_so()}."
        )
    own = {} if typed is None else typed.args
    told = _named_in({key: value for key, value in task.args.items() if key not in own or own[key] != value})
    if told is not None:
        what, does = ("name", "imports") if MODULE_ID.fullmatch(told) else ("path", "opens")
        raise CairnError(
            f"{path} gives its task the {what} {shown(told)}. Cairn {does} nothing that a file names: if you trust it,"
            f" {say_so().partition(',')[0]}."
        )


def say_so() -> str:
    """How to trust a file, for messages."""
    told = option("trust")
    return f"say {told}" if told.startswith("--") else "say trust=True, or import that module first"


def runs_code(task: Task) -> bool:
    """Whether `check_task` would ask for trust."""
    return ":" in task.id or _named_in(task.args) is not None


def _named_in(value: Any) -> str | None:
    """The first text in a task's arguments that looks like a path or a module's name."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        return next((found for item in value if (found := _named_in(item)) is not None), None)
    if not isinstance(value, str):
        return None
    return value if any(mark in value for mark in ("/", "\\", "~")) or MODULE_ID.fullmatch(value) else None


def check_spec(spec: Spec, path: Path) -> None:
    """Raise CairnError where the spaces in a file are inconsistent or exceed limits."""
    action, goal, shape = spec.action, spec.goal, spec.obs_shape
    fits = len(shape) <= AXES and all(n >= 0 for n in shape) and math.prod(shape) <= NUMBERS
    fits = fits and spec.obs_dtype in DTYPES and spec.stack >= 1 and (spec.stack == 1 or spec.stack <= math.prod(shape))
    fits = fits and _action_fits(action) and _parts_fit(spec)
    if goal is not None:
        fits = fits and min(goal.observation, goal.goal) >= 0 and goal.itemsize in (1, 4)
        fits = fits and shape == (goal.desired.stop + spec.masked,)
    if spec.reachable is not None:
        sides = {len(side) for box in spec.reachable.boxes for side in box}
        fits = fits and len(sides) == 1 and sides != {0}
    if not fits:
        raise CairnError(f"{path} describes observations or actions that no task has.")


def _action_fits(action: ActionSpec) -> bool:
    if isinstance(action, Composite):
        same = 1 <= len(action.parts) == len(action.paths) <= AXES**2
        steps = [step for path in action.paths for step in path]
        named = all(action.paths) and all(step[:1] == "." or PLACE.fullmatch(step) for step in steps)
        return same and named and all(_action_fits(part) for part in action.parts)
    if isinstance(action, Discrete):
        return 1 <= action.n <= ACTIONS
    if isinstance(action, MultiDiscrete):
        sizes = len(action.nvec) == len(action.start) == math.prod(action.shape) and len(action.shape) <= AXES
        sizes = sizes and WHOLE.fullmatch(action.dtype) is not None
        return sizes and all(n >= 1 for n in action.nvec) and 1 <= sum(action.nvec) <= ACTIONS
    return _box_fits(action)


def _parts_fit(spec: Spec) -> bool:
    """Whether parts and mask make up a row of the observation's width."""
    if not 0 <= spec.masked <= sum(spec.action.choices) or (spec.masked and len(spec.obs_shape) != 1):
        return False
    if not spec.parts:
        return True
    for part in spec.parts:
        if len(part.shape) > AXES or any(n < 0 for n in part.shape) or part.entries > NUMBERS:
            return False
        if (part.form == "category" and not 1 <= part.n <= ACTIONS) or (part.form == "image" and len(part.shape) != 3):
            return False
    in_bytes = any(part.form == "image" for part in spec.parts)
    return spec.obs_shape == (width(spec.parts, spec.masked),) and spec.obs_dtype == (
        "uint8" if in_bytes else "float32"
    )


def _box_fits(box: Box) -> bool:
    named = FLOAT.fullmatch(box.dtype) or WHOLE.fullmatch(box.dtype)
    whole = bool(named) and len(box.shape) <= AXES and all(n >= 0 for n in box.shape)
    return whole and math.prod(box.shape) == len(box.low) == len(box.high) <= ACTIONS


class Budget(TorchFunctionMode):
    """Context in which only a limited number of tensors and elements can be made. Raises CairnError beyond."""

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
    cfg: AgentConfig, spec: Spec, tensors: Mapping[str, Tensor], path: Path, *, seed: int, device: str, own: Own = NONE
) -> Any:
    """The agent that a file describes. Raises CairnError if it is out of proportion to its tensors."""
    held = sum(x.numel() for x in tensors.values())
    sentence = "it describes a far larger network than the weights that lie beside it."
    if _longest(cfg) > SMALL + len(tensors):  # checking each entry and making its layer would take long
        raise CairnError(f"{path} cannot be used: {sentence}")
    try:
        with Budget(FREE + SHARE * held, SMALL + SHARE * len(tensors), sentence):
            return build(cfg, spec, seed=seed, device=device, own=own)
    except CairnError as error:
        raise CairnError(f"{path} cannot be used: {error}") from error
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise CairnError(f"{path} describes an agent that cannot be made ({shown(str(error))}).") from error


def must_have_own(named: Any, own: Own, path: Path) -> None:
    """Raise CairnError where a policy has networks of its user's own and others were given. Nothing is imported."""
    named = from_json(dict[str, str], named)
    for role in Own.__dataclass_fields__:
        wanted, given = named.get(role), own.names().get(role)
        if wanted is not None and given is None:
            name = shown(wanted.rpartition(":")[2])
            raise CairnError(
                f"{path} has a {role} of its own, {shown(wanted)}; load it with {role}={name}, which you import."
            )
        if wanted is None and given is not None:
            raise CairnError(f"{path} has no {role} of its own; load it without {role}={given.rpartition(':')[2]}.")


def _longest(cfg: Any) -> int:
    """The longest tuple among the settings of an agent and its parts."""
    found = [0]
    for field in dataclasses.fields(cfg):
        value = getattr(cfg, field.name)
        found.append(_longest(value) if dataclasses.is_dataclass(value) else len(value) if type(value) is tuple else 0)
    return max(found)


def build_fitting(cfg: AgentConfig, spec: Spec, *, seed: int, device: str, own: Own = NONE) -> Any:
    """An agent for training. Raises CairnError if its networks do not fit into memory."""
    room = memory()[0]
    sentence = f"the networks of this agent do not fit into the {room / 1e9:.1f} GB of memory; lower agent.hidden."
    with Budget(room // 4, LAYERS, sentence):
        return build(cfg, spec, seed=seed, device=device, own=own)


def must_be_numbers(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise CairnError where a weight is NaN."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
            raise CairnError(f"{path}: the tensor {shown(name)} holds numbers that are not finite (NaN).")
