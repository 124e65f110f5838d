"""Pole and plate in PyBullet: fair tasks, repeatable to the bit, and balanced by hand."""

import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from importlib.resources import files

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cairn.envs  # noqa: F401  registers the tasks
from cairn.core.errors import CairnError
from cairn.envs.task import Task
from cairn.recipes import find

pytest.importorskip("pybullet", reason="the tasks need the extra 'bullet'")

IDS = ("cairn/BulletCartPole-v0", "cairn/BalancingPlate-v0")
LIMITS = {"cairn/BulletCartPole-v0": 500, "cairn/BalancingPlate-v0": 2_000}


def upright(obs):
    """Push to where the pole falls, and a little to where the cart is."""
    x, speed, angle, rate = obs
    return int(angle + 0.3 * rate + 0.01 * x + 0.02 * speed > 0)


def level(obs):
    """Poles at -3/s for each axis: x'''' = -(3⁴x + 4·3³x' + 6·3²x'' + 4·3x'''), where x'' is 7 times the tilt."""
    x, y, _, vx, vy, _, pitch, roll, pitching, rolling = obs

    def torque(at, speed, tilt, turn):
        return (81 / 7 + 3.04) * at + 108 / 7 * speed + 54 * tilt + 12 * turn < 0

    return 2 * torque(-y, -vy, pitch, pitching) + torque(x, vx, roll, rolling)


def play(env, actions, seed):
    rows = [env.reset(seed=seed)[0]]
    for action in actions:
        obs, _, terminated, _, _ = env.step(action)
        rows.append(obs)
        if terminated:
            break
    return np.stack(rows)


def balance(env, policy, seed=0):
    """Total reward, whether it fell, and the last info."""
    (obs, _), total, terminated, truncated = env.reset(seed=seed), 0.0, False, False
    while not (terminated or truncated):
        obs, reward, terminated, truncated, info = env.step(policy(obs))
        total += reward
    return total, terminated, info


def draw(env, n, seed=0):
    return np.random.default_rng(seed).integers(env.action_space.n, size=n)


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_finds_no_fault(name):
    env = gym.make(name, render_mode="rgb_array")
    assert env.spec.max_episode_steps == LIMITS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.close()


def test_a_pole_is_balanced_for_500_steps_and_falls_when_nobody_looks():
    env = gym.make(IDS[0])
    assert [balance(env, upright, seed)[:2] for seed in range(5)] == [(500.0, False)] * 5
    total, terminated, _ = balance(env, lambda obs: 1)
    assert terminated and total < 5
    assert abs(env.unwrapped._obs()[2]) > 0.2095


def test_the_cart_must_stay_within_ten_metres():
    env = gym.make(IDS[0]).unwrapped
    env.reset(seed=0)
    env.bullet.resetJointState(env.cart, 0, 9.99, 5.0)
    obs, reward, terminated, _, _ = env.step(1)
    assert terminated and obs[0] > 10 and abs(obs[2]) < 0.2095 and reward == 1.0


