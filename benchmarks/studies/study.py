"""`python -m benchmarks.studies.study NAME [--seeds 1 2 3] [--jobs 2] [--draw] [options]`

One recipe trained in several variants.

    bitflip     success against steps for 8 to 50 bits, with hindsight and without
    her-goals   strategies and k of hindsight, one goal against many, hindsight against none
    racecar     the race car with the faults of the notes put back, one at a time (racecar-her itself is in results/)
    rooms       flat DQN, with hindsight and without, in the hierarchy's steps; and the hierarchy with a part changed
    aggrevated  the walker's AggreVaTeD with the faults of the notes put back, one at a time (itself it is in results/)
    pixels      pixel-cartpole with one thing changed: how long an action is held, view, pixels, stack, averaged reward

Each variant is a plain `cairn train` in a process of its own, under runs/study; one that was finished is not run again.
Other options, such as --device cuda, go to each of them.
The curves go to results/studies/NAME.json; --draw makes docs/img/NAME.png and prints the table from that file alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.store import ROOT, STUDIES
from benchmarks.studies.draw import panels
from cairn.core.serialise import from_json, to_json
from cairn.recipes import RECIPES, find
from cairn.recipes.recipe import Recipe
from cairn.runs.curves import evaluations


@dataclass(frozen=True)
class Variant:
    """A recipe with some options of `cairn train` changed; `group` is the panel of the figure it is drawn in."""

    name: str
    recipe: str  # or "--env ENV --agent KIND"
    options: tuple[str, ...] = ()
    group: str = ""
    episodes: int = 100  # of the evaluation at the end


def _bits(n: int, hindsight: str, *more: str, about: str, episodes: int = 1000) -> Variant:
    options = ("--env-args", json.dumps({"n": n}), "--hindsight", hindsight, *more)
    return Variant(f"{n} bits, {about}", "bitflip-dqn-her", options, about, episodes)


def bitflip() -> list[Variant]:
    found = []
    for n in (8, 13, 15, 25, 40, 50):
        every = "1000" if n <= 15 else "2000" if n == 25 else "5000"
        found.append(_bits(n, "future", "--eval-every", every, about="hindsight"))
    found += [_bits(n, "off", "--steps", "100000", "--eval-every", "5000", about="none") for n in (8, 13)]
    found.append(_bits(15, "off", about="none"))  # as many steps as fifty bits are given
    return [*found, _bits(15, "off", "--steps", "100000", "--agent.epsilon", "0.2", about="none, ε = 0.2")]


def her_goals() -> list[Variant]:
    found = []
    for strategy in ("future", "episode", "final", "random"):
        for k in (1, 4, 8):
            options = ("--hindsight", strategy, "--hindsight-k", str(k))
            found.append(Variant(f"{strategy}, k = {k}", "her-goals", options, "many goals"))
    found.append(Variant("none", "her-goals", ("--hindsight", "off"), "many goals"))
    one = ("--env-args", json.dumps({"n": 25, "one_goal": True}))
    found.append(Variant("one goal, future, k = 4", "her-goals", one, "one goal"))
    found.append(Variant("one goal, none", "her-goals", (*one, "--hindsight", "off"), "one goal"))
    return found


def racecar() -> list[Variant]:
    def car(name: str, *options: str, **args: Any) -> Variant:
        task = ("--env-args", json.dumps({**RECIPES["racecar-her"].env_args, **args}))
        steps = () if "--steps" in options else ("--steps", "120000")
        return Variant(name, "racecar-her", (*task, *steps, *options), "causes")

    slow = ("--time-limit", "1500", "--steps", "240000", "--agent.updates-per-step", "0.5")  # the same updates
    return [
        car("a touch ends the episode", contact="ends"),
        car("one goal for ever", goals="one"),
        car("walls of 100 kg", wall_mass=100.0),
        car("a decision each physics step", *slow, frame_skip=1),
        car("no margin to the walls", margin=0.0),
        car("no hindsight", "--hindsight", "off"),
    ]


def rooms() -> list[Variant]:
    steps, envs = RECIPES["rooms-hiro-dqn"].steps, RECIPES["rooms-hiro-dqn"].envs
    flat: tuple[str, ...] = ("--steps", str(steps), "--envs", str(envs), "--agent.epsilon", "linear(1,0.05,0.5)")
    flat += ("--agent.normalise", "--agent.relative-goals")
    task = "--env cairn/KeyDoorRooms-v0 --agent dqn"
    return [
        Variant("flat DQN", task, (*flat, "--hindsight", "off"), "flat"),
        Variant("flat DQN, hindsight", task, (*flat, "--hindsight", "future"), "flat"),
        Variant("the hierarchy", "rooms-hiro-dqn", (), "hierarchy"),
        Variant("no correction", "rooms-hiro-dqn", ("--agent.correction", "off"), "hierarchy"),
        Variant("high level, hindsight", "rooms-hiro-dqn", ("--agent.high-hindsight", "0.5"), "hierarchy"),
    ]


def pixels() -> list[Variant]:
    def cart(name: str, group: str, **args: Any) -> Variant:
        task = ("--env-args", json.dumps(args), "--eval-args", json.dumps({"average": False}), "--steps", "500000")
        return Variant(name, "pixel-cartpole", task, group)

    found = [cart("held for 1 step", "skip")]
    found += [cart(f"held for {n} steps", "skip", skip=n) for n in (2, 4)]
    found.append(cart("held for 4, their mean paid", "skip", skip=4, average=True))
    found += [cart(f"view {view}", "crop", view=view) for view in ("cart", "track", "screen")]
    found += [cart(f"{size} x {size} pixels", "resolution", size=size) for size in (42, 60)]
    found += [cart(f"{n} frame{'s' * (n > 1)}", "stack", stack=n) for n in (1, 2)]
    notes = cart("as the notes had it", "the notes", view="screen", skip=4, average=True)
    return [*found, notes]


def aggrevated() -> list[Variant]:
    faults = (("Q* scaled to [0, 1]", "--agent.mistaken-minmax"), ("log σ held at 2", "--agent.mistaken-log-std"))
    learners = ("reinforce", "ppo")
    return [Variant(f"{f}, {x}", f"bipedal-aggrevated-{x}", (option,), x) for x in learners for f, option in faults]


NAMES = {
    "bitflip": bitflip,
    "her-goals": her_goals,
    "racecar": racecar,
    "rooms": rooms,
    "aggrevated": aggrevated,
    "pixels": pixels,
}
SOLVED = {"aggrevated": 300.0, "pixels": 475.0}  # the return that counts, where no success is told


def _same(stored: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a run was made of this; a field that recipes did not have then stands at its default."""
    if isinstance(stored["recipe"], dict):
        stored = {**stored, "recipe": to_json(from_json(Recipe, stored["recipe"]))}
    return stored == wanted


