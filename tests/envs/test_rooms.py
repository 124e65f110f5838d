"""Key, door and rooms: the rules, the way through, and that aimless steps do not find it."""

from collections import deque

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cairn.envs  # noqa: F401  registers the task
from cairn.envs.goals import goal_rule
from cairn.envs.rooms import DOOR, FLOOR, GOAL, HEIGHT, KEY, MOVES, REACHABLE, ROOMS, WIDTH, KeyDoorRooms, cells
from cairn.envs.task import Task

LIMIT = 400
RIGHT, DOWN, LEFT, UP = range(4)


def steps_to(target, floor):
    """Cell -> how many moves it is from `target`."""
    far, queue = {target: 0}, deque([target])
    while queue:
        x, y = queue.popleft()
        for dx, dy in MOVES:
            cell = x + dx, y + dy
            if cell in floor and cell not in far:
                far[cell] = far[x, y] + 1
                queue.append(cell)
    return far


def move(cell, far):
    """The action of a shortest path, given `steps_to`; to the right where there is none."""
    x, y = cell
    return min(range(4), key=lambda a: far.get((x + MOVES[a][0], y + MOVES[a][1]), 10**6))


class Rooms(KeyDoorRooms):
    """Shows its observation alone."""

    def _obs(self):
        return super()._obs()["observation"]


def at(cell, **state):
    env = Rooms()
    env.reset(seed=0)
    env.cell = cell
    vars(env).update(state)
    return env


def test_is_a_clean_gymnasium_task():
    env = gym.make("cairn/KeyDoorRooms-v0", render_mode="rgb_array", disable_env_checker=True)
    assert env.spec.max_episode_steps == LIMIT
    check_env(env.unwrapped)


def test_key_door_goal_is_the_way_and_pays_once_at_its_end():
    env = Rooms()
    lengths = set()
    for seed in range(50):
        obs, _ = env.reset(seed=seed)
        rewards, terminated = [], False
        while not terminated:
            has_key = bool(obs[2])
            far = steps_to(GOAL if has_key else KEY, FLOOR if has_key else FLOOR - {DOOR})
            obs, reward, terminated, truncated, info = env.step(move(tuple(obs[:2].astype(int)), far))
            rewards.append(reward)
            assert not truncated and info["is_success"] == terminated
            assert obs[3] == (obs[0] >= DOOR[0])  # the way never leads back through it
        assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
        assert obs[:6].tolist() == [*GOAL, 1, 1, *KEY]
        lengths.add(len(rewards))
    assert min(lengths) >= 40 and max(lengths) <= 49 and len(lengths) > 5


def test_its_goal_rule_is_what_the_steps_pay():
    rule = goal_rule(Task("cairn/KeyDoorRooms-v0"))
    there, here = np.array([GOAL], np.float32), np.array([[3, 3]], np.float32)
    assert (rule.reward(there, there), rule.reward(here, there)) == (1, 0)
    assert rule.terminated(there, there) and not rule.terminated(here, there)
    obs, _ = KeyDoorRooms().reset(seed=0)
    assert obs["achieved_goal"].tolist() == obs["observation"][:2].tolist()
    assert obs["desired_goal"].tolist() == list(GOAL)


def test_walls_hold_and_moves_go_their_way():
    env = at((8, 4))
    for action, cell in ((RIGHT, (9, 4)), (DOWN, (9, 5)), (LEFT, (8, 5)), (UP, (8, 4))):
        assert tuple(env.step(action)[0][:2]) == cell
    for cell, action in (((11, 4), RIGHT), ((7, 4), LEFT), ((8, 1), UP), ((8, 8), DOWN), ((6, 3), DOWN)):
        assert tuple(at(cell).step(action)[0][:2]) == cell
    assert at((7, 3)).step(LEFT)[0][0] == 6  # a doorway


def test_the_door_opens_to_the_key_alone_and_stays_open():
    env = at((17, 3))
    obs = env.step(RIGHT)[0]
    assert obs[:4].tolist() == [17, 3, 0, 0]
    env = at((17, 3), has_key=True)
    assert env.step(RIGHT)[0][:4].tolist() == [18, 3, 1, 1]
    assert env.step(LEFT)[0][:4].tolist() == [17, 3, 1, 1]
    assert env.reset(seed=1)[0][2:4].tolist() == [0, 0]


