"""The race car: a fair task, repeatable to the bit, and drivable from start to finish without touching a wall."""

import math
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cairn.envs  # noqa: F401  registers the task
from cairn.core.goals import Within
from cairn.envs.goals import goal_rule
from cairn.envs.task import Task

pytest.importorskip("pybullet", reason="the race car needs the extra 'bullet'")

from cairn.envs.racecar import HIGHEST, LOWEST, RaceCar
from cairn.envs.racetrack import FINISH, MARGIN, MARKS, ONE, START, heading_at, on_track, progress

LIMIT = 150  # decisions
WHEELBASE, SPACING, AHEAD = 0.325, 0.05, 0.8  # of the scripted driver, in metres
STRAIGHT = np.array([0.0, 0.7], np.float32)
STAND = np.zeros(2, np.float32)


def middle():
    """Points every `SPACING` metres along the middle of the track."""
    knots = np.array([(0.5, 0.5), (0.8, 2), (1.8, 3), (8, 3), (9, 4), (9, 6), (10, 7), (14.5, 7)])
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(knots, axis=0), axis=1))])
    at = np.arange(0, along[-1], SPACING)
    return np.stack([np.interp(at, along, knots[:, k]) for k in (0, 1)], axis=1)


ROUTE = middle()


def pursue(obs, throttle=0.6):
    """Pure pursuit: the arc from here that meets the route `AHEAD` metres on; a positive steer turns right."""
    x, y, _, _, heading = obs["observation"][:5]
    nearest = int(np.argmin(np.hypot(*(ROUTE - (x, y)).T)))
    dx, dy = ROUTE[min(nearest + round(AHEAD / SPACING), len(ROUTE) - 1)] - (x, y)
    left = math.atan2(dy, dx) - heading
    return np.array([-math.atan2(2 * WHEELBASE * math.sin(left), math.hypot(dx, dy)), throttle], np.float32)


def play(env, actions, **reset):
    """Every observation of an episode, as one array."""
    obs, _ = env.reset(**reset)
    rows = [np.concatenate(list(obs.values()))]
    for action in actions:
        obs, _, terminated, _, _ = env.step(action)
        rows.append(np.concatenate(list(obs.values())))
        if terminated:
            break
    return np.stack(rows)


def drive(env, policy, limit=LIMIT, **reset):
    """Steps as (obs, reward, terminated, info) until the episode ends."""
    obs, _ = env.reset(**reset)
    steps = []
    for _ in range(limit):
        obs, reward, terminated, truncated, info = env.step(policy(obs))
        steps.append((obs, reward, terminated, info))
        if terminated or truncated:
            break
    return steps


def noise(n, seed=0):
    return np.random.default_rng(seed).uniform((-1, 0), (1, 1), (n, 2)).astype(np.float32)


@pytest.fixture
def make():
    made = []

    def one(**args):
        made.append(RaceCar(**args))
        return made[-1]

    yield one
    for env in made:
        env.close()


def test_gymnasium_finds_no_fault():
    env = gym.make("cairn/RaceCar-v0", render_mode="rgb_array")
    assert env.spec.max_episode_steps == LIMIT
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("args", [{}, {"starts": "both"}, {"wall_mass": 100.0}])
def test_a_step_after_a_reset_depends_on_seed_and_action_alone(make, args):
    """Episodes of one step: the car still stands where the next one begins, and contact points could survive."""
    env, draw = make(**args), np.random.default_rng(0)
    cases = [(int(draw.integers(2**31)), noise(1, k)) for k in range(30 if args.get("wall_mass") else 150)]
    first = [play(env, actions, seed=seed) for seed, actions in cases]
    again = [play(env, actions, seed=seed) for seed, actions in reversed(cases)]
    assert not sum(not np.array_equal(a, b) for a, b in zip(first, reversed(again), strict=True))


def test_the_rule_of_the_goals_explains_the_task():
    for contact in ("cost", "ends", "free"):
        rule = goal_rule(Task("cairn/RaceCar-v0", args={"contact": contact, "goals": "marks"}))
        assert rule == Within(1.0, ends=True, cost=contact != "free")


