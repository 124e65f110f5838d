"""CartPole through pictures: the picture against CartPole's own, and the rules against CartPole's own."""

import gymnasium as gym
import numpy as np
import pytest

from cairn.core.errors import CairnError
from cairn.envs.pixelcartpole import FOOT, POLE_INK, TIP, PixelCartPole
from cairn.envs.task import Task
from cairn.vector.spaces import spec_of_env

VIEWS = ("both", "cart", "track", "screen")


def shrunk(image, rows, columns):
    """The mean of what lies under each pixel."""

    def means(long, short):  # each of `long` cells cut into `short`, each of `short` made of `long` pieces
        return np.kron(np.eye(short), np.ones((1, long)) / long) @ np.kron(np.eye(long), np.ones((short, 1)))

    high, wide = image.shape
    return means(high, rows) @ image @ means(wide, columns).T


def photograph(env, x):
    """What CartPole draws, cropped and shrunk as the view says, as ink."""
    ink = 255.0 - env.render() @ np.array([0.299, 0.587, 0.114])
    height = len(ink)
    parts = []
    for window in env.windows:
        whole = window.high * len(window.low) > 200
        part = ink if whole else ink[int(height - TIP) : int(height - FOOT)]
        if window.follows:
            part = np.pad(part, ((0, 0), (300, 300)), constant_values=255.0)
            part = part[:, int(300 + x * 125) + 150 :][:, :300]
        parts.append(shrunk(part, len(window.low), len(window.left)))
    return np.concatenate(parts)


@pytest.mark.parametrize("view", VIEWS)
def test_the_picture_is_the_one_cartpole_draws(view):
    """CartPole draws in whole pixels of its own, so edges may be off by half of one."""
    pytest.importorskip("pygame")
    env = PixelCartPole(view, size=40, render_mode="rgb_array")
    env.reset(seed=0)
    for x, angle in ((0.0, 0.0), (0.304, 0.1), (-1.904, -0.2), (1.304, 0.15), (2.304, 0.05)):
        env.physics.state = np.array([x, 0.0, angle, 0.0])
        ours, theirs = env._see()[-1].astype(float), photograph(env, x)
        assert np.abs(ours - theirs).mean() < 1.5
        assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.98


def test_the_pole_is_several_pixels_wide_where_the_camera_goes_with_the_cart():
    def width(view):
        window = PixelCartPole(view).windows[0]
        return window.draw(0.0, 0.0)[np.abs(window.y - 60).argmin()].sum() / POLE_INK

    assert width("both") > 2.9 and width("cart") > 2.9
    assert width("screen") < 1.6


def test_the_same_episodes_as_cartpole():
    ours, theirs = Task("cairn/PixelCartPole-v0")(), gym.make("CartPole-v1")
    rng = np.random.default_rng(0)
    for seed in range(3):
        ours.reset(seed=seed)
        state, _ = theirs.reset(seed=seed)
        over = False
        while not over:
            np.testing.assert_allclose(ours.unwrapped.physics.state, state, rtol=1e-6)
            action = int(rng.integers(2))
            _, reward, terminated, truncated, _ = ours.step(action)
            state, *rest = theirs.step(action)
            assert [reward, terminated, truncated] == rest[:3]
            over = terminated or truncated


def balance(env):
    """Keeps the pole up, looking at the state."""
    x, v, angle, spin = env.unwrapped.physics.state
    return int(angle + 0.4 * spin + 0.05 * x + 0.1 * v > 0)


@pytest.mark.parametrize(("skip", "decisions"), [(1, 500), (3, 167)])
def test_the_limit_counts_physics_steps(skip, decisions):
    env = PixelCartPole(skip=skip, size=8)
    env.reset(seed=0)
    rewards, over = [], False
    while not over:
        _, reward, terminated, truncated, _ = env.step(balance(env))
        rewards.append(reward)
        over = terminated or truncated
    assert truncated and not terminated
    assert (len(rewards), sum(rewards)) == (decisions, 500)


def test_an_averaged_reward_is_one_a_decision():
    env = PixelCartPole(skip=4, average=True, size=8)
    env.reset(seed=0)
    assert [env.step(balance(env))[1] for _ in range(5)] == [1.0] * 5


def test_stacks_hold_the_last_frames_oldest_first():
    env = PixelCartPole(stack=3, size=20)
    frames = [env.reset(seed=1)[0]]
    assert (frames[0][:2] == 0).all() and (frames[0][2] > 0).any()
    for _ in range(4):
        frames.append(env.step(1)[0])
        np.testing.assert_array_equal(frames[-1][:-1], frames[-2][1:])
        assert (frames[-1][-1] != frames[-1][-2]).any()  # it moves
    assert spec_of_env(env)[0].stack == 3


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"view": "moon"}, "both, cart, track, screen"),
        ({"skip": 0}, "skip is 0"),
        ({"size": 0}, "size is 0; it must be between 1 and 1000"),
        ({"average": "x"}, "average is 'x'; it must be true or false"),
        ({"stack": 1.5}, "stack is 1.5; it must be a whole number"),
    ],
)
def test_bad_input_is_one_sentence(args, words):
    with pytest.raises(CairnError, match=words):
        Task("cairn/PixelCartPole-v0", args=args)()
