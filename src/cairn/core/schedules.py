"""Values that change over a run: callables of the share of steps done that print, and read, themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from cairn.core.checks import Range
from cairn.core.errors import CairnError


@dataclass(frozen=True)
class Schedule:
    """`start` at share 0, `end` from share `until` on, in a straight line or by a constant ratio between."""

    kind: str
    start: float
    end: float
    until: float = 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        return self.start, self.end

    def __call__(self, share: float) -> float:
        x = min(max(share / self.until, 0.0), 1.0)
        if self.kind == "exponential":
            return float(self.start * (self.end / self.start) ** x)
        return self.start + (self.end - self.start) * x

    def __str__(self) -> str:
        if self.kind == "constant":
            return repr(self.start)
        until = "" if self.until == 1.0 else f",{self.until!r}"
        return f"{self.kind}({self.start!r},{self.end!r}{until})"


Mixing = Literal["exponential", "harmonic", "linear"]


def mixing(kind: Mixing, n: int, *, start: float, decay: float) -> float:
    """αₙ, the share of trajectories an expert plays in iteration n: α₀dⁿ, α₀/(n+1) or α₀ max(0, 1 - n(1-d))."""
    if kind == "harmonic":
        return start / (n + 1)
    return start * (decay**n if kind == "exponential" else max(0.0, 1 - n * (1 - decay)))


Rate = Annotated[Schedule, Range(0)]
Share = Annotated[Schedule, Range(0, 1)]


def constant(value: float) -> Schedule:
    return Schedule("constant", value, value)


def linear(start: float, end: float, until: float = 1.0) -> Schedule:
    """From `start` to `end` in a straight line over the first `until` share of the run."""
    return Schedule("linear", start, end, until)


def exponential(start: float, end: float, until: float = 1.0) -> Schedule:
    """From `start` to `end` by a constant ratio; both above zero."""
    return Schedule("exponential", start, end, until)


_NUMBER = r"\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*"
_CALL = re.compile(rf"(linear|exponential)\({_NUMBER},{_NUMBER}(?:,{_NUMBER})?\)\Z")


def parse(text: str) -> Schedule:
    """'3e-4', 'linear(3e-4,0)' or 'exponential(1,0.05,0.5)' -> Schedule."""
    try:
        return constant(float(text))
    except ValueError:
        pass
    match = _CALL.match(text.strip())
    if match is None:
        raise CairnError(f"{text!r} is not a schedule; write a number, linear(start,end[,share]) or exponential(...).")
    kind, start, end, until = match.groups()
    schedule = Schedule(kind, float(start), float(end), float(until or 1.0))
    if not 0 < schedule.until <= 1:
        raise CairnError(f"the share in {text!r} must be greater than 0 and at most 1.")
    if kind == "exponential" and min(schedule.start, schedule.end) <= 0:
        raise CairnError(f"an exponential schedule needs two numbers above zero, not {text!r}.")
    return schedule