def test_the_driver_reaches_the_finish_and_touches_nothing():
    env = gym.make("cairn/RaceCar-v0", goals="finish")
    steps = drive(env, pursue, seed=0)
    assert steps[-1][3] == {"is_success": True, "reached": True, "touched": False}
    assert len(steps) < 130
    assert [reward for _, reward, _, _ in steps] == [-1.0] * (len(steps) - 1) + [0.0]
    assert [terminated for _, _, terminated, _ in steps] == [False] * (len(steps) - 1) + [True]
    env.close()


def test_the_driver_also_reaches_goals_drawn_along_the_track(make):
    env = make()
    ends = [drive(env, pursue, seed=seed)[-1][3] for seed in range(8)]
    assert all(info["is_success"] for info in ends)


def test_an_episode_is_its_seed_and_its_actions(make):
    env, actions = make(starts="track"), noise(25)
    first = play(env, actions, seed=3)
    for seed in (4, 5):
        play(env, noise(40, seed), seed=seed)
        np.testing.assert_array_equal(play(env, actions, seed=3), first)
    np.testing.assert_array_equal(play(make(starts="track"), actions, seed=3), first)


def test_a_rebuilt_world_is_a_restored_one(make):
    for args in ({}, {"starts": "track"}, {"wall_mass": 100.0}):
        restored, rebuilt = make(**args), make(rebuild=True, **args)
        for seed in range(3):  # the first reset of a restored world, and later ones
            np.testing.assert_array_equal(
                play(restored, noise(15, seed), seed=seed), play(rebuilt, noise(15, seed), seed=seed)
            )


def test_to_be_seen_changes_nothing(make):
    seen, unseen = make(render_mode="rgb_array"), make()
    np.testing.assert_array_equal(play(seen, noise(25), seed=0), play(unseen, noise(25), seed=0))


def test_two_cars_in_one_process_do_not_meet(make):
    actions, env, other = noise(25), make(), make(wall_mass=100.0)
    alone = play(env, actions, seed=0)
    env.reset(seed=0)
    other.reset(seed=1)
    for t, action in enumerate(actions):
        obs = env.step(action)[0]
        other.step(-action)
        if t == 10:
            other.close()
            other = make()
            other.reset(seed=2)
        np.testing.assert_array_equal(np.concatenate(list(obs.values())), alone[t + 1])


def places(env):
    world = env.world
    return np.array([world.bullet.getBasePositionAndOrientation(wall)[0] for wall in sorted(world.walls)])


def test_heavy_walls_move_and_come_back(make):
    env = make(wall_mass=100.0)
    env.reset(seed=0)
    before = places(env)
    drive(env, lambda obs: STRAIGHT, limit=10)
    assert abs(places(env) - before).max() > 0.01  # they overlap at the corners and push each other away
    env.reset()
    np.testing.assert_array_equal(places(env), before)


def test_our_walls_stand_still(make):
    env = make()
    before = places(env)
    assert drive(env, lambda obs: STRAIGHT, limit=40, seed=0)[-1][3]["touched"]
    np.testing.assert_array_equal(places(env), before)


def test_goals_differ_between_seeds_and_lie_on_the_track(make):
    env = make()
    env.reset(seed=0)
    goals = [tuple(env.reset()[0]["desired_goal"].tolist()) for _ in range(400)]
    marks = [goal for goal in goals if goal in MARKS]
    assert 150 < len(marks) < 250  # half
    assert set(marks) == set(MARKS)
    drawn = set(goals) - set(MARKS)
    assert len(drawn) == len(goals) - len(marks)
    assert all(on_track(x, y, MARGIN - 1e-6) for x, y in drawn)
    assert all(math.dist(goal, START[:2]) > 1.0 for goal in goals)
    for lane in ([0, 0, 2, 2], [2, 2, 8, 4], [8, 4, 10, 6], [10, 6, 15, 8]):  # the whole of it
        assert sum(lane[0] < x < lane[2] and lane[1] < y < lane[3] for x, y in drawn) > 5
    assert len({tuple(env.reset(seed=seed)[0]["desired_goal"].tolist()) for seed in range(10)}) > 6


