"""`python -m benchmarks.speed.hindsight [--transitions 1000000] [--repeats 3] [--seconds 5]`

Hindsight replay by itself.

Cairn's Hindsight(Ring) beside Stable-Baselines3's HerReplayBuffer. Both are given the same walks, shaped like those of
FetchPush-v4, a step at a time through their own `add`, and asked for batches with goals of the strategy "future", four
relabelled for each as it was. Measurements alternate, each in a process of its own on one thread; medians are compared.

Memory is told twice: the peak of the whole process, and what of it came after the imports, which is the buffer. The
peer keeps observations in the type that the task declares, and the Fetch tasks declare float64; Cairn keeps float32.
--peer-dtype float32 measures the peer on a task that declares float32, and stores that beside the other.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks.speed.cases import PEER
from benchmarks.speed.child import in_fresh_process, versions
from benchmarks.speed.memory import resident_mb
from benchmarks.speed.run import line
from benchmarks.store import RESULTS, save

ENVS, EPISODE = 8, 50
OBSERVATION, GOAL, ACTION = 25, 3, 4  # widths in FetchPush-v4
THRESHOLD = 0.05  # its distance_threshold
BATCH, K = 256, 4
STRATEGY: Final = "future"
WARM, CHECKED = 20, 200  # batches before the clock starts, and after it stops, to see that both sides do the same


@dataclass(frozen=True)
class Walks:
    """One episode of every environment: T + 1 observations [T + 1, N, ...], T actions and rewards [T, N, ...]."""

    observation: np.ndarray
    achieved: np.ndarray
    desired: np.ndarray
    action: np.ndarray
    reward: np.ndarray


@dataclass(frozen=True)
class Measured:
    """One side, once. `reward` is the mean over batches: proof that both relabelled as much, and by the same rule."""

    batches_per_second: float
    adds_per_second: float
    peak_mb: float  # of the process
    buffer_mb: float  # of that, what came after the imports
    reward: float


def distance_reward(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    """Gymnasium-Robotics' sparse reward."""
    far: np.ndarray = np.linalg.norm(achieved - desired, axis=-1) > THRESHOLD
    return -far.astype(np.float32)


