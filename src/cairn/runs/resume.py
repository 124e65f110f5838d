"""What may change when a run is resumed, from the command line and from Python.

Resuming is exact: whatever would change the resulting weights is refused. What may change is the machine, the logging,
when the run stops, and the number of steps, upwards.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from pathlib import Path

from cairn.algorithms.registry import agent_name
from cairn.algorithms.settings import capacities, capped_capacity, most_useful
from cairn.core.errors import CairnError
from cairn.core.serialise import to_json
from cairn.core.untrusted import shown
from cairn.recipes.identity import RESUMABLE, differences
from cairn.recipes.recipe import Recipe

ADVICE = " Leave it as it was, or start a new run in another folder."
ALIKE = {"sync", "async", "mujoco"}  # backends that give equal steps


def continued(stored: Recipe, asked: Recipe, folder: Path, first: int | None = None) -> Recipe:
    """The recipe with which a run continues. Raises CairnError for the first setting that may not change.

    `first` is the number of steps that the run was started with, if known: it determines the size of the replay.
    """
    if type(asked.agent) is not type(stored.agent):
        theirs, mine = agent_name(stored.agent), agent_name(asked.agent)
        raise CairnError(f"{folder} holds a run of {theirs}; it cannot be resumed as {mine}.{ADVICE}")
    if asked.steps < stored.steps:
        raise CairnError(
            f"{folder} holds a run of {stored.steps:,} steps; its steps can be raised, but not lowered to"
            f" {asked.steps:,}."
        )
    vector = stored.vector if asked.vector == "auto" else asked.vector
    native = stored.native if asked.native == "auto" else asked.native
    most = capacities(stored.agent) if first is None else most_useful(asked.agent, first)
    same = replace(asked, agent=capped_capacity(asked.agent, most), vector=vector, native=native)
    free = RESUMABLE | (set() if stored.vector == "ray" else {"workers"})
    free |= {"vector"} if {stored.vector, vector} <= ALIKE else set()
    for name, was, now in differences(to_json(stored), to_json(same)):
        if name not in free:
            raise CairnError(
                f"{folder} holds a run with {name} {shown(was, 60)}; it cannot be resumed with {shown(now, 60)}."
                f"{ADVICE}"
            )
    return same


def kept_small(asked: Recipe, same: Recipe, first: int) -> list[str]:
    """A sentence for each replay that is smaller than it would be in a new run with these settings."""
    wanted = capacities(capped_capacity(asked.agent, most_useful(asked.agent, same.steps)))
    most = most_useful(same.agent, first)
    return [
        f"the replay stays at {size:,} transitions ({_named(part)}), as the run was started; a new run would have more."
        for part, size in capacities(same.agent).items()
        if wanted[part] > size or (same.steps > first and size == most[part])
    ]


def _named(part: str) -> str:
    return f"agent.{part}.capacity" if part else "agent.capacity"


def check_recipe(stored: Recipe, named: Recipe, folder: Path, known: Container[str]) -> None:
    """Raise CairnError where the user names another recipe than that of the run in `folder`.

    If the run has its own name, task and agent are compared.
    """
    told = f"{folder} holds a run of {shown(stored.name or stored.env, 60)}"
    if stored.name in known and named.name in known and stored.name != named.name:
        raise CairnError(f"{told}, not of {named.name}.{ADVICE}")
    if stored.env != named.env:
        raise CairnError(
            f"{told} on {shown(stored.env, 60)}; it cannot be resumed with {shown(named.env, 60)}.{ADVICE}"
        )
    if type(stored.agent) is not type(named.agent):
        raise CairnError(
            f"{told}, by {agent_name(stored.agent)}; it cannot be resumed as {agent_name(named.agent)}.{ADVICE}"
        )
