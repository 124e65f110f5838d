"""`python -m benchmarks.checks.fuzz --inputs 10000`

Every reader of outside files, given thousands of damaged and hostile ones.

A valid sample of each kind is mutated (bytes flipped, cut, repeated; values of its JSON swapped for others, members of
its zip changed, with digests and checksums mended), and hand-made bombs are added. An input must be read or refused by
a CairnError within five seconds of processor time, and within thirty of waiting. The same seed gives the same inputs.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 5  # of the processor: other work on the machine is no hang
WAITING = 30  # seconds by the clock, for a reader that waits and does nothing
STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 0.5, -1e308, float("nan"), float("inf"), "", "nan",
    "x" * 5000, "\x1b[2J\x07", "<script>alert(1)</script>", "os:system", "../../etc/passwd", "linear(1,0)", [], {}, [1],
    [10**6, 10**6], [1] * 5000, [[[[[[]]]]]], {"kind": "DQNConfig"}, {"kind": "\ud800"}, {"a": {"b": {"c": 1}}},
)  # fmt: skip


class Hang(BaseException):
    """An input took too long."""


Sample = tuple[str, Path, Callable[[Path], Any]]  # a name, a folder or a file that is valid, its reader


def samples(root: Path) -> list[Sample]:
    """A valid sample of each kind of file, and who reads it."""
    from tests.interop.zips import actor_critic, choice, old, seen, statistics, write

    from cairn.algorithms import DQNConfig, SACConfig, build
    from cairn.algorithms.imitation import demos
    from cairn.core.serialise import to_json
    from cairn.core.types import Box, Discrete, Spec
    from cairn.envs.task import Task
    from cairn.evidence.table import read_results, result_rows, stamped, text_table
    from cairn.interop.sb3 import importer as sb3
    from cairn.recipes import RECIPES
    from cairn.report.gather import gather
    from cairn.report.page import page
    from cairn.runs.checkpoint import load_checkpoint, load_policy, save_checkpoint, save_policy
    from cairn.runs.config import read_recipe

    spec = Spec((4,), "float32", Discrete(2))
    dqn = build(DQNConfig(hidden=(8,)), spec)
    box = Spec((3,), "float32", Box((1,), (-2.0,), (2.0,)))
    sac = build(SACConfig(hidden=(8,)), box)
    save_policy(root / "dqn", dqn, Task("CartPole-v1"), {"seed": 0})
    save_policy(root / "sac", sac, Task("Pendulum-v1"), {"seed": 0})
    checkpoint = save_checkpoint(root / "c", dqn, Task("CartPole-v1"), {"seed": 0}, {"step": 5})
    (root / "recipe.json").write_text(json.dumps(to_json(RECIPES["cartpole-dqn"])))
    results = root / "results"
    results.mkdir()
    figures = {"figure": 1.0, "seed": 1, "episodes": 100, "train_steps": 1000, "config": "a"}
    (results / "cartpole-ppo-s1.json").write_text(stamped({"recipe": "cartpole-ppo", **figures}))
    (results / "anchors.json").write_text(json.dumps({"cartpole-ppo": "500"}))
    rng = np.random.default_rng(0)
    fields = {"obs": rng.normal(size=(7, 4)).astype("f4"), "action": np.ones(5, np.int64), "reward": np.ones(5, "f4")}
    lengths = {"length": np.array([2, 3]), "terminated": np.array([True, False]), "task": np.array("CartPole-v1")}
    np.savez_compressed(root / "demos.npz", **fields, **lengths)  # type: ignore[arg-type]
    run = root / "run"
    run.mkdir()
    (run / "config.json").write_text(json.dumps(to_json(RECIPES["cartpole-dqn"])))
    rows = "".join(f"{k},{k}.5,eval/mean_reward,{k * 10}\n" for k in range(1, 9))
    (run / "metrics.csv").write_text("step,seconds,name,value\n" + rows)
    remark = {"step": 5, "code": "a", "severity": "warning", "what": "b", "evidence": "c", "remedy": "d"}
    (run / "watch.jsonl").write_text((json.dumps(remark) + "\n") * 3)
    (run / "score.json").write_text(json.dumps({"mean": 3.0, "success": None}))
    np.savez(run / "evaluations.npz", timesteps=np.arange(1, 9), results=np.ones((8, 2)), ep_lengths=np.ones((8, 2)))
    save_policy(run / "best", dqn, Task("CartPole-v1"), {"seed": 0})
    (root / "older").mkdir()
    zips = root / "ppo-CartPole-v1.zip"
    write(zips, "ppo", dict(actor_critic(4, 2)), seen(4), choice(2))
    older = write(root / "older" / "ppo-CartPole-v1.zip", "ppo", old(dict(actor_critic(4, 2))), seen(4), choice(2))
    (root / "vec.pkl").write_bytes(statistics(np.zeros(4), np.ones(4)))
    fresh = build(DQNConfig(hidden=(8,)), spec)
    return [
        ("card", root / "dqn", load_policy),
        ("card", root / "sac", load_policy),
        ("checkpoint", checkpoint, lambda path: load_checkpoint(path, fresh)),
        ("recipe", root / "recipe.json", read_recipe),
        ("result", results, lambda path: (read_results(path, "cartpole-ppo"), text_table(result_rows(path) or [{}]))),
        ("demos", root / "demos.npz", lambda path: demos.read(path, spec)),
        ("run folder", run, lambda path: page(gather([path]))),
        ("sb3 zip", zips, sb3.read),
        ("sb3 zip, older", older, sb3.read),
        ("normaliser", root / "vec.pkl", lambda path: sb3.read_statistics(path, {"": 4})),
    ]


# -- mutations


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    blob = bytearray(data)
    kind = rng.randrange(6)
    if kind == 0:
        return bytes(blob[: rng.randrange(len(blob) + 1)])
    if kind == 1:
        at = rng.randrange(len(blob) + 1)
        return bytes(blob[:at] + rng.randbytes(rng.randrange(1, 64)) + blob[at:])
    if kind == 2 and len(blob) > 8:
        at, size = rng.randrange(len(blob) - 4), rng.choice((4, 8, 64))
        blob[at : at + size] = rng.choice((b"\xff", b"\x00", b"\x7f")) * size
        return bytes(blob)
    if kind == 3 and blob:
        at = rng.randrange(len(blob))
        return bytes(blob[:at] + blob[at : at + 200] * rng.randrange(2, 50) + blob[at:])
    for _ in range(rng.randrange(1, 9)):
        if blob:
            blob[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
    return bytes(blob)


def mutated_json(value: Any, rng: random.Random) -> Any:
    """One place of it is removed, replaced by something strange, added, or wrapped in lists."""
    places: list[tuple[Any, Any]] = []

    def walk(at: Any) -> None:
        if isinstance(at, (dict, list)):
            for key in at if isinstance(at, dict) else range(len(at)):
                places.append((at, key))
                walk(at[key])

    whole = [value]
    places.append((whole, 0))
    walk(value)
    for _ in range(rng.choice((1, 1, 1, 3))):
        at, key = rng.choice(places)
        with contextlib.suppress(LookupError):
            kind = rng.randrange(6)
            if kind == 0:
                del at[key]
            elif kind == 1 and isinstance(at, dict):
                at["\x1b[31m" + str(rng.random())] = rng.choice(STRANGE)
            elif kind == 2:
                deep: Any = at[key]
                for _ in range(rng.choice((3, 70, 250))):
                    deep = [deep]
                at[key] = deep
            else:
                at[key] = rng.choice(STRANGE)
    return whole[0] if whole else None


def mend(folder: Path, path: Path, body: Any) -> None:
    """Write a changed JSON with its digest and its tensors' checksum made right, as an author of such a file would."""
    from cairn.core.serialise import digest

    if isinstance(body, dict) and "digest" in body:
        tensors = path.with_suffix(".safetensors")
        if "sha256" in body and tensors.exists():
            body["sha256"] = hashlib.sha256(tensors.read_bytes()).hexdigest()
        with contextlib.suppress(Exception):
            full = digest(body)
            body["digest"] = full[: len(str(body["digest"]))]
    with contextlib.suppress(Exception):
        path.write_text(json.dumps(body))


