"""Why a task does not learn: probes of a task, and the advice they give."""

from __future__ import annotations

from cairn.doctor.finding import Finding
from cairn.doctor.process import diagnose

__all__ = ["Finding", "diagnose"]
