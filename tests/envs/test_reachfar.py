"""The far-reaching arm: FetchReach's robot, goals that were proven to be reached, and every step of the ladder."""

import itertools
import subprocess
import sys
import warnings
from typing import get_args

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cairn.envs  # noqa: F401  registers the task
from cairn.core.goals import Within
from cairn.envs.goals import goal_rule
from cairn.envs.task import Task

pytest.importorskip("gymnasium_robotics", reason="the arm needs the extra 'robotics'")

from cairn.envs.reachfar import (
    ARRIVED,
    BALL,
    CLOSE,
    CUBE,
    FAR,
    HIGHEST,
    HOME,
    LINES,
    LOWEST,
    REACHABLE,
    SHIFT,
    WAYPOINTS,
    Arm,
    FetchReachFar,
    Goals,
    apart,
    legs,
    point,
    poses,
    towards,
)

LIMIT = 100  # steps


def noise(steps, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (steps, 4)).astype(np.float32)


def play(env, actions, seed):
    """Every observation of an episode, as one array."""
    first = env.reset(seed=seed)[0]
    return np.stack([np.concatenate(list(o.values())) for o in (first, *(env.step(a)[0] for a in actions))])


def way(obs):
    """From the gripper to the goal."""
    return obs["desired_goal"] - obs["achieved_goal"]


def steps_to(arm, goal):
    """How many the scripted controller takes to come within 2 cm; it must not take more than an episode has."""
    taken = sum(1 for _ in arm.lead(np.array(goal), LIMIT))
    assert apart(arm.place, goal) < ARRIVED, goal
    return taken


@pytest.fixture(scope="module")
def arm():
    return Arm()


@pytest.fixture(scope="module")
def env():
    return FetchReachFar()


def test_gymnasium_finds_no_fault(opengl):
    env = gym.make("cairn/FetchReachFar-v0", render_mode="rgb_array", disable_env_checker=True)
    assert env.spec.max_episode_steps == LIMIT
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.close()


def test_the_rule_of_the_goals_explains_the_task():
    assert goal_rule(Task("cairn/FetchReachFar-v0", args={"goals": "near"})) == Within(0.05)


def test_it_is_the_arm_of_fetch_reach(env):
    theirs = Task("FetchReach-v4")().unwrapped
    theirs.reset(seed=0)
    env.reset(seed=0)
    np.testing.assert_allclose(theirs.initial_gripper_xpos, HOME, atol=1e-4)
    for action in noise(60):
        ours, known = env.step(action)[0]["observation"], theirs.step(action)[0]["observation"]
        np.testing.assert_allclose(ours, known, atol=1e-6)


def test_every_point_of_the_region_is_reached_from_home(arm):
    """A grid of 15 cm, faces and corners of every box included; `benchmarks.checks.reachable` has one of 2.5 cm."""
    taken = []
    for low, high in REACHABLE.boxes:
        axes = [np.linspace(a, b, 2 + round((b - a) / 0.2)) for a, b in zip(low, high, strict=True)]
        for goal in itertools.product(*axes):
            arm.restore(arm.home)
            taken.append(steps_to(arm, goal))
    assert len(taken) > 250
    assert max(taken) < 60


def test_every_point_of_the_region_is_reached_from_any_other(arm):
    """On errands of five points; `python -m benchmarks.checks.reachable` goes on more."""
    draw = np.random.default_rng(1)
    for _ in range(12):
        arm.restore(arm.home)
        for _ in range(5):
            steps_to(arm, point(draw))


def test_beyond_the_region_there_are_points_that_cannot_be_reached(arm):
    for goal in ((1.9, 0.75, 0.6), (1.3, 0.75, 0.3), (1.6, 1.35, 1.1), (0.7, 0.75, 0.6)):
        assert not REACHABLE.holds(np.array(goal))
        arm.restore(arm.home)
        for _ in arm.lead(np.array(goal), LIMIT):
            pass
        assert apart(arm.place, goal) > CLOSE


def test_the_region_is_wide():
    low, high = np.moveaxis(np.array(REACHABLE.boxes), 1, 0)
    assert (high - low).prod(1).sum() > 0.33  # m³
    for a, b in itertools.combinations(range(len(low)), 2):  # or points would be drawn unevenly
        assert (np.minimum(high[a], high[b]) <= np.maximum(low[a], low[b])).any()
    assert REACHABLE.holds(HOME)


def test_a_step_moves_three_centimetres_along_each_axis(env):
    for action in ((1, 0, 0, 0), (0, -1, 0, 0), (-1, 1, 1, 0)):
        env.reset(seed=0)
        for _ in range(5):
            obs = env.step(np.array(action, np.float32))[0]
        np.testing.assert_allclose(obs["achieved_goal"] - HOME, np.array(action[:3]) * 0.163, atol=0.008)


