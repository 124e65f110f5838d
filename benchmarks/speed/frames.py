"""`python -m benchmarks.speed.frames [--transitions 50000] [--repeats 3] [--seconds 5] [--game ALE/Pong-v5]`

The replay of stacked frames by itself: Cairn's Frames beside Stable-Baselines3's ReplayBuffer with
optimize_memory_usage, and beside Cairn's own Ring, which keeps whole stacks. All are given the same films, 84 x 84, a
stack of four and episodes of 500 steps, a step at a time through their own `add`, and asked for batches of 32. The
films are noise; with --game they are of a game played at random, and Frames that compresses (agent.frame_bytes) is
measured as well. Measurements alternate, each in a process of its own, one thread; medians are compared. Memory is the
peak of the process less what it was after the imports and the making of the game.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.speed.cases import PEER
from benchmarks.speed.child import in_fresh_process, versions
from benchmarks.speed.hindsight import Measured, measure, told
from benchmarks.speed.memory import resident_mb
from benchmarks.store import RESULTS, save

ENVS, EPISODE, BATCH = 8, 500, 32
SHAPE = (4, 84, 84)
FRAME_BYTES = 1_000  # what is kept for a compressed frame


def films(transitions: int) -> Iterator[list[tuple[np.ndarray, np.ndarray, bool]]]:
    """Rows (stack, stack after it, whether an episode ends), a hundred at a time: noise, every frame in four stacks."""
    rng = np.random.default_rng(0)
    obs = np.zeros((ENVS, *SHAPE), np.uint8)
    for start in range(0, transitions // ENVS, 100):
        rows = []
        for row in range(start, min(start + 100, transitions // ENVS)):
            ends = row % EPISODE == EPISODE - 1
            frame = rng.integers(0, 256, (ENVS, 1, *SHAPE[1:]), np.uint8)
            after = np.concatenate([obs[:, 1:], frame], 1)
            rows.append((obs, after, ends))
            obs = after
            if ends:
                obs = np.concatenate([np.zeros_like(after[:, 1:]), frame], 1)
        yield rows


def played(game: str, transitions: int) -> Iterator[list[tuple[np.ndarray, np.ndarray, bool]]]:
    """The same rows of a game; episodes are cut where the noise's are."""
    from cairn.envs.task import Task
    from cairn.vector.choose import make_vector

    envs = make_vector(Task(game, args={"life_loss": False}), ENVS, backend="atari")
    rng = np.random.default_rng(0)
    first = envs.reset(range(ENVS))
    actions = envs.spec.action.n  # type: ignore[union-attr]

    def rows(obs: np.ndarray) -> Iterator[list[tuple[np.ndarray, np.ndarray, bool]]]:
        for start in range(0, transitions // ENVS, 100):
            found = []
            for row in range(start, min(start + 100, transitions // ENVS)):
                ends = row % EPISODE == EPISODE - 1
                newest = envs.step(rng.integers(0, actions, ENVS)).next_obs[:, -1:]
                after = np.concatenate([obs[:, 1:], newest], 1)
                found.append((obs, after, ends))
                obs = np.concatenate([np.zeros_like(after[:, 1:]), newest], 1) if ends else after
            yield found
        envs.close()

    return rows(first)


def ours(transitions: int, seconds: float, game: str, kind: str) -> Measured:
    import torch

    from cairn.core.memory import keep_freed_memory
    from cairn.core.types import Discrete, Spec, Step
    from cairn.replay.frames import Frames
    from cairn.replay.ring import Ring

    film = played(game, transitions) if game else films(transitions)
    empty_mb, _ = resident_mb()
    torch.set_num_threads(1)
    keep_freed_memory()  # as train() does
    spec = Spec(SHAPE, "uint8", Discrete(4), stack=SHAPE[0])
    options: Any = {"generator": torch.Generator().manual_seed(0), "gamma": 0.99}
    if kind == "packed":
        options["frame_bytes"] = FRAME_BYTES
    replay: Any = (Ring if kind == "whole" else Frames)(transitions, ENVS, spec, **options)
    action, reward, never = np.zeros(ENVS, np.int64), np.ones(ENVS, np.float32), np.zeros(ENVS, bool)

    def rows(film: list[tuple[np.ndarray, np.ndarray, bool]]) -> list[tuple[Any, ...]]:
        return [(obs, action, Step(after, after, reward, never ^ ends, never, ~never)) for obs, after, ends in film]

    found = measure(map(rows, film), replay.add, lambda: replay.sample(BATCH).reward, seconds, empty_mb)
    if kind == "packed":
        told = f"{replay.store.length.mean():,.0f} bytes a frame, {len(replay):,} transitions kept"
        print(f"  packed: {told}", file=sys.stderr, flush=True)
    return found


def theirs(transitions: int, seconds: float, game: str, kind: str) -> Measured:
    import torch
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.common.buffers import ReplayBuffer

    film = played(game, transitions) if game else films(transitions)
    empty_mb, _ = resident_mb()
    torch.set_num_threads(1)
    replay = ReplayBuffer(
        transitions,
        Box(0, 255, SHAPE, np.uint8),
        Discrete(4),
        device="cpu",
        n_envs=ENVS,
        optimize_memory_usage=True,
        handle_timeout_termination=False,
    )
    action, reward = np.zeros((ENVS, 1), np.int64), np.ones(ENVS, np.float32)
    infos: list[dict[str, Any]] = [{} for _ in range(ENVS)]

    def rows(film: list[tuple[np.ndarray, np.ndarray, bool]]) -> list[tuple[Any, ...]]:
        return [(obs, after, action, reward, np.full(ENVS, ends), infos) for obs, after, ends in film]

    return measure(map(rows, film), replay.add, lambda: replay.sample(BATCH).rewards, seconds, empty_mb)


SIDES: dict[str, Callable[[int, float, str, str], Measured]] = {
    "ours": ours,
    "packed": ours,
    "whole": ours,
    "theirs": theirs,
}


def compare(args: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, list[Measured]] = {side: [] for side in SIDES if args.game or side != "packed"}
    words = [f"--transitions={args.transitions}", f"--seconds={args.seconds}", f"--game={args.game}"]
    for _ in range(args.repeats):
        for side in found:
            one = Measured(
                **in_fresh_process("benchmarks.speed.frames", *words, f"--side={side}", threads=1, quiet=False)
            )
            print(f"  {side:<7}{told(one)}", file=sys.stderr, flush=True)
            found[side].append(one)
    speed = {side: median(m.batches_per_second for m in some) for side, some in found.items()}
    adds = {side: median(m.adds_per_second for m in some) for side, some in found.items()}
    size = {side: 1e3 * median(m.buffer_mb for m in some) * 1.048576 / args.transitions for side, some in found.items()}
    return {
        "name": "frames-sample" + (f"-{args.game.split('/')[-1]}" if args.game else ""),
        "peer": PEER,
        "ours": round(speed["ours"], 1),
        "theirs": round(speed["theirs"], 1),
        "ratio": round(speed["ours"] / speed["theirs"], 3),
        "unit": f"batches of {BATCH}/s",
        "memory_ratio": round(size["theirs"] / size["ours"], 3),
        "settings": {
            "about": f"stacks of frames from {args.transitions:,} stored transitions"
            + (f" of {args.game}; compressed in {FRAME_BYTES} bytes a frame" if args.game else ""),
            "kilobytes_a_transition": {side: round(value, 2) for side, value in size.items()},
            "batches_per_second": {side: round(value, 1) for side, value in speed.items()},
            "adds_per_second": {side: round(value, 1) for side, value in adds.items()},
            "transitions": args.transitions,
            "envs": ENVS,
            "episode": EPISODE,
            "batch_size": BATCH,
            "timed_seconds": args.seconds,
            "device": "cpu",
            "cores": os.cpu_count(),
            "versions": versions(),
        },
        "repeats": args.repeats,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.frames", description="The replay of stacked frames by itself."
    )
    parser.add_argument("--transitions", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each side")
    parser.add_argument("--seconds", type=float, default=5.0, help="of sampling, in each")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results are kept")
    parser.add_argument("--game", default="", help="films of this game in place of noise: ALE/Pong-v5")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)  # how a side's own process is started
    args = parser.parse_args()
    if args.side:
        print(json.dumps(asdict(SIDES[args.side](args.transitions, args.seconds, args.game, args.side))))
        return
    entry = compare(args)
    save(entry, args.out)
    for what in ("kilobytes_a_transition", "batches_per_second", "adds_per_second"):
        print(f"{what:<24}" + "".join(f"{side:>9} {value:>9,.1f}" for side, value in entry["settings"][what].items()))


if __name__ == "__main__":
    main()
