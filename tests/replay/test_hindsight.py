"""Hindsight against a slow, obvious reference: lists of episodes, one transition at a time."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.core.goals import Within
from cairn.core.types import Discrete, GoalSpec, Spec, Step
from cairn.replay.hindsight import Hindsight
from cairn.replay.ring import Ring

GOAL = GoalSpec(1, 1)  # flat rows: [observation | achieved | desired]
SPEC = Spec((3,), "float32", Discrete(3), GOAL)
GAMMA = 0.9


@dataclass(frozen=True)
class Near:
    """Reached within 1; `cost` and `ends` as the test wants them."""

    cost: bool
    ends: bool

    def reward(self, achieved, desired):
        return np.where(abs(achieved - desired)[..., 0] <= 1, 0.0, -1.0).astype(np.float32)

    def terminated(self, achieved, desired):
        return (abs(achieved - desired)[..., 0] <= 1) & self.ends


def hindsight(live, envs, *, rule=None, n=1, slack=0, folder=None, **kw):
    ring = Ring(
        live * envs,
        envs,
        SPEC,
        generator=torch.Generator().manual_seed(0),
        gamma=GAMMA,
        n=n,
        slack=slack,
        folder=folder,
    )
    return Hindsight(ring, GOAL, rule or Near(False, True), folder=folder, **kw)


def play(replay, rows, rng, *, fillers=False, cut_at=None):
    """Random goal episodes. Returns episodes[env] = list of episodes = list of transitions as dictionaries."""
    rule, envs = replay.rule, replay.ring.num_envs
    episodes = [[[]] for _ in range(envs)]
    goal = rng.integers(0, 6, envs).astype(np.float32)
    obs = np.stack([1000.0 * np.arange(envs), goal + 1, goal], 1).astype(np.float32)
    for row in range(rows):
        valid = rng.random(envs) > (0.2 if fillers else 0)
        reached = rng.integers(0, 6, envs).astype(np.float32)
        cost = rng.integers(0, 3, envs) * float(rule.cost)
        died = rng.random(envs) < 0.05
        a, g = reached[:, None], goal[:, None]
        reward = (rule.reward(a, g) - cost).astype(np.float32)
        terminated = (rule.terminated(a, g) | died) & valid
        truncated = (rng.random(envs) < 0.1) & valid
        succ = np.stack([1000.0 * np.arange(envs) + row + 0.5, reached, goal], 1).astype(np.float32)
        replay.add(obs, rng.integers(0, 3, envs), Step(succ, succ, reward, terminated, truncated, valid))
        before, obs = obs, succ.copy()
        for e in range(envs):
            if valid[e]:
                pure_death = died[e] and not rule.terminated(a[e], g[e])
                step = dict(row=row, obs=before[e], next=succ[e], cost=cost[e], died=pure_death, reward=reward[e])
                step |= dict(term=terminated[e], end=terminated[e] or truncated[e], reached=reached[e])
                episodes[e][-1].append(step)
            if not valid[e] or terminated[e] or truncated[e]:
                if episodes[e][-1]:
                    episodes[e][-1][-1]["end"] = True
                    episodes[e].append([])
                goal[e] = rng.integers(0, 6)
                obs[e] = 1000 * e + row + 1, rng.integers(0, 6), goal[e]
        if row == cut_at:
            replay.cut()
            for e in range(envs):
                if episodes[e][-1]:
                    episodes[e][-1][-1]["end"] = True
                    episodes[e].append([])
                obs[e] = 1000 * e + row + 1, rng.integers(0, 6), goal[e]
    return episodes


def find(episodes, env, row):
    for episode in episodes[env]:
        for at, step in enumerate(episode):
            if step["row"] == row:
                return episode, at
    raise AssertionError(f"row {row} of environment {env} was never stored")


def allowed(strategy, episode, at, first):
    """Rows whose outcome may become the goal of episode[at]."""
    rows = [s["row"] for s in episode]
    return {"future": rows[at:], "final": rows[-1:], "episode": [r for r in rows if r >= first]}[strategy]


def expected(episode, at, goal, rule, n, newest):
    """The n-step transition from episode[at] with this goal (None: as it was)."""
    total, i = 0.0, 0
    while True:
        step = episode[at + i]
        reward, terminated = step["reward"], step["term"]
        if goal is not None:
            a, g = np.array([step["reached"]]), np.array([goal])
            reward = rule.reward(a, g) - step["cost"]
            terminated = bool(rule.terminated(a, g)) or step["died"]
        total += GAMMA**i * float(reward)
        i += 1
        if terminated or step["end"] or i == n or step["row"] == newest:
            return total, 0.0 if terminated else GAMMA**i, step["next"]


@settings(max_examples=150, deadline=None)
@given(
    envs=st.integers(1, 4),
    live=st.integers(1, 14),
    rows=st.integers(1, 50),
    n=st.integers(1, 4),
    slack=st.integers(0, 5),
    strategy=st.sampled_from(["future", "final", "episode", "random"]),
    k=st.integers(0, 5),
    cost=st.booleans(),
    ends=st.booleans(),
    fillers=st.booleans(),
    cut_at=st.none() | st.integers(0, 49),
    seed=st.integers(0, 99),
)
def test_every_relabelled_transition_is_what_the_reference_makes(
    envs, live, rows, n, slack, strategy, k, cost, ends, fillers, cut_at, seed
):
    rule = Near(cost, ends)
    replay = hindsight(live, envs, rule=rule, n=n, slack=slack, strategy=strategy, k=k)
    episodes = play(replay, rows, np.random.default_rng(seed), fillers=fillers, cut_at=cut_at)
    first = max(rows - live, 0)
    stored = {(e, s["row"]) for e in range(envs) for ep in episodes[e] for s in ep if s["row"] >= first}
    if not stored:
        return
    cell = replay.ring.draw(40)
    goal_cell = replay.draw_goals(cell[:30])
    batch = replay.gather(cell, goal_cell)
    for b in range(40):
        row, env = divmod(int(cell[b]), envs)
        assert (env, row) in stored
        episode, at = find(episodes, env, row)
        goal = None
        if b < 30:
            goal_row, goal_env = divmod(int(goal_cell[b]), envs)
            if strategy == "random":
                assert (goal_env, goal_row) in stored
            else:
                assert goal_env == env and goal_row in allowed(strategy, episode, at, first)
            source, i = find(episodes, goal_env, goal_row)
            goal = source[i]["reached"]
        total, discount, successor = expected(episode, at, goal, rule, n, rows - 1)
        meant = episode[at]["obs"][2] if goal is None else goal
        np.testing.assert_array_equal(batch.obs[b], [*episode[at]["obs"][:2], meant])
        np.testing.assert_array_equal(batch.next_obs[b], [*successor[:2], meant])
        np.testing.assert_allclose(batch.reward[b], total, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(batch.discount[b], discount, rtol=1e-5)


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_goals_are_drawn_evenly_from_those_allowed(strategy):
    replay = hindsight(30, 1, strategy=strategy)
    no, yes = np.zeros(1, bool), np.ones(1, bool)
    for row in range(12):  # episodes of 8 rows and of 4 still open
        obs = np.array([[row, 0, 9]], np.float32)
        replay.add(obs, np.zeros(1, np.int64), Step(obs, obs, np.zeros(1, np.float32), no, yes & (row == 7), yes))
    for row in range(12):
        picks = Counter(replay.draw_goals(np.full(4000, row)).tolist())
        start, end = (0, 8) if row < 8 else (8, 12)
        rows = {"future": range(row, end), "final": [end - 1], "episode": range(start, end)}[strategy]
        assert set(picks) == set(rows)
        assert all(abs(c * len(rows) / 4000 - 1) < 0.25 for c in picks.values())


def test_k_sets_the_share_of_new_goals():
    replay = hindsight(50, 1, k=4, strategy="final")
    play(replay, 50, np.random.default_rng(0))
    replay.ring.cells["obs"][:, 2] = 77
    assert (replay.sample(500).obs[:, 2] != 77).sum() == 400
    assert [(b.obs[:, 2] != 77).sum() for b in replay.sample(500).split(5)] == [80] * 5
    replay.k = 0
    assert (replay.sample(500).obs[:, 2] != 77).sum() == 0


def test_what_a_checkpoint_needs_survives_what_came_after(tmp_path):
    rng = np.random.default_rng(0)
    replay = hindsight(9, 2, slack=12, folder=tmp_path, strategy="episode")
    play(replay, 20, rng)
    replay.cut()
    saved = replay.save()
    replay.generator.manual_seed(7)
    before = replay.sample(64)
    play(replay, 6, rng)  # no more than half the slack
    again = hindsight(9, 2, slack=12, folder=tmp_path, strategy="episode")
    again.load(saved)
    again.generator.manual_seed(7)
    after = again.sample(64)
    for name in before.__dict__:
        assert torch.equal(getattr(before, name), getattr(after, name)), name


def test_within_is_the_distance():
    rule = Within(0.5, ends=True)
    achieved = np.array([[0.0, 0.0], [0.3, 0.4], [0.6, 0.0]])
    np.testing.assert_array_equal(rule.reward(achieved, np.zeros((3, 2))), [0, 0, -1])
    np.testing.assert_array_equal(rule.terminated(achieved, np.zeros((3, 2))), [True, True, False])
    assert not Within(0.5).terminated(achieved, np.zeros((3, 2))).any()
