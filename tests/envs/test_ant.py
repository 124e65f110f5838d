"""The ant's four tasks: the paper's numbers, walls that hold, blocks that can be pushed, apples that are eaten."""

import math
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cairn.envs  # noqa: F401  registers the tasks
from cairn.core.errors import CairnError
from cairn.core.goals import Distance
from cairn.envs.goals import goal_rule
from cairn.envs.task import Task

pytest.importorskip("mujoco", reason="the ant needs the extra 'mujoco'")

import mujoco

from cairn.envs.ant import rectangles, tiles
from cairn.envs.ant_tasks import FALL, MAZE, PUSH, AntFall, AntFallStiff, AntGather, AntMaze, AntPush

NAVIGATION = (AntMaze, AntPush, AntFall)
ALL = (*NAVIGATION, AntGather)
REST = np.zeros(8, np.float32)


def noise(steps, seed=0):
    return np.random.default_rng(seed).uniform(-30, 30, (steps, 8)).astype(np.float32)


def flat(obs):
    return np.concatenate(list(obs.values())) if isinstance(obs, dict) else obs


def play(env, actions, seed):
    """Every observation of an episode, as one array."""
    return np.stack([flat(env.reset(seed=seed)[0]), *(flat(env.step(action)[0]) for action in actions)])


def put(env, *xyz, heading=0.0):
    """The ant upright and at rest; its legs as they are."""
    env.data.qpos[: len(xyz)] = xyz
    env.data.qpos[3:7] = math.cos(heading / 2), 0, 0, math.sin(heading / 2)
    env.data.qvel[:] = 0


def drag(env, vx, vy, steps):
    """Pull the torso along whatever its legs do; where it ends."""
    for _ in range(steps):
        env.data.qvel[:2] = vx, vy
        env.step(REST)
    return env.data.qpos[:3].copy()


