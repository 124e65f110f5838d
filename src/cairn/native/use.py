"""Which form the arithmetic of a run has, and putting it in place of an agent's own for as long as the run lasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

from torch import nn

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.native.compiled import CompiledCore
from cairn.native.library import library
from cairn.native.networks import Core, PlainCore

Form = Literal["auto", "compiled", "python", "off"]


class ByHand(Protocol):
    """What an algorithm does by hand, for one agent."""

    def install(self) -> None:
        """Put it in place of what the agent does itself."""

    def remove(self) -> None:
        """Give the agent back what it had."""


class MakeByHand(Protocol):
    """The class of a `ByHand`."""

    def __call__(self, agent: Any, core: Core) -> ByHand: ...
    def refusal(self, agent: Any) -> str:
        """Why this agent cannot be trained this way: a clause; "" if it can."""


Able = Sequence[tuple[Any, MakeByHand | None]]  # an agent, or the levels of one, and what its algorithm has


def resolved(asked: Form, able: Able) -> Form:
    """The form that a new run has: never "auto". Raises CairnError where the one that was asked for cannot be had."""
    if asked == "off":
        return asked
    why = next((said for agent, make in able if (said := _refusal(agent, make))), "")
    missing = library()[1] if asked in ("auto", "compiled") else ""
    if asked == "auto":
        return "off" if why or missing else "compiled"
    if why:
        raise CairnError(f"this agent cannot be trained with {option('native', asked)}: {why}; use auto or off.")
    if missing:
        raise CairnError(
            f"{option('native', 'compiled')} needs the native core, and {missing}; build it with"
            " `cairn native --build`, or use python, auto or off."
        )
    return asked


def _refusal(agent: Any, make: MakeByHand | None) -> str:
    if make is None:
        return "its algorithm has no such form"
    nets = [part for part in agent.policy_parts.values() if isinstance(part, nn.Module)]
    if any(not p.requires_grad or p._backward_hooks for net in nets for p in net.parameters()):
        return "some of its parameters are frozen or have hooks, which autograd alone observes"
    return make.refusal(agent)


def changed_form(stored: Form) -> str:
    """A sentence where a run that is resumed must go on in another form than it was trained in; "" where not."""
    if stored != "compiled" or not library()[1]:
        return ""
    return (
        f"this run was trained with the native core, and here {library()[1]}: it goes on with the same arithmetic in"
        " PyTorch, which rounds differently. `cairn native --build` builds the core."
    )


@contextmanager
def by_hand(form: Form, able: Able) -> Iterator[None]:
    """Context in which these agents learn in this form; "compiled" is "python" where there is no library."""
    if form == "off":
        yield
        return
    lib = library()[0] if form == "compiled" else None
    core: Core = PlainCore() if lib is None else CompiledCore(lib)
    made = [make(agent, core) for agent, make in able if make is not None]
    for one in made:
        one.install()
    try:
        yield
    finally:
        for one in made:
            one.remove()
