"""A run: its counters and its folder; decides when to log, evaluate, save and stop. Implements `TrainingRun`."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
from torch import Tensor

from cairn.core.agent import Agent, Metrics
from cairn.core.checks import short
from cairn.core.errors import CairnError
from cairn.core.metric import figure as judged_figure
from cairn.core.seeding import derive_many
from cairn.core.serialise import to_json
from cairn.core.state import generator_state
from cairn.core.types import Array, Step
from cairn.recipes.identity import provenance
from cairn.recipes.recipe import Recipe
from cairn.replay.protocol import Checkpointable
from cairn.runs.callbacks import Callbacks, Event, TrainingProgress
from cairn.runs.checkpoint import save_checkpoint, save_policy
from cairn.runs.config import write_config
from cairn.runs.counters import counters
from cairn.runs.evaluation import Score
from cairn.runs.figures import Ended, as_numbers, averages, headline
from cairn.runs.interrupts import INTERRUPTS
from cairn.runs.lock import Lock
from cairn.runs.logs import Logs
from cairn.runs.notices import UNTOLD, no_success, notices
from cairn.runs.policy_files import checkpoints
from cairn.runs.progress import progress_of
from cairn.runs.trackers import Trackers
from cairn.runs.watching import Moment, Watcher

SAME_REQUEST = 1.0  # seconds; `timeout` and schedulers signal the process and then its group: one request


class Run:
    """A context in which SIGINT and SIGTERM end the run after the current step, with a checkpoint saved."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path | None,
        evaluator: Callable[[Agent, Callable[[], bool]], Score | None] | None = None,
        watcher: Watcher | None = None,
        lock: Lock | None = None,
        callbacks: Callbacks | None = None,
    ) -> None:
        self.recipe, self.folder, self.evaluator, self.watcher, self.lock = recipe, folder, evaluator, watcher, lock
        self.callbacks = callbacks or Callbacks()
        self.trackers = Trackers(recipe, folder)
        self.device, self.reports = recipe.device, True  # False: logs and best policy are those of another learner
        self.step = self.updates = self.episodes = 0
        self.first_steps: int | None = recipe.steps  # `steps` when the run was started
        self.restarts = self.earlier_restarts = 0  # replaced environment workers
        self.marks = {"log": 0, "eval": 0, "checkpoint": 0}  # the step at which each was last done
        self.recent: deque[Ended] = deque(maxlen=100)
        self.metrics: dict[str, Tensor | Callable[[], Tensor]] = {}
        self.best = float("-inf")
        self.said_no_success = False
        self.held = 0  # evaluations in a row at the target
        self.score: Score | None = None
        self.asked: str | None = None  # why the run was told to stop
        self.asked_at = 0.0
        self.solved = False
        self.warned: list[str] = []  # codes of the watcher's remarks
        self.lesson: Any = None  # what an imitation algorithm learns from; `taught`: its checksums
        self.taught: dict[str, str] = {}
        self.notes: dict[str, Any] = {}  # further facts to save with a policy
        self.earlier = 0.0  # seconds spent before a resume
        self.begun = time.perf_counter()
        self.logs: Logs | None = None
        self.progress_line = progress_of(recipe)

    # -- the life of a run

    def start(self) -> None:
        """Begin a new run in its folder."""
        if self.folder is not None and self.reports:
            write_config(self.folder, self.recipe)
            self.logs = Logs(self.folder, self.recipe.env, say=self.progress_line.say)

    @property
    def over(self) -> bool:
        """Whether nothing is left to do: the run ended, and its end was evaluated and logged."""
        ended = self.solved or self.step >= self.recipe.steps
        return ended and self.marks["log"] == self.marks["eval"] == self.step

    def __enter__(self) -> Run:
        self.trackers.begin(self.progress_line.say)
        for sentence in notices(self.recipe):
            self.progress_line.say(f"cairn: {sentence}")
        INTERRUPTS.tell(self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        INTERRUPTS.leave(self._interrupt)
        self.progress_line.done()
        try:
            if self.logs is not None:
                self.logs.close(quietly=kind is not None)
        finally:
            failed = kind is not None or self.callbacks.error is not None
            self.trackers.close("failed" if failed else "stopped" if self.interrupted else "finished")

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.asked is None:
            self.asked, self.asked_at = signal.Signals(number).name, time.perf_counter()
        elif time.perf_counter() - self.asked_at > SAME_REQUEST:
            raise KeyboardInterrupt  # the second request: stop at once

    # -- called by the loops

    @property
    def progress(self) -> float:
        return min(self.step / self.recipe.steps, 1.0)

    @property
    def interrupted(self) -> str | None:
        return self.asked

    @property
    def seed(self) -> int:
        return self.recipe.seed

    @property
    def steps_in_all(self) -> int:
        return self.recipe.steps

    @property
    def seconds(self) -> float:
        """Seconds of training so far, including those before a resume."""
        return self.earlier + time.perf_counter() - self.begun

    def going(self) -> bool:
        self._must_hold()
        return self.step < self.recipe.steps and self.interrupted is None and not self.solved

    def env_seeds(self) -> list[int]:
        """Seeds to reset every environment with at this step, equal in an uninterrupted and a resumed run."""
        return derive_many(self.recipe.seed, self.recipe.envs, "train", self.step)

    def advance(self, step: Step, counted: Array) -> None:
        """Count the steps taken and record the episodes that ended."""
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
            self.step,
            "  ! ".join([headline(self.recent, self.recipe.metric), *self.warned]) if self.progress_line.live else "",
        )

    def meet(self, valid: Any = None) -> None:
        return None

    def log(self, metrics: Metrics) -> None:
        """Keep the newest value of each metric. Functions are called, and tensors read, only when a log is due."""
        if type(metrics) is not dict and not isinstance(metrics, Mapping):  # the first test is cheaper
            raise CairnError(f"an agent's update must return a dictionary of metrics, not {short(metrics)}.")
        self.metrics.update(metrics)

    def house_keeping(self, agent: Agent, restarts: int, replay: Checkpointable | None = None) -> bool:
        """Log, evaluate and save where due. True: reset the environments now (see `env_seeds`)."""
        self._must_hold()
        self.restarts = self.earlier_restarts + restarts
        if self._due("log", self.recipe.log_every):
            self._write_metrics(agent)
        evaluated = self.step // self.recipe.eval_every > self.marks["eval"] // self.recipe.eval_every
        if evaluated:
            self.evaluate(agent)
        if self.callbacks.asked_to_stop and self.going():
            self.asked = "callback"
        if not self.checkpoint_due():
            return evaluated and self._lent_out(replay)
        self.save(agent, replay)
        return True

    def checkpoint_due(self) -> bool:
        every = self.recipe.checkpoint_every
        crossed = self.step // every > self.marks["checkpoint"] // every
        return self.folder is not None and (crossed or self.interrupted is not None)

    def _lent_out(self, replay: Checkpointable | None) -> bool:
        """Whether an evaluation played in the environments of the training, whose episodes end there."""
        shared = self.recipe.make is not None and self.recipe.make.shared
        if shared and replay is not None:
            replay.cut()
        return shared

    def finish(self, agent: Agent, replay: Checkpointable | None = None) -> None:
        """Evaluate a last time, then save a last checkpoint, which includes the score."""
        before = dict(self.marks)
        if self.marks["log"] != self.step:
            self.marks["log"] = self.step
            self._write_metrics(agent)
        if self.interrupted is None and self.marks["eval"] != self.step:
            self.evaluate(agent)
        if self.folder is not None and (before != self.marks or self.marks["checkpoint"] != self.step):
            self.save(agent, replay)

    # -- evaluation, logs and checkpoints

    def _must_hold(self) -> None:
        """Raise CairnError if the lock is known to be lost. Cheap enough for every step."""
        if self.lock is not None and self.lock.lost:
            self.lock.check()

    def _due(self, what: str, every: int) -> bool:
        if self.step // every == self.marks[what] // every:
            return False
        self.marks[what] = self.step
        return True

    def _write_metrics(self, agent: Agent) -> None:
        values = as_numbers(self.metrics) | averages(self.recent)
        self.metrics.clear()
        values["time/fps"] = self.step / max(self.seconds, 1e-9)
        values["time/env_restarts"] = float(self.restarts)
        if self.logs is not None:
            self.logs.metrics(self.step, self.seconds, values)
        self._watch(values)
        self._tell("log", agent, values)

    def _tell(self, event: Event, agent: Agent, values: dict[str, float]) -> None:
        """Hand the figures to trackers and callbacks."""
        self.trackers.scalars(self.step, values)
        counters = self.step, self.recipe.steps, self.seconds
        self.callbacks.tell(TrainingProgress(event, *counters, dict(values), agent, self.folder))

    def _watch(self, values: Mapping[str, float]) -> None:
        """Print and log the watcher's new remarks."""
        if self.watcher is None:
            return
        now = Moment(self.step, self.progress, self.updates, values, self.best, self.recipe.target)
        for remark in self.watcher.check(now):
            self.warned.append(remark.code)
            self.progress_line.say(f"step {self.step:,}: {remark}")
            if self.logs is not None:
                self.logs.remark(self.step, remark)

    def evaluate(self, agent: Agent) -> None:
        """Score the policy in separate environments, save it if it is the best, and compare it with the target."""
        if self.evaluator is None:
            return
        score = self.evaluator(agent, lambda: self.asked is not None)
        if score is None:  # interrupted
            return
        self.marks["eval"] = self.step
        if score.episodes < self.recipe.eval_episodes:
            self._ended_early(agent, score)
            return
        self.score = score
        values = {"eval/mean_reward": score.mean, "eval/mean_ep_length": score.steps / score.episodes}
        if score.success is not None:
            values["eval/success_rate"] = score.success
        else:
            self._say_no_success()
        figure = judged_figure(self.recipe.metric, score.mean, score.success)
        if self.lock is not None:
            self.lock.check()  # the lock may be lost during a long evaluation
        if self.logs is not None:
            self.logs.metrics(self.step, self.seconds, values)
            self.logs.evaluation(self.step, score)
        if figure >= self.best:
            self.best = figure
            if self.folder is not None and self.reports:
                save_policy(self.folder / "best", agent, self.recipe.judged_task, self._about())
        reached = self.recipe.target is not None and figure >= self.recipe.target
        self.held = self.held + 1 if reached else 0
        self.solved = self.held >= self.recipe.hold
        self._tell("evaluation", agent, values)

    def bar(self) -> float | None:
        """The score below which an evaluation changes nothing now, so that it may end early; None: none may.

        The last one of a run is played to its end.
        """
        if not self.recipe.eval_early_stop or self.step >= self.recipe.steps or self.best == float("-inf"):
            return None
        return self.best if self.recipe.target is None else min(self.best, self.recipe.target)

    def _ended_early(self, agent: Agent, score: Score) -> None:
        """Log an evaluation that was clearly below the bar. It is no score: neither in the curve nor the last one."""
        self.held = 0
        values = {"eval/stopped_mean_reward": score.mean, "eval/stopped_after": float(score.episodes)}
        if self.logs is not None:
            self.logs.metrics(self.step, self.seconds, values)
        self._tell("log", agent, values)

    def _say_no_success(self) -> None:
        """Say once that the run is judged by success but the task reports none."""
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
        """Write a checkpoint of the agent, the counters and the replay."""
        assert self.folder is not None
        if self.lock is not None:
            self.lock.check()
        self.marks["checkpoint"] = self.step
        training = {**counters(self), "logs": self.logs.marks() if self.logs else {}, "recipe": to_json(self.recipe)}
        if replay is not None:
            replay.cut()
            training["replay"] = replay.save()
            training["replay_generator"] = generator_state(replay.generator)
        save_checkpoint(self.folder / "checkpoints", agent, self.recipe.judged_task, self._about(), training)

    def last_checkpoint(self) -> str:
        """Where the last checkpoint is, as a clause for messages."""
        found = self.newest
        return f"the last checkpoint is {found}" if found else "there is no checkpoint yet"

    @property
    def newest(self) -> Path | None:
        """The checkpoint from which a resume continues; None where there is none."""
        found = checkpoints(self.folder / "checkpoints") if self.folder else []
        return next((path for path in reversed(found) if int(path.name) <= self.step), None)

    @property
    def saved(self) -> bool:
        """Whether the newest checkpoint is of the current step."""
        return self.newest is not None and int(self.newest.name) == self.step
