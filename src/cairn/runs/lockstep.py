"""Runs of one process as coroutines: one at a time, each goes on where it stopped.

A run stops where it would wait for its environments (`pause`), where it asks for something that the device can do for
several runs at once (`meet`), and before each step (`wait`). When no run can go on, the requests are answered, those of
one kind together. If there are none, all runs have come to their next step, and begin it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import torch

from cairn.core.errors import CairnError
from cairn.core.turns import taking_turns

Found = TypeVar("Found")


class Joint(Protocol):
    """A request that can be answered together with others of its kind."""

    kind: Hashable

    def answer(self, requests: Sequence[Any]) -> Sequence[Any]:
        """The results of all these requests, this one among them, in their order."""


@dataclass
class _Run(Generic[Found]):
    """One run: its coroutine, the state of torch while it rests, and its request."""

    routine: Any
    threads: int
    grad: bool = True
    waits: bool = False
    request: Joint | None = None
    value: Any = None  # the answer to the request
    error: Exception | None = None  # or what was raised instead
    result: Found | None = None
    fault: Exception | None = None


@dataclass
class Lockstep(Generic[Found]):
    """Runs functions together in this thread; implements `Turns` for them."""

    runs: list[_Run[Found]] = field(default_factory=list)
    now: _Run[Found] | None = None
    hub: Any = None

    def run(self, jobs: Sequence[Callable[[], Found]]) -> list[Found | Exception]:
        """Run all to their ends. Where one raised an Exception, this is its result; other errors end all."""
        greenlets = _greenlets()
        self.hub = greenlets.getcurrent()
        threads = torch.get_num_threads()
        self.runs = [_Run(greenlets.greenlet(self._kept(i, job)), threads) for i, job in enumerate(jobs)]
        try:
            with taking_turns(self):
                while going := [one for one in self.runs if not one.routine.dead]:
                    free = [one for one in going if one.request is None and not one.waits]
                    for one in free:
                        self._resume(one)
                    if not free:
                        self._answer(going)
        finally:
            self._end(greenlets.GreenletExit)
            torch.set_num_threads(threads)
        return [one.fault or one.result for one in self.runs]  # type: ignore[misc]

    def pause(self) -> None:
        self._rest()

    def wait(self) -> None:
        assert self.now is not None
        self.now.waits = True
        self._rest()

    def meet(self, request: Joint) -> Any:
        """See `Turns`."""
        one = self.now
        assert one is not None
        one.request = request
        self._rest()
        if one.error is not None:
            error, one.error = one.error, None
            raise error
        value, one.value = one.value, None
        return value

    def _kept(self, i: int, job: Callable[[], Found]) -> Callable[[], None]:
        def kept() -> None:
            try:
                self.runs[i].result = job()
            except Exception as error:
                self.runs[i].fault = error

        return kept

    def _resume(self, one: _Run[Found]) -> None:
        """Let a run go on until it rests. Threads and gradients are as it left them: contexts of runs overlap."""
        if torch.get_num_threads() != one.threads:
            torch.set_num_threads(one.threads)
        self.now = one
        with torch.set_grad_enabled(one.grad):
            one.routine.switch()
        self.now = None
        one.threads = torch.get_num_threads()

    def _rest(self) -> None:
        one = self.now
        assert one is not None
        one.grad = torch.is_grad_enabled()
        self.hub.switch()

    def _answer(self, going: Sequence[_Run[Found]]) -> None:
        """Answer the requests, those of one kind at once; without any, let all begin their next step."""
        kinds: dict[Hashable, list[_Run[Found]]] = {}
        for one in going:
            if one.request is not None:
                kinds.setdefault(one.request.kind, []).append(one)
        if not kinds:
            for one in going:
                one.waits = False
        for alike in kinds.values():
            requests = [one.request for one in alike if one.request is not None]
            try:
                found = requests[0].answer(requests)
            except Exception as error:
                for one in alike:
                    one.request, one.error = None, error
                continue
            for one, value in zip(alike, found, strict=True):
                one.request, one.value = None, value

    def _end(self, stop: type[BaseException]) -> None:
        """Leave the runs that have not ended, so that they close what they opened."""
        for one in self.runs:
            while not one.routine.dead:
                self.now = one
                one.routine.throw(stop)
        self.now = None


def must_have_greenlets() -> None:
    """Raise CairnError if the package of coroutines is not installed."""
    if importlib.util.find_spec("greenlet") is None:
        raise CairnError("training seeds together needs an extra: pip install 'cairn-rl[together]'.")


def _greenlets() -> Any:
    must_have_greenlets()
    import greenlet

    return greenlet