def mutated_zip(data: bytes, rng: random.Random) -> bytes:
    """One member changed, and the zip whole."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    name = rng.choice(sorted(members))
    if name == "data" and rng.random() < 0.8:
        body = json.loads(members[name])
        packed = sorted(key for key, value in body.items() if isinstance(value, dict) and ":serialized:" in value)
        if packed and rng.random() < 0.6:
            key = rng.choice(packed)
            raw = mutated_bytes(base64.b64decode(body[key][":serialized:"]), rng)
            body[key][":serialized:"] = base64.b64encode(raw).decode()
        else:
            body = mutated_json(body, rng)
        members[name] = json.dumps(body).encode()
    elif name == "policy.pth" and members[name][:2] == b"PK" and rng.random() < 0.6:
        members[name] = mutated_zip(members[name], rng)
    else:
        members[name] = mutated_bytes(members[name], rng)
    return _zip(members)


def mutate(target: Path, rng: random.Random) -> None:
    """Change one file of a sample in place."""
    files = sorted(p for p in (target.rglob("*") if target.is_dir() else [target]) if p.is_file())
    path = rng.choice(files)
    if rng.random() < 0.03:
        path.unlink()
        rng.choice((os.mkfifo, lambda p: p.mkdir(), lambda p: p.symlink_to("/dev/zero"), lambda p: None))(path)
        return
    data = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.8:
        mend(target, path, mutated_json(json.loads(data), rng))
        return
    inside = path.suffix in (".zip", ".npz") and rng.random() < 0.7
    path.write_bytes(mutated_zip(data, rng) if inside else mutated_bytes(data, rng))
    card = path.with_suffix(".json")
    if path.suffix == ".safetensors" and card.exists():
        mend(target, card, json.loads(card.read_text()))


# -- bombs


def bombs() -> list[tuple[str, str, bytes]]:
    """(who reads it, what it is, the bytes)."""
    deep = b"[" * 200_000
    keys = (
        b"\x80\x02"
        + b"K\x01\x85q\x00"
        + b"".join(b"0h%ch%c\x86q%c" % (i, i, i + 1) for i in range(60))
        + b"0}h\x3cK\x01s."
    )
    lists = b"\x80\x02]q\x00" + b"".join(b"0]q%ch%cah%ca" % (i + 1, i, i) for i in range(60)) + b"."
    return [
        ("recipe", "200,000 levels", deep),
        ("recipe", "a million values", b"[" + b"0," * 1_100_000 + b"0]"),
        ("recipe", "5,000 digits", b'{"steps": ' + b"9" * 5000 + b"}"),
        ("recipe", "quotes without end", b'"' + b'\\"' * 1_000_000),
        ("normaliser", "nested tuples as keys", keys),
        ("normaliser", "lists held twice", lists),
        ("normaliser", "marks", b"\x80\x02" + b"(" * 400_000 + b"."),
        ("normaliser", "a bytearray of 2**60", b"\x80\x05\x96" + (2**60).to_bytes(8, "little") + b"x."),
        ("normaliser", "operations", b"\x80\x02]" + b"K\x01a" * 600_000 + b"."),
        ("demos", "zeros", _zip({"obs.npy": bytes(300 * 2**20)})),
        ("demos", "an array of 8 TB", _zip({"obs.npy": _npy("(1000000000000,)")})),
        ("sb3 zip", "zeros", _zip({"data": bytes(300 * 2**20), "policy.pth": b""})),
        ("sb3 zip", "many members", _zip({str(i): b"" for i in range(20_000)})),
        ("sb3 zip", "200,000 levels", _zip({"data": deep, "policy.pth": b""})),
    ]


def _zip(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return file.getvalue()


def _npy(shape: str) -> bytes:
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + b"\0" * 64


# -- the run


def tried(read: Callable[[Path], Any], path: Path) -> tuple[str, str]:
    """What became of one input: read, refused, traceback or hang; and what was said."""
    from cairn.core.errors import CairnError

    def alarm(number: int, frame: Any) -> None:
        raise Hang

    timers = ((signal.SIGALRM, signal.ITIMER_REAL, WAITING), (signal.SIGPROF, signal.ITIMER_PROF, SECONDS))
    for rings, timer, seconds in timers:
        signal.signal(rings, alarm)
        signal.setitimer(timer, seconds)
    try:
        read(path)
        return "read", ""
    except CairnError as error:
        text = str(error)
        return ("refused", text) if len(text) < 3000 else ("traceback", f"a sentence of {len(text)} characters")
    except Hang:
        return "hang", ""
    except BaseException:
        return "traceback", traceback.format_exc()
    finally:
        for _, timer, _ in timers:
            signal.setitimer(timer, 0)


def fuzz(inputs: int, seed: int, report: Callable[[str], None] = lambda line: None) -> tuple[Counter[str], list[str]]:
    """So many inputs: how each ended, and a text for each that did not end well."""
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        (root / "valid").mkdir()
        kinds = samples(root / "valid")
        readers = {name: (path, read) for name, path, read in kinds}
        jobs: list[tuple[str, Callable[[Path], Any], Path, bytes | None, int]] = []
        for name, _, data in bombs()[: max(inputs // 20, 2)]:
            jobs.append((name, readers[name][1], readers[name][0], data, 0))
        for k in range(inputs - len(jobs)):
            name, path, read = kinds[k % len(kinds)]
            jobs.append((name, read, path, None, k))
        for name, read, valid, data, k in jobs:
            copy = root / "x" / valid.name
            shutil.rmtree(root / "x", ignore_errors=True)
            copy.parent.mkdir()
            if data is not None:
                copy.write_bytes(data)
            else:
                shutil.copytree(valid, copy) if valid.is_dir() else shutil.copy(valid, copy)
                mutate(copy, random.Random(f"{seed}-{k}"))
            began = time.process_time()
            end, said = tried(read, copy)
            counts[end] += 1
            counts["slowest, ms"] = max(counts["slowest, ms"], int(1000 * (time.process_time() - began)))
            if end in ("traceback", "hang"):
                faults.append(f"{name} {k}: {end}\n{said}")
                report(faults[-1])
    counts["peak memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return counts, faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    counts, faults = fuzz(options.inputs, options.seed, report=lambda line: print(line, flush=True))
    told = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
    print(f"{options.inputs:,} inputs in {time.monotonic() - began:.0f} s: {told}; {len(faults)} faults.")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