def run(study: str, variant: Variant, seed: int) -> dict[str, Any]:
    """Train where that is still to be done, evaluate, and read the curve."""
    slug = "".join(c if c.isalnum() else "-" for c in variant.name)
    folder = ROOT / "runs" / "study" / study / f"{slug}-s{seed}"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    cairn = [sys.executable, "-m", "cairn"]
    train = [*cairn, "train", *variant.recipe.split()]
    done, made_of = folder / "score.json", folder / "variant.json"
    recipe = variant.recipe if variant.recipe.startswith("-") else to_json(find(variant.recipe))
    wanted = {"options": list(variant.options), "episodes": variant.episodes, "recipe": recipe}
    if folder.exists() and (not made_of.exists() or not _same(json.loads(made_of.read_text()), wanted)):
        sys.exit(f"{folder} is of other options, or of the recipe as it was; move it away first.")
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made_of.write_text(json.dumps(wanted))
        command = [*train, "--seed", str(seed), *variant.options, "--out", str(folder)]
        if (folder / "config.json").exists():
            command = [*train, "--resume", "--out", str(folder)]
        subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
        newest = sorted((folder / "checkpoints").iterdir())[-1]  # where it ended, not its best moment
        evaluate = [*cairn, "eval", str(newest), "--episodes", str(variant.episodes), "--json", "--device", "auto"]
        done.write_text(subprocess.run(evaluate, check=True, env=env, capture_output=True, text=True).stdout)
    score = json.loads(done.read_text())
    curve = [list(point) for point in evaluations(folder, "return" if score["success"] is None else "success")]
    kept = {"seed": seed, "success": score["success"], "mean": score["mean"], "episodes": score["episodes"]}
    print(f"{variant.name}, seed {seed}: {figure(kept)} over {score['episodes']} episodes", flush=True)
    return {**kept, "curve": curve}