def test_far_goals_are_reached_in_time_and_pay_from_then_on():
    env = gym.make("cairn/FetchReachFar-v0", disable_env_checker=True)
    for seed in range(10):
        (obs, _), truncated, rewards = env.reset(seed=seed), False, []
        while not truncated:
            action = towards(obs["achieved_goal"], obs["desired_goal"])
            obs, reward, terminated, truncated, info = env.step(action)
            assert not terminated and info["is_success"] == (reward == 0.0) == (np.linalg.norm(way(obs)) <= CLOSE)
            rewards.append(reward)
        assert len(rewards) == LIMIT and sorted(rewards) == rewards and 75 < rewards.count(0.0) < 97


def starts_of(goals):
    return ("home", "anywhere", "waypoint") if goals in ("line", "lines") else ("home", "anywhere")


@pytest.mark.parametrize("goals", get_args(Goals))
def test_goals_are_reachable_and_never_reached_before_the_first_step(goals):
    for starts in starts_of(goals):
        env = FetchReachFar(goals=goals, starts=starts)
        env.reset(seed=0)
        seen = [env.reset()[0] for _ in range(60)]
        assert all(REACHABLE.holds(obs["desired_goal"]) for obs in seen)
        assert all(np.linalg.norm(way(obs)) > CLOSE for obs in seen)


def drawn(n=200, **args):
    env = FetchReachFar(**args)
    env.reset(seed=0)
    seen = [env.reset()[0] for _ in range(n)]
    return np.array([obs["desired_goal"] for obs in seen]), np.array([way(obs) for obs in seen])


def test_where_goals_lie():
    goals, ways = drawn(goals="far")
    lengths = np.linalg.norm(ways, axis=1)
    assert FAR[0] <= lengths.min() < 0.33 and 0.57 < lengths.max() <= FAR[1] and len(np.unique(goals, axis=0)) == 200
    assert (goals[:, 0] > 1.5).any() and (goals[:, 1] < 0.3).any() and (goals[:, 1] > 1.2).any()
    _, ways = drawn(goals="far", starts="anywhere")
    assert FAR[0] <= np.linalg.norm(ways, axis=1).min() and np.linalg.norm(ways, axis=1).max() <= FAR[1]
    _, ways = drawn(goals="near")
    assert 0.9 * CUBE < np.abs(ways).max() < CUBE + 1e-3
    _, ways = drawn(goals="nearby", starts="anywhere")
    assert 0.9 * BALL < np.linalg.norm(ways, axis=1).max() <= BALL + 1e-6 and (ways.max(0) > 0.1).all()
    goals, _ = drawn(20, goals="one", starts="anywhere")
    np.testing.assert_allclose(goals, np.tile(HOME + SHIFT, (20, 1)), atol=1e-6)


def test_a_displacement_is_asked_for_only_where_it_can_be_done():
    """Most starts allow it, and those that do not are the ones that are never drawn."""
    goals, ways = drawn(goals="displacement", starts="anywhere")
    np.testing.assert_allclose(ways, np.tile(SHIFT, (200, 1)), atol=1e-6)
    allowed = np.array([bool(REACHABLE.holds(pose.place + SHIFT)) for pose in poses()])
    assert 0.3 < allowed.mean() < 0.8
    begun = {tuple(place) for place in np.round(goals - ways, 5)}
    places = np.round(np.array([pose.place for pose in poses()], np.float32), 4)
    assert begun and all(np.abs(places[allowed] - place).max(1).min() < 2e-4 for place in begun)


def test_waypoints_divide_a_line_from_home_to_a_far_goal(arm):
    assert len(legs()) == LINES and {len(line) for line in legs()} == {WAYPOINTS}
    for line in legs():
        ways = np.array([goal for _, goal in line])
        np.testing.assert_allclose(np.diff([HOME, *ways], axis=0), np.tile((ways[-1] - HOME) / 5, (5, 1)), atol=1e-9)
        assert 0.5 <= apart(ways[-1], HOME) <= 0.6
        for (start, _), before in zip(line, (HOME, *ways), strict=False):
            assert apart(start.place, before) < ARRIVED


