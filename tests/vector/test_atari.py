"""The native vector of Atari games against their environment, frame by frame; both against what must be so."""

import numpy as np
import pytest

pytest.importorskip("ale_py")

from cairn.core.errors import CairnError
from cairn.envs.task import Task
from cairn.vector.atari import Atari
from cairn.vector.choose import make_vector, scoring_vector
from cairn.vector.in_process import Sync

SEEDS = [3, 4, 5]
QUIET = {"noops": 0}  # the two draw the idle frames of a beginning from generators of their own


def transitions(backend, task, steps, seed=0):
    """What each environment lived through, in order, and the episodes it reports."""
    envs = make_vector(task, 3, backend=backend, workers=2)
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, envs.spec.action.n, (3, steps))  # of each environment, by its own count of steps
    lived, episodes, taken = [[], [], []], [[], [], []], [0, 0, 0]
    try:
        obs = envs.reset(SEEDS)
        while min(taken) < steps:
            step = envs.step(np.array([actions[i, min(taken[i], steps - 1)] for i in range(3)]))
            over = {episode.env for episode in step.episodes}
            for i in np.flatnonzero(step.valid):
                end = bool(step.terminated[i]), bool(step.truncated[i]), i in over
                lived[i].append((obs[i].copy(), step.reward[i], step.next_obs[i].copy(), *end))
                taken[i] += 1
            for episode in step.episodes:
                episodes[episode.env].append((episode.total, episode.length))
            obs = step.obs
    finally:
        envs.close()
    return [rows[:steps] for rows in lived], episodes


@pytest.mark.parametrize(
    ("task", "steps"),
    [
        (Task("ALE/Breakout-v5", args=QUIET), 260),  # lives, and FIRE to begin one
        (Task("ALE/Breakout-v5", args={**QUIET, "fire": False, "skip": 3}), 80),
        (Task("ALE/Breakout-v5", args={**QUIET, "life_loss": False}), 260),
        (Task("ALE/Breakout-v5", args=QUIET, scoring=True), 260),
        (Task("ALE/Breakout-v5", time_limit=50, args=QUIET), 140),
        (Task("ALE/Pong-v5", args={**QUIET, "sticky": 0.25}), 300),
        (Task("ALE/MsPacman-v5", args={**QUIET, "size": 64, "stack": 2}), 300),  # lives without FIRE; rewards of 10
        (Task("ALE/MsPacman-v5", time_limit=150, args=QUIET, scoring=True), 400),
    ],
    ids=lambda value: value.id[4:-3] + ("-scored" if value.scoring else "") if isinstance(value, Task) else "",
)
def test_the_native_vector_lives_through_the_same_as_the_environment(task, steps):
    ours, our_episodes = transitions("sync", task, steps)
    theirs, their_episodes = transitions("atari", task, steps)
    seen = {"ends": 0, "rewards": 0}
    for a, b in zip(ours, theirs, strict=True):
        for (obs, reward, after, *end), (obs_, reward_, after_, *end_) in zip(a, b, strict=True):
            assert close(obs, obs_)
            assert (reward, end[:2]) == (reward_, end_[:2])
            assert close(after[:-1], after_[:-1])
            if end_[2]:  # of a game's last frames ALE shows no more than what brightens the frame before
                assert (after_[-1] >= after_[-2].astype(int) - 1).all()
            else:
                assert close(after[-1], after_[-1])
            seen["ends"] += any(end[:2])
            seen["rewards"] += reward != 0
    for a, b in zip(our_episodes, their_episodes, strict=True):
        assert a[: len(b)] == b[: len(a)]
    assert seen["rewards"] > 0
    assert seen["ends"] > 0 or task.id == "ALE/Pong-v5"


def close(a, b):
    """The two shrink by area, in floats of their own: of a million shades a few differ by one."""
    apart = np.abs(a.astype(int) - b)
    return apart.max() <= 1 and (apart > 0).mean() < 1e-3


