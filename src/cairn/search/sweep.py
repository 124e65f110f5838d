"""One recipe with several seeds, each a training of its own (places.py says where). Interrupted seeds are resumed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.format import number
from cairn.core.metric import figure
from cairn.core.terminal import wrapped
from cairn.core.untrusted import MIB, read_bytes, read_json
from cairn.evidence.statistics import bootstrap, interquartile_mean
from cairn.runs.config import read_recipe
from cairn.runs.curves import read_curves
from cairn.search.places import Finished, Place, run

SCORE = "score.json"  # in the folder of a seed, once it is scored
SETTINGS = "sweep.json"  # in the folder of a sweep
TrainAll = Callable[[Mapping[int, Path]], Mapping[int, str]]  # seeds and their folders -> why some failed


@dataclass(frozen=True)
class Trial:
    """The result of one seed; `fault` is the last line of its output if it failed."""

    seed: int
    folder: Path
    figure: float = float("nan")  # metric of the best policy over fresh episodes
    steps: int = 0
    seconds: float = 0.0
    fault: str = ""


def sweep(
    name: str,
    options: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    place: Callable[[], Place],
    episodes: int,
    trust: bool = False,
    together: TrainAll | None = None,
) -> list[Trial]:
    """Run `cairn train NAME OPTIONS` for each seed in out/sSEED, and evaluate the best policies.

    Args:
        name: Name or file of the recipe.
        options: Further options of `cairn train`.
        seeds: The seeds.
        out: Folder of the sweep; one that exists is continued.
        place: Gives the place where they are trained, once the folder is there.
        episodes: Episodes of each evaluation.
        trust: Whether to pass `--trust`.
        together: Trains all seeds in this process; None: each is a command of its own.

    Returns:
        One trial per seed.

    Raises:
        CairnError: The folder has other contents.
    """
    wanted = json.dumps({"name": name, "options": list(options), "episodes": episodes}) + "\n"
    made_of = out / SETTINGS
    if made_of.exists() and read_bytes(made_of, MIB) != wanted.encode():
        raise CairnError(f"{out} holds a sweep of other settings; name another folder with {option('out')}.")
    if not made_of.exists():
        must_be_new(out, but=rf"s\d+|\.{SETTINGS}\.part")
    out.mkdir(parents=True, exist_ok=True)
    if not made_of.exists():
        written_whole(made_of, wanted)
    folders, left = {seed: out / f"s{seed}" for seed in seeds}, unscored(out, seeds)
    plan = Plan(name, options, place(), episodes, trust=trust, trained=together is not None)
    faults = together(left) if together is not None and left else {}

    def trial(seed: int) -> Trial:
        fault = faults.get(seed, "")
        return Trial(seed, folders[seed], fault=fault) if fault else plan.trial(seed, folders[seed])

    with ThreadPoolExecutor(plan.place.jobs) as pool:
        return list(pool.map(trial, seeds))


def unscored(out: Path, seeds: Sequence[int]) -> dict[int, Path]:
    """The seeds of a sweep that are still to be trained or scored, and their folders."""
    folders = {seed: out / f"s{seed}" for seed in seeds}
    return {seed: folder for seed, folder in folders.items() if not (folder / SCORE).exists()}


def written_whole(path: Path, text: str) -> None:
    """Write a file so that a process killed meanwhile leaves none, or all of it."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def must_be_new(out: Path, *, but: str = "") -> None:
    """Raise CairnError where a folder has any contents, except names that match `but`."""
    if out.is_dir() and not all(re.fullmatch(but, path.name) for path in out.iterdir()):
        raise CairnError(f"{out} holds other files; name a new folder with {option('out')}.")
    if out.exists() and not out.is_dir():
        raise CairnError(f"{out} is a file; name a new folder with {option('out')}.")


@dataclass(frozen=True)
class Plan:
    """What is done for every seed: `cairn train NAME OPTIONS` at a place, unless they are trained, and `cairn eval`."""

    name: str
    options: Sequence[str]
    place: Place
    episodes: int
    trust: bool = False
    trained: bool = False

    def trial(self, seed: int, folder: Path) -> Trial:
        """Train and score one seed; what is there is not made again."""
        score = folder / SCORE
        if not score.exists():
            said = self._scored(seed, folder.resolve())
            if said.code != 0:
                lines = said.err.strip().splitlines() or ["no output"]
                return Trial(seed, folder, fault=lines[-1])
            written_whole(score, said.out)
        found, last = read_json(score), read_curves(folder).last()
        try:
            mean, success = float(found["mean"]), None if found["success"] is None else float(found["success"])
        except (LookupError, TypeError, ValueError) as error:
            raise CairnError(
                f"{score} was not written by `cairn eval`; remove it, and the policy is evaluated again."
            ) from error
        judged = figure(read_recipe(folder, trust=True).metric, mean, success)
        return Trial(seed, folder, judged, *((last.step, last.seconds) if last is not None else ()))

    def _scored(self, seed: int, folder: Path) -> Finished:
        """Train a seed, or go on with it, and score it; how the last command ended."""
        told = ["--trust"] if self.trust else []

        def training() -> list[str]:
            begun = (folder / "config.json").exists()
            rest = ["--resume"] if begun else ["--seed", str(seed), *self.options]
            return ["train", self.name, *rest, *told, "--out", str(folder)]

        def scoring() -> list[str]:
            return ["eval", str(folder), "--episodes", str(self.episodes), "--json", *told]

        said = Finished(0) if self.trained else run(self.place, training, f"seed {seed}")
        return said if said.code != 0 else run(self.place, scoring, f"the evaluation of seed {seed}")


def table(trials: Sequence[Trial]) -> str:
    """The results as text: one line per seed, and a summary."""
    lines = [f"{'seed':>6}{'score':>12}{'steps':>14}{'seconds':>10}"]
    for t in trials:
        told = f"{number(t.figure, 4):>12}{t.steps:>14,}{t.seconds:>10,.0f}"
        lines.append(f"{t.seed:>6}{told}" if not t.fault else wrapped(f"{t.seed:>6}  failed: {t.fault}", " " * 8))
    good = [t.figure for t in trials if not t.fault]
    if good:
        low, high = bootstrap(good)
        summary = (
            f"{len(good)} seeds: interquartile mean {number(interquartile_mean(good), 4)} (95 % bootstrap interval"
            f" {number(low, 4)} to {number(high, 4)}), worst {number(min(good), 4)}, best {number(max(good), 4)}"
        )
        lines.append(wrapped(summary, "  "))
    return "\n".join(lines)
