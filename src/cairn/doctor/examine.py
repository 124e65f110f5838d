"""Runs all probes on one task, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cairn.core.errors import CairnError
from cairn.doctor.copies import Raised
from cairn.doctor.finding import Finding
from cairn.doctor.probes import FIRST, PROBES, Probe
from cairn.doctor.task_probe import TaskProbe
from cairn.envs.masks import MaskFault

RESERVE = 0.1  # share of the time at the end in which no probe is started


def examine(p: TaskProbe, probes: Sequence[Probe] = PROBES) -> Iterator[Finding]:
    """Yield findings as they are made. Whatever the task raises becomes a finding."""
    try:
        for probe in FIRST:
            findings = list(_run(p, probe))
            yield from findings
            if any(finding.severity == "error" for finding in findings):
                return
        yield from _all(p, probes)
    finally:
        p.close()


def _all(p: TaskProbe, probes: Sequence[Probe]) -> Iterator[Finding]:
    reported: set[tuple[str, str]] = set()
    for i, probe in enumerate(probes):
        if p.left < RESERVE * p.case.seconds:
            yield late(p.case.seconds, [_name(one) for one in probes[i:]])
            return
        for finding in _run(p, probe):
            if (finding.code, finding.evidence) not in reported:  # a task that raises does so in every probe
                reported.add((finding.code, finding.evidence))
                yield finding


def _run(p: TaskProbe, probe: Probe) -> Iterator[Finding]:
    try:
        yield from probe(p)
    except Raised as raised:
        yield _of(raised)
    except Exception as error:  # an error in a probe must not stop the others
        what = f"The probe {_name(probe)} could not be made."
        yield Finding("not-examined", "hint", what, f"{type(error).__name__}: {error}", "Please report it as an issue.")


def _of(raised: Raised) -> Finding:
    if raised.during == "make":
        reason = str(raised.error) if isinstance(raised.error, CairnError) else str(raised)
        return Finding(
            "cannot-make",
            "error",
            "The task cannot be made.",
            reason,
            "Fix the error it names, then run the doctor again.",
        )
    if isinstance(raised.error, MaskFault):
        return Finding(
            "mask-wrong",
            "error",
            "A mask does not fit the actions.",
            f"reset() or step() returned {raised.error}",
            "A mask has a 1 for each allowed option and a 0 for each other, for every choice of the action in turn, and"
            " allows at least one option of each.",
        )
    if raised.during == "observation":
        return Finding(
            "obs-shape",
            "error",
            "An observation does not fit its space.",
            str(raised),
            "Make observation_space and observation agree, with finite numbers.",
        )
    if raised.allowed:
        return Finding(
            "mask-contradicts",
            "error",
            "step() raises an error for an action that its mask allows.",
            _where(raised),
            "Let the mask forbid it, or let step() accept it; the mask must be that of the latest observation.",
        )
    return Finding(
        "raises",
        "error",
        f"{raised.during}() raises an error.",
        _where(raised),
        "Fix it: step() must accept every action of the action space.",
    )


def _where(raised: Raised) -> str:
    """The error, and the innermost line it came from."""
    trace, place = raised.error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f" ({code.co_filename.rsplit('/', 1)[-1]}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return f"{raised}{place}"


def late(seconds: float, names: Sequence[str]) -> Finding:
    """The finding that probes with these names were skipped after `seconds`."""
    return Finding(
        "out-of-time",
        "hint",
        "There was not enough time to examine everything.",
        f"{seconds:g} s; not examined: {', '.join(names)}",
        "Raise the time limit (seconds).",
    )


def _name(probe: Probe) -> str:
    return f"{probe.__module__.rsplit('.', 1)[-1]}.{getattr(probe, '__name__', 'probe')}"