def figure(run: dict[str, Any]) -> str:
    """Success, or the mean return where the task tells of none."""
    return f"{run['mean']:.0f}" if run["success"] is None else f"{run['success']:.1%}"


def study(name: str, seeds: list[int], jobs: int, only: str = "", options: Sequence[str] = ()) -> Path:
    variants = [replace(v, options=(*v.options, *options)) for v in NAMES[name]() if only in v.name]
    work = [(variant, seed) for variant in variants for seed in seeds]
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda one: run(name, *one), work))
    body = []
    for variant in variants:
        runs = [f for (v, _), f in zip(work, found, strict=True) if v is variant]
        body.append({**asdict(variant), "runs": runs})
    STUDIES.mkdir(parents=True, exist_ok=True)
    path = STUDIES / f"{name}.json"
    earlier = json.loads(path.read_text()) if only and path.exists() else []
    known = {entry["name"]: entry for entry in earlier}
    for entry in body:
        before = known.get(entry["name"])
        if before is not None and before["options"] == list(entry["options"]):  # other seeds of the same stay
            others = [r for r in before["runs"] if r["seed"] not in seeds]
            entry["runs"] = sorted([*others, *entry["runs"]], key=lambda r: r["seed"])
        known[entry["name"]] = entry
    path.write_text(json.dumps([known[v.name] for v in NAMES[name]() if v.name in known]) + "\n")
    return path


def steps_to(curve: list[list[float]], level: float) -> float | None:
    """The first evaluation at `level` or above."""
    return next((step for step, _, value in curve if value >= level), None)


def table(body: list[dict[str, Any]], solved: float) -> str:
    returns = body[0]["runs"][0]["success"] is None
    what, level, written = ("return", solved, f"{solved:g}") if returns else ("success", 0.95, "95%")
    lines = [f"| variant | {what} at the end, per seed | steps to {written} |", "| --- | --- | --- |"]
    for entry in body:
        ends = ", ".join(figure(r) for r in entry["runs"])
        steps = [steps_to(r["curve"], level) for r in entry["runs"]]
        told = ", ".join("-" if s is None else f"{s:,.0f}" for s in steps)
        lines.append(f"| {entry['name']} | {ends} | {told} |")
    return "\n".join(lines)


def draw(name: str) -> Path:
    body = json.loads((STUDIES / f"{name}.json").read_text())
    print(table(body, SOLVED.get(name, 0.0)))
    return panels(body, ROOT / "docs" / "img" / f"{name}.png")


def main() -> None:
    about = "One recipe in several variants. Other options go to each `cairn train`."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.study", description=about, allow_abbrev=False)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time, one core each")
    parser.add_argument("--only", default="", help="variants with this in their name; the others stay as recorded")
    parser.add_argument("--draw", action="store_true", help="only draw what is recorded")
    args, options = parser.parse_known_args()
    print(draw(args.name) if args.draw else study(args.name, args.seeds, args.jobs, args.only, options))


if __name__ == "__main__":
    main()
