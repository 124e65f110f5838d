"""A finding of the doctor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "hint"]
_RANKS: dict[str, int] = {"error": 0, "warning": 1, "hint": 2}


@dataclass(frozen=True)
class Finding:
    """A fact about a task that can keep an agent from learning it. docs/reference/findings.md explains each code.

    Attributes:
        code: Identifies the kind of finding; its meaning never changes.
        severity: error: learning fails, or learns something else; warning: it probably does; hint: worth knowing.
        what: What is wrong, in one sentence.
        evidence: What was measured.
        remedy: What to do about it.
    """

    code: str
    severity: Severity
    what: str  # one sentence
    evidence: str  # what was measured
    remedy: str  # what to do about it

    def __str__(self) -> str:
        return f"{self.severity}: {self.what} [{self.code}]\n    measured: {self.evidence}\n    remedy: {self.remedy}"


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The most severe first; among equals in the order they were found, which is that of likely causes."""
    return sorted(findings, key=lambda finding: _RANKS[finding.severity])


def plural(count: int, word: str) -> str:
    """A count and its noun, such as 1 step or 2 steps."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
