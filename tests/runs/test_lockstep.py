"""Runs that share a process: in which order they go on, and that each is trained as if it were alone."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from cairn.core.errors import CairnError
from cairn.core.memory import divided, must_fit
from cairn.core.turns import shared
from cairn.recipes.recipe import Recipe
from cairn.runs.lockstep import Lockstep
from cairn.runs.run import Run
from cairn.runs.together import Seed, must_go_together, train_together
from tests.test_digests import RECIPES, digest, digest_of


@dataclass
class Asked:
    """A request that notes how many were answered at once."""

    kind: str
    value: int

    def answer(self, requests):
        return [(one.value, len(requests)) for one in requests]


def pause():
    shared().pause()


def wait():
    shared().wait()


def ask(kind, value):
    return shared().meet(Asked(kind, value))


def test_they_take_turns_and_meet_before_each_step():
    said = []

    def job(name, pauses):
        for step in range(2):
            wait()
            for _ in range(pauses):
                said.append((name, step))
                pause()
        return name

    assert Lockstep().run([lambda: job("a", 1), lambda: job("b", 3)]) == ["a", "b"]
    assert said == [(name, step) for step in (0, 1) for name in "abbb"]
    assert shared() is None


def test_requests_of_one_kind_are_answered_at_once_when_no_run_can_go_on():
    def job(value, kind, pauses):
        for _ in range(pauses):
            pause()
        return ask(kind, value)

    found = Lockstep().run([lambda: job(1, "x", 0), lambda: job(2, "y", 2), lambda: job(3, "x", 5)])
    assert found == [(1, 2), (2, 1), (3, 2)]


def test_a_run_that_plays_longer_is_waited_for():
    """One evaluates for some steps more; afterwards both ask at the same time again."""

    def job(value, extra):
        found = []
        for _ in range(3):
            wait()
            for _ in range(extra):
                ask("play", value)
            found.append(ask("learn", value))
        return found

    assert Lockstep().run([lambda: job(1, 0), lambda: job(2, 4)]) == [[(1, 1)] * 3, [(2, 1)] * 3]

    def aligned(value, extra):
        found = []
        for step in range(3):
            wait()
            if step == 1:
                for _ in range(extra):
                    ask("play", value)
            wait()
            found.append(ask("learn", value))
        return found

    assert Lockstep().run([lambda: aligned(1, 0), lambda: aligned(2, 4)]) == [[(1, 2)] * 3, [(2, 2)] * 3]


def test_a_fault_is_of_one_run_alone_also_in_an_answer():
    class Wrong(Asked):
        def answer(self, requests):
            raise CairnError("no")

    def job(value):
        if value == 2:
            raise ValueError("two")
        if value == 3:
            shared().meet(Wrong("z", 3))
        return ask("x", value)

    one, two, three = Lockstep().run([lambda v=v: job(v) for v in (1, 2, 3)])
    assert one == (1, 1) and isinstance(two, ValueError) and isinstance(three, CairnError)


def test_an_interrupt_ends_all_and_lets_them_close():
    closed = []

    def job(name):
        try:
            while True:
                pause()
                if name == "b":
                    raise KeyboardInterrupt
        finally:
            closed.append(name)

    with pytest.raises(KeyboardInterrupt):
        Lockstep().run([lambda: job("a"), lambda: job("b")])
    assert closed == ["b", "a"] and shared() is None


def test_threads_and_gradients_are_those_of_each_run():
    def job(threads, grad):
        torch.set_num_threads(threads)
        with torch.set_grad_enabled(grad):
            for _ in range(3):
                pause()
                assert torch.get_num_threads() == threads and torch.is_grad_enabled() == grad
        return threads

    before = torch.get_num_threads()
    assert Lockstep().run([lambda: job(1, True), lambda: job(2, False)]) == [1, 2]
    assert torch.get_num_threads() == before and torch.is_grad_enabled()


def small(name: str, seed: int, **more: object) -> Recipe:
    return replace(RECIPES[name], seed=seed, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["ppo-discrete", "dqn-prioritised", "dqn-pixels", "sac", "td3", "dqn-her", "hiro-td3", "dagger"]
)
def test_each_seed_is_trained_as_alone(name, tmp_path):
    seeds = (3, 4)
    alone = [digest(small(name, seed), tmp_path / f"alone-{seed}") for seed in seeds]
    works = [Seed(small(name, seed), tmp_path / f"s{seed}", False) for seed in seeds]
    assert all(one.step >= RECIPES[name].steps for one in train_together(works))
    assert [digest_of(one.folder) for one in works] == alone


def test_workers_of_their_own_step_each_seed(tmp_path):
    plans = [small("dqn", seed, vector="async", workers=1) for seed in (3, 4)]
    alone = [digest(plan, tmp_path / f"alone-{plan.seed}") for plan in plans]
    works = [Seed(plan, tmp_path / f"s{plan.seed}", False) for plan in plans]
    train_together(works)
    assert [digest_of(one.folder) for one in works] == alone


def test_a_seed_that_stops_early_or_fails_leaves_the_others(tmp_path):
    easy, hard = small("dqn", 1, target=0.0, hold=1), small("dqn", 2)
    broken = small("dqn", 3, env_args={"nonsense": 1})
    folders = [tmp_path / name for name in "abc"]
    works = [Seed(one, path, False) for one, path in zip((easy, hard, broken), folders, strict=True)]
    first, second, third = train_together(works)
    assert first.solved and first.step < 600
    assert second.step == 600
    assert isinstance(third, CairnError)


def test_all_are_saved_at_a_signal_and_go_on_to_equal_weights(tmp_path, monkeypatch):
    seeds = (3, 4)
    works = [Seed(small("dqn", seed), tmp_path / f"s{seed}", False) for seed in seeds]
    reached = Run.checkpoint_due

    def at_200(run):
        if run.step == 200 and run.seed == 4:
            signal.raise_signal(signal.SIGTERM)
        return reached(run)

    monkeypatch.setattr(Run, "checkpoint_due", at_200)
    before = signal.getsignal(signal.SIGTERM)
    outcomes = train_together(works)
    assert signal.getsignal(signal.SIGTERM) is before
    assert all(one.interrupted == "SIGTERM" and one.saved and one.step <= 202 for one in outcomes)
    monkeypatch.setattr(Run, "checkpoint_due", reached)
    outcomes = train_together([Seed(one.recipe, one.folder, True) for one in works])
    assert [one.step for one in outcomes] == [600, 600]


def test_more_seeds_than_memory_are_refused_with_how_many_fit():
    with divided(1000), pytest.raises(CairnError, match=r"1000 replay buffers .* \d+ fit: take as many seeds"):
        must_fit(10**6, 1000, mapped=True)


@pytest.mark.parametrize("name", ["dqn", "dqn-pixels", "dqn-her", "hiro-td3", "dagger", "ppo-discrete"])
def test_what_fits_is_known_before_anything_is_made(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    must_go_together(small(name, 1), 2)
    if name not in ("dagger", "ppo-discrete"):  # they have no replay buffer
        with pytest.raises(CairnError, match=r"1000000000 replay buffers"):
            must_go_together(small(name, 1), 10**9)
    assert list(tmp_path.iterdir()) == []


def test_ray_is_refused(tmp_path: Path):
    with pytest.raises(CairnError, match="together"):
        train_together([Seed(small("dqn", 1, vector="ray"), tmp_path / "a", False)])