@pytest.mark.parametrize(("goals", "expected"), [("marks", set(MARKS)), ("finish", {FINISH}), ("one", {ONE})])
def test_fewer_goals_can_be_asked_for(make, goals, expected):
    for starts in ("line", "track"):
        env = make(goals=goals, starts=starts)
        env.reset(seed=0)
        assert {tuple(env.reset()[0]["desired_goal"].tolist()) for _ in range(40)} == expected


def test_a_goal_can_be_given(make):
    env = make()
    obs, _ = env.reset(seed=0, options={"goal": (8.5, 2.5)})
    assert obs["desired_goal"].tolist() == [8.5, 2.5]
    assert env.reset(seed=0)[0]["desired_goal"].tolist() != [8.5, 2.5]
    for wrong in ((5, 5), (0.0, 1.0), (1.0, 2.0, 3.0), 7.0, (math.nan, 3.0), (0.5, 1.0)):
        with pytest.raises(ValueError, match="the goal"):
            env.reset(options={"goal": wrong})


def test_the_race_begins_at_the_line_and_at_rest(make):
    env = make()
    for seed in range(3):
        obs, _ = env.reset(seed=seed)
        np.testing.assert_allclose(obs["observation"], [0.5, 0.5, 0, 0, math.pi / 2, 0, 0, 0, 0], atol=1e-6)
        np.testing.assert_array_equal(obs["achieved_goal"], obs["observation"][:2])
        drive(env, lambda obs: STRAIGHT, limit=5)


def test_starts_on_the_track_face_along_it_and_touch_nothing(make):
    env = make(starts="track")
    for seed in range(100):
        obs, _ = env.reset(seed=seed)
        x, y, vx, vy, heading = obs["observation"][:5].tolist()
        assert on_track(x, y, MARGIN - 1e-6)
        assert abs(heading - heading_at(x, y)) <= 0.3 + 1e-6
        assert (vx, vy) == (0.0, 0.0)
        assert math.dist((x, y), obs["desired_goal"]) > 1.0
        assert not env.step(STAND)[4]["touched"]


def test_the_track_and_its_direction():
    assert on_track(*FINISH, 0.3)
    assert not on_track(*FINISH, 0.4)
    assert on_track(*START[:2], 0.3)
    assert all(on_track(*mark) for mark in MARKS)
    assert not on_track(5, 5)
    assert not on_track(1, 4)  # in a wall
    assert [heading_at(*point) for point in ((1, 1), (5, 3), (9, 5), (12, 7))] == [math.pi / 2, 0, math.pi / 2, 0]
    assert heading_at(1, 3) == math.pi / 4


def test_reward_is_the_rule_less_the_cost_of_the_wall(make):
    env = make(wall_cost=2.5)
    costs = set()
    for seed in range(4):
        ever = False
        for obs, reward, terminated, info in drive(env, lambda obs: env.action_space.sample(), limit=60, seed=seed):
            rule = float(env.goal_rule.reward(obs["achieved_goal"], obs["desired_goal"]))
            cost = rule - reward
            ever = ever or cost > 0
            costs.add(cost)
            assert info["touched"] == ever
            assert terminated == info["reached"] == (rule == 0.0)
    assert costs == {0.0, 2.5}


def straight_into_the_wall(env):
    return drive(env, lambda obs: STRAIGHT, limit=40, seed=0)


def test_contact_costs(make):
    steps = straight_into_the_wall(make(goals="finish", patience=0))
    assert len(steps) == 40
    assert steps[0][1] == -1.0
    assert steps[-1][1] == -2.0


def nearest_wall(env):
    """Metres between the car and the wall nearest to it."""
    world = env.world
    return min(point[8] for wall in world.walls for point in world.bullet.getClosestPoints(world.car, wall, 99.0))


