"""Evaluations that end when it is clear that they change nothing."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from cairn.core.types import Episode
from cairn.runs.early import LEAST, hopeless
from cairn.runs.evaluation_log import read_evaluations
from cairn.runs.policy_files import checkpoints
from cairn.runs.scorer import Scorer
from cairn.runs.train import train
from tests.test_digests import RECIPES


def episodes(returns, successes=None):
    flags = [None] * len(returns) if successes is None else successes
    return [Episode(0, float(value), 1, flag) for value, flag in zip(returns, flags, strict=True)]


def test_success_is_clear_when_no_later_episode_can_change_it():
    played = episodes([0] * 6, [False] * 6)
    assert hopeless(played, 10, 0.5, "success") and not hopeless(played, 10, 0.4, "success")


DRAWS = {
    "normal": lambda rng: rng.normal(0, 1, 100),
    "skewed": lambda rng: rng.exponential(1, 100) - 1,
    "skewed down": lambda rng: 1 - rng.exponential(1, 100),
    "all or nothing": lambda rng: rng.integers(0, 2, 100) - 0.5,
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_mean_that_would_have_reached_the_bar_is_rarely_given_up(name):
    """The bar is the mean of the returns that are drawn, where doubt is greatest. Many first parts are looked at."""
    rng, wrong, trials = np.random.default_rng(0), 0, 1_000
    for _ in range(trials):
        returns = DRAWS[name](rng)
        played = episodes(returns)
        given_up = any(hopeless(played[:n], 100, 0.0, "return") for n in range(LEAST, 100, 5))
        wrong += given_up and returns.mean() >= 0
    assert wrong <= 2


def test_a_mean_far_below_is_given_up_soon_and_equal_returns_tell_nothing():
    rng = np.random.default_rng(0)
    assert hopeless(episodes(rng.normal(0, 1, 12)), 100, 5.0, "return")
    assert not hopeless(episodes(rng.normal(0, 1, LEAST - 1)), 100, 50.0, "return")
    assert not hopeless(episodes([-200.0] * 50), 100, -100.0, "return")


def test_what_ends_early_is_no_score_and_learning_is_the_same(tmp_path, monkeypatch):
    recipe = replace(RECIPES["dqn"], eval_every=100, eval_episodes=60, target=400.0, hold=1, checkpoint_every=150)
    judged, asked = Scorer.__call__, []

    def counted(scorer, agent, stop):
        score = judged(scorer, agent, stop)
        asked.append(score.episodes)
        return score

    monkeypatch.setattr(Scorer, "__call__", counted)
    monkeypatch.setattr("cairn.runs.early.DEVIATIONS", -6.0)  # nearly all are given up
    train(recipe, tmp_path / "whole")
    assert asked == [60] * 6
    asked.clear()
    ended = train(replace(recipe, eval_early_stop=True), tmp_path / "early")
    assert asked[0] == asked[-1] == 60 and LEAST <= min(asked) < 60  # the first, which is the best so far, and the last
    kept = {row.step: row for row in read_evaluations(tmp_path / "early" / "evaluations.npz")}
    whole = {row.step: row for row in read_evaluations(tmp_path / "whole" / "evaluations.npz")}
    full = [100 * (k + 1) for k, count in enumerate(asked) if count == 60]
    assert list(kept) == full and all(whole[step] == row for step, row in kept.items())
    assert ended.score.episodes == 60
    with open(tmp_path / "early" / "metrics.csv", newline="") as file:
        stopped = [row for row in csv.DictReader(file) if row["name"] == "eval/stopped_after"]
    assert len(stopped) == sum(count < 60 for count in asked)
    names = [checkpoints(tmp_path / run / "checkpoints")[-1] / "policy.safetensors" for run in ("whole", "early")]
    assert names[0].read_bytes() == names[1].read_bytes()
