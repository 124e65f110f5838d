"""Networks of the user's own, in place of an agent's encoder or of its whole actor and critic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cairn.core.errors import CairnError
from cairn.core.layout import BYTES, examples, slices
from cairn.core.types import ObsPart, Spec

MakeNetwork = Callable[[Spec], nn.Module]


@dataclass(frozen=True)
class Own:
    """Classes or functions that make the user's networks from the spec of a task; None: the agent's own network.

    network  observations [B, ...] -> features [B, any width], read by the agent's layers
    actor    observations -> what an action is drawn from: a logit per option, a mean per real number
    critic   observations -> V(s) [B, 1]; with dqn Q(s, ·) [B, actions]

    An observation of one array is a tensor [B, *shape], one of several parts a dictionary of these by name.
    """

    network: MakeNetwork | None = None
    actor: MakeNetwork | None = None
    critic: MakeNetwork | None = None

    def names(self) -> dict[str, str]:
        """The networks that are given, with the import path of each, as saved policies note them."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return {role: path_of(make) for role, make in given.items() if make is not None}


NONE = Own()


def not_normalised(own: Own, normalise: bool, name: str) -> None:
    """Raise CairnError if a setting, called `name`, normalises what networks of the user's own read."""
    if normalise and own.names():
        raise CairnError(f"networks of your own read observations as they are; leave {name} off.")


def path_of(make: Any) -> str:
    """The import path of a class or function: mine.nets:MyEncoder."""
    named = make if hasattr(make, "__qualname__") else type(make)
    return f"{named.__module__}:{named.__qualname__}"


class OwnNet(nn.Module):
    """A module of the user's, made for a task and tried: rows of observations [B, ...] -> [B, width].

    It is in training mode in gradient steps only: dropout and batch normalisation do not disturb acting, targets or
    evaluations.
    """

    def __init__(self, role: str, make: MakeNetwork, spec: Spec, width: int | None = None) -> None:
        super().__init__()
        self.spec = spec
        name = path_of(make).rpartition(":")[2]
        self.module = _made(role, name, make, spec)
        self.width = self._tried(f"{role}={name}", width)

    def forward(self, rows: Tensor) -> Tensor:
        """What the user's module returns for rows [B, ...]."""
        learning = torch.is_grad_enabled()
        if self.module.training != learning:
            self.module.train(learning)
        out: Tensor = self.module(as_shown(self.spec, rows))
        return out

    def _tried(self, name: str, width: int | None) -> int:
        """The width of what it returns for made-up observations. Raises CairnError if that is not [B, width]."""
        rows = torch.from_numpy(examples(self.spec, 2, np.random.default_rng(0)))
        shown = f"observations {self.spec.seen}"
        try:
            with torch.no_grad():
                out = self(rows)
        except Exception as error:  # it is not our code
            raise CairnError(f"{name} cannot read {shown}: {type(error).__name__}: {error}") from error
        wanted = f"a float tensor of shape (2, {'features' if width is None else width})"
        if not isinstance(out, Tensor) or not out.is_floating_point():
            got = f"a tensor of {out.dtype}" if isinstance(out, Tensor) else f"a {type(out).__name__}"
            raise CairnError(f"{name} returns {got} for 2 {shown}; it must return {wanted}.")
        if out.dim() != 2 or len(out) != 2 or out.shape[1] != (width or out.shape[1]):
            raise CairnError(
                f"{name} returns a tensor of shape {tuple(out.shape)} for 2 {shown}; it must return {wanted}."
            )
        return out.shape[1]


def _made(role: str, name: str, make: MakeNetwork, spec: Spec) -> nn.Module:
    if not callable(make) or isinstance(make, nn.Module):
        raise CairnError(f"{role} is {name}; it must be a class or a function that makes an nn.Module from the spec.")
    try:
        made = make(spec)
    except CairnError:
        raise
    except Exception as error:  # it is not our code
        raise CairnError(f"{role}={name} could not be made: {type(error).__name__}: {error}") from error
    if not isinstance(made, nn.Module):
        raise CairnError(f"{role}={name} makes a {type(made).__name__}; it must make an nn.Module.")
    return made


def as_floats(columns: Tensor) -> Tensor:
    """Bytes [B, 4k] -> the float32 numbers [B, k] that they are. A traced file computes them: ONNX has no such view."""
    if torch._C._get_tracing_state() is None:
        return columns.clone(memory_format=torch.contiguous_format).view(torch.float32)
    least, second, third, most = columns.unflatten(1, (-1, 4)).double().unbind(2)
    negative, odd = (most >= 128).double(), (third >= 128).double()  # the sign, and the exponent's last bit
    exponent = 2 * (most - 128 * negative) + odd
    fraction = ((third - 128 * odd) * 65536 + second * 256 + least) / 2**23
    size = torch.where(exponent > 0, (1 + fraction) * torch.pow(2.0, exponent - 127), fraction * 2.0**-126)
    numbers: Tensor = (1 - 2 * negative) * size
    return numbers.float()


def as_shown(spec: Spec, rows: Tensor) -> Any:
    """Rows [B, ...] as a user's network gets them: without the mask, and with several parts as a dictionary."""
    if spec.parts:
        return {part.name: read_part(part, rows[:, at], spec) for part, at in slices(spec)}
    return rows[:, : spec.obs_shape[0] - spec.masked] if spec.masked else rows


def read_part(part: ObsPart, columns: Tensor, spec: Spec) -> Tensor:
    """A part [B, *shape] from its columns of rows [B, ...]."""
    if part.form != "image" and spec.in_bytes:
        assert columns.shape[1] == BYTES * part.entries
        columns = as_floats(columns)
    shown: Tensor = columns.unflatten(1, part.shape)
    return shown