def test_the_margin_costs_before_a_wall_is_touched(make):
    env, seen = make(goals="finish", margin=0.3, wall_cost=2.0, patience=0), set()
    env.reset(seed=0)
    env.world.restore((3.0, 3.0, -0.5), FINISH)  # in the middle of the road, and heading for its right-hand wall
    for _ in range(30):
        _, reward, _, _, info = env.step(STRAIGHT)
        near = nearest_wall(env) < 0.3
        assert reward == (-3.0 if near or info["touched"] else -1.0)
        seen.add((near, info["touched"]))
    assert seen == {(False, False), (True, False), (True, True)}  # far off, within the margin, against the wall


def test_the_margin_is_no_touch(make):
    """From the start line the left wall is nearer than half a metre: it costs, and that is all it does."""
    env, plain = make(goals="finish", margin=0.5), make(goals="finish")
    first, second = (one.reset(seed=0) and one.step(STAND) for one in (env, plain))
    np.testing.assert_array_equal(first[0]["observation"], second[0]["observation"])
    assert (first[1], second[1]) == (-2.0, -1.0)
    assert first[2:] == second[2:] and not first[4]["touched"]
    for contact in ("free", "ends"):
        other = make(goals="finish", margin=0.5, contact=contact)
        other.reset(seed=0)
        assert other.step(STAND)[1:3] == (-1.0, False)


def test_standing_at_a_wall_is_truncated_and_does_not_end_the_task(make):
    env = make(goals="finish", patience=6)
    env.reset(seed=0)
    taken, truncated = 0, False
    while not truncated:
        *_, terminated, truncated, info = env.step(STRAIGHT)
        taken += 1
        assert not terminated and taken < 60
    assert info["touched"] and taken > 10
    long = make(goals="finish", patience=0)
    long.reset(seed=0)
    assert not any(long.step(STRAIGHT)[3] for _ in range(60))


def test_jitter_moves_the_start_and_never_into_a_wall(make):
    env = make(goals="finish", jitter=0.15)
    starts = [env.reset(seed=seed)[0]["observation"][[0, 1, 4]] for seed in range(60)]
    off = np.abs(np.array(starts) - START)
    assert len({tuple(s) for s in starts}) == 60 and 0.1 < off.max() <= 0.1501
    for seed in range(60):
        env.reset(seed=seed)
        assert not env.step(np.zeros(2, np.float32))[4]["touched"]
    with pytest.raises(ValueError, match="jitter is 1"):
        make(jitter=1.0)


def test_from_a_start_on_the_track_goals_lie_ahead(make):
    env = make(starts="track")
    for seed in range(200):
        obs, _ = env.reset(seed=seed)
        assert progress(*obs["desired_goal"]) >= progress(*obs["achieved_goal"])


def test_progress_grows_along_the_track():
    way = [(0.5, 0.5), (1, 2), (1, 3), (3, 3), (8, 3), (9, 3), (9, 5), (9, 7), (11, 7), (14.5, 7.5)]
    metres = [progress(*point) for point in way]
    assert metres == sorted(metres) and metres[-1] == 20.5


def test_contact_ends(make):
    steps = straight_into_the_wall(make(goals="finish", contact="ends"))
    assert 10 < len(steps) < 40
    _, reward, terminated, info = steps[-1]
    assert (reward, terminated, info["touched"]) == (-1.0, True, True)
    assert not any(step[2] for step in steps[:-1])


def test_contact_ends_at_the_touch_and_not_at_the_end_of_the_decision(make):
    """One decision of three seconds, against physics steps one by one."""
    coarse, fine = (make(goals="finish", contact="ends", frame_skip=skip) for skip in (300, 1))
    (end,) = straight_into_the_wall(coarse)
    steps = drive(fine, lambda obs: STRAIGHT, limit=300, seed=0)
    assert len(steps) < 300
    np.testing.assert_allclose(end[0]["observation"], steps[-1][0]["observation"], atol=1e-4)


def test_contact_is_free(make):
    steps = straight_into_the_wall(make(goals="finish", contact="free"))
    assert {step[1] for step in steps} == {-1.0}
    assert steps[-1][3]["touched"]
    assert not steps[-1][2]