def test_it_feels_what_is_beside_it():
    assert at((8, 4))._obs()[6:].tolist() == [1, 1, 1, 1]
    assert at((7, 1))._obs()[6:].tolist() == [1, 1, 0, 0]
    assert at((17, 3))._obs()[6:].tolist() == [0, 1, 1, 1]  # the door is a wall
    assert at((17, 3), has_key=True)._obs()[6:].tolist() == [1, 1, 1, 1]  # but to the key


def test_the_key_is_taken_by_stepping_on_it():
    env = at((3, 6))
    obs, reward, terminated, _, _ = env.step(LEFT)
    assert (obs[2], reward, terminated) == (1, 0.0, False)
    assert env.step(RIGHT)[0][2] == 1


def test_starts_differ_and_repeat_under_a_seed():
    env = Rooms()
    first = [tuple(env.reset(seed=seed)[0]) for seed in range(300)]
    assert {cell[:2] for cell in first} == cells(ROOMS[1])
    assert [tuple(env.reset(seed=seed)[0]) for seed in range(20)] == first[:20]
    assert {cell[4:6] for cell in first} == {KEY}
    env = Rooms(keys="anywhere")
    assert {tuple(env.reset(seed=seed)[0][4:6]) for seed in range(300)} == cells(ROOMS[0])


def test_the_region_is_the_floor():
    grid = np.array([[x, y] for x in range(WIDTH) for y in range(HEIGHT)], np.float32)
    held = {tuple(cell) for cell in grid[REACHABLE.holds(grid)].astype(int).tolist()}
    assert held == FLOOR == set(steps_to(KEY, FLOOR)) and len(FLOOR) == 4 * 40 + 3
    assert not set(steps_to(KEY, FLOOR - {DOOR})) & cells(ROOMS[3])
    assert REACHABLE.nearest(np.array([[0.0, -3.0], [6.0, 3.0], [8.6, 4.0]])).tolist() == [[1, 1], [6, 3], [8.6, 4]]


def test_aimless_steps_do_not_get_there():
    env, draw, found = KeyDoorRooms(), np.random.default_rng(0), 0
    env.reset(seed=0)
    for _ in range(400):
        env.reset()
        found += any(env.step(action)[2] for action in draw.integers(4, size=LIMIT).tolist())
    assert found <= 2


def test_errands_to_random_cells_do():
    """What a hierarchy's first episodes are: every ten steps a cell within ±5, and the shortest way to it."""
    env, draw, found = KeyDoorRooms(), np.random.default_rng(0), 0
    ways = {False: {}, True: {}}
    for has_key, floor in ((False, FLOOR - {DOOR} - cells(ROOMS[3])), (True, FLOOR)):
        ways[has_key] = {cell: steps_to(cell, floor) for cell in floor}
    env.reset(seed=0)
    for _ in range(400):
        env.reset()
        for t in range(LIMIT):
            if t % 10 == 0:
                wanted = np.array(env.cell) + draw.integers(-5, 6, 2)
                target = min(
                    ways[env.has_key], key=lambda cell: (cell[0] - wanted[0]) ** 2 + (cell[1] - wanted[1]) ** 2
                )
            if env.cell != target and env.step(move(env.cell, ways[env.has_key][target]))[2]:
                found += 1
                break
    assert 6 <= found <= 30


def test_a_picture_shows_agent_key_and_door():
    env = at((17, 3), render_mode="rgb_array")
    still = env.render()
    assert still.shape == (240, 600, 3) and still.dtype == np.uint8
    env.has_key = True
    env.step(RIGHT)
    changed = (env.render() != still).any(-1)
    assert {(x // 24, y // 24) for y, x in np.argwhere(changed).tolist()} == {(17, 3), DOOR, KEY}
    assert KeyDoorRooms().render() is None
    env.mark(np.array([14.2, 6.9], np.float32))
    assert (env.render()[7 * 24 + 12, 14 * 24 + 12] == (40, 120, 220)).all()


@pytest.mark.parametrize("args", [{"keys": "lost"}, {"render_mode": "human"}])
def test_wrong_arguments_are_named(args):
    with pytest.raises(ValueError, match=next(iter(args))):
        KeyDoorRooms(**args)