@pytest.mark.parametrize("cls", ALL)
def test_is_a_clean_gymnasium_task_of_500_steps(cls, opengl):
    env = gym.make(f"cairn/{cls.__name__}-v0", render_mode="rgb_array", disable_env_checker=True)
    assert env.spec.max_episode_steps == 500
    assert env.action_space == gym.spaces.Box(-30, 30, (8,), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*infinity")  # nothing bounds a speed
        warnings.filterwarnings("ignore", message=".*normalized space")  # torques as the paper counts them
        check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("cls", NAVIGATION)
def test_what_a_navigation_task_shows(cls):
    env = cls()
    axes = len(cls.target)
    obs, _ = env.reset(seed=0)
    for t in range(4):
        state = obs["observation"]
        assert state.shape == (30,) and state.dtype == np.float32
        np.testing.assert_allclose(state[:15], env.data.qpos[:15], atol=1e-6)
        np.testing.assert_allclose(state[15:29], env.data.qvel[:14], atol=1e-6)
        assert state[29] == np.float32(t * 0.001)
        np.testing.assert_array_equal(obs["achieved_goal"], state[:axes])
        obs = env.step(noise(1)[0])[0]
    assert obs["desired_goal"].shape == (axes,)


def test_the_block_is_shown_where_asked_for():
    for cls, middle in ((AntPush, (0, 8, 2)), (AntFall, (8, 8, 6))):
        env = cls(sees_block=True)
        obs, _ = env.reset(seed=0)
        assert obs["observation"].shape == (33,)
        np.testing.assert_array_equal(obs["observation"][29:32], middle)


def test_the_robot_has_the_papers_numbers():
    for cls, impedance in ((AntMaze, 0.8), (AntPush, 0.995), (AntFall, 0.995), (AntGather, 0.8)):
        env = cls()
        env.reset(seed=0)
        model, data = env.model, env.data
        assert (model.opt.timestep, model.opt.integrator) == (0.02, mujoco.mjtIntegrator.mjINT_RK4)
        np.testing.assert_array_equal(model.actuator_ctrlrange, [[-30, 30]] * 8)
        np.testing.assert_array_equal(model.actuator_gear[:, 0], 1)
        np.testing.assert_array_equal(model.dof_armature[6:14], 1)
        np.testing.assert_array_equal(model.dof_damping[6:14], 1)
        assert model.body_subtreemass[model.body("torso").id] == pytest.approx(0.911, abs=1e-3)
        for _ in range(10):  # until it stands
            env.step(REST)
        assert data.time == pytest.approx(10 * 5 * 0.02)
        mujoco.mj_forward(model, data)
        assert data.ncon >= 3
        for contact in data.contact:
            assert (contact.includemargin, contact.solimp[0], contact.friction[0]) == (0.01, impedance, 1.0)
            np.testing.assert_allclose(contact.solref, [0.02, 1])


def test_torques_beyond_thirty_are_thirty():
    env = AntMaze()
    np.testing.assert_array_equal(
        play(env, [np.full(8, 99, np.float32)] * 5, seed=0)[:, :29],
        play(env, [np.full(8, 30, np.float32)] * 5, seed=0)[:, :29],
    )


@pytest.mark.parametrize("cls", ALL)
def test_an_episode_is_its_seed_and_its_actions(cls):
    env, actions = cls(), noise(20)
    first = play(env, actions, seed=3)
    play(env, noise(30, 1), seed=4)
    np.testing.assert_array_equal(play(env, actions, seed=3), first)
    np.testing.assert_array_equal(play(cls(render_mode="rgb_array"), actions, seed=3), first)
    assert (play(env, actions, seed=5)[0] != first[0]).any()


def test_the_ant_is_dropped_near_the_origin():
    for cls, height in ((AntMaze, 0.75), (AntFall, 4.75)):
        env = cls()
        starts = np.stack([env.reset(seed=seed)[0]["observation"] for seed in range(50)])
        off = starts[:, :3] - [0, 0, height]
        assert 0.09 < np.abs(off).max() <= 0.1
        np.testing.assert_allclose(np.linalg.norm(starts[:, 3:7], axis=1), 1, atol=1e-6)
        assert 0.08 < starts[:, 15:29].std() < 0.12


def test_the_papers_goals():
    for cls in NAVIGATION:
        env = cls(goal=cls.target)
        assert all(env.reset(seed=s)[0]["desired_goal"].tolist() == list(cls.target) for s in range(3))
    for cls in (AntPush, AntFall):
        assert cls().reset(seed=0)[0]["desired_goal"].tolist() == list(cls.target)
    for env, low, high in (
        (AntMaze(), (-4, -4), (20, 20)),
        (AntPush(many_goals=True), (-16, -4), (16, 20)),
        (AntFall(many_goals=True), (-4, -4, 0), (12, 28, 5)),
    ):
        goals = np.stack([env.reset(seed=s)[0]["desired_goal"] for s in range(200)])
        np.testing.assert_allclose(goals.min(0), low, atol=0.6)
        np.testing.assert_allclose(goals.max(0), high, atol=0.6)
        assert (goals >= low).all() and (goals <= high).all()
    assert AntPush(goal=(1, 2), many_goals=True).reset(seed=0)[0]["desired_goal"].tolist() == [1, 2]


@pytest.mark.parametrize("cls", NAVIGATION)
def test_reward_is_minus_the_distance_and_success_is_within_five_metres(cls):
    goal = np.array(cls.target)
    for off, success in ((4.9, True), (5.2, False)):
        env = cls(goal=cls.target)
        env.reset(seed=0)
        put(env, *(goal - np.eye(len(goal))[1] * off)[:2], 4.6 if cls is AntFall else 0.6)
        obs, reward, terminated, truncated, info = env.step(REST)
        assert reward == pytest.approx(-np.linalg.norm(env.data.qpos[: len(goal)] - goal), abs=1e-4)
        assert reward == env.compute_reward(obs["achieved_goal"], obs["desired_goal"], {})
        assert info["is_success"] is success
        assert not terminated and not truncated
    fallen = AntFall()
    fallen.reset(seed=0)
    put(fallen, 0, 18, 0.6)  # under the target
    assert fallen.step(REST)[1] < -9


@pytest.mark.parametrize("cls", NAVIGATION)
def test_the_rule_of_the_goals_explains_the_task(cls):
    assert goal_rule(Task(f"cairn/{cls.__name__}-v0")) == Distance()


def test_walls_hold():
    maze = AntMaze()
    for start, (vx, vy), stopped in (
        ((0, 0), (0, 8), (1, 4)),
        ((0, 0), (0, -8), (1, -4)),
        ((0, 0), (-8, 0), (0, -4)),
        ((16, 8), (8, 0), (0, 20)),
        ((16, 8), (-8, 0), (0, 12)),
        ((16, 16), (0, 8), (1, 20)),
        ((0, 16), (0, -8), (1, 12)),
    ):
        maze.reset(seed=0)
        put(maze, *start, 0.6)
        end, (axis, wall) = drag(maze, vx, vy, 12), stopped
        before = start[axis] < wall
        assert end[axis] < wall if before else end[axis] > wall, (start, end)
        assert abs(end[axis] - wall) < 1
    maze.reset(seed=0)
    put(maze, 0, 0, 0.6)
    assert drag(maze, 8, 0, 25)[0] > 15  # and the way is free
    gather = AntGather(falling_ends=False)
    gather.reset(seed=0)
    assert 9 < drag(gather, 3, 0, 50)[0] < 10.5


def test_the_regions_are_the_corridors():
    maze = AntMaze().reachable
    free = np.array([(0, 0), (8, 0), (16, 0), (16, 8), (16, 16), (8, 16), (0, 16), (13, 3.9), (19.4, 19.4)], float)
    walls = np.array([(0, 8), (8, 8), (11.9, 4.1), (3.9, 4.1), (-4, 0), (21, 0), (8, 20), (12.1, 8)], float)
    assert maze.holds(free).all()
    assert not maze.holds(walls).any()
    np.testing.assert_allclose(maze.nearest(np.array([0.0, 5.0])), [0, 3.5])
    push = AntPush().reachable
    assert push.holds(np.array([(0, 0), (-8, 0), (-8, 8), (0, 8), (8, 8), (0, 16), (0, 19), (-8, 4)], float)).all()
    assert not push.holds(np.array([(8, 0), (-8, 16), (8, 16), (0, 20)], float)).any()
    fall = AntFall().reachable
    assert fall.holds(np.array([(0, 0, 4.5), (8, 8, 6), (8, 16, 0.5), (0, 27, 4.5)], float)).all()
    assert not fall.holds(np.array([(-8, 0, 4.5), (0, 29, 4.5), (16, 8, 4.5)], float)).any()
    assert AntGather().reachable.holds(np.array([(0.0, 0.0)])).all()


@pytest.mark.parametrize("maze", [MAZE, PUSH, FALL])
def test_tiles_cover_each_cell_once_and_rectangles_are_the_largest(maze):
    walls = maze.cells("#")
    covered = [(i, j) for (i0, j0), (i1, j1) in tiles(walls) for i in range(i0, i1 + 1) for j in range(j0, j1 + 1)]
    assert sorted(covered) == sorted(walls)
    assert set(rectangles(MAZE.cells("A."))) == {((1, 1), (1, 3)), ((1, 3), (3, 3)), ((3, 1), (3, 3))}


def test_a_block_is_pushed_along_its_axes_only():
    env = AntPush()
    for start, (vx, vy), moved in (((-6, 8), (2, 0), (1, 0)), ((0, 2), (0, 2), (0, 1))):
        env.reset(seed=0)
        at = env.block
        put(env, *start, 0.6)
        drag(env, vx, vy, 30)
        off = env.block - at
        assert off[:2] @ moved > 1
        assert abs(off[:2] @ moved[::-1]) < 0.05 and off[2] == 0
        env.reset(seed=0)
        np.testing.assert_array_equal(env.block, at)
    fall = AntFall()
    fall.reset(seed=0)
    put(fall, 8, 2, 4.6)
    drag(fall, 0, 2, 25)
    assert fall.block[1] > 9 and fall.block[0] == 8
    assert fall.block[2] == pytest.approx(6, abs=0.02)
    fall.reset(seed=0)
    put(fall, 2, 8, 4.6)
    assert drag(fall, 4, 0, 10)[0] < 4.05  # from the side it is a wall
    np.testing.assert_allclose(fall.block, [8, 8, 6], atol=0.02)


def test_a_block_is_as_hard_to_push_as_the_papers():
    """The ground drags on it, and how much hangs on contact margins and on where its body's frame lies."""
    for cls, axis, force, least, most in (
        (AntPush, 0, 4, 0.45, 0.6),
        (AntFall, 1, 0.2, 0, 0.05),
        (AntFall, 1, 0.5, 7, 9),
    ):
        env = cls()
        env.reset(seed=0)
        start = env.block[axis]
        env.data.xfrc_applied[env.model.body("block").id, axis] = force  # newton
        for _ in range(10):
            env.step(REST)
        assert least < env.block[axis] - start < most


def test_a_block_over_the_chasm_falls_and_fills_it():
    env = AntFall()
    env.reset(seed=0)
    env.data.qpos[15:] = 4, 0  # half over it
    for _ in range(20):
        env.step(REST)
    assert env.block[2] == pytest.approx(6, abs=0.02)
    for pushed in (7.98, 8.1):  # an ant can push it a little too far: it comes back when let go
        env.reset(seed=0)
        env.data.qpos[15:] = pushed, 0
        for _ in range(20):
            env.step(REST)
        np.testing.assert_allclose(env.block, [8, 16, 2], atol=0.05)


def test_a_stiff_block_stops_over_the_chasm_and_drops_while_it_is_pushed():
    """10 N press the block of the paper 0.8 m too far, where it stays up; the stiff one drops."""
    ends = {}
    for cls in (AntFall, AntFallStiff):
        env = cls()
        env.reset(seed=0)
        env.data.qpos[15:] = 7, 0
        env.data.xfrc_applied[env.model.body("block").id, 1] = 10  # newton
        for _ in range(40):
            env.step(REST)
        ends[cls] = env.block
    assert ends[AntFall][1] > 16.5 and ends[AntFall][2] == pytest.approx(6, abs=0.02)
    np.testing.assert_allclose(ends[AntFallStiff], [8, 16, 2], atol=0.05)
    assert gym.make("cairn/AntFallStiff-v0").spec.max_episode_steps == 500


def test_the_chasm_is_crossed_on_the_block_and_nowhere_else():
    env = AntFall(goal=AntFall.target)
    ends = {}
    for x, filled in ((8, True), (8, False), (0, True)):
        env.reset(seed=0)
        if filled:
            env.data.qpos[15:] = 8, -4
        else:
            env.data.qpos[15:] = -4, 0  # out of the way
        put(env, x, 10, 4.6)
        ends[x, filled] = drag(env, 0, 5, 30)
    assert ends[8, True][1] > 21 and ends[8, True][2] > 4.2
    for way in ((8, False), (0, True)):
        assert ends[way][1] < 20 and ends[way][2] < 1.5
    env.reset(seed=0)
    env.data.qpos[15:] = 8, -4
    put(env, 8, 25, 4.6)
    drag(env, -6, 0, 10)
    assert env.step(REST)[4]["is_success"]


def gathering(things, **args):
    """The ant at rest at the origin, apples and bombs where we want them: the rest far off."""
    env = AntGather(**args)
    env.reset(seed=0)
    put(env, 0, 0, 0.6)
    env.things = np.full((16, 2), 100.0)
    for i, place in things.items():
        env.things[i] = place
    return env


def test_apples_and_bombs_are_caught_once():
    env = gathering({0: (0.5, 0.5), 1: (0.9, 0.7), 8: (0, -0.5), 9: (0, 1.2), 2: (3, 0)})
    assert env.step(REST)[1] == 1 - 1  # one of each within a metre
    assert env.step(REST)[1] == 0
    assert not env.left[[0, 8]].any() and env.left[[1, 2, 9]].all()
    put(env, 3, 0, 0.6)
    assert env.step(REST)[1] == 1
    assert env.step(REST)[0][29:49].max() < 0.8  # nothing is seen of what was eaten


def test_apples_and_bombs_are_where_the_paper_puts_them():
    env = AntGather()
    seen = set()
    for seed in range(100):
        env.reset(seed=seed)
        places = [tuple(map(int, place)) for place in env.things]
        assert len(set(places)) == 16 and (0, 0) not in places
        seen |= set(places)
    assert seen == {(x, y) for x in range(-10, 10, 2) for y in range(-10, 10, 2)} - {(0, 0)}


def brute(env):
    """The sensor, one thing after another, the farthest first: the nearer one speaks last."""
    out = np.zeros((2, 10))
    x, y = env.data.qpos[:2]
    ahead = np.zeros(3)
    mujoco.mju_rotVecQuat(ahead, np.array([1.0, 0, 0]), env.data.qpos[3:7])
    order = sorted(range(16), key=lambda i: -math.dist(env.things[i], (x, y)))
    for i in order:
        far = math.dist(env.things[i], (x, y))
        if not env.left[i] or far > 6:
            continue
        angle = math.atan2(env.things[i][1] - y, env.things[i][0] - x) - math.atan2(ahead[1], ahead[0])
        angle = (angle + math.pi) % (2 * math.pi)
        out[i // 8, int(angle / (2 * math.pi / 10))] = 1 - far / 6
    return out.ravel()


def test_readings():
    env = gathering({0: (3, 0.1), 8: (0.1, 4.5), 1: (4, 0.1)})
    apples, bombs = env._readings()
    assert apples[5] == pytest.approx(0.5, abs=0.01) and (apples > 0).sum() == 1  # ahead, a little to the left
    assert bombs[7] == pytest.approx(0.25, abs=0.01) and (bombs > 0).sum() == 1  # to the left
    put(env, 0, 0, 0.6, heading=math.pi / 2)
    assert env._readings()[1][4] == pytest.approx(0.25, abs=0.01)  # ahead, a little to the right
    env = AntGather(falling_ends=False)
    for seed in range(10):
        obs, _ = env.reset(seed=seed)
        for action in noise(10, seed):
            np.testing.assert_allclose(obs[29:49], brute(env), atol=1e-6)
            obs = env.step(action)[0]
    assert obs.shape == (50,) and obs[49] == np.float32(0.01)


def test_gathering_ends_with_a_fall_or_with_nothing_left():
    for height, fallen in ((0.6, False), (1.6, True)):
        for ends in (True, False):
            env = gathering({}, falling_ends=ends)
            env.data.qpos[2] = height
            *_, terminated, _, info = env.step(REST)
            assert (terminated, info["fallen"]) == (fallen and ends, fallen)
    env = gathering({0: (0.3, 0)})
    env.left[1:] = False
    _, reward, terminated, _, _ = env.step(REST)
    assert (reward, terminated) == (1.0, True)


def test_random_torques_move_the_ant_and_nothing_breaks():
    env = AntMaze()
    places = play(env, noise(200), seed=0)[:, :2]
    assert np.ptp(places, axis=0).max() > 0.3
    assert not any(warning.number for warning in env.data.warning)


def test_a_picture_shows_the_ant_the_block_and_the_target(opengl):
    env = AntPush(render_mode="rgb_array")
    env.reset(seed=0)
    still = env.render()
    assert still.shape == (480, 480, 3) and still.dtype == np.uint8
    put(env, -8, 0)
    moved = (env.render() != still).any(-1)
    assert 100 < moved.sum() < 3000  # the ant, here and there
    assert moved[340:440, 60:140].any() and not moved[:240].any()  # y points upwards
    env.data.qpos[15] = 8
    assert (env.render() != still).any(-1).sum() > 2 * 140**2
    target = (still[:60, 210:270].astype(int) @ [1, 1, -2] > 150).sum()
    assert target > 300  # yellow at (0, 19)
    env.close()
    env.close()
    assert AntPush().render() is None


@pytest.mark.parametrize(
    ("cls", "args"),
    [
        (AntMaze, {"goal": (1, 2, 3)}),
        (AntFall, {"goal": (1, 2)}),
        (AntPush, {"goal": (math.nan, 1)}),
        (AntGather, {"render_mode": "human"}),
    ],
)
def test_wrong_arguments_are_named(cls, args):
    with pytest.raises(ValueError, match=next(iter(args))):
        cls(**args)


def test_an_action_that_is_no_number_is_refused_and_spoils_nothing():
    env = AntMaze()
    first = play(env, noise(3), seed=0)
    with pytest.raises(ValueError, match="not finite"):
        env.step(np.full(8, np.nan, np.float32))
    np.testing.assert_array_equal(play(env, noise(3), seed=0), first)


def test_without_mujoco_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CairnError, match=r"cairn/AntMaze-v0 needs an extra: pip install 'cairn-rl\[mujoco\]'"):
        Task("cairn/AntMaze-v0")()


def test_who_has_no_ant_does_not_load_mujoco():
    code = "import sys, cairn.envs; sys.exit('mujoco' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