@pytest.mark.parametrize("backend", ["sync", "async", "atari"])
def test_learners_see_clipped_lives_and_the_score_is_of_whole_games(backend):
    """MsPacman pays tens and hundreds and has three lives; each lost one is told only by its flag."""
    task = Task("ALE/MsPacman-v5", time_limit=300)
    envs = make_vector(task, 2, backend=backend, workers=1)
    rng = np.random.default_rng(1)
    total, ends, episodes = np.zeros(2), np.zeros(2, int), []
    try:
        obs = envs.reset([7, 8])
        assert (obs[:, :-1] == 0).all() and (obs[:, -1].max((1, 2)) > 0).all()
        while len(episodes) < 2:
            step = envs.step(rng.integers(0, 9, 2))
            assert step.valid.all()  # no FIRE in this game
            assert set(np.unique(step.reward)) <= {0.0, 1.0} and step.reward.dtype == np.float32
            total += step.reward
            over = {e.env for e in step.episodes}
            for i in np.flatnonzero(step.terminated | step.truncated):
                assert (step.obs[i, :-1] == 0).all()  # a stack begins empty
                assert (step.next_obs[i, :-1] > 0).any()
                ends[i] += 1
                if i not in over:  # the same picture: the game goes on
                    np.testing.assert_array_equal(step.obs[i, -1], step.next_obs[i, -1])
            episodes += [e for e in step.episodes if e.env not in {k.env for k in episodes}]
    finally:
        envs.close()
    assert all(e.total >= 60 and e.total % 10 == 0 and e.length > 150 for e in episodes)
    assert total.max() < min(e.total for e in episodes)
    assert ends.max() >= 2


def test_a_press_of_fire_between_two_lives_is_no_step():
    """Its row is not valid, ends nothing, pays nothing, and the life after it begins with an empty stack."""
    envs = make_vector(Task("ALE/Breakout-v5"), 2, backend="atari")
    try:
        envs.reset([1, 2])
        lost = np.zeros(2, bool)
        presses = 0
        for _ in range(150):
            step = envs.step(np.zeros(2, np.int64))  # idle: every ball is lost
            np.testing.assert_array_equal(step.valid, ~lost)
            assert not (step.terminated | step.truncated)[lost].any() and not step.reward[lost].any()
            assert (step.obs[lost, :-1] == 0).all()
            presses += lost.sum()
            over = np.isin(np.arange(2), [e.env for e in step.episodes])
            assert all(e.length > 60 for e in step.episodes)
            lost = step.terminated & ~over
        assert presses >= 8
    finally:
        envs.close()


@pytest.mark.parametrize("backend", ["sync", "atari"])
def test_seeds_decide_and_games_begin_at_different_frames(backend):
    envs = make_vector(Task("ALE/Breakout-v5"), 12, backend=backend)
    try:
        first = envs.reset(range(12))
        then = envs.step(np.full(12, 2)).obs
        assert len(np.unique(then[:, -1], axis=0)) > 5  # the ball has flown for so many idle frames
        np.testing.assert_array_equal(envs.reset(range(12)), first)
        np.testing.assert_array_equal(envs.step(np.full(12, 2)).obs, then)
    finally:
        envs.close()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Task("CartPole-v1"), "plays Atari games only"),
        (Task("ALE/BasicMath-v5", args={"mode": 6}), "the default mode and difficulty only"),
        (Task("ALE/Pog-v5"), "Did you mean ALE/Pong-v5?"),
        (Task("ALE/Pong-v5", args={"frame_skip": 4}), "does not take these arguments"),
        (Task("ALE/Pong-v5", args={"sticky": 1.5}), "env_args.sticky is 1.5; it must be between 0 and 1."),
    ],
)
def test_what_it_cannot_play_is_one_sentence(task, words):
    with pytest.raises(CairnError, match=words.replace("?", r"\?")):
        make_vector(task, 2, backend="atari")


def test_scores_are_kept_in_the_native_vector_where_it_plays_the_game():
    for args, kind in (({}, Atari), ({"mode": 1}, Sync)):
        envs = scoring_vector(Task("ALE/Pong-v5", args=args).for_scoring(), 3)
        assert isinstance(envs, kind) and envs.num_envs == 3
        envs.close()
