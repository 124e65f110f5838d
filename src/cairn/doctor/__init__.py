"""Why a task does not learn: probes of a task, and the advice they give."""

from __future__ import annotations

from cairn.doctor.child import diagnose
from cairn.doctor.finding import Finding

__all__ = ["Finding", "diagnose"]
