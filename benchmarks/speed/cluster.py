"""Samplers on a cluster that is simulated on this machine (ray.cluster_utils): many nodes, no more cores than it has.

    python -m benchmarks.speed.cluster scale [--samplers 1 2 4 8 16 32 64] [--sleep 0.01] [--record]
    python -m benchmarks.speed.cluster overhead [--env BipedalWalker-v3] [--workers 2] [--envs 16] [--record]
    python -m benchmarks.speed.cluster chaos NAME [--kills 10] [--nodes 4] [any option of cairn train]
    python -m benchmarks.speed.cluster sweep NAME [--trials 8] [--nodes 2] [any option of cairn train]
    python -m benchmarks.speed.cluster learners [--counts 1 2] [--rollouts 6] [--repeats 3] [--record]

`scale` has samplers of one environment each that sleeps at every step, so that none needs a core of its own. Efficiency
is their steps a second over those that as many alone would take. `overhead` has samplers play a task that works, with a
policy of usual size, and compares each with one that plays in this process, without Ray, on a core it has to itself.
`chaos` trains a recipe while samplers are killed at
random and a node is removed, and says whether the target was reached and the books balance. `learners` trains PPO on
frames of Pong with one process and with several that share every batch (cairn train --learners); they take turns, and
medians are compared. Both have one thread a process.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from benchmarks import store

NODE_CORES = 8
WARM_UP = 3  # chunks
RARELY = 1_000_000_000  # steps: not while something is measured


class Sleeper(gym.Env[Any, Any]):
    """A step takes as long as it is told, and no work."""

    def __init__(self, sleep: float) -> None:
        self.sleep, self.left = sleep, 0
        self.observation_space = gym.spaces.Box(-1, 1, (8,), np.float32)
        self.action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 200
        return self.np_random.random(8, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self.sleep)
        self.left -= 1
        return self.np_random.random(8, np.float32), 0.0, self.left == 0, False, {}


@contextmanager
def cluster(nodes: int, cores: int = NODE_CORES) -> Any:
    """A cluster of so many nodes beside a head that has no core."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_enable_worker_prestart", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 200 * 2**20})
    try:
        for _ in range(nodes):
            made.add_node(num_cpus=cores, object_store_memory=100 * 2**20)
        made.wait_for_nodes()
        yield made
    finally:
        ray.shutdown()  # type: ignore[no-untyped-call]
        made.shutdown()


def speed(samplers: int, sleep: float, seconds: float, address: str) -> tuple[float, float]:
    """Steps a second that a learner receives which learns nothing, chunk after chunk, as off-policy training asks; and
    how many ms of a core it takes for one sampler's chunk: to put the weights, order, fetch and join."""
    from cairn.algorithms import DQNConfig, build
    from cairn.algorithms.registry import maker
    from cairn.collect.protocol import Order
    from cairn.collect.ray import SamplerPool

    cfg = DQNConfig(hidden=(64, 64))
    pool = SamplerPool(
        lambda: Sleeper(sleep), samplers, maker(cfg), workers=samplers, seed=0, timeout=300, address=address
    )
    try:
        agent = build(cfg, pool.spec, seed=0, device="cpu")
        rows = pool.rows
        version, steps, begun, worked = 0, 0, 0.0, 0.0
        pool.ask(agent, version, Order(rows, seeds=tuple(range(samplers))))
        while version < WARM_UP or time.perf_counter() - begun < seconds:
            version += 1
            if version == WARM_UP:
                steps, begun, worked = 0, time.perf_counter(), time.process_time()
            steps += int(pool.answer().valid.sum())
            pool.ask(agent, version, Order(rows))
        taken, worked = time.perf_counter() - begun, time.process_time() - worked
        pool.answer()
        return steps / taken, 1e3 * worked / ((version - WARM_UP + 1) * samplers)
    finally:
        pool.close()


def scale(counts: Sequence[int], sleep: float, seconds: float, nodes: int) -> dict[str, Any]:
    with cluster(nodes) as made:
        rows: list[dict[str, float]] = []
        for samplers in counts:
            found, learner = speed(samplers, sleep, seconds, made.address)
            one = rows[0]["speed"] / rows[0]["samplers"] if rows else found / samplers
            share = found / samplers / one
            rows.append({"samplers": samplers, "speed": found, "efficiency": share, "learner_ms": learner})
            told = f"{found:>9,.0f} steps/s, efficiency {share:.2f}, {learner:.2f} ms of the learner's core a chunk"
            print(f"{samplers:>4} samplers {told}", flush=True)
    return {"name": "cluster-scale", "settings": {"sleep": sleep, "nodes": nodes, "seconds": seconds}, "rows": rows}


