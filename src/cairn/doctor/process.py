"""The examination in a process of its own with a deadline: a task that hangs, crashes or eats memory stays there."""

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
from cairn.doctor import settings
from cairn.doctor.examine import examine, late
from cairn.doctor.finding import Finding, ordered
from cairn.doctor.task_probe import Case, TaskProbe
from cairn.envs.task import Task
from cairn.vector.pickling import pack, unpack
from cairn.vector.processes import hide_main

if TYPE_CHECKING:
    from cairn.algorithms.registry import AgentConfig

CALLS = ("", "make", "reset", "step", "close", "compute_reward")  # what a task can be asked; "" while it is not
HANG = 0.4  # of the time given: a call that takes longer counts as hanging
START = 30.0  # seconds a process may take to start, which do not count as the task's


@called()
def diagnose(
    make_env: str | Callable[[], gym.Env[Any, Any]],
    agent_config: AgentConfig | None = None,
    *,
    hindsight: bool = False,
    seconds: float = 60.0,
) -> list[Finding]:
    """What is wrong with a task, the gravest first. `make_env` is an id or a function that makes an environment.

    The discount is judged by the config of the agent that is to learn the task; without one γ is taken to be 0.99.
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
    return ordered(_examine_in_process(make, _with_config(case, agent_config)))


def _with_config(case: Case, cfg: AgentConfig | None) -> Case:
    """The case with what an algorithm's config says about it. A hierarchy always relabels goals."""
    if cfg is None:
        return replace(case, assumed=True)
    return replace(
        case,
        gamma=settings.discount_per_step(cfg),
        hindsight=case.hindsight or settings.is_hierarchy(cfg),
        normalises=settings.normalises_observations(cfg),
    )


def _examine_in_process(make: Callable[[], gym.Env[Any, Any]], case: Case) -> list[Finding]:
    try:
        packed = pack(make)
    except Exception as error:
        reason = f"it cannot be sent to another process: {type(error).__name__}: {error}"
        return [Finding("cannot-make", "error", "The task cannot be made.", reason, "Make it inside the function.")]
    context = mp.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    call, since = context.RawValue("i", 0), context.RawValue("d", 0.0)
    with tempfile.TemporaryDirectory(prefix="cairn-doctor-") as folder:
        output = Path(folder) / "output"
        args = (theirs, packed, case, call, since, str(output))
        process = context.Process(target=_child, args=args, daemon=True)
        with hide_main():
            process.start()
        theirs.close()
        try:
            findings = _listen(ours, case, call, since)
        finally:
            process.kill()
            process.join()
        if findings and findings[-1].code == "dies" and output.exists():
            last = [line for line in output.read_text(errors="replace").splitlines() if line.strip()][-1:]
            findings[-1] = replace(findings[-1], evidence="; ".join([findings[-1].evidence, *last]))
    return findings


def _listen(pipe: Connection, case: Case, call: Any, since: Any) -> list[Finding]:
    """Findings until the child is done, is lost, hangs or is out of time.

    `call` is the index in CALLS of the call that the task is in, and `since` when it began, in shared memory.
    """
    findings: list[Finding] = []
    deadline = time.monotonic() + START
    started = False
    while time.monotonic() < deadline:
        try:
            if pipe.poll(0.05):
                message = pipe.recv()
                if message is None:
                    return findings
                if isinstance(message, Finding):
                    findings.append(message)
                elif not started:
                    started, deadline = True, time.monotonic() + case.seconds
        except (EOFError, ConnectionResetError):
            return [*findings, _dead(CALLS[call.value])]
        if call.value and time.monotonic() - since.value > HANG * case.seconds:
            return [*findings, _hung(CALLS[call.value], time.monotonic() - since.value)]
    return [*findings, late(case.seconds, ["what had not been found by then"])]


def _hung(call: str, seconds: float) -> Finding:
    return Finding(
        "hangs",
        "error",
        f"{call}() does not return.",
        f"no answer for {seconds:.1f} s",
        f"Look for an endless loop or a blocking call; with {option('seconds')} it is given longer.",
    )


def _dead(call: str) -> Finding:
    during = f" during {call}()" if call else ""
    return Finding(
        "dies",
        "error",
        f"The task ends its whole process{during}.",
        "the process ended without a message",
        "Look for a fault of the simulator, os._exit, or memory that ran out.",
    )


def _child(pipe: Connection, make: bytes, case: Case, call: Any, since: Any, output: str) -> None:
    """The main function of the process. What the task prints goes to a file: its last line may say why it died."""
    out = os.open(output, os.O_WRONLY | os.O_CREAT)
    for number in (1, 2):
        os.dup2(out, number)

    def note(name: str) -> None:
        since.value = time.monotonic()
        call.value = CALLS.index(name)

    maker = cache(lambda: unpack(make))  # once, inside a probe: what it raises is a finding

    def make_env() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = maker()()
        return env

    pipe.send("started")
    for finding in examine(TaskProbe(make_env, case, note)):
        pipe.send(finding)
    pipe.send(None)
