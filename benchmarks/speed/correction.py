"""`python -m benchmarks.speed.correction [--json FILE]`: HIRO's correction in one pass, beside the way of the notes.

The notes ask the low level about one state at a time: batch × candidates × c forward passes for one update of the high
level. Ours is one pass over all of them. Both choose among the same candidates and must choose alike; the slow way is
timed on a share of the batch. Then: what share of a high level's update the correction takes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cairn.algorithms import HIROConfig, SACConfig
from cairn.algorithms.hiro.agent import HIRO
from cairn.core.types import Box, GoalSpec, Spec, Window

BATCH, CANDIDATES, C = 128, 10, 20
WIDTHS = ((64, 64), (256, 256))  # the arm's levels, the ant's
SLOW = 4  # windows that the slow way is timed on
SPEC = Spec((16,), "float32", Box((4,), (-1.0,) * 4, (1.0,) * 4), GoalSpec(10, 3))  # as the arm's


def one_at_a_time(agent: HIRO, window: Window, candidates: Tensor) -> list[int]:
    """For each window, candidate and step: one state through arrays, tensors and the low level, and back to a number.

    As the notes do it, but for the subgoal, which is moved by s + g - s' as it should be.
    """
    states, actions = window.obs.numpy(), window.action.numpy()
    best = []
    for b in range(len(candidates)):
        scores = []
        for k in range(candidates.shape[1]):
            g, score = candidates[b, k].numpy(), 0.0
            for i in range(int(window.inside[b].sum())):
                here = states[b, i, agent.positions]
                seen = np.concatenate([states[b, i, : agent.seen], here, here + g])
                action = agent.low.act(torch.FloatTensor(seen).unsqueeze(0), explore=False)[0].numpy()
                score -= F.mse_loss(torch.FloatTensor(actions[b, i]), torch.FloatTensor(action)).item()
                if i + 1 < states.shape[1]:
                    g = here + g - states[b, i + 1, agent.positions]
            scores.append(score)
        best.append(max(range(len(scores)), key=scores.__getitem__))
    return best


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The least of several runs."""
    work()
    found = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def measure(hidden: tuple[int, ...]) -> dict[str, Any]:
    level = SACConfig(hidden=hidden, batch_size=BATCH)
    agent = HIRO(HIROConfig(level, level, subgoal_range=(0.2,) * 3, every=C, candidates=CANDIDATES), SPEC)
    rng = torch.Generator().manual_seed(0)
    window = Window(
        obs=torch.randn(BATCH, C, 16, generator=rng),
        action=torch.rand(BATCH, C, 4, generator=rng) * 2 - 1,
        inside=torch.ones(BATCH, C, dtype=torch.bool),
        next_obs=torch.randn(BATCH, 16, generator=rng),
        target=torch.randn(BATCH, 3, generator=rng),
        reward=torch.randn(BATCH, generator=rng),
        terminated=torch.zeros(BATCH, dtype=torch.bool),
    )
    asked = window.target - window.obs[:, 0, agent.positions]
    achieved = (window.next_obs - window.obs[:, 0])[:, agent.positions]
    candidates = agent.candidates(window, asked, achieved)
    with torch.no_grad():
        alike = agent.likelihood(window, candidates).argmax(1)[:SLOW].tolist() == one_at_a_time(
            agent, window, candidates[:SLOW]
        )
    slow = SLOW / seconds(lambda: one_at_a_time(agent, window, candidates[:SLOW]), 5)
    fast = BATCH / seconds(lambda: agent.corrected(window, asked), 50)
    update = seconds(lambda: agent.update_high(window), 50)
    return {
        "hidden": list(hidden),
        "windows_per_second": round(fast),
        "one_at_a_time": round(slow, 1),
        "ratio": round(fast / slow),
        "alike": alike,
        "share_of_update": round(BATCH / fast / update, 3),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", type=Path)
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = options.parse_args()
    torch.set_num_threads(args.threads)
    about = {"batch": BATCH, "candidates": CANDIDATES, "c": C, "threads": args.threads}
    text = json.dumps({**about, "widths": [measure(hidden) for hidden in WIDTHS]}, indent=2)
    print(text)
    if args.json:
        args.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