def overhead(env: str, workers: int, envs: int, seconds: float, repeats: int = 3) -> dict[str, Any]:
    """The two sides take turns, and medians are compared."""
    from cairn.algorithms import PPOConfig, build
    from cairn.algorithms.registry import maker
    from cairn.collect.protocol import Order
    from cairn.collect.ray import Sampler, SamplerPool
    from cairn.core.state import pack
    from cairn.envs.task import Task

    cfg, task, rows = PPOConfig(hidden=(256, 256), normalise_obs=True), Task(env), 256
    alone: list[float] = []
    shared: list[float] = []
    pool = SamplerPool(task, envs, maker(cfg), workers=workers, seed=0, timeout=300)
    try:
        agent = build(cfg, pool.spec, seed=0, device="cpu")
        weights = {name: value.numpy() for name, value in pack(agent.policy_parts).items()}
        each = envs // workers
        sampler = Sampler(task, each, maker(cfg)(pool.spec), 0)
        sampler.play(weights, Order(rows, seeds=tuple(range(each))))
        pool.ask(agent, 0, Order(rows, seeds=tuple(range(envs))))
        pool.answer()
        for version in range(1, repeats + 1):
            begun, steps = time.perf_counter(), 0
            while (taken := time.perf_counter() - begun) < seconds:
                chunk = sampler.play(weights, Order(rows))
                assert not isinstance(chunk, tuple)
                steps += int(chunk.valid.sum())
            alone.append(steps / taken)
            begun, steps = time.perf_counter(), 0
            while (taken := time.perf_counter() - begun) < seconds:
                pool.ask(agent, version, Order(rows))
                steps += int(pool.answer().valid.sum())
            shared.append(steps / taken)
    finally:
        pool.close()
    one, many = statistics.median(alone), statistics.median(shared)
    share = many / workers / one
    print(f"{env}: {one:,.0f} steps/s without Ray, {many:,.0f} with {workers} samplers: {share:.0%} of it each")
    settings = {"env": env, "workers": workers, "envs": envs, "rows": rows, "seconds": seconds, "repeats": repeats}
    return {"name": "cluster-overhead", "settings": settings, "alone": alone, "shared": shared, "share": share}


class Chaos(threading.Thread):
    """Kills samplers at random while a run goes on, and half-way through removes a node."""

    def __init__(self, kills: int, every: float, made: Any, seed: int) -> None:
        super().__init__(daemon=True)
        self.kills, self.every, self.made, self.random = kills, every, made, random.Random(seed)
        self.killed = self.removed = 0
        self.over = threading.Event()

    def run(self) -> None:
        while self.killed < self.kills and not self.over.wait(self.every):
            victims = samplers_running()
            if not victims:
                continue
            os.kill(self.random.choice(victims), signal.SIGKILL)
            self.killed += 1
            if self.killed == (self.kills + 1) // 2:
                nodes = [node for node in self.made.list_all_nodes() if node is not self.made.head_node]
                self.made.remove_node(self.random.choice(nodes))
                self.removed += 1