def walks(transitions: int) -> Iterator[Walks]:
    """Random walks, an episode of all environments at a time, so that data on its way takes no memory."""
    rng = np.random.default_rng(0)
    for _ in range(transitions // (ENVS * EPISODE)):
        strides = rng.normal(scale=0.02, size=(EPISODE + 1, ENVS, OBSERVATION))
        observation = strides.cumsum(0)
        achieved = observation[..., 3:6].copy()  # where the box is
        desired = np.broadcast_to(rng.uniform(-0.15, 0.15, (ENVS, GOAL)), achieved.shape).copy()
        action = rng.uniform(-1, 1, (EPISODE, ENVS, ACTION)).astype(np.float32)
        yield Walks(observation, achieved, desired, action, distance_reward(achieved[1:], desired[1:]))


def measure(
    adds: Iterable[Sequence[tuple[Any, ...]]],
    add: Callable[..., None],
    sample: Callable[[], Any],  # the rewards of a fresh batch
    seconds: float,
    empty_mb: float,
) -> Measured:
    """Fill, then sample for `seconds`. The clock of `add` stands still while its arguments are made."""
    count, filling = 0, 0.0
    for rows in adds:
        start = time.perf_counter()
        for row in rows:
            add(*row)
        filling += time.perf_counter() - start
        count += len(rows)
    for _ in range(WARM):
        sample()
    batches, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        sample()
        batches += 1
    reward = float(np.mean([float(sample().mean()) for _ in range(CHECKED)]))
    _, peak_mb = resident_mb()
    return Measured(batches / spent, count / filling, peak_mb, peak_mb - empty_mb, reward)


def ours(transitions: int, seconds: float, dtype: str) -> Measured:
    import torch

    from cairn.core.goals import Within
    from cairn.core.memory import keep_freed_memory
    from cairn.core.types import Box, GoalSpec, Spec, Step
    from cairn.replay.hindsight import Hindsight
    from cairn.replay.ring import Ring

    empty_mb, _ = resident_mb()
    torch.set_num_threads(1)
    keep_freed_memory()  # as train() does
    goal = GoalSpec(OBSERVATION, GOAL)
    spec = Spec((OBSERVATION + 2 * GOAL,), "float32", Box((ACTION,), (-1.0,) * ACTION, (1.0,) * ACTION), goal)
    ring = Ring(transitions, ENVS, spec, generator=torch.Generator().manual_seed(0), gamma=0.95)
    replay = Hindsight(ring, goal, Within(THRESHOLD), strategy=STRATEGY, k=K)
    never, always = np.zeros(ENVS, bool), np.ones(ENVS, bool)

    def rows(walk: Walks) -> list[tuple[Any, ...]]:
        flat = np.concatenate([walk.observation, walk.achieved, walk.desired], -1).astype(np.float32)
        return [
            (
                flat[t],
                walk.action[t],
                Step(
                    obs=flat[t + 1],
                    next_obs=flat[t + 1],
                    reward=walk.reward[t],
                    terminated=never,
                    truncated=always if t == EPISODE - 1 else never,
                    valid=always,
                ),
            )
            for t in range(EPISODE)
        ]

    return measure(map(rows, walks(transitions)), replay.add, lambda: replay.sample(BATCH).reward, seconds, empty_mb)


def theirs(transitions: int, seconds: float, dtype: str) -> Measured:
    import gymnasium as gym
    import torch
    from stable_baselines3.common.vec_env import DummyVecEnv
    from stable_baselines3.her import HerReplayBuffer

    empty_mb, _ = resident_mb()
    torch.set_num_threads(1)
    widths = {"observation": OBSERVATION, "achieved_goal": GOAL, "desired_goal": GOAL}

    class Goals(gym.Env[Any, Any]):
        """Never stepped: the buffer wants an environment to ask for rewards."""

        observation_space = gym.spaces.Dict(
            {k: gym.spaces.Box(-np.inf, np.inf, (n,), np.dtype(dtype).type) for k, n in widths.items()}
        )
        action_space = gym.spaces.Box(-1.0, 1.0, (ACTION,), np.float32)

        def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, info: Any) -> np.ndarray:
            return distance_reward(achieved, desired)

    envs = DummyVecEnv([Goals] * ENVS)
    np.random.seed(0)  # the buffer's generator
    replay = HerReplayBuffer(
        transitions,
        Goals.observation_space,
        Goals.action_space,
        envs,
        device="cpu",
        n_envs=ENVS,
        n_sampled_goal=K,
        goal_selection_strategy=STRATEGY,
    )
    never, always = np.zeros(ENVS, bool), np.ones(ENVS, bool)

    def rows(walk: Walks) -> list[tuple[Any, ...]]:
        places = zip(walk.observation, walk.achieved, walk.desired, strict=True)
        obs = [dict(zip(widths, place, strict=True)) for place in places]
        return [
            (
                obs[t],
                obs[t + 1],
                walk.action[t],
                walk.reward[t],
                always if t == EPISODE - 1 else never,
                [{"TimeLimit.truncated": t == EPISODE - 1} for _ in range(ENVS)],
            )
            for t in range(EPISODE)
        ]

    return measure(map(rows, walks(transitions)), replay.add, lambda: replay.sample(BATCH).rewards, seconds, empty_mb)


SIDES: dict[str, Callable[[int, float, str], Measured]] = {"ours": ours, "theirs": theirs}