def test_the_floor_is_no_wall(make):
    assert not drive(make(goals="finish"), lambda obs: STAND, limit=5, seed=0)[-1][3]["touched"]


def test_a_goal_reached_after_touching_is_no_success(make):
    """Brush the wall on the left, then drive on to the goal; the next episode begins clean."""
    env = make()
    steps = drive(
        env, lambda obs: np.array([0.1 if env.touched else -0.15, 0.5], np.float32), options={"goal": (0.7, 3.5)}
    )
    assert steps[-1][3] == {"is_success": False, "reached": True, "touched": True}
    assert any(reward == -2.0 for _, reward, _, _ in steps)
    env.reset()
    assert not env.step(STAND)[4]["touched"]


def test_frame_skip_is_physics_steps(make):
    slow, fast = make(frame_skip=5), make(frame_skip=1)
    assert slow.metadata["render_fps"] == 20
    assert RaceCar.metadata["render_fps"] == 10
    a = play(slow, [STRAIGHT] * 4, seed=0)
    b = play(fast, [STRAIGHT] * 20, seed=0)
    np.testing.assert_allclose(a, b[::5], atol=1e-6)


def test_steering_and_speed(make):
    """A positive steer turns right; the wheels turn at most at 50 rad/s × 5 cm = 2.5 m/s."""
    env = make(starts="track", goals="finish")
    for steer, turns in ((0.5, -1), (-0.5, 1)):
        obs, _ = env.reset(seed=0)
        before = obs["observation"][4]
        for _ in range(4):
            obs = env.step(np.array([steer, 0.4], np.float32))[0]
        assert np.sign(obs["observation"][4] - before) == turns
    speeds = [np.hypot(*obs["observation"][2:4]) for obs, *_ in straight_into_the_wall(make(goals="finish"))]
    assert 1.5 < max(speeds) < 1.9


def test_what_is_seen_stays_in_its_space(make):
    env = make(starts="track")
    for seed in range(3):
        rows = play(env, noise(60, seed), seed=seed)
        assert (rows[:, :9] >= LOWEST).all()
        assert (rows[:, :9] <= HIGHEST).all()
        assert rows.dtype == np.float32
        inside = (rows[:, :9] > LOWEST) & (rows[:, :9] < HIGHEST)
        assert inside.all()  # never clipped


def test_a_picture_shows_the_car_move_and_the_goal(make):
    env = make(render_mode="rgb_array", goals="finish")
    env.reset(seed=0)
    still = env.render()
    assert still.shape == (320, 480, 3)
    assert still.dtype == np.uint8
    assert len(np.unique(still.reshape(-1, 3), axis=0)) > 10
    for _ in range(5):
        env.step(STRAIGHT)
    moved = env.render()
    assert 20 < (still != moved).any(-1).sum() < 2000  # the car, and nothing else
    env.reset(options={"goal": (3, 3)})
    assert (still != env.render()).any(-1).sum() > 1000  # a disc of 1 m
    assert make().render() is None


def test_closing_twice_is_closing():
    env = RaceCar()
    env.close()
    env.close()


@pytest.mark.parametrize(
    "args",
    [
        {"goals": "all"},
        {"starts": "here"},
        {"contact": "bounce"},
        {"render_mode": "human"},
        {"wall_cost": -1.0},
        {"wall_mass": -1.0},
        {"frame_skip": 0},
        {"margin": -0.1},
        {"margin": 0.6},
    ],
)
def test_wrong_arguments_are_named(args):
    with pytest.raises(ValueError, match=next(iter(args))):
        RaceCar(**args)


def test_an_action_that_is_no_number_is_refused_and_spoils_nothing(make):
    env = make()
    first = play(env, [STRAIGHT] * 5, seed=0)
    env.reset()
    with pytest.raises(ValueError, match="not finite"):
        env.step(np.array([0.0, np.nan], np.float32))
    np.testing.assert_array_equal(play(env, [STRAIGHT] * 5, seed=0), first)


def test_who_does_not_race_does_not_load_pybullet():
    code = "import sys, cairn.envs; sys.exit('pybullet' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
