"""User functions that a run calls at each log and each evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cairn.core.calls import must_take_one
from cairn.core.checks import short
from cairn.core.errors import CairnError

Event = Literal["log", "evaluation"]


@dataclass(frozen=True)
class TrainingProgress:
    """What a callback receives."""

    event: Event
    step: int  # environment steps taken
    steps: int  # those of the whole run
    seconds: float  # since the run was started, without the time between an interruption and a resume
    metrics: dict[str, float]  # as in metrics.csv
    agent: Any  # the model whose `learn` this is; with `cairn.train` the agent
    folder: Path | None  # of the run; None where it has none


Callback = Callable[[TrainingProgress], object]


class CallbackError(CairnError):
    """A callback raised an exception, which is the cause of this one. The run was saved before."""

    exit_code = 1


def _itself(agent: Any) -> Any:
    return agent


@dataclass
class Callbacks:
    """The callbacks of one run. `shown` maps the agent in training to what callbacks get as `agent`."""

    functions: tuple[Callback, ...] = ()
    shown: Callable[[Any], Any] = _itself
    error: Exception | None = None
    failed: str = ""  # message: which callback raised what, at which step
    asked_to_stop: bool = field(default=False, init=False)

    def tell(self, progress: TrainingProgress) -> None:
        """Call each in turn. After one has raised, none is called again."""
        if self.functions:
            progress = replace(progress, agent=self.shown(progress.agent))
        for function in self.functions if self.error is None else ():
            try:
                found = function(progress)
            except Exception as error:  # of the user's own code
                said = " ".join(str(error).split())
                self.error, self.asked_to_stop = error, True
                self.failed = (
                    f"callback {_name(function)} raised {type(error).__name__}{f': {said}' if said else ''}"
                    f" at step {progress.step:,}"
                )
                return
            self.asked_to_stop |= isinstance(found, (bool, np.bool_)) and not found

    def raise_error(self, saved: Path | None) -> None:
        """Raise CallbackError if a callback raised; `saved` is the checkpoint of that step."""
        if self.error is None:
            return
        after = "the model keeps what it has learned"
        if saved is not None:
            after = f"the run is saved in {saved}; correct the callback and resume the run"
        raise CallbackError(f"{self.failed}; {after}.") from self.error


def as_callbacks(given: Any) -> tuple[Callback, ...]:
    """One callback, a list of them or None, as a tuple. Raises CairnError for anything else."""
    functions = () if given is None else tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for one in functions:
        if not callable(one) or isinstance(one, type):
            what = f"the class {one.__name__}" if isinstance(one, type) else short(one)
            if hasattr(one, "_on_step"):  # a BaseCallback of Stable-Baselines3, or a class of it
                raise CairnError(
                    f"callback is {what}, which is made for Stable-Baselines3; write a function of one argument, the"
                    " progress of the run, that returns False to end it."
                )
            raise CairnError(
                f"callback is {what}; it must be a function of one argument, the progress of the run, or a list of such"
                " functions."
            )
        must_take_one(one, "callback", "the progress of the run")
    return functions


def _name(function: Callback) -> str:
    return getattr(function, "__name__", None) or type(function).__name__