@pytest.mark.parametrize("skip", [1, 5])
def test_a_ball_is_kept_on_the_plate_for_2000_physics_steps(skip):
    env = Task(IDS[1], 2_000 // skip, {"rates": True, "frame_skip": skip})()
    assert [balance(env, level, seed) for seed in range(3)] == [(2_000.0, False, {"is_success": True})] * 3


def test_a_ball_that_nobody_minds_falls():
    env = gym.make(IDS[1], frame_skip=7)
    total, terminated, info = balance(env, lambda obs: 3)
    assert terminated and not info["is_success"] and total < 200
    assert env.unwrapped._obs(env.unwrapped.angles)[2] < 1.0  # below 0.1 m, times 10
    assert total % 7  # a decision in which it falls pays for the steps until then


def test_what_is_seen_is_by_the_facts():
    env = gym.make(IDS[1], rates=True, frame_skip=5).unwrapped
    obs, _ = env.reset(seed=0)
    assert obs[:6].tolist() == [0, 0, 2, 0, 0, 0] and np.abs(obs[6:8]).max() <= 0.005 and not obs[8:].any()
    after = env.step(3)[0]
    np.testing.assert_allclose(after[8:], (after[6:8] - obs[6:8]) / 0.05, rtol=1e-4)
    rate = 10 * env.bullet.getJointState(env.plate, 0)[1]
    assert after[8] == pytest.approx(rate, rel=0.5)
    np.testing.assert_array_equal(gym.make(IDS[1], frame_skip=5).reset(seed=0)[0], obs[:8])


def test_torques_turn_the_plate_as_the_facts_say():
    """0.0003 N·m over 0.3 kg (0.3² + 0.02²)/12 m² is 0.133 rad/s²: in 10 steps of 10 ms 0.0133 rad/s."""
    for action, signs in enumerate(((-1, -1), (-1, 1), (1, -1), (1, 1))):
        env = gym.make(IDS[1]).unwrapped
        env.reset(seed=0)
        for axis in (0, 1):
            env.bullet.resetJointState(env.plate, axis, 0.0, 0.0)
        for _ in range(10):
            env.step(action)
        turn = [env.bullet.getJointState(env.plate, axis)[1] for axis in (0, 1)]
        np.testing.assert_allclose(turn, 0.0133 * np.array(signs), rtol=0.02)


@pytest.mark.parametrize("name", IDS)
def test_an_episode_is_its_seed_and_its_actions_whoever_else_is_there(name):
    env, other = gym.make(name).unwrapped, gym.make(name, render_mode="rgb_array").unwrapped
    actions = draw(env, 60)
    first = play(env, actions, 3)
    play(env, draw(env, 80, 1), 4)
    np.testing.assert_array_equal(play(env, actions, 3), first)  # whatever came before
    rows, again = [env.reset(seed=3)[0]], []
    other.reset(seed=5)
    for i, action in enumerate(actions[: len(first) - 1]):
        rows.append(env.step(action)[0])
        other.step(actions[-i])
        again.append(other.render())
    np.testing.assert_array_equal(np.stack(rows), first)
    np.testing.assert_array_equal(play(other, actions, 3), first)  # to be seen changes nothing
    other.close()
    np.testing.assert_array_equal(play(env, actions, 3), first)
    other.close()  # twice is no harm


@pytest.mark.parametrize("name", IDS)
def test_pictures_show_what_moves(name):
    env = gym.make(name, render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    for _ in range(3 if name == IDS[0] else 90):
        env.step(1)
    after = env.render()
    assert before.shape == after.shape == (320, 480, 3) and before.dtype == np.uint8
    assert before.std() > 20 and (before != after).any(-1).mean() > 0.001
    assert gym.make(name).render_mode is None and gym.make(name).unwrapped.render() is None


def test_the_plate_is_valid_xml_and_ships_with_the_package():
    robot = ElementTree.fromstring(files("cairn.envs").joinpath("balancing_plate.urdf").read_text())
    masses = {link.get("name"): float(link.find("inertial/mass").get("value")) for link in robot.iter("link")}
    assert masses["base"] == 1.0 and masses["plate"] == 0.3
    for joint, axis in zip(robot.iter("joint"), ("1 0 0", "0 1 0"), strict=True):
        limit = {key: float(value) for key, value in joint.find("limit").attrib.items()}
        assert limit == {"lower": -1.57, "upper": 1.57, "effort": 10.0, "velocity": 1.0}
        assert joint.find("axis").get("xyz") == axis
    assert robot.find("link[@name='plate']/collision/geometry/box").get("size") == "0.3 0.3 0.02"


@pytest.mark.parametrize("name", IDS)
def test_without_pybullet_one_sentence_says_what_to_install(name):
    code = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'pybullet' else find(name, *a)\n"
        f"from cairn.cli.main import main; main(['train', '--env', {name!r}, '--agent', 'dqn'])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.returncode == 2
    assert told.stderr == f"cairn: environment {name} needs an extra: pip install 'cairn-rl[bullet]'.\n"


def test_mistakes_are_named():
    with pytest.raises(CairnError, match="frame_skip is 0"):
        Task(IDS[1], args={"frame_skip": 0})()
    with pytest.raises(ValueError, match="render_mode"):
        type(gym.make(IDS[0]).unwrapped)(render_mode="human")


def test_the_recipe_is_judged_by_2000_physics_steps():
    recipe = find("balancing-plate-dqn")
    assert recipe.time_limit * recipe.env_args["frame_skip"] == 2_000
    assert find("bullet-cartpole-reinforce").target == 500
