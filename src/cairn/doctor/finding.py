"""A finding of the doctor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "hint"]
_RANKS: dict[str, int] = {"error": 0, "warning": 1, "hint": 2}


@dataclass(frozen=True)
class Finding:
    """One thing about a task. `code` never changes its meaning; docs/doctor.md explains each.

    error: learning fails or learns something else; warning: it is likely to; hint: worth knowing.
    """

    code: str
    severity: Severity
    what: str  # one sentence
    evidence: str  # what was measured
    remedy: str  # what to do about it

    def __str__(self) -> str:
        return f"{self.severity}: {self.what} [{self.code}]\n    measured: {self.evidence}\n    remedy: {self.remedy}"


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The gravest first; among equals, in the order they were found, which is that of likely causes."""
    return sorted(findings, key=lambda finding: _RANKS[finding.severity])


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
