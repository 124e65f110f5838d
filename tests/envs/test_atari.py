"""Atari games as environments: the preprocessing against its own description, frame by frame."""

import importlib.util

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("ale_py")

from cairn.core.errors import CairnError
from cairn.envs.task import Task
from cairn.vector.choose import make_vector
from cairn.vector.spaces import spec_of_env


def area(image, size):
    """Shrunk by area, pixel by pixel: every new one is the mean of what lies under it."""
    height, width = image.shape
    out = np.zeros((size, size))
    fine = np.repeat(np.repeat(image.astype(float), size, 0), size, 1)
    for r in range(size):
        for c in range(size):
            out[r, c] = fine[r * height : (r + 1) * height, c * width : (c + 1) * width].mean()
    return out


def test_frames_are_the_brighter_of_the_last_two_shrunk_and_stacked():
    """Against Gymnasium's own environment, one emulator frame at a time."""
    ours = Task("ALE/Breakout-v5", args={"noops": 0, "size": 7, "skip": 4, "stack": 3})()
    raw = gym.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.0, obs_type="grayscale")
    obs, _ = ours.reset(seed=5)
    raw.reset(seed=5)
    screens = [raw.step(1)[0]]  # FIRE begins a game
    stack = [np.zeros((7, 7)), np.zeros((7, 7)), area(screens[0], 7)]
    np.testing.assert_allclose(obs, np.stack(stack), atol=0.51)
    for action in (2, 3, 0, 2, 2):
        for _ in range(4):
            screens.append(raw.step(action)[0])
        obs, *_ = ours.step(action)
        stack = [*stack[1:], area(np.maximum(screens[-1], screens[-2]), 7)]
        np.testing.assert_allclose(obs, np.stack(stack), atol=0.51)


@pytest.mark.parametrize("name", ["Pong", "Breakout", "SpaceInvaders"])
@pytest.mark.parametrize("native", [False, True], ids=["environment", "native vector"])
def test_the_same_as_gymnasiums_own_preprocessing(name, native):
    """Whole games, one after another: every frame, reward and end. What differs is named here, and nothing else does.

    - by one shade in 255, since OpenCV rounds otherwise
    - the frame after a game's last step: where the game ends within a skip, Gymnasium shows what it had looked at last,
      and so does ALE's vector; our environment looks at the last frame there was
    """
    pytest.importorskip("cv2")
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    task = Task(f"ALE/{name}-v5", args={"noops": 0, "fire": False, "life_loss": False}, scoring=True)
    raw = gym.make(f"ALE/{name}-v5", frameskip=1, repeat_action_probability=0.0)
    theirs = FrameStackObservation(AtariPreprocessing(raw, noop_max=0), 4, padding_type="zero")
    ours = make_vector(task, 1, backend="atari" if native else "sync")
    a, b = ours.reset([3])[0], theirs.reset(seed=3)[0]
    rng, ends = np.random.default_rng(0), 0
    try:
        for _ in range(2500):
            assert np.abs(a.astype(int) - b).max() <= 1
            action = rng.integers(theirs.action_space.n, size=1)
            step, (b, reward, terminated, truncated, _) = ours.step(action), theirs.step(int(action[0]))
            assert (step.reward[0], step.terminated[0], step.truncated[0]) == (reward, terminated, truncated)
            a = step.obs[0]
            if terminated:
                ends += 1
                assert np.abs(step.next_obs[0, :-1].astype(int) - b[:-1]).max() <= 1
                b, _ = theirs.reset()
    finally:
        ours.close()
    assert ends >= 1


def play(task, seed=0, action=None):
    """Rewards, scores and terminations until a game is over."""
    env = task()
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    rows, over = [], False
    while not over:
        _, reward, terminated, truncated, info = env.step(int(rng.integers(env.action_space.n)))
        rows.append((reward, info["cairn/score"], terminated, truncated))
        over = (terminated or truncated) and not info["cairn/goes_on"]
        if terminated or truncated:
            env.reset()
    return rows


def test_lives_end_episodes_and_rewards_are_clipped_for_learners_alone():
    learned, scored = play(Task("ALE/MsPacman-v5")), play(Task("ALE/MsPacman-v5").for_scoring())
    assert sum(row[2] for row in learned) == 3 and sum(row[2] for row in scored) == 1
    assert {row[0] for row in learned} <= {0.0, 1.0}
    assert all(reward == score for reward, score, *_ in scored)
    assert sum(row[1] for row in learned) >= 100 <= sum(row[1] for row in scored)
    assert len(play(Task("ALE/MsPacman-v5", args={"life_loss": False, "clip": False}))) > 300


def test_a_reset_in_the_middle_of_a_game_begins_another():
    env = Task("ALE/Breakout-v5", args={"noops": 0})()
    first, _ = env.reset(seed=0)
    for _ in range(10):
        env.step(3)
    np.testing.assert_array_equal(env.reset()[0], first)


def test_a_time_limit_counts_decisions_and_can_be_lifted():
    assert Task("ALE/Pong-v5").game.limit == 108_000
    assert Task("ALE/Pong-v5", 0).game.limit > 10**9
    env = Task("ALE/Pong-v5", 5, {"skip": 3})()
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(5)] == [False] * 4 + [True]


def test_options():
    assert Task("ALE/Pong-v5", args={"full_actions": True})().action_space.n == 18
    spec, _ = spec_of_env(Task("ALE/Pong-v5", args={"size": 40, "stack": 2})())
    assert (spec.obs_shape, spec.stack, spec.obs_dtype) == ((2, 40, 40), 2, "uint8")
    sums, differences = (Task("ALE/BasicMath-v5", args={"mode": m, "fire": False})().reset(seed=0)[0] for m in (5, 6))
    assert (sums != differences).any()
    with pytest.raises(CairnError, match="has no mode 3; it has 5, 6, 7, 8"):
        Task("ALE/BasicMath-v5", args={"mode": 3})()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Task("ALE/Brekout-v5"), "Did you mean ALE/Breakout-v5"),
        (Task("ALE/Pong-v5", args={"obs_type": "ram"}), "does not take these arguments"),
        (Task("ALE/Pong-v5", args={"skip": 0}), "env_args.skip is 0; it must be at least 1."),
        (Task("ALE/Pong-v5", args={"size": "big"}), "env_args.size is 'big'; it must be a whole number."),
        (Task("ALE/Pong-v5", args={"limit": 9}), "env_args.limit cannot be set: use time_limit."),
    ],
)
def test_bad_input_is_one_sentence(task, words):
    with pytest.raises(CairnError, match=words):
        task()


def test_a_time_limit_past_what_the_emulator_counts_is_none():
    assert Task("ALE/Pong-v5", time_limit=10**9).game.limit == Task("ALE/Pong-v5", time_limit=0).game.limit == 2**31 - 1


def test_where_the_emulator_is_missing_the_extra_is_named(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ale_py" else find(name))
    monkeypatch.setattr(gym, "registry", {k: v for k, v in gym.registry.items() if not k.startswith("ALE/")})
    with pytest.raises(CairnError, match=r"pip install 'cairn-rl\[atari\]'"):
        Task("ALE/Pong-v5")()


def test_it_can_be_filmed():
    env = Task("ALE/Pong-v5", render_mode="rgb_array")()
    env.reset(seed=0)
    assert env.render().shape == (210, 160, 3) and env.metadata["render_fps"] == 15
