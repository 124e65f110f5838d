"""The examination in a separate process with a deadline, which a task cannot hang, crash or exhaust."""

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
from cairn.envs.given import EnvLikes
from cairn.envs.task import Task, as_task
from cairn.vector.pickling import pack, unpack
from cairn.vector.processes import hide_main

if TYPE_CHECKING:
    from cairn.algorithms.registry import AgentConfig

CALLS = ("", "make", "reset", "step", "close", "compute_reward")  # the calls of a task; "" between calls
HANG = 0.4  # share of the time after which a call counts as hanging
START = 30.0  # seconds for the process to start, not counted as the task's


@called()
def diagnose(
    make_env: EnvLikes | Task,
    agent_config: AgentConfig | None = None,
    *,
    hindsight: bool = False,
    seconds: float = 60.0,
) -> list[Finding]:
    """Find out what keeps an agent from learning a task.

    The task runs in a separate process, so it may hang or crash.

    Args:
        make_env: A Gymnasium id, a `Task`, a class, a function that makes an environment, or an environment that can
            be copied.
        agent_config: Config of the agent that is to learn the task, such as `PPOConfig()`; its discount is compared
            with
            the task. Without one, γ = 0.99 is assumed.
        hindsight: Whether the agent uses hindsight replay, which needs a correct reward rule.
        seconds: Time limit of the examination.

    Returns:
        The findings, the most severe first; [] where nothing was found.

    Raises:
        CairnError: An argument is invalid. Errors of the task are findings.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise CairnError(f"diagnose takes seconds above 0, not {seconds!r}.")
    task = as_task(make_env)
    if task.make is not None and task.make.kind in ("vector", "functions"):
        raise CairnError(f"diagnose takes one environment at a time, not {task.make.what}.")
    (make, _) = task.makers(2)  # CairnError where no copies can be made
    if task.make is not None and task.make.kind == "function" and not isinstance(make_env, Task):
        make = task.make.value  # what it raises is a finding
    hindsight = fit("hindsight", hindsight, bool)
    if agent_config is not None and not is_dataclass(agent_config):
        raise CairnError(f"diagnose takes an agent's config, such as cairn.PPOConfig(), not {agent_config!r}.")
    name = task.id
    case = Case(name=name, hindsight=hindsight, seconds=seconds)
    return ordered(_examine_in_process(make, _with_config(case, agent_config)))


def _with_config(case: Case, cfg: AgentConfig | None) -> Case:
    """The case, completed from an algorithm's config. A hierarchy always relabels goals."""
    if cfg is None:
        return replace(case, assumed=True)
    return replace(
        case,
        gamma=settings.discount_per_step(cfg),
        hindsight=case.hindsight or settings.is_hierarchy(cfg),
        normalises=settings.normalises_observations(cfg),
        remembers=settings.remembers(cfg),
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
    """Collect findings until the child process is done, is lost, hangs or is out of time.

    `call` is the index in CALLS of the task's current call, and `since` its start time, in shared memory.
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
    """The main function of the process. The task's output goes to a file, whose last line may explain a crash."""
    out = os.open(output, os.O_WRONLY | os.O_CREAT)
    for number in (1, 2):
        os.dup2(out, number)

    def note(name: str) -> None:
        since.value = time.monotonic()
        call.value = CALLS.index(name)

    maker = cache(lambda: unpack(make))  # once, and inside a probe, so that its errors become findings

    def make_env() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = maker()()
        return env

    pipe.send("started")
    for finding in examine(TaskProbe(make_env, case, note)):
        pipe.send(finding)
    pipe.send(None)
