"""Windows against a slow, obvious reference: lists of steps, closed by hand."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.algorithms.hiro.segments import Segments
from cairn.core.errors import CairnError
from cairn.core.goals import Within
from cairn.core.types import Discrete, GoalSpec, Spec, Step
from cairn.replay.ring import Ring

GOAL = GoalSpec(1, 1)  # flat rows: [observation | achieved | desired]
SPEC = Spec((3,), "float32", Discrete(3), GOAL)
RULE = Within(0.5, ends=True)


def segments(live, envs, c, *, windows=10_000, steps=10_000, slack=0, folder=None, rule=RULE):
    generator = torch.Generator().manual_seed(0)
    ring = Ring(live * envs, envs, SPEC, generator=generator, gamma=0.9, slack=slack, folder=folder)
    args = {"steps": steps, "windows": windows, "slack": slack * envs, "goal": GOAL, "rule": rule, "folder": folder}
    return Segments(ring, slice(1, 2), c=c, **args)


@dataclass
class Taken:
    row: int
    obs: np.ndarray
    action: int
    reward: float
    next_obs: np.ndarray
    target: float
    terminated: bool
    ended: bool


def play(replay, rows, rng, *, fillers=False, cut_at=None):
    """Random episodes; every step's observation, reward and target is unlike any other's. [env] -> list of windows."""
    envs, c = replay.ring.num_envs, replay.c
    closed, open_ = [[] for _ in range(envs)], [[] for _ in range(envs)]
    obs = np.zeros((envs, 3), np.float32)
    obs[:, 1] = 100.0 * np.arange(envs)
    target = np.zeros((envs, 1), np.float32)
    for row in range(rows):
        for e in range(envs):
            if not open_[e]:
                target[e] = 1000.0 * e + row + 0.25
        valid = rng.random(envs) > (0.15 if fillers else 0)
        terminated, truncated = (rng.random(envs) < 0.1) & valid, (rng.random(envs) < 0.1) & valid
        reward = (rng.random(envs) * valid).astype(np.float32)
        action = rng.integers(0, 3, envs)
        succ = obs.copy()
        succ[:, 1] = 100.0 * np.arange(envs) + rng.integers(0, 6, envs)
        succ[:, 0] = row + 1
        after = succ.copy()
        ended = terminated | truncated
        after[ended | ~valid, 0] = -1 - row  # the first observation of another episode
        told = replay.add(obs, action, Step(after, succ, reward, terminated, truncated, valid), target)
        for e in range(envs):
            if not valid[e]:
                open_[e] = []
                assert not told[e]
                continue
            open_[e].append(
                Taken(row, obs[e], action[e], reward[e], succ[e], float(target[e, 0]), terminated[e], ended[e])
            )
            full = len(open_[e]) == c or ended[e]
            assert told[e] == full
            if full:
                closed[e].append(open_[e])
                open_[e] = []
        obs = after
        if row == cut_at:
            replay.cut()
            for e in range(envs):
                closed[e] += [open_[e]] if open_[e] else []
                open_[e] = []
            obs = after.copy()
            obs[:, 0] = -1000 - row
    return closed


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    envs=st.integers(1, 3),
    c=st.integers(1, 5),
    live=st.integers(6, 40),
    rows=st.integers(6, 90),
    fillers=st.booleans(),
    cut=st.booleans(),
)
def test_windows_are_what_was_played(seed, envs, c, live, rows, fillers, cut):
    rng = np.random.default_rng(seed)
    replay = segments(live, envs, c)
    played = play(replay, rows, rng, fillers=fillers, cut_at=rows // 2 if cut else None)
    known = {(w[0].row, e): w for e in range(envs) for w in played[e]}
    if replay.stored == 0:
        return
    every = np.arange(replay.oldest, replay.count)
    got = replay.gather(every)
    for i, window in enumerate(every):
        row, env = divmod(int(replay.cell[window % replay.size]), envs)
        assert row >= replay.ring.first
        steps = known[row, env]
        n = len(steps)
        assert int(got.inside[i].sum()) == n == int(replay.length[window % replay.size])
        for j in range(c):
            step = steps[min(j, n - 1)]  # past its end the last step is repeated
            np.testing.assert_array_equal(got.obs[i, j], step.obs)
            assert int(got.action[i, j]) == step.action
        np.testing.assert_array_equal(got.next_obs[i], steps[-1].next_obs)
        assert float(got.target[i, 0]) == steps[0].target
        assert float(got.reward[i]) == pytest.approx(sum(s.reward for s in steps), abs=1e-5)
        assert bool(got.terminated[i]) == steps[-1].terminated


def test_every_window_inside_the_ring_is_found_but_for_the_oldest_rows():
    replay = segments(30, 2, 4)
    played = play(replay, 100, np.random.default_rng(1))
    inside = [w for e in range(2) for w in played[e] if w[0].row >= replay.ring.first + 2 * replay.c]
    assert replay.stored >= len(inside)
    rows = {divmod(int(cell), 2) for cell in replay.cell[np.arange(replay.oldest, replay.count) % replay.size]}
    assert {(w[0].row, e) for e in range(2) for w in played[e] if w[0].row >= replay.ring.first + 2 * replay.c} <= rows


def test_the_low_level_gets_each_step_with_the_point_it_made_for():
    replay = segments(50, 2, 4)
    played = play(replay, 60, np.random.default_rng(2), fillers=True)
    targets = {(float(s.obs[0]), float(s.obs[1])): s for e in range(2) for w in played[e] for s in w}
    batch = replay.asked(200)
    for obs, target, action, succ in zip(batch.obs, batch.target, batch.action, batch.next_obs, strict=True):
        step = targets.get((float(obs[0]), float(obs[1])))
        if step is not None:  # of a window that closed
            assert float(target[0]) == step.target
            assert int(action) == step.action
            np.testing.assert_array_equal(succ, step.next_obs)


@pytest.mark.parametrize(("ahead", "most"), [(None, 3), (1, 1), (2, 2), (7, 7)])
def test_the_low_levels_hindsight_looks_at_most_so_many_steps_ahead_in_the_same_episode(ahead, most):
    replay = segments(60, 2, 3)
    played = play(replay, 60, np.random.default_rng(3))
    chains = []
    for e in range(2):
        chain = []
        for window in played[e]:
            chain += window
            if window[-1].ended:
                chains.append(chain)
                chain = []
    batch = replay.asked(500, hindsight=1.0, ahead=ahead)
    checked = 0
    for obs, target in zip(batch.obs, batch.target, strict=True):
        for chain in chains:
            for i, step in enumerate(chain):
                if np.array_equal(step.obs, obs):
                    assert float(target[0]) in {float(s.next_obs[1]) for s in chain[i : i + most]}
                    checked += 1
    assert checked > 100


def test_a_goal_of_hindsight_pays_the_window_anew_and_ends_it_where_it_is_reached():
    replay = segments(50, 1, 4)
    obs = np.array([[0.0, 0.0, 9.0]], np.float32)
    for i in range(8):  # walks 0, 1, 2, ... towards 9, which it never reaches
        succ = np.array([[i + 1.0, i + 1.0, 9.0]], np.float32)
        no = np.zeros(1, bool)
        replay.add(obs, np.array([1]), Step(succ, succ, -np.ones(1, np.float32), no, no, ~no), np.zeros((1, 1)))
        obs = succ
    windows = replay.gather(np.zeros(200, np.int64), 200)  # the window 0 -> 4, with any of 1..8 as its goal
    goals = windows.next_obs[:, 2]
    assert set(goals.tolist()) == set(range(1, 9))
    for goal, reward, terminated, inside, first in zip(
        goals, windows.reward, windows.terminated, windows.inside, windows.obs[:, 0, 2], strict=True
    ):
        assert first == goal
        assert bool(terminated) == (goal <= 4)
        steps = int(min(goal, 4))
        assert int(inside.sum()) == steps
        assert float(reward) == -(steps - 1 if goal <= 4 else 4)
    as_it_was = replay.gather(np.zeros(1, np.int64))
    assert float(as_it_was.reward[0]) == -4 and not as_it_was.terminated[0]


def test_saved_and_loaded_it_samples_the_same(tmp_path):
    rng = np.random.default_rng(5)
    first = segments(40, 2, 3, slack=50, folder=tmp_path)
    play(first, 70, rng, cut_at=69)
    saved, state = first.save(), first.generator.get_state()
    a = first.windows(32, 0.5)
    play(first, 20, rng)  # what comes after a checkpoint does not touch what it holds
    again = segments(40, 2, 3, slack=50, folder=tmp_path)
    again.load(saved)
    again.generator.set_state(state)
    b = again.windows(32, 0.5)
    for name in a.__dict__:
        assert torch.equal(getattr(a, name), getattr(b, name)), name
    with pytest.raises(CairnError, match="windows"):
        segments(40, 2, 3, slack=60, folder=tmp_path / "other").load(saved)


def test_a_rule_that_pays_takes_the_place_of_the_tasks_rewards():
    """Every step of a window gets -1, and 0 where the point reached is within 0.5 of the goal of the window."""
    replay = segments(200, 2, 4)
    replay.paid, replay.rule = True, Within(0.5)
    play(replay, 60, np.random.default_rng(3))
    window = replay.windows(64, 0.5)
    spans = (window.obs[..., GOAL.achieved], window.next_obs[:, None, GOAL.achieved])
    after = torch.cat([spans[0][:, 1:], spans[1]], 1)
    last = window.inside.sum(1) - 1
    after[torch.arange(64), last] = spans[1][:, 0]
    reached = (after - window.obs[..., GOAL.desired]).abs().amax(-1) <= 0.5
    expected = torch.where(window.inside, reached.float() - 1, torch.zeros(())).sum(1)
    torch.testing.assert_close(window.reward, expected)
    assert int(reached[:32].sum()) > 0 and window.reward.min() < -1
