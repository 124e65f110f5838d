"""`python -m benchmarks.checks.export [NAME ...]`

Every policy of the zoo as an ONNX file. Does it act as the policy does, how large is it, how fast beside `predict`?

Each policy plays 1,000 steps of its task, five episodes side by side, and the file is asked about all it observed. The
largest difference of an action, in the policy's units (bounds of ±1), must be at most 1e-5, and no discrete action may
be another. Calls a second are of one observation at a time, in one thread; `predict` is the model's own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

import cairn
from benchmarks.store import BENCHMARKS, ROOT, save
from cairn.algorithms.registry import agent_name
from cairn.core.errors import CairnError
from cairn.recipes.identity import hardware
from cairn.runs.checkpoint import Saved, load_policy
from cairn.runs.evaluation import as_policy
from cairn.runs.serving import export_onnx
from cairn.vector.choose import make_vector

ROWS, STEPS, SEED = 5, 200, 7000
MOST = 1e-5
SECONDS, TIMES = 0.25, 3


def visited(saved: Saved) -> Any:
    """[STEPS, ROWS, ...] what the policy observes as it plays."""
    envs = make_vector(saved.task.for_scoring(), ROWS, backend="sync")
    try:
        policy, obs, rows = as_policy(saved.agent), envs.reset(list(range(SEED, SEED + ROWS))), []
        for _ in range(STEPS):
            rows.append(obs.copy())
            step = envs.step(policy(obs))
            policy.forget(step.terminated | step.truncated)
            obs = step.obs
        return np.stack(rows)
    finally:
        envs.close()


def per_second(call: Callable[[], Any]) -> float:
    """Calls a second, the best of a few times: other work on the machine only slows them."""
    best = 0.0
    for _ in range(TIMES):
        begun, count = time.perf_counter(), 0
        while time.perf_counter() - begun < SECONDS:
            call()
            count += 1
        best = max(best, count / (time.perf_counter() - begun))
    return best


def through_onnx(file: Path, obs: Any) -> Callable[[], Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    whole = {"tensor(int64)": np.int64, "tensor(float)": np.float32}
    given = {one.name: np.zeros((1, *one.shape[1:]), whole[one.type]) for one in session.get_inputs()[1:]}
    return lambda: session.run(None, {"obs": obs, **given})


def through_predict(path: Path, saved: Saved) -> Callable[[], Any]:
    model = cairn.model(agent_name(saved.agent.cfg)).load(path)
    env = model.task.for_scoring()()
    obs, state = env.reset(seed=SEED)[0], None
    env.close()
    _, state = model.predict(obs, deterministic=True)
    return lambda: model.predict(obs, state=state, deterministic=True)


def measured(path: Path, folder: Path) -> dict[str, Any]:
    saved = load_policy(path)
    seen, out = visited(saved), folder / "policy.onnx"
    drawn = export_onnx(saved.agent, out, task=saved.task.id)
    found = export_onnx(saved.agent, out, task=saved.task.id, seen=seen)
    return {
        "policy": path.name,
        "agent": agent_name(saved.agent.cfg),
        "difference": found.difference,
        "other_choices": found.ties,
        "on_random_observations": drawn.difference,
        "kilobytes": round(found.size / 1e3, 1),
        "onnx_calls_per_second": round(per_second(through_onnx(out, seen[0, :1]))),
        "predict_calls_per_second": round(per_second(through_predict(path, saved))),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.checks.export")
    parser.add_argument("names", nargs="*", default=sorted(path.name for path in (ROOT / "zoo").iterdir()))
    names = parser.parse_args().names
    torch.set_num_threads(1)
    rows, failed = [], []
    print(f"{'policy':28} {'agent':11} {'difference':>10} {'random obs':>10} {'kB':>8} {'onnx/s':>8} {'predict/s':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            try:
                row = measured(ROOT / "zoo" / name, Path(folder))
            except CairnError as error:
                failed.append(name)
                print(f"{name:28} {error}", flush=True)
                continue
            rows.append(row)
            bad = row["difference"] > MOST or row["other_choices"]
            failed += [name] * bool(bad)
            print(
                f"{name:28} {row['agent']:11} {row['difference']:10.1e} {row['on_random_observations']:10.1e}"
                f" {row['kilobytes']:8,.0f} {row['onnx_calls_per_second']:8,} {row['predict_calls_per_second']:9,}"
                f"{'  DIFFERENT' if bad else ''}",
                flush=True,
            )
    print(f"{len(rows)} policies, largest difference {max((row['difference'] for row in rows), default=0.0):.1e}")
    if len(names) > 1:
        versions = {"torch": torch.__version__, "onnxruntime": onnxruntime.__version__}
        save({"name": "export", "hardware": hardware("cpu"), **versions, "rows": rows}, BENCHMARKS / "export.json")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
