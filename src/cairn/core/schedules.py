"""Values that change over a run: callables of the share of steps done that print, and read, themselves."""

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
    """`start` at share 0, `end` from share `until` on, in a straight line or by a constant ratio between."""

    kind: str
    start: float
    end: float
    until: float = 1.0

    words: ClassVar[str] = 'a number, or a schedule such as "linear(3e-4,0)" or "exponential(1,0.05,0.5)"'

    def __post_init__(self) -> None:
        """CairnError where it is no schedule; numbers of NumPy become Python's."""
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
        """A schedule from a number, its text or itself; `otherwise` from anything else. See `checks.fit`."""
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


def parse(text: str, name: str = "") -> Schedule:
    """'3e-4', 'linear(3e-4,0)' or 'exponential(1,0.05,0.5)' -> Schedule. `name` is the setting's, for a sentence."""
    try:
        return constant(fit(name or "a schedule", float(text), float))
    except (ValueError, TypeError):
        pass
    match = _CALL.match(text.strip()) if isinstance(text, str) else None
    try:
        kind, start, end, until = match.groups() if match is not None else ("", "", "", "")
        return Schedule(kind, float(start), float(end), float(until or 1.0))
    except ValueError:  # 1.2.3 is no number
        told = f"{name} is {short(text)}, which" if name else short(text)
        raise CairnError(
            f"{told} is not a schedule; write a number, linear(start,end[,share]) or exponential(...)."
        ) from None
