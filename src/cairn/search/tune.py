"""The search for better settings: Optuna proposes them, and each trial is a training (places.py says where).

The value of a trial is the mean of its evaluations over the whole run, so fast learning counts too. A run that stopped
early keeps the value of its last evaluation. The first trial is the recipe itself.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.format import number
from cairn.core.seeding import derive
from cairn.core.serialise import to_json
from cairn.core.terminal import columns, wrapped
from cairn.recipes.identity import config_hash
from cairn.recipes.recipe import Recipe
from cairn.runs.curves import Point, evaluations
from cairn.runs.parts import check
from cairn.search.places import Place, run
from cairn.search.space import bounds, scaled, varied
from cairn.search.sweep import must_be_new

DATABASE = "trials.db"
THE_RECIPE = "  (the recipe)"


def tune(
    recipe: Recipe, names: Sequence[str], out: Path, *, trials: int, jobs: int, place: Callable[[], Place], seed: int
) -> Any:
    """Continue the search in `out` until it has `trials` trials, and write out/best.json.

    Args:
        recipe: Where the search begins.
        names: Settings of the agent to vary; () for the usual ones.
        out: Folder of the search.
        trials: Trials in all.
        jobs: Trials at a time.
        place: Gives the place where they are trained, once the folder is there.
        seed: Seed of the proposals.

    Returns:
        The Optuna study.

    Raises:
        CairnError: Optuna is missing, the folder has another search, or no trial finished.
    """
    if importlib.util.find_spec("optuna") is None:
        raise CairnError("`cairn tune` needs an extra: pip install 'cairn-rl[tune]'.")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    chosen = varied(recipe.agent, names)
    check(recipe)
    study = _study(recipe, chosen, out)
    fresh = derive(seed, "trials", len(study.trials))  # a continued search must not repeat its proposals
    study.sampler = optuna.samplers.TPESampler(seed=fresh % 2**32, constant_liar=jobs > 1)
    _take_up(study, chosen)

    where = place()

    def objective(trial: Any) -> float:
        factors = {name: trial.suggest_float(name, *bounds(recipe.agent, name), log=True) for name in chosen}
        settings = replace(recipe, agent=scaled(recipe.agent, factors), name=f"{recipe.name}-{trial.number}")
        return _worth(trial, settings, out / f"trial-{trial.number}", where)

    left = trials - len(_done(study))
    if left > 0:
        study.optimize(objective, n_trials=left, n_jobs=jobs, catch=(CairnError,))
    if not any(t.value is not None and t.state.name == "COMPLETE" for t in study.trials):
        raise CairnError(f"no trial was finished; see the logs in {out}.")
    best = replace(recipe, agent=scaled(recipe.agent, study.best_params), name=f"{recipe.name}-tuned", log=())
    (out / "best.json").write_text(json.dumps(to_json(best), indent=2) + "\n", encoding="utf-8")
    return study


def _study(recipe: Recipe, chosen: Sequence[str], out: Path) -> Any:
    """The study in `out`, new or continued. Raises CairnError where the folder has other contents."""
    import optuna

    path, other = out / DATABASE, f"name another folder with {option('out')}."
    storage, meant = f"sqlite:///{path}", {"settings": config_hash(recipe), "varied": list(chosen)}
    if path.exists():
        try:
            studies = optuna.get_all_study_summaries(storage)
        except Exception as error:  # SQLite, SQLAlchemy and Optuna raise many types of errors
            raise CairnError(
                f"{path} is not a database that Optuna can read ({type(error).__name__}); {other}"
            ) from error
        known = [{k: s.user_attrs.get(k, v) for k, v in meant.items()} for s in studies]
        if [s.study_name for s in studies] != [recipe.name] or not studies[0].user_attrs:
            raise CairnError(f"{out} holds another search than one for {recipe.name}; {other}")
        if known[0]["settings"] != meant["settings"]:
            raise CairnError(f"{out} holds a search that began from other settings; {other}")
        if known[0]["varied"] != meant["varied"]:
            raise CairnError(f"{out} holds a search that varies {', '.join(known[0]['varied'])}; {other}")
    else:
        must_be_new(out)
        out.mkdir(parents=True, exist_ok=True)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=2)
    study = optuna.create_study(
        study_name=recipe.name, storage=storage, load_if_exists=True, direction="maximize", pruner=pruner
    )
    for name, value in meant.items():
        study.set_user_attr(name, value)
    return study


def _done(study: Any) -> list[Any]:
    return [t for t in study.trials if t.state.name in ("COMPLETE", "PRUNED")]


def _take_up(study: Any, names: Sequence[str]) -> None:
    """Queue the recipe itself as the first trial, and repeat trials that were interrupted."""
    import optuna

    if not study.trials:
        study.enqueue_trial({name: 1.0 for name in names})
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        study.enqueue_trial(trial.params or {name: 1.0 for name in names})


def _worth(trial: Any, recipe: Recipe, folder: Path, place: Place) -> float:
    """Train and report the evaluations; a trial that is worse than most others is stopped."""
    import optuna

    plan, log = folder.with_suffix(".json").resolve(), folder.with_suffix(".log")
    plan.write_text(json.dumps(to_json(recipe)) + "\n", encoding="utf-8")
    log.write_text("", encoding="utf-8")
    seen = 0

    def training() -> list[str]:
        rest = ["--resume"] if (folder / "config.json").exists() else []
        return ["train", str(plan), *rest, "--trust", "--out", str(folder.resolve())]  # the plan was written just above

    def report() -> None:
        nonlocal seen
        curve = evaluations(folder, recipe.metric)
        for k in range(seen, len(curve)):
            trial.report(area(curve[: k + 1], recipe.steps), k)
        seen = len(curve)
        if seen and trial.should_prune():
            raise optuna.TrialPruned

    ended = run(place, training, f"trial {trial.number}", log=log, watch=report)
    if ended.code != 0:
        raise CairnError(f"trial {trial.number} failed; see {log}.{ended.err and f' {ended.err}'}")
    return area(evaluations(folder, recipe.metric), recipe.steps)


def area(curve: Sequence[Point], steps: int) -> float:
    """The mean score over the run: each evaluation counts for the steps before it, the last also for those after it."""
    if not curve:
        return float("nan")
    total, before = 0.0, 0
    for step, _, value in curve:
        total += value * (step - before)
        before = step
    return (total + curve[-1].value * max(steps - before, 0)) / max(steps, before)


def table(study: Any, recipe: Recipe) -> str:
    """The best trials and the recipe as text, and the importance of the settings."""
    import optuna

    done = sorted(_done(study), key=lambda t: t.value if t.state.name == "COMPLETE" else -1e18, reverse=True)
    names = list(study.best_params)
    wide = 18 + sum(_wide(name) for name in names) + len(THE_RECIPE) <= columns()
    lines = [f"{'trial':>6}{'score':>12}" + "".join(f"{name:>{_wide(name)}}" for name in names if wide)]
    for t in done[:8]:
        agent = scaled(recipe.agent, t.params)
        told = f"{number(t.value, 4):>12}" if t.state.name == "COMPLETE" else f"{'stopped':>12}"
        values = {name: _short(getattr(agent, name)) for name in names}
        mark = THE_RECIPE if t.number == 0 else ""
        if wide:
            lines.append(f"{t.number:>6}{told}{''.join(f'{v:>{_wide(name)}}' for name, v in values.items())}{mark}")
        else:
            settings = "  ".join(f"{name}={value}" for name, value in values.items())
            lines.append(wrapped(f"{t.number:>6}{told}  {settings}{mark}", " " * 14))
    whole = [t for t in done if t.state.name == "COMPLETE"]
    if len(whole) >= 4 and len({t.value for t in whole}) > 1:
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        shares = ", ".join(f"{name} {share:.0%}" for name, share in found.items())
        lines.append(wrapped(f"importance of the settings: {shares}", "  "))
    return "\n".join(lines)


def _wide(name: str) -> int:
    """Width of a setting's column in characters."""
    return max(len(name) + 2, 12 if name != "hidden" else 18)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace(" ", "")[:16]