@pytest.mark.parametrize(("goals", "count"), [("line", WAYPOINTS), ("lines", LINES * WAYPOINTS)])
def test_goals_on_lines_are_all_their_waypoints(goals, count):
    known = {tuple(goal.astype(np.float32)) for line in legs() for _, goal in line}
    asked, ways = drawn(1200, goals=goals, starts="waypoint")
    assert {tuple(goal) for goal in asked} <= known and len(np.unique(asked, axis=0)) == count
    lengths = np.linalg.norm(ways, axis=1)
    assert lengths.min() > 0.08 and lengths.max() < 0.14
    asked, ways = drawn(60, goals=goals, starts="home")
    np.testing.assert_allclose(asked - ways, np.tile(HOME, (60, 1)), atol=1e-4)


def test_starts_are_anywhere_at_rest_and_in_passing(arm):
    places = np.array([pose.place for pose in poses()])
    assert REACHABLE.holds(places).all()
    assert (np.ptp(places, axis=0) > (0.6, 1.1, 0.5)).all()
    speeds = []
    for pose in poses():
        arm.restore(pose)
        speeds.append(np.linalg.norm(arm.seen()[5:8]))
        np.testing.assert_allclose(arm.place, pose.place, atol=1e-9)
    assert min(speeds) < 0.01 and max(speeds) > 0.03


def test_what_is_nearby_can_be_reached_from_anywhere_in_twenty_steps():
    env = gym.make("cairn/FetchReachFar-v0", goals="nearby", starts="anywhere", max_episode_steps=20)
    for seed in range(40):
        (obs, _), truncated = env.reset(seed=seed), False
        while not truncated:
            obs, _, _, truncated, info = env.step(towards(obs["achieved_goal"], obs["desired_goal"]))
        assert info["is_success"]


def test_an_episode_is_its_seed_and_its_actions():
    env, actions = FetchReachFar(starts="anywhere"), noise(20)
    first = play(env, actions, 3)
    for seed in (4, 5):
        play(env, noise(30, seed), seed)
        np.testing.assert_array_equal(play(env, actions, 3), first)
    np.testing.assert_array_equal(play(FetchReachFar(starts="anywhere"), actions, 3), first)
    assert len({tuple(env.reset(seed=seed)[0]["desired_goal"]) for seed in range(10)}) == 10


def test_to_be_seen_changes_nothing_and_a_picture_shows_arm_and_goal(opengl):
    seen, unseen, actions = FetchReachFar(render_mode="rgb_array"), FetchReachFar(), noise(10)
    expected = play(unseen, actions, 0)
    seen.reset(seed=0)
    still = seen.render()
    assert still.shape == (480, 480, 3) and still.dtype == np.uint8
    for action, row in zip(actions, expected[1:], strict=True):
        np.testing.assert_array_equal(np.concatenate(list(seen.step(action)[0].values())), row)
        moved = seen.render()
    assert (moved != still).any(-1).sum() > 500
    seen.reset(options={"goal": (1.4, 0.5, 0.6)})
    other = seen.render()
    red = (other[..., 0] > 150) & (other[..., 1:] < 60).all(-1)
    assert 20 < red.sum() < 2000 and (other != still).any(-1).sum() > red.sum()
    seen.close()
    assert unseen.render() is None


def test_a_goal_can_be_given_where_it_can_be_reached(env):
    assert env.reset(options={"goal": (1.4, 0.5, 0.6)})[0]["desired_goal"].tolist() == pytest.approx([1.4, 0.5, 0.6])
    for wrong in ((1.44, 0.85, 1.2), (1.3, 0.75, 0.3), (1.0, 0.5), 7.0, (np.nan, 0.7, 0.5), tuple(HOME + 0.01)):
        with pytest.raises(ValueError, match="the goal"):
            env.reset(options={"goal": wrong})


def test_what_is_seen_stays_in_its_space(env):
    for seed in range(3):
        rows = play(env, np.sign(noise(60, seed)).repeat(2, axis=0)[:80], seed)[:, :10]
        assert rows.dtype == np.float32
        assert ((rows > LOWEST) & (rows < HIGHEST)).all()  # never clipped


def test_an_action_that_is_no_number_is_refused_and_spoils_nothing(env):
    first = play(env, noise(5), 0)
    env.reset()
    with pytest.raises(ValueError, match="not finite"):
        env.step(np.array([0, np.nan, 0, 0], np.float32))
    np.testing.assert_array_equal(play(env, noise(5), 0), first)


@pytest.mark.parametrize(
    "args",
    [{"goals": "all"}, {"starts": "here"}, {"render_mode": "human"}, {"starts": "waypoint"}],
)
def test_wrong_arguments_are_named(args):
    with pytest.raises(ValueError, match=next(iter(args))):
        FetchReachFar(**args)


def test_who_does_not_reach_does_not_load_mujoco():
    code = "import sys, cairn.envs; sys.exit('mujoco' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
