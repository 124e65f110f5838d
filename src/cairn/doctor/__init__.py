"""The doctor: finds out why a task does not learn, by probes of the task, and gives advice."""

from __future__ import annotations

from cairn.doctor.finding import Finding
from cairn.doctor.process import diagnose

__all__ = ["Finding", "diagnose"]