def samplers_running() -> list[int]:
    """Processes that Ray has named as samplers."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "cmdline").read_text().startswith("ray::Sampler"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def chaos(args: Sequence[str], kills: int, every: float, nodes: int, out: Path) -> dict[str, Any]:
    from cairn.cli.options import parse
    from cairn.recipes import find
    from cairn.recipes.recipe import Recipe
    from cairn.runs.curves import read_curves
    from cairn.runs.train import train

    recipe = parse(Recipe, list(args[1:]), default=find(args[0]), prog="benchmarks.speed.cluster chaos")
    with cluster(nodes, max(recipe.workers, 2)) as made:
        trouble = Chaos(kills, every, made, recipe.seed)
        trouble.start()
        outcome = train(replace(recipe, vector="ray", ray_address=made.address), out)
        trouble.over.set()
    books = read_curves(out).named
    told = {name: books[f"ray/steps_{name}"] for name in ("asked", "used", "dropped")}
    balance = all(a.value == u.value + d.value for a, u, d in zip(*told.values(), strict=True))
    last = {name: points[-1].value for name, points in told.items()}
    print(
        f"{args[0]}: {trouble.killed} samplers killed, {trouble.removed} nodes removed, {outcome.restarts} replaced;"
        f" {outcome.step:,} steps in {outcome.seconds:.0f} s, best {outcome.best:.2f},"
        f" target {'holds' if outcome.solved else 'NOT reached'};"
        f" asked {last['asked']:,.0f} = used {last['used']:,.0f} + dropped {last['dropped']:,.0f}:"
        f" the books {'balance' if balance else 'do NOT balance'}."
    )
    settings = {"recipe": args[0], "nodes": nodes, "workers": recipe.workers, "seed": recipe.seed}
    told_of = {"killed": trouble.killed, "removed": trouble.removed, "replaced": outcome.restarts, "balance": balance}
    ended = {"steps": outcome.step, "seconds": outcome.seconds, "best": outcome.best, "solved": outcome.solved}
    return {"name": f"cluster-chaos-{args[0]}", "settings": settings, **told_of, **last, **ended}


def sweep_with_a_loss(args: Sequence[str], trials: int, nodes: int, out: Path) -> dict[str, Any]:
    """A sweep through Ray; a node is removed once half of the seeds have a checkpoint."""
    from cairn.search.places import place
    from cairn.search.sweep import sweep, table

    with cluster(nodes, 1) as made:
        removed = threading.Event()

        def remove_one() -> None:
            while sum(any((out / f"s{seed}" / "checkpoints").glob("*")) for seed in seeds) < trials // 2:
                time.sleep(0.2)
            made.remove_node(next(node for node in made.list_all_nodes() if node is not made.head_node))
            removed.set()

        seeds = range(101, 101 + trials)
        threading.Thread(target=remove_one, daemon=True).start()
        size = {"jobs": 1, "trials": trials, "cpus": 1, "gpus": 0}
        begun = time.perf_counter()
        found = sweep(args[0], args[1:], seeds, out, place=lambda: place(made.address, out, **size), episodes=20)
    print(table(found))
    rows = [
        {"seed": t.seed, "score": t.figure, "steps": t.steps, "seconds": t.seconds, "fault": t.fault} for t in found
    ]
    settings = {"recipe": args[0], "options": list(args[1:]), "trials": trials, "nodes": nodes}
    ended = {"nodes_removed": int(removed.is_set()), "seconds": time.perf_counter() - begun}
    return {"name": f"cluster-sweep-{args[0]}", "settings": settings, **ended, "rows": rows}


def learners(counts: Sequence[int], rollouts: int, repeats: int) -> dict[str, Any]:
    """Seconds that a rollout takes, with its updates; and milliseconds in which two exchange one gradient."""
    from cairn.algorithms import PPOConfig, build
    from cairn.recipes.recipe import Recipe
    from cairn.runs.callbacks import Callbacks
    from cairn.runs.train import train

    cfg = PPOConfig(hidden=(512,), horizon=64, batch_size=256, epochs=2)
    many, each = 8, 8 * cfg.horizon
    recipe = Recipe("ALE/Pong-v5", cfg, rollouts * each, envs=many, log_every=each, eval_every=RARELY, seed=0)
    recipe = replace(recipe, checkpoint_every=RARELY, eval_episodes=1, time_limit=50, native="off")
    taken: dict[int, list[float]] = {count: [] for count in counts}
    acted: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(repeats):
        for count in counts:
            seen: list[tuple[int, float]] = []
            train(replace(recipe, learners=count), callbacks=Callbacks((lambda p: seen.append((p.step, p.seconds)),)))  # noqa: B023
            (first, begun), (last, ended) = seen[0], [one for one in seen if one[0] < recipe.steps][-1]
            taken[count].append((ended - begun) / ((last - first) / each))
            acted[count].append(_acting(replace(recipe, envs=many // count)))
    size = build(cfg, _spec(recipe), seed=0).opt.flat.data.numel()
    updates = cfg.epochs * each // cfg.batch_size
    rows = [
        {"learners": c, "seconds": statistics.median(taken[c]), "acting": statistics.median(acted[c]), "all": taken[c]}
        for c in counts
    ]
    for row in rows:
        row["efficiency"] = rows[0]["seconds"] * rows[0]["learners"] / (row["seconds"] * row["learners"])
        print(f"{row['learners']} learners: {row['seconds']:.2f} s a rollout, efficiency {row['efficiency']:.2f}")
    settings = {"rollouts": rollouts, "repeats": repeats, "envs": many, "horizon": cfg.horizon, "updates": updates}
    settings |= {"batch_size": cfg.batch_size, "parameters": size, "load": os.getloadavg()[0], "cores": os.cpu_count()}
    return {"name": "cluster-learners", "settings": settings, "exchange_ms": _exchange_ms(size), "rows": rows}


def _spec(recipe: Any) -> Any:
    from cairn.vector.spaces import spec_of_env

    return spec_of_env(recipe.task())[0]


def _acting(recipe: Any) -> float:
    """Seconds in which this process plays a rollout and learns nothing."""
    from cairn.algorithms import build
    from cairn.runs.scorer import vector_of

    envs = vector_of(recipe, recipe.envs)
    agent, obs = build(recipe.agent, envs.spec, seed=0), envs.reset(range(recipe.envs))
    begun = time.perf_counter()
    for _ in range(recipe.agent.horizon):
        obs = envs.step(agent.act(torch.from_numpy(obs), explore=True).numpy()).obs
    taken = time.perf_counter() - begun
    envs.close()
    return taken


def _exchange_ms(size: int, times: int = 30) -> float:
    """Milliseconds in which two processes of this machine add up a vector: the median."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "benchmarks.speed.cluster", "exchange", f"{folder}/store", str(size), str(times)]
        other = subprocess.Popen([*words, "1"], stdout=subprocess.DEVNULL)
        found = subprocess.run([*words, "0"], capture_output=True, text=True, check=True)
        other.wait()
    return float(found.stdout.split()[-1])