def compare(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Both sides in turn, as often as asked: what they sample, and what they store."""
    found: dict[str, list[Measured]] = {side: [] for side in SIDES}
    words = [f"--transitions={args.transitions}", f"--seconds={args.seconds}", f"--peer-dtype={args.peer_dtype}"]
    for _ in range(args.repeats):
        for side in SIDES:
            one = Measured(**in_fresh_process("benchmarks.speed.hindsight", *words, f"--side={side}", threads=1))
            print(f"  {side:<7}{told(one)}", file=sys.stderr, flush=True)
            found[side].append(one)
    us, them = found["ours"], found["theirs"]
    rewards = [median(m.reward for m in side) for side in (us, them)]
    if abs(rewards[0] - rewards[1]) > 0.02:
        sys.exit(f"the sides differ in the mean reward of their batches, {rewards}; this is no comparison.")
    return [sampling(args, us, them), storing(args, us, them)]


def told(one: Measured) -> str:
    return (
        f"{one.batches_per_second:9,.0f} batches/s {one.adds_per_second:9,.0f} adds/s"
        f" {one.peak_mb:7,.0f} MB peak, {one.buffer_mb:6,.0f} MB after imports, mean reward {one.reward:.3f}"
    )


def sampling(args: argparse.Namespace, us: Sequence[Measured], them: Sequence[Measured]) -> dict[str, Any]:
    """Every ratio is above 1 in Cairn's favour: speed is ours over theirs, memory theirs over ours."""
    peaks, buffers = (
        [median(getattr(m, name) for m in side) for side in (us, them)] for name in ("peak_mb", "buffer_mb")
    )
    about = (
        f"goals drawn anew from {args.transitions:,} stored transitions ({args.peer_dtype} in SB3);"
        f" the buffer alone takes {buffers[0]:.0f} / {buffers[1]:.0f} MB"
    )
    entry = entry_of(args, "hindsight-sample", f"batches of {BATCH}/s", "batches_per_second", about, us, them)
    entry |= {
        "memory_ours_mb": round(peaks[0]),
        "memory_theirs_mb": round(peaks[1]),
        "memory_ratio": round(peaks[1] / peaks[0], 3),
        "buffer_ours_mb": round(buffers[0]),
        "buffer_theirs_mb": round(buffers[1]),
        "buffer_ratio": round(buffers[1] / buffers[0], 3),
    }
    entry["settings"] |= {
        "mean_reward_ours": round(median(m.reward for m in us), 3),
        "mean_reward_theirs": round(median(m.reward for m in them), 3),
    }
    return entry


def storing(args: argparse.Namespace, us: Sequence[Measured], them: Sequence[Measured]) -> dict[str, Any]:
    about = f"filling the same buffers, {ENVS} transitions an add"
    return entry_of(args, "hindsight-add", "adds/s", "adds_per_second", about, us, them)


def entry_of(
    args: argparse.Namespace,
    name: str,
    unit: str,
    field: str,
    about: str,
    us: Sequence[Measured],
    them: Sequence[Measured],
) -> dict[str, Any]:
    speeds = [[getattr(m, field) for m in side] for side in (us, them)]
    our_speed, their_speed = map(median, speeds)
    return {
        "name": name if args.peer_dtype == "float64" else f"{name}-{args.peer_dtype}",
        "peer": PEER,
        "ours": round(our_speed, 1),
        "theirs": round(their_speed, 1),
        "ratio": round(our_speed / their_speed, 3),
        "unit": unit,
        "settings": {
            "about": about,
            "transitions": args.transitions,
            "envs": ENVS,
            "episode": EPISODE,
            "observation": OBSERVATION,
            "goal": GOAL,
            "action": ACTION,
            "batch_size": BATCH,
            "k": K,
            "strategy": STRATEGY,
            "dtype_ours": "float32",
            "dtype_theirs": args.peer_dtype,
            "timed_seconds": args.seconds,
            "threads_ours": 1,
            "threads_theirs": 1,
            "device": "cpu",
            "cores": os.cpu_count(),
            "versions": versions(),
            "all_ours": [round(x, 1) for x in speeds[0]],
            "all_theirs": [round(x, 1) for x in speeds[1]],
        },
        "repeats": len(us),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.hindsight", description="Hindsight replay by itself."
    )
    parser.add_argument(
        "--transitions", type=int, default=1_000_000, help=f"whole episodes: {ENVS * EPISODE} at a time"
    )
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each side")
    parser.add_argument("--seconds", type=float, default=5.0, help="of sampling, in each")
    parser.add_argument("--peer-dtype", choices=["float64", "float32"], default="float64", help="of its observations")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results are kept")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)  # how a side's own process is started
    args = parser.parse_args()
    args.transitions = max(args.transitions // (ENVS * EPISODE), 1) * ENVS * EPISODE
    if args.side:
        print(json.dumps(asdict(SIDES[args.side](args.transitions, args.seconds, args.peer_dtype))))
        return
    sampled, stored = compare(args)
    for entry in (sampled, stored):
        save(entry, args.out)
    print(line(sampled))
    print(f"{stored['name']:<24} {stored['ours']:>9,.0f} {stored['theirs']:>9,.0f} adds/s {stored['ratio']:>6.2f}x")
    print(
        f"memory, theirs over ours: {sampled['memory_ratio']:.2f}x of the process, {sampled['buffer_ratio']:.2f}x of"
        f" the buffer alone ({sampled['buffer_ours_mb']:,} and {sampled['buffer_theirs_mb']:,} MB)"
    )


if __name__ == "__main__":
    main()
