"""Starts the other learners of a run, here or on a Ray cluster, and tells why one was lost.

The process that is started by the user is learner 0. On a cluster the others are Ray tasks, one each.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from signal import Signals
from typing import Any, Protocol

import cloudpickle
import torch

from cairn.algorithms.registry import algorithm_of
from cairn.algorithms.settings import setting
from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.learners import learning_with
from cairn.core.memory import divided
from cairn.nets.own import Own
from cairn.recipes.recipe import Recipe
from cairn.runs.learner import ALONE, REFUSED, Work
from cairn.runs.policy_files import checkpoints
from cairn.runs.process_group import STARTS_WITHIN, Group, LostLearner, file_store

ENDS_WITHIN = 20.0  # seconds for a learner to end once the run is over, or to be seen dead


def check_learners(recipe: Recipe) -> None:
    """Raise CairnError where several learners cannot share what this recipe asks for."""
    if why := _refusal(recipe):
        raise CairnError(f"{option('learners', str(recipe.learners))} is not possible here: {why}.")


def _refusal(recipe: Recipe) -> str:
    """Why several learners cannot share a run: a clause; "" if they can, or if there is one."""
    count, algorithm, cfg = recipe.learners, algorithm_of(recipe.agent), recipe.agent
    if count == 1:
        return ""
    if algorithm.alone:
        return algorithm.alone
    if setting(cfg, "memory", "none") != "none":
        return "an agent with memory learns from sequences, which one learner draws; set agent.memory to none"
    if any(one.config.priority for one in algorithm.learners(cfg).values()):
        return "priorities are relative to one replay buffer, and each learner has its own; set agent.priority to 0"
    for name, total in (("envs", recipe.envs), ("agent.batch_size", setting(cfg, "batch_size", count))):
        if total % count:
            return f"{name} is {total}, which {count} learners cannot share equally; use a multiple of {count}"
    if recipe.vector == "ray":
        return f"Ray's samplers serve one learner; use {option('vector', 'sync')} or async"
    if recipe.make is not None and (recipe.make.shared or recipe.make.kind in ("functions", "vector")):
        return f"each learner makes environments of its own, and {recipe.env} is {recipe.make.what}"
    if recipe.native not in ("auto", "off"):
        return f"the native core updates weights without the other learners' gradients; use {option('native', 'off')}"
    if not recipe.ray_address and (few := _too_few_gpus(recipe)):
        return few
    return ""


def _too_few_gpus(recipe: Recipe) -> str:
    there = torch.cuda.device_count() if recipe.device.startswith("cuda") else recipe.learners
    if there >= recipe.learners:
        return ""
    return f"each learner needs a GPU of its own, and this machine has {there}; lower it, or name a cluster"


@contextlib.contextmanager
def team(recipe: Recipe, folder: Path | None, *, resume: bool, own: Own) -> Iterator[None]:
    """Context in which the other learners of a run work, and this process is learner 0. With one nothing happens."""
    if recipe.learners == 1:
        yield
        return
    work = Work(recipe, folder, resume, own, algorithm_of(recipe.agent))
    with contextlib.ExitStack() as stack:
        stack.enter_context(divided(1 if recipe.ray_address else recipe.learners))
        store, others = _start(work, stack)
        try:
            _wait_for(store, others)
            group = Group(store, 0, recipe.learners, device=recipe.device, local=not recipe.ray_address)
            with group, learning_with(group):
                yield
            for other in others:
                other.ended(ENDS_WITHIN)
        except LostLearner as error:
            raise CairnError(_why(others, folder)) from error


class Other(Protocol):
    """Another learner."""

    rank: int

    def ended(self, seconds: float) -> str | None:
        """How it ended, waiting so long for it: a sentence, "" for a good end; None while it works."""

    def stop(self) -> None:
        """End it if it still works."""


class Process:
    """A learner in a process of this machine, which is killed with this one."""

    def __init__(self, rank: int, work: bytes, store: str, environment: dict[str, str]) -> None:
        self.rank = rank
        self.said = tempfile.TemporaryFile()
        command = [sys.executable, "-m", "cairn.runs.learner", str(rank), store, str(os.getpid())]
        where: Any = {"stdin": subprocess.PIPE, "stdout": self.said, "stderr": self.said, "env": environment}
        self.process = subprocess.Popen(command, start_new_session=True, **where)
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(work)

    def ended(self, seconds: float) -> str | None:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        if code in (0, ALONE):
            return ""
        if code < 0:
            return f"learner {self.rank} was killed by {Signals(-code).name}."
        self.said.seek(0)
        lines = self.said.read().decode("utf-8", "replace").strip().splitlines() or [""]
        return f"learner {self.rank} {'stopped' if code == REFUSED else 'failed'}: {lines[-1]}"

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.said.close()


def _start(work: Work, stack: contextlib.ExitStack) -> tuple[Any, list[Other]]:
    """Start learners 1, 2, ...; returns the store through which all find each other, and them."""
    count = work.recipe.learners
    others: list[Other] = []
    if work.recipe.ray_address:
        from cairn.runs.ray_learners import on_cluster

        store, others = on_cluster(work)
    else:
        path = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "store")
        store, packed = file_store(path, count), cloudpickle.dumps(sys.path) + cloudpickle.dumps(work)
        for rank in range(1, count):
            others.append(Process(rank, packed, path, {**os.environ, **_gpu(work.recipe, rank)}))
            stack.callback(others[-1].stop)
        return store, others
    for other in others:
        stack.callback(other.stop)
    return store, others


def _gpu(recipe: Recipe, rank: int) -> dict[str, str]:
    """The environment variable that shows a learner one GPU: not that of learner 0, nor that of another."""
    if not recipe.device.startswith("cuda"):
        return {}
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    visible = named if named != [""] else [str(i) for i in range(torch.cuda.device_count())]
    visible.insert(0, visible.pop(torch.device(recipe.device).index or 0))
    return {"CUDA_VISIBLE_DEVICES": visible[rank]}


def _wait_for(store: Any, others: list[Other]) -> None:
    """Wait until all have started. Raises LostLearner where one ends before, or takes too long."""
    until = time.monotonic() + STARTS_WITHIN
    while not store.check([f"ready/{other.rank}" for other in others]):
        if time.monotonic() > until or any(other.ended(0.05) is not None for other in others):
            raise LostLearner("a learner did not start")


def _why(others: list[Other], folder: Path | None) -> str:
    """What is to be said of a run whose learners lost each other."""
    until = time.monotonic() + ENDS_WITHIN
    said = ""
    while not said and time.monotonic() < until:
        said = next((told for other in others if (told := other.ended(0.1))), "")
    said = said or f"a learner did not answer for {ENDS_WITHIN:g} seconds."
    saved = checkpoints(folder / "checkpoints") if folder is not None else []
    go_on = f"the last checkpoint is {saved[-1]}" if saved else "there is no checkpoint yet"
    return f"{said} The run has ended with it; {go_on}, and a resume continues there with as many learners."