def exchange(store: str, size: int, times: int, rank: int) -> None:
    """One of the two processes."""
    from cairn.runs.process_group import Group, file_store

    torch.set_num_threads(1)
    vector, taken = torch.ones(size), []
    with Group(file_store(store, 2), rank, 2, device="cpu", local=True) as group:
        for _ in range(times):
            begun = time.perf_counter()
            group.sum_(vector)
            taken.append(1e3 * (time.perf_counter() - begun))
    print(statistics.median(taken))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.speed.cluster")
    kind = parser.add_subparsers(dest="kind", required=True)
    one = kind.add_parser("scale")
    one.add_argument("--samplers", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    one.add_argument("--sleep", type=float, default=0.01)
    one.add_argument("--seconds", type=float, default=10.0)
    one.add_argument("--nodes", type=int, default=8)
    cost = kind.add_parser("overhead")
    cost.add_argument("--env", default="BipedalWalker-v3")
    cost.add_argument("--workers", type=int, default=2)
    cost.add_argument("--envs", type=int, default=16)
    cost.add_argument("--seconds", type=float, default=10.0)
    two = kind.add_parser("chaos")
    two.add_argument("--kills", type=int, default=10)
    two.add_argument("--every", type=float, default=5.0)
    two.add_argument("--nodes", type=int, default=4)
    two.add_argument("--out", type=Path, required=True)
    seeds = kind.add_parser("sweep")
    seeds.add_argument("--trials", type=int, default=8)
    seeds.add_argument("--nodes", type=int, default=2)
    seeds.add_argument("--out", type=Path, required=True)
    several = kind.add_parser("learners")
    several.add_argument("--counts", type=int, nargs="+", default=[1, 2])
    several.add_argument("--rollouts", type=int, default=6)
    several.add_argument("--repeats", type=int, default=3)
    pair = kind.add_parser("exchange")
    pair.add_argument("store")
    for name in ("size", "times", "rank"):
        pair.add_argument(name, type=int)
    for each in (one, cost, two, seeds, several):
        each.add_argument("--record", action="store_true")
    args, rest = parser.parse_known_args()
    if args.kind == "scale":
        entry = scale(args.samplers, args.sleep, args.seconds, args.nodes)
    elif args.kind == "overhead":
        entry = overhead(args.env, args.workers, args.envs, args.seconds)
    elif args.kind == "exchange":
        return exchange(args.store, args.size, args.times, args.rank)
    elif args.kind == "learners":
        entry = learners(args.counts, args.rollouts, args.repeats)
    elif args.kind == "sweep":
        entry = sweep_with_a_loss(rest, args.trials, args.nodes, args.out)
    else:
        entry = chaos(rest, args.kills, args.every, args.nodes, args.out)
    if args.record:
        store.save(entry, store.SCALE)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
