"""All probes on one task, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cairn.core.errors import CairnError
from cairn.doctor.finding import Finding
from cairn.doctor.probes import FIRST, PROBES, Probe
from cairn.doctor.task_probe import Raised, TaskProbe

RESERVE = 0.1  # of the time given: probes are not begun within it


def examine(p: TaskProbe, probes: Sequence[Probe] = PROBES) -> Iterator[Finding]:
    """Findings as they are made. Whatever the task does is a finding, not an error."""
    try:
        for probe in FIRST:
            found = list(_tried(p, probe))
            yield from found
            if any(finding.severity == "error" for finding in found):
                return
        yield from _all(p, probes)
    finally:
        p.close()


def _all(p: TaskProbe, probes: Sequence[Probe]) -> Iterator[Finding]:
    said: set[tuple[str, str]] = set()
    for i, probe in enumerate(probes):
        if p.left < RESERVE * p.case.seconds:
            yield late(p.case.seconds, [_name(one) for one in probes[i:]])
            return
        for finding in _tried(p, probe):
            if (finding.code, finding.evidence) not in said:  # a task that raises does so for every probe
                said.add((finding.code, finding.evidence))
                yield finding


def _tried(p: TaskProbe, probe: Probe) -> Iterator[Finding]:
    try:
        yield from probe(p)
    except Raised as raised:
        yield _of(raised)
    except Exception as error:  # ours, and no reason to say nothing else
        what = f"The probe {_name(probe)} could not be made."
        yield Finding("not-examined", "hint", what, f"{type(error).__name__}: {error}", "Report it, please.")


def _of(raised: Raised) -> Finding:
    if raised.during == "make":
        told = str(raised.error) if isinstance(raised.error, CairnError) else str(raised)
        return Finding("cannot-make", "error", "The task cannot be made.", told, "Mend what it names, then ask again.")
    return Finding(
        "raises",
        "error",
        f"{raised.during}() raises an error.",
        _where(raised),
        "Mend it; an action within the action space must be taken without complaint.",
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
    return Finding(
        "out-of-time",
        "hint",
        "There was not enough time to examine everything.",
        f"{seconds:g} s; not examined: {', '.join(names)}",
        "Give it more seconds.",
    )


def _name(probe: Probe) -> str:
    return f"{probe.__module__.rsplit('.', 1)[-1]}.{getattr(probe, '__name__', 'probe')}"
