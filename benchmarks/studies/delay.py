"""What a reward that comes late costs, and what holding an action for several frames changes (notes, part 1.1).

    python -m benchmarks.studies.delay [--seeds 3] [--jobs 2]

A ball falls on one of ten places and is caught where the paddle is sent. Only that action counts; then the ball
flies for `delay` frames, in which actions do nothing, and pays at their end if it was caught. The reward stands beside
an action that had no part in it. In flight one sees where the ball goes (as on a screen), or not: then no state tells
what will be paid, and only returns that reach back to the catch do. Each entry is the number of frames until an
evaluation has caught 95 of 100 balls, the median over seeds; results/studies/delay.json holds all of them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.store import STUDIES
from cairn.algorithms import DQNConfig, PPOConfig
from cairn.core.schedules import constant, linear

PLACES, BALLS = 10, 8  # places a ball may fall on; balls an episode
DELAYS = (0, 4, 8, 16, 32)
HIDDEN = (4, 8, 16)
MOST = 100_000  # frames
_DQN = DQNConfig(hidden=(64, 64), learning_starts=500, target_every=100, epsilon=linear(1.0, 0.05, 0.1))
_PPO = PPOConfig(hidden=(64, 64), lr=constant(1e-3), horizon=64, batch_size=128, epochs=4)
AGENTS: dict[str, DQNConfig | PPOConfig] = {
    "dqn": _DQN,
    "dqn, n = 5": replace(_DQN, n_step=5),
    "ppo, λ = 0.95": _PPO,
    "ppo, λ = 0": replace(_PPO, lam=0.0),
}


class Flight(gym.Env[Any, Any]):
    """Shows the place while the ball falls; how far it has flown then and, where `shown`, that it was caught."""

    def __init__(self, delay: int = 8, skip: int = 1, shown: bool = True) -> None:
        self.delay, self.skip, self.shown = delay, skip, shown
        self.observation_space = gym.spaces.Box(0, 1, (PLACES + 2,), np.float32)
        self.action_space = gym.spaces.Discrete(PLACES)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.balls, self.flown, self.caught = 0, 0, False
        self.place = int(self.np_random.integers(PLACES))
        return self._seen(), {}

    def _seen(self) -> Any:
        seen = np.zeros(PLACES + 2, np.float32)
        if self.flown == 0:
            seen[self.place] = 1
        elif self.shown:
            seen[PLACES] = self.caught
        seen[-1] = self.flown / (self.delay + 1)
        return seen

    def _frame(self, action: int) -> float:
        if self.flown == 0:
            self.caught = action == self.place
        self.flown += 1
        if self.flown <= self.delay:
            return 0.0
        self.balls, self.flown, self.place = self.balls + 1, 0, int(self.np_random.integers(PLACES))
        return float(self.caught)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The action is held for `skip` frames, but never past a ball's flight: the next one is seen first."""
        paid = 0.0
        for _ in range(self.skip):
            paid += self._frame(int(action))
            if self.flown == 0:
                break
        return self._seen(), paid / BALLS, self.balls == BALLS, False, {}


def decisions(delay: int, skip: int) -> int:
    """Of one ball."""
    return -(-(delay + 1) // skip)


def frames_needed(agent: str, delay: int, skip: int, shown: bool, seed: int) -> int | None:
    """Frames until 95 % of the balls of an evaluation are caught; None where MOST did not do."""
    import torch

    from cairn.recipes.recipe import Recipe
    from cairn.runs.train import train

    if "bench/Flight-v0" not in gym.registry:
        gym.register("bench/Flight-v0", Flight)
    torch.set_num_threads(1)
    a_frame = decisions(delay, skip) / (delay + 1)
    recipe = Recipe(
        env="bench/Flight-v0",
        env_args={"delay": delay, "skip": skip, "shown": shown},
        agent=AGENTS[agent],
        steps=int(MOST * a_frame),
        envs=8,
        target=0.95,
        hold=1,
        eval_every=max(int(500 * a_frame), 1),
        eval_episodes=20,
        log_every=10**9,
        checkpoint_every=10**9,
        seed=seed,
    )
    outcome = train(recipe)
    return round(outcome.step / a_frame) if outcome.solved else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.delay")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    cases = [(agent, delay, skip, True) for agent in AGENTS for delay in DELAYS for skip in ((1, 4) if delay else (1,))]
    cases += [(agent, delay, 1, False) for agent in AGENTS for delay in HIDDEN]
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {case: [pool.submit(frames_needed, *case, seed) for seed in range(args.seeds)] for case in cases}
        rows = []
        for (agent, delay, skip, shown), runs in waiting.items():
            frames = [run.result() for run in runs]
            rows.append({"agent": agent, "delay": delay, "skip": skip, "shown": shown, "frames": frames})
            told = ", ".join("not reached" if n is None else f"{n:,}" for n in frames)
            print(
                f"{agent:<14} delay {delay:>2}, held for {skip}, {'shown' if shown else 'hidden'}: {told}", flush=True
            )
    body = {"places": PLACES, "balls": BALLS, "most": MOST, "rows": rows}
    (STUDIES / "delay.json").write_text(json.dumps(body, indent=1) + "\n")
    print(table(rows))


def table(rows: list[dict[str, Any]]) -> str:
    """Medians; a run that did not get there counts as more than any."""

    def entry(*case: Any) -> str:
        found = [r["frames"] for r in rows if (r["agent"], r["delay"], r["skip"], r["shown"]) == case]
        if not found:
            return "-"
        middle = median(MOST + 1 if n is None else n for n in found[0])
        return f"{middle:,.0f}" if middle <= MOST else f"> {MOST:,}"

    lines = ["| agent, action held for | " + " | ".join(f"delay {d}" for d in DELAYS) + " |", "| --- " * 6 + "|"]
    for agent in AGENTS:
        for skip in (1, 4):
            lines.append(f"| {agent}, {skip} | " + " | ".join(entry(agent, d, skip, True) for d in DELAYS) + " |")
        lines.append(f"| {agent}, 1, unseen | " + " | ".join(entry(agent, d, 1, False) for d in DELAYS) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
