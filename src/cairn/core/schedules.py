"""Schedules: values that change over a run, as functions of the finished share of it, written as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal

from cairn.core.checks import Range, fit, short
from cairn.core.errors import CairnError

KINDS = ("constant", "linear", "exponential")


@dataclass(frozen=True)
class Schedule:
    """`start` at share 0, `end` from share `until` on; between them a straight line or a constant ratio."""

    kind: str
    start: float
    end: float
    until: float = 1.0

    words: ClassVar[str] = 'a number, or a schedule such as "linear(3e-4,0)" or "exponential(1,0.05,0.5)"'

    def __post_init__(self) -> None:
        """Convert NumPy numbers; raise CairnError for invalid values."""
        if self.kind not in KINDS:
            raise CairnError(f"a schedule is {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {short(self.kind)}.")
        for name in ("start", "end", "until"):
            object.__setattr__(self, name, fit(f"the {name} of a schedule", getattr(self, name), float))
        if not 0 < self.until <= 1:
            raise CairnError(f"the share in {self} must be greater than 0 and at most 1.")
        if self.kind == "exponential" and min(self.start, self.end) <= 0:
            raise CairnError(f"an exponential schedule needs two numbers above zero, not {self}.")

    @classmethod
    def read(cls, name: str, value: Any, otherwise: Any) -> Any:
        """A schedule from a number, a text or a schedule; `otherwise` from any other value. See `checks.fit`."""
        if isinstance(value, Schedule):
            return value
        if isinstance(value, str):
            return parse(value, name)
        if isinstance(value, Real) and not isinstance(value, bool):
            return constant(fit(name, value, float))
        if callable(value):
            raise CairnError(f"{name} is a function, which cannot be saved with a run; write {cls.words}.")
        return otherwise

    @property
    def bounds(self) -> tuple[float, float]:
        """`start` and `end`, between which every value lies."""
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
    """αₙ, the share of trajectories that the expert plays in iteration n: α₀dⁿ, α₀/(n+1) or α₀ max(0, 1 - n(1-d))."""
    if kind == "harmonic":
        return start / (n + 1)
    return start * (decay**n if kind == "exponential" else max(0.0, 1 - n * (1 - decay)))


Rate = Annotated[Schedule, Range(0)]
Share = Annotated[Schedule, Range(0, 1)]


def constant(value: float) -> Schedule:
    """The same value for the whole run."""
    return Schedule("constant", value, value)


def linear(start: float, end: float, until: float = 1.0) -> Schedule:
    """From `start` to `end` in a straight line over the first `until` share of the run, then `end`."""
    return Schedule("linear", start, end, until)


def exponential(start: float, end: float, until: float = 1.0) -> Schedule:
    """From `start` to `end`, both above zero, by a constant ratio over the first `until` share, then `end`."""
    return Schedule("exponential", start, end, until)


_NUMBER = r"\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*"
_CALL = re.compile(rf"(linear|exponential)\({_NUMBER},{_NUMBER}(?:,{_NUMBER})?\)\Z")


def parse(text: str, name: str = "") -> Schedule:
    """'3e-4', 'linear(3e-4,0)' or 'exponential(1,0.05,0.5)' -> Schedule. Messages call the setting `name`."""
    try:
        return constant(fit(name or "a schedule", float(text), float))
    except (ValueError, TypeError):
        pass
    match = _CALL.match(text.strip()) if isinstance(text, str) else None
    try:
        kind, start, end, until = match.groups() if match is not None else ("", "", "", "")
        return Schedule(kind, float(start), float(end), float(until or 1.0))
    except ValueError:  # such as 1.2.3
        told = f"{name} is {short(text)}, which" if name else short(text)
        raise CairnError(
            f"{told} is not a schedule; write a number, linear(start,end[,share]) or exponential(...)."
        ) from None
