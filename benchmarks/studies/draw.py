"""Learning curves as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def panels(entries: list[dict[str, Any]], path: Path) -> Path:
    """One panel a group: the mean over seeds of an entry's evaluations, held at its last value once a run stopped."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.ticker import EngFormatter

    groups = list(dict.fromkeys(entry["group"] for entry in entries))
    figure, axes = plt.subplots(1, len(groups), figsize=(5.2 * len(groups), 3.8), squeeze=False)
    for group, axis in zip(groups, axes[0], strict=True):
        highest = 0.0
        for entry in (e for e in entries if e["group"] == group):
            grid = sorted({step for r in entry["runs"] for step, _, _ in r["curve"]})
            held = [np.interp(grid, [c[0] for c in r["curve"]], [c[2] for c in r["curve"]]) for r in entry["runs"]]
            highest = max(highest, float(np.max(held)))
            axis.plot(grid, np.mean(held, 0), label=entry["name"].removesuffix(f", {group}"))
        axis.set(title=group, xlabel="steps", ylabel="success" if highest <= 1 else "return")
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        if highest <= 1:
            axis.set_ylim(-0.03, 1.03)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    return path
