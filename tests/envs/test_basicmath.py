"""BasicMath without its waiting: what is typed is what the game takes, and nothing but the last press is paid."""

import numpy as np
import pytest

pytest.importorskip("ale_py")

from cairn.core.errors import CairnError
from cairn.envs.basicmath import BasicMath
from cairn.envs.task import Task
from cairn.vector.spaces import spec_of_env

FIRST, SECOND = 52, 58  # cells of the game's memory: the two numbers


def asked(env):
    memory = env.ale.getRAM()
    return int(memory[FIRST]) + int(memory[SECOND])


@pytest.mark.parametrize("seed", range(3))
def test_right_answers_are_paid_one_each_and_ten_end_the_game(seed):
    env = BasicMath("answer")
    env.reset(seed=seed)
    paid, ends = [], []
    while not (ends and ends[-1]):
        _, reward, terminated, truncated, _ = env.step(asked(env))
        paid.append(reward)
        ends.append(terminated)
        assert not truncated
    assert paid == [1.0] * 10 and ends == [False] * 9 + [True]


def test_a_wrong_answer_is_not_paid_and_the_next_sum_is_asked():
    env = BasicMath("answer")
    env.reset(seed=0)
    for nth in range(10):
        _, reward, terminated, *_ = env.step((asked(env) + 1) % 19)
        assert reward == 0.0 and terminated == (nth == 9)


def test_buttons_type_the_same_answer_and_only_fire_is_paid():
    env = BasicMath("button")
    env.reset(seed=0)
    button = {action.name: at for at, action in enumerate(env.actions)}
    assert set(button) == {"FIRE", "UP", "RIGHT", "LEFT", "DOWN"}
    total, over = 0.0, False
    while not over:
        tens, ones = divmod(asked(env), 10)
        keys = ["UP"] * (ones + 1) + (["LEFT", "UP", "UP"] if tens else [])
        for key in keys:
            _, reward, over, *_ = env.step(button[key])
            assert reward == 0.0 and not over
        _, reward, over, *_ = env.step(button["FIRE"])
        total += reward
    assert total == 10


def test_down_from_nothing_is_nine():
    typed, chosen = BasicMath("button"), BasicMath("button")
    for env in (typed, chosen):
        env.reset(seed=4)
    names = [action.name for action in typed.actions]
    for _ in range(10):
        seen = typed.step(names.index("UP"))[0]
    np.testing.assert_array_equal(seen, chosen.step(names.index("DOWN"))[0])


def test_the_picture_is_ink_and_tells_every_press():
    env = BasicMath("button")
    first, _ = env.reset(seed=1)
    assert first.shape == (1, 48, 48) and first.dtype == np.uint8 and first.max() > 200 and (first == 0).mean() > 0.7
    seen = [first.copy()]
    for _ in range(10):
        obs, *_ = env.step([action.name for action in env.actions].index("UP"))
        assert all((obs != old).any() for old in seen)
        seen.append(obs)


def test_the_same_seed_is_the_same_game():
    a, b = BasicMath("answer"), BasicMath("answer")
    b.reset(seed=9)
    b.step(3)
    for env in (a, b):
        env.reset(seed=5)
    for action in (2, 5, 10, 18, 0):
        for x, y in zip(a.step(action), b.step(action), strict=True):
            np.testing.assert_equal(x, y)


def test_as_a_task():
    env = Task("cairn/BasicMath-v0", args={"by": "answer", "size": 36})()
    assert spec_of_env(env)[0].obs_shape == (1, 36, 36) and env.action_space.n == 19
    with pytest.raises(CairnError, match="limit is 0; it must be at least 1"):
        Task("cairn/BasicMath-v0", args={"limit": 0})()
    with pytest.raises(CairnError, match="by is 'word'; it must be one of button, answer"):
        Task("cairn/BasicMath-v0", args={"by": "word"})()


def test_who_never_answers_is_made_to():
    """A sum stands as it was left; the third UP of the first, 1 + 1, has left a 2."""
    env = Task("cairn/BasicMath-v0", args={"limit": 3})()
    env.reset(seed=0)
    up = [action.name for action in env.unwrapped.actions].index("UP")
    paid, over = [], []
    while not (over and over[-1]):
        asked_for = asked(env.unwrapped)
        _, reward, terminated, truncated, _ = env.step(up)
        paid.append(reward)
        over.append(terminated)
        assert not truncated and reward == (len(paid) % 3 == 0 and asked_for == 2)
    assert len(over) == 30 and paid[:3] == [0.0, 0.0, 1.0]


def test_apart_each_sum_is_an_episode_and_the_game_goes_on():
    """As whole games for the statistics: what is paid, and where a game ends, are told all the same."""
    env = BasicMath("button", apart=True, limit=4)
    names = [action.name for action in env.actions]
    env.reset(seed=0)
    asked_for = []
    for nth in range(10):
        asked_for.append(asked(env))
        if nth % 2:  # left alone
            for _ in range(4):
                _, reward, terminated, truncated, info = env.step(names.index("LEFT"))
        else:
            _, reward, terminated, truncated, info = env.step(names.index("FIRE"))
        assert (terminated, truncated) == (nth % 2 == 0, nth % 2 == 1)
        assert info["cairn/goes_on"] == (nth < 9) and reward == info["cairn/score"] == 0.0
        if nth < 9:
            env.reset()
    assert len(set(asked_for)) > 1  # they were ten sums of one game
    env.reset()
    assert asked(env) == 2  # every game begins with 1 + 1


def test_a_right_answer_that_is_left_standing_counts_for_the_score_alone():
    env = BasicMath("button", apart=True, limit=3)
    env.reset(seed=0)
    up = [action.name for action in env.actions].index("UP")
    assert [env.step(up)[1] for _ in range(2)] == [0.0, 0.0]
    _, reward, terminated, truncated, info = env.step(up)  # 1 + 1 = 2
    assert (reward, terminated, truncated, info["cairn/score"]) == (0.0, False, True, 1.0)
