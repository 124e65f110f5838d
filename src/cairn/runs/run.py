"""A run: its counters, its folder, when to log, evaluate, save and stop. The loops tell it what happened."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cairn.core.agent import Agent, Metrics
from cairn.core.checks import short
from cairn.core.errors import CairnError
from cairn.core.metric import figure as judged_figure
from cairn.core.seeding import derive_many
from cairn.core.serialise import from_json, to_json
from cairn.core.state import generator_state
from cairn.core.types import Array, Step
from cairn.recipes.identity import provenance
from cairn.recipes.recipe import Recipe
from cairn.replay.protocol import Checkpointable
from cairn.runs.checkpoint import save_checkpoint, save_policy
from cairn.runs.config import write_config
from cairn.runs.evaluation import Score
from cairn.runs.lock import Lock
from cairn.runs.logs import Logs
from cairn.runs.notices import UNTOLD, no_success, notices
from cairn.runs.policy_files import checkpoints
from cairn.runs.progress import Progress
from cairn.runs.watching import Moment, Watcher

SAME_REQUEST = 1.0  # s: `timeout` and schedulers signal the process and then its group, which is asking once


class Run:
    """Use as a context: inside it SIGINT and SIGTERM end the run at the next step with everything saved."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path | None,
        evaluator: Callable[[Agent, Callable[[], bool]], Score | None] | None = None,
        watcher: Watcher | None = None,
        lock: Lock | None = None,
    ) -> None:
        self.recipe, self.folder, self.evaluator, self.watcher, self.lock = recipe, folder, evaluator, watcher, lock
        self.device = recipe.device
        self.step = self.updates = self.episodes = 0
        self.first_steps: int | None = recipe.steps  # those the run was started with
        self.restarts = self.earlier_restarts = 0  # environment workers replaced
        self.marks = {"log": 0, "eval": 0, "checkpoint": 0}  # the step at which each was last done
        self.recent: deque[tuple[float, int, bool | None]] = deque(maxlen=100)
        self.metrics: dict[str, Tensor | Callable[[], Tensor]] = {}
        self.best = float("-inf")
        self.said_no_success = False
        self.held = 0  # evaluations in a row at the target
        self.score: Score | None = None
        self.interrupted: str | None = None
        self.asked_at = 0.0
        self.solved = False
        self.warned: list[str] = []  # codes that a watcher spoke
        self.lesson: Any = None  # what an imitator learns from, and its checksums
        self.taught: dict[str, str] = {}
        self.notes: dict[str, Any] = {}  # what else a saved policy tells of how it came about
        self.earlier = 0.0  # seconds spent before a resume
        self.begun = time.perf_counter()
        self.logs: Logs | None = None
        self.progress_line = Progress(recipe.name or recipe.env, recipe.steps)

    # -- the life of a run

    def start(self) -> None:
        """Begin a new run in its folder."""
        if self.folder is not None:
            write_config(self.folder, self.recipe)
            self.logs = Logs(self.folder, self.recipe.env, say=self.progress_line.say)

    @property
    def over(self) -> bool:
        """Nothing is left to do: the steps are taken, or the target held, and the end was scored and written down."""
        ended = self.solved or self.step >= self.recipe.steps
        return ended and self.marks["log"] == self.marks["eval"] == self.step

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take up the counters of a checkpoint."""
        self.step, self.updates, self.episodes = saved["step"], saved["updates"], saved["episodes"]
        self.first_steps = saved.get("first_steps")
        self.marks = dict(saved["marks"])
        self.recent.clear()
        self.recent.extend((r, n, s) for r, n, s in saved["recent"])
        self.best = float("-inf") if saved["best"] is None else saved["best"]
        self.held, self.earlier, self.earlier_restarts = saved["held"], saved["seconds"], saved["restarts"]
        self.solved = saved["solved"]
        before = saved.get("recipe", {})
        if before and (before["target"], before["hold"]) != (self.recipe.target, self.recipe.hold):
            self.held, self.solved = 0, False  # another target is to be held
        self.metrics = {name: torch.tensor(value) for name, value in saved.get("metrics", {}).items()}
        self.warned = list(saved.get("warned", []))
        self.score = None if saved.get("score") is None else from_json(Score, saved["score"])
        self.progress_line = Progress(self.recipe.name or self.recipe.env, self.recipe.steps, start=self.step)

    def __enter__(self) -> Run:
        self.handlers = {}
        for sentence in notices(self.recipe):
            self.progress_line.say(f"cairn: {sentence}")
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.handlers[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        self.progress_line.done()
        if self.logs is not None:
            self.logs.close(quietly=kind is not None)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted is None:
            self.interrupted, self.asked_at = signal.Signals(number).name, time.perf_counter()
        elif time.perf_counter() - self.asked_at > SAME_REQUEST:
            raise KeyboardInterrupt  # asked twice: leave at once

    # -- what the loops ask and tell

    @property
    def progress(self) -> float:
        return min(self.step / self.recipe.steps, 1.0)

    @property
    def seed(self) -> int:
        return self.recipe.seed

    @property
    def steps_in_all(self) -> int:
        return self.recipe.steps

    @property
    def seconds(self) -> float:
        return self.earlier + time.perf_counter() - self.begun

    def going(self) -> bool:
        self._must_hold()
        return self.step < self.recipe.steps and self.interrupted is None and not self.solved

    def env_seeds(self) -> list[int]:
        """Seeds for a reset of every environment at this step: the same in a run that goes on and one resumed."""
        return derive_many(self.recipe.seed, self.recipe.envs, "train", self.step)

    def advance(self, step: Step, counted: Array) -> None:
        """Count the steps taken and note the episodes that ended."""
        self.step += int(np.count_nonzero(counted))
        for episode in step.episodes:
            if counted[episode.env]:
                self.episodes += 1
                self.recent.append((episode.total, episode.length, episode.success))
                if self.episodes == UNTOLD and all(told is None for _, _, told in self.recent):
                    self._say_no_success()
                if self.watcher is not None:
                    self.watcher.episode(episode, bool(step.terminated[episode.env]))
                if self.logs is not None:
                    self.logs.episode(episode, self.seconds)
        self.progress_line.show(
            self.step, "  ! ".join([self._headline(), *self.warned]) if self.progress_line.live else ""
        )

    def log(self, metrics: Metrics) -> None:
        """Keep the newest value of each; they become numbers, and functions are called, only when written."""
        if type(metrics) is not dict and not isinstance(metrics, Mapping):  # the cheap test first
            raise CairnError(f"an agent's update must return a dictionary of metrics, not {short(metrics)}.")
        self.metrics.update(metrics)

    def house_keeping(self, agent: Agent, restarts: int, replay: Checkpointable | None = None) -> bool:
        """Log, evaluate and save where due. True where the environments must now be reset (see `env_seeds`)."""
        self._must_hold()
        self.restarts = self.earlier_restarts + restarts
        if self._due("log", self.recipe.log_every):
            self._write_metrics()
        if self.step // self.recipe.eval_every > self.marks["eval"] // self.recipe.eval_every:
            self.evaluate(agent)
        if not self.checkpoint_due():
            return False
        self.save(agent, replay)
        return True

    def checkpoint_due(self) -> bool:
        every = self.recipe.checkpoint_every
        crossed = self.step // every > self.marks["checkpoint"] // every
        return self.folder is not None and (crossed or self.interrupted is not None)

    def finish(self, agent: Agent, replay: Checkpointable | None = None) -> None:
        """The last evaluation and the last checkpoint, which holds what it found."""
        before = dict(self.marks)
        if self.marks["log"] != self.step:
            self.marks["log"] = self.step
            self._write_metrics()
        if self.interrupted is None and self.marks["eval"] != self.step:
            self.evaluate(agent)
        if self.folder is not None and (before != self.marks or self.marks["checkpoint"] != self.step):
            self.save(agent, replay)

    # -- the chores

    def _must_hold(self) -> None:
        """CairnError where the lock is known to be lost. Costs nothing where it is not."""
        if self.lock is not None and self.lock.lost:
            self.lock.check()

    def _due(self, what: str, every: int) -> bool:
        if self.step // every == self.marks[what] // every:
            return False
        self.marks[what] = self.step
        return True

    def _headline(self) -> str:
        if not self.recent:
            return "no episode yet"
        if self.recipe.metric == "success" and any(s is not None for _, _, s in self.recent):
            return f"success {sum(bool(s) for _, _, s in self.recent) / len(self.recent):.0%}"
        return f"return {sum(r for r, _, _ in self.recent) / len(self.recent):.1f}"

    def _measured(self) -> dict[str, float]:
        """The metrics since the last log, as numbers."""
        found = {name: value() if callable(value) else value for name, value in self.metrics.items()}
        return {name: float(value.mean() if isinstance(value, Tensor) else value) for name, value in found.items()}

    def _write_metrics(self) -> None:
        values = self._measured()
        self.metrics.clear()
        if self.recent:
            returns, lengths, told = zip(*self.recent, strict=True)
            values["rollout/ep_rew_mean"] = sum(returns) / len(returns)
            values["rollout/ep_len_mean"] = sum(lengths) / len(lengths)
            if any(s is not None for s in told):
                values["rollout/success_rate"] = sum(bool(s) for s in told) / len(told)
        values["time/fps"] = self.step / max(self.seconds, 1e-9)
        values["time/env_restarts"] = float(self.restarts)
        if self.logs is not None:
            self.logs.metrics(self.step, self.seconds, values)
        self._watch(values)

    def _watch(self, values: Mapping[str, float]) -> None:
        """Say what a watcher says, and write it down."""
        if self.watcher is None:
            return
        now = Moment(self.step, self.progress, self.updates, values, self.best, self.recipe.target)
        for remark in self.watcher.check(now):
            self.warned.append(remark.code)
            self.progress_line.say(f"step {self.step:,}: {remark}")
            if self.logs is not None:
                self.logs.remark(self.step, remark)

    def evaluate(self, agent: Agent) -> None:
        """Score the policy on separate environments; keep it if it is the best; see whether the target holds."""
        if self.evaluator is None:
            return
        score = self.evaluator(agent, lambda: self.interrupted is not None)
        if score is None:  # interrupted
            return
        self.score = score
        self.marks["eval"] = self.step
        values = {"eval/mean_reward": score.mean, "eval/mean_ep_length": score.steps / score.episodes}
        if score.success is not None:
            values["eval/success_rate"] = score.success
        if score.success is None:
            self._say_no_success()
        figure = judged_figure(self.recipe.metric, score.mean, score.success)
        if self.lock is not None:
            self.lock.check()  # an evaluation takes long, and the logs and best/ are written now
        if self.logs is not None:
            self.logs.metrics(self.step, self.seconds, values)
            self.logs.evaluation(self.step, score)
        if figure >= self.best:
            self.best = figure
            if self.folder is not None:
                save_policy(self.folder / "best", agent, self.recipe.judged_task, self._about())
        reached = self.recipe.target is not None and figure >= self.recipe.target
        self.held = self.held + 1 if reached else 0
        self.solved = self.held >= self.recipe.hold

    def _say_no_success(self) -> None:
        """Once, where the run is judged by a success that nobody tells."""
        if self.recipe.metric == "success" and not self.said_no_success:
            self.said_no_success = True
            self.progress_line.say(f"cairn: {no_success(self.recipe)}")

    def _about(self) -> dict[str, Any]:
        about: dict[str, Any] = {"recipe": self.recipe.name, "seed": self.recipe.seed, "step": self.step}
        about |= {"seconds": round(self.seconds, 1), **provenance(self.recipe), **self.notes}
        if self.score is not None:
            about |= {"mean": self.score.mean, "success": self.score.success, "episodes": self.score.episodes}
        return about

    def save(self, agent: Agent, replay: Checkpointable | None) -> None:
        assert self.folder is not None and self.logs is not None
        if self.lock is not None:
            self.lock.check()
        self.marks["checkpoint"] = self.step
        training: dict[str, Any] = {
            "step": self.step,
            "first_steps": self.first_steps,
            "taught": self.taught,
            "updates": self.updates,
            "episodes": self.episodes,
            "marks": self.marks,
            "recent": list(self.recent),
            "best": None if self.best == float("-inf") else self.best,
            "held": self.held,
            "solved": self.solved,
            "seconds": self.seconds,
            "restarts": self.restarts,
            "metrics": {name: value for name, value in self._measured().items() if np.isfinite(value)},
            "warned": self.warned,
            "score": None if self.score is None else to_json(self.score),
            "logs": self.logs.marks(),
            "recipe": to_json(self.recipe),
        }
        if replay is not None:
            replay.cut()
            training["replay"] = replay.save()
            training["replay_generator"] = generator_state(replay.generator)
        save_checkpoint(self.folder / "checkpoints", agent, self.recipe.judged_task, self._about(), training)

    def last_checkpoint(self) -> str:
        found = self.newest
        return f"the last checkpoint is {found}" if found else "there is no checkpoint yet"

    @property
    def newest(self) -> Path | None:
        """The checkpoint from which a resume goes on; None where there is none."""
        found = checkpoints(self.folder / "checkpoints") if self.folder else []
        return next((path for path in reversed(found) if int(path.name) <= self.step), None)

    @property
    def saved(self) -> bool:
        """Whether the run can be resumed from where it is."""
        return self.newest is not None and int(self.newest.name) == self.step
