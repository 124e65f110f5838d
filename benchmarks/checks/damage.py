"""`python -m benchmarks.checks.damage [--trials 200] [--record]`

Damage one file of a run folder at random, then use the folder.

A run of each family is made and continued to its end: the reference. In each trial a copy of the unfinished run has
one of its files damaged (bytes flipped, cut, emptied, overwritten with zeros or noise, appended to, deleted, or
replaced by a folder). Then the copy is scored (`cairn eval`), shown (`cairn report`) and continued
(`cairn train --resume`). Each command must either give what the reference gave or refuse in one sentence. Counted are
tracebacks, and silent changes: an exit code of 0 with other weights or another score. Exits with 1 where there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import torch

from benchmarks.checks.kill import state
from benchmarks.store import BENCHMARKS, ROOT, save
from cairn.cli.main import main as cairn
from cairn.runs.run import Run

RECORD = BENCHMARKS / "damage.json"
SMALL = "--agent.hidden 16 16"
REPLAY = "--agent.learning-starts 100 --agent.batch-size 16 --agent.capacity 700"
LEVELS = "--agent.high.learning-starts 200 --agent.low.learning-starts 100 --agent.high.batch-size 16"
FAMILIES = {
    "ppo": f"--env Pendulum-v1 --agent ppo {SMALL} --agent.horizon 100 --agent.normalise-obs",
    "dqn": f"--env CartPole-v1 --agent dqn {SMALL} {REPLAY} --agent.priority 0.6",
    "dqn-hindsight": f"--env cairn/BitFlip-v0 --agent dqn {SMALL} {REPLAY} --hindsight future",
    "td3": f"--env Pendulum-v1 --agent td3 {SMALL} {REPLAY}",
    "hiro": f"rooms-hiro-dqn {LEVELS} --agent.low.batch-size 16",
    "dagger": f"cartpole-dagger --expert {ROOT}/zoo/cartpole-ppo",
}
HALF, WHOLE = 800, 1200  # steps after which the damaged run stopped, and in all


@dataclass(frozen=True)
class Answer:
    """What a command did: its exit code (None where it raised) and what it printed."""

    code: int | None
    out: str
    err: str


def call(*args: str) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cairn(args)
            code: int | None = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException:
            traceback.print_exc()
            code = None
    return Answer(code, out.getvalue(), err.getvalue())


def train(family: str, folder: Path) -> None:
    """A run of WHOLE steps that stops at HALF, as if it had been interrupted there."""
    going = Run.going
    often = ["--checkpoint-every", "200", "--eval-every", "400", "--eval-episodes", "2", "--log-every", "200"]
    options = [*FAMILIES[family].split(), "--steps", str(WHOLE), *often, "--seed", "3", "--out", str(folder)]
    with patch.object(Run, "going", lambda run: run.step < HALF and going(run)):
        told = call("train", *options)
    assert told.code == 0, told


def resume(folder: Path) -> Answer:
    return call("train", "--resume", "--out", str(folder))


def score(folder: Path) -> Answer:
    return call("eval", str(folder), "--episodes", "3", "--json")


def damage(path: Path, rng: random.Random) -> str:
    """Do something to a file, and say what."""
    blob = bytearray(path.read_bytes())
    kind = rng.choice(["flip", "flip", "flip", "cut", "empty", "zeros", "noise", "append", "delete", "folder"])
    at = rng.randrange(len(blob)) if blob else 0
    if kind == "flip":
        for _ in range(rng.choice([1, 1, 4, 64]) if blob else 0):
            blob[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del blob[at:]
    elif kind == "empty":
        blob.clear()
    elif kind == "zeros":
        blob[at : at + 512] = bytes(len(blob[at : at + 512]))
    elif kind == "noise":
        blob[at : at + 512] = rng.randbytes(len(blob[at : at + 512]))
    elif kind == "append":
        blob += rng.randbytes(rng.choice([1, 100, 5000]))
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind != "delete":
        path.write_bytes(blob)
    return kind


def same_weights(a: Path, b: Path) -> bool:
    left, right = state(a), state(b)
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def judge(answer: Answer, right: bool) -> str:
    """'equal', 'refused', or a fault: 'traceback' or 'silent'."""
    if answer.code is None or "Traceback" in answer.out + answer.err:
        return "traceback"
    if answer.code == 0:
        return "equal" if right else "silent"
    one_line = [line for line in answer.err.splitlines() if line.startswith("cairn: ")]
    return "refused" if answer.code in (1, 2) and one_line else "silent"


def without_path(text: str) -> object:
    try:
        return {k: v for k, v in json.loads(text).items() if k != "path"}
    except ValueError:
        return text


def trial(base: Path, reference: Path, expected: str, copy: Path, rng: random.Random) -> dict[str, str]:
    shutil.copytree(base, copy, symlinks=True)
    files = sorted(p for p in copy.rglob("*") if p.is_file() and p.name != ".lock")
    path = rng.choice(files)
    found = {"file": str(path.relative_to(copy)), "damage": damage(path, rng)}
    scored = score(copy)
    found["eval"] = judge(scored, without_path(scored.out) == without_path(expected))
    found["report"] = judge(call("report", str(copy), "-o", str(copy.parent / "page.html"), "--episodes", "0"), True)
    continued = resume(copy)
    try:
        right = continued.code == 0 and same_weights(reference, copy)
    except Exception:
        right = False
    found["resume"] = judge(continued, right)
    found["said"] = (continued.err or scored.err)[-300:]
    shutil.rmtree(copy)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.checks.damage")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--record", action="store_true", help="keep the table in results/benchmarks/damage.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    counts: Counter[tuple[str, str]] = Counter()
    faults = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        expected: dict[str, str] = {}
        for family in args.only:
            train(family, root / family)
            shutil.copytree(root / family, root / f"{family}-whole")
            expected[family] = score(root / family).out
            told = resume(root / f"{family}-whole")
            assert told.code == 0, told
        for k in range(args.trials):
            rng, family = random.Random(f"{args.seed}-{k}"), args.only[k % len(args.only)]
            found = trial(root / family, root / f"{family}-whole", expected[family], root / "copy", rng)
            for command in ("eval", "report", "resume"):
                counts[command, found[command]] += 1
                if found[command] in ("traceback", "silent"):
                    faults.append({"trial": k, "family": family, "command": command, **found})
                    print(f"{k} {family} {command}: {found}", flush=True)
    rows = [{"command": c, "answer": a, "times": n} for (c, a), n in sorted(counts.items())]
    for row in rows:
        print(f"{row['command']:<8} {row['answer']:<10} {row['times']}")
    if args.record:
        save({"name": "damage", "trials": args.trials, "rows": rows, "faults": faults}, RECORD)
    print(f"{args.trials} trials: {len(faults)} faults.")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
