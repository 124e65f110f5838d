"""The examination in a process of its own with a deadline: a task may hang, crash or eat memory, and harm nobody."""

from __future__ import annotations

import math
import multiprocessing as mp
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from cairn.core.calls import called, option
from cairn.core.checks import fit
from cairn.core.errors import CairnError
from cairn.doctor.examine import examine, late
from cairn.doctor.finding import Finding, ordered
from cairn.doctor.task_probe import Case, TaskProbe
from cairn.envs.task import Task
from cairn.vector.pickling import pack, unpack
from cairn.vector.processes import hide_main

if TYPE_CHECKING:
    from cairn.algorithms.registry import AgentConfig

ASKED = ("", "make", "reset", "step", "close", "compute_reward")
PATIENCE = 0.4  # of the time given: a task that does not answer for so long hangs
START = 30.0  # seconds a process may take to begin, which is not the task's time


@called()
def diagnose(
    make_env: str | Callable[[], gym.Env[Any, Any]],
    agent_config: AgentConfig | None = None,
    *,
    hindsight: bool = False,
    seconds: float = 60.0,
) -> list[Finding]:
    """What is wrong with a task, the gravest first. `make_env` is an id or a function that makes an environment.

    With the agent that is to learn it, its discount is judged as well; else γ is taken to be 0.99.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise CairnError(f"diagnose takes seconds above 0, not {seconds!r}.")
    make = Task(make_env) if isinstance(make_env, str) else make_env
    if not callable(make):
        raise CairnError("diagnose takes an id, or a function that makes an environment; it makes its own copies.")
    hindsight = fit("hindsight", hindsight, bool)
    if agent_config is not None and not is_dataclass(agent_config):
        raise CairnError(f"diagnose takes an agent's config, such as cairn.PPOConfig(), not {agent_config!r}.")
    name = make.id if isinstance(make, Task) else getattr(make_env, "__name__", "the task")
    case = Case(name=name, hindsight=hindsight, seconds=seconds)
    return ordered(_examined(make, _with(case, agent_config)))


def _with(case: Case, cfg: Any) -> Case:
    """What an agent's config says that matters here. A hierarchy looks as far as its high level, c steps a time."""
    if cfg is None:
        return replace(case, assumed=True)
    if hasattr(cfg, "high"):
        gamma = max(0.0, 1 - (1 - float(cfg.high.gamma)) / int(cfg.every))
        return replace(case, gamma=gamma, hindsight=True, normalises=_normalises(cfg.low))
    cfg = getattr(cfg, "learner", cfg)
    gamma = float(getattr(cfg, "gamma", case.gamma))
    return replace(case, gamma=gamma, normalises=_normalises(cfg))


def _normalises(cfg: Any) -> bool:
    return bool(getattr(cfg, "normalise", False) or getattr(cfg, "normalise_obs", False))


def _examined(make: Callable[[], gym.Env[Any, Any]], case: Case) -> list[Finding]:
    try:
        packed = pack(make)
    except Exception as error:
        told = f"it cannot be sent to another process: {type(error).__name__}: {error}"
        return [Finding("cannot-make", "error", "The task cannot be made.", told, "Make it inside the function.")]
    context = mp.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    asked, since = context.RawValue("i", 0), context.RawValue("d", 0.0)
    with tempfile.TemporaryDirectory(prefix="cairn-doctor-") as folder:
        said = Path(folder) / "said"
        args = (theirs, packed, case, asked, since, str(said))
        process = context.Process(target=_child, args=args, daemon=True)
        with hide_main():
            process.start()
        theirs.close()
        try:
            found = _listen(ours, case, asked, since)
        finally:
            process.kill()
            process.join()
        if found and found[-1].code == "dies" and said.exists():
            last = [line for line in said.read_text(errors="replace").splitlines() if line.strip()][-1:]
            found[-1] = replace(found[-1], evidence="; ".join([found[-1].evidence, *last]))
    return found


def _listen(pipe: Connection, case: Case, asked: Any, since: Any) -> list[Finding]:
    """Findings until the child is done, is lost, hangs or is out of time."""
    found: list[Finding] = []
    deadline = time.monotonic() + START
    begun = False
    while time.monotonic() < deadline:
        try:
            if pipe.poll(0.05):
                message = pipe.recv()
                if message is None:
                    return found
                if isinstance(message, Finding):
                    found.append(message)
                elif not begun:
                    begun, deadline = True, time.monotonic() + case.seconds
        except (EOFError, ConnectionResetError):
            return [*found, _dead(asked.value)]
        if asked.value and time.monotonic() - since.value > PATIENCE * case.seconds:
            return [*found, _hung(asked.value, time.monotonic() - since.value)]
    return [*found, late(case.seconds, ["what had not been found by then"])]


def _hung(asked: int, seconds: float) -> Finding:
    what = ASKED[asked]
    return Finding(
        "hangs",
        "error",
        f"{what}() does not come back.",
        f"no answer for {seconds:.1f} s",
        f"Look for a loop without an end or a wait for something outside; with {option('seconds')} it is given longer.",
    )


def _dead(asked: int) -> Finding:
    during = f" during {ASKED[asked]}()" if asked else ""
    return Finding(
        "dies",
        "error",
        f"The task takes its whole process down{during}.",
        "the process ended without a word",
        "Look for a fault of the simulator, os._exit, or memory that ran out.",
    )


def _child(pipe: Connection, make: bytes, case: Case, asked: Any, since: Any, said: str) -> None:
    """What the task prints goes to a file: its last words may tell why it died."""
    out = os.open(said, os.O_WRONLY | os.O_CREAT)
    for number in (1, 2):
        os.dup2(out, number)
    index = {what: i for i, what in enumerate(ASKED)}

    def note(what: str) -> None:
        since.value = time.monotonic()
        asked.value = index[what]

    maker = cache(lambda: unpack(make))  # once; what it raises is the task's doing

    def made() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = maker()()
        return env

    pipe.send("begun")
    for finding in examine(TaskProbe(made, case, note)):
        pipe.send(finding)
    pipe.send(None)
