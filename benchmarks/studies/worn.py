"""`python -m benchmarks.studies.worn RUN ... [--record NAME]`

A policy in new worlds, and in the same ones once they were used.

Box2D solves contacts in an order that depends on what its world held before. Fifty environments are made, one episode
is played in each, then another in each of them, and another: the first line is of new worlds, the others of worn ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.store import STUDIES, save
from cairn.runs.checkpoint import load_policy
from cairn.runs.evaluation import as_policy, evaluate
from cairn.vector.choose import make_vector

WORN = STUDIES / "worn.json"
ENVS, ROUNDS, FALL = 50, 4, 250.0  # whoever falls ends below it


def measure(path: Path) -> list[dict[str, Any]]:
    saved = load_policy(path)
    envs: Any = make_vector(saved.task.for_scoring(), ENVS, backend="sync")
    envs.batch.renews = False  # a vector would make them anew at every reset
    rows = []
    try:
        for used in range(ROUNDS):
            score = evaluate(as_policy(saved.agent), envs, range(1000 * used, 1000 * used + ENVS))
            assert score is not None
            fell = float(np.mean(np.array(score.returns) < FALL))
            rows.append({"used": used, "mean": round(score.mean, 1), "std": round(score.std, 1), "fell": fell})
            print(f"{path}, used {used} times: {score}, {fell:.0%} below {FALL:.0f}", flush=True)
    finally:
        envs.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.studies.worn")
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--record", default="", help="keep it in results/studies/worn.json under this name")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for path in args.runs:
        rows = measure(path)
        if args.record:
            save({"name": args.record, "episodes": ENVS, "rows": rows}, WORN)


if __name__ == "__main__":
    main()
