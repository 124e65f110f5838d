"""A score is a function of policy and seed: the same episodes, grouped differently, have the same returns."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from cairn.algorithms import DQNConfig, HIROConfig, PPOConfig, SACConfig, TD3Config, build
from cairn.algorithms.player import ROWS, Solo, _together
from cairn.core.calls import commands
from cairn.core.types import Box, Discrete, Spec
from cairn.envs.task import LONGEST, Task, say_cut
from cairn.runs.checkpoint import load_policy
from cairn.runs.evaluation import as_policy, evaluate
from cairn.vector.choose import make_vector
from cairn.vector.in_process import Sync
from cairn.vector.processes import Workers
from cairn.vector.world_reuse import EPISODES, SHORT, STEPS
from tests.vector.counting import Counting

ZOO = Path(__file__).parent.parent.parent / "zoo"


def scores(agent, task, seeds, groups, **options):
    """(return, length) of each seed, for each number of environments."""
    found = []
    for together in groups:
        envs = make_vector(task, together, backend="sync")
        try:
            parts = [seeds[i : i + together] for i in range(0, len(seeds), together)]
            played = [evaluate(as_policy(agent, **options), envs, part) for part in parts]
        finally:
            envs.close()
        found.append([pair for score in played for pair in zip(score.returns, score.lengths, strict=True)])
    return found


@pytest.mark.parametrize("name", ["sac-pendulum", "fetch-reach-her", "reach-far-hiro", "cartpole-a2c"])
def test_zoo_policies_score_the_same_in_any_grouping(name):
    saved = load_policy(ZOO / name)
    try:
        task = saved.task.for_scoring()
        task().close()
    except Exception:
        pytest.skip("its extra is not installed")
    all_at_once, *others = scores(saved.agent, task, list(range(70, 76)), (6, 4, 1))
    assert all(other == all_at_once for other in others)


def test_box2d_scores_the_same_in_any_grouping():
    pytest.importorskip("Box2D")
    saved = load_policy(ZOO / "bipedal-ppo")
    task = Task("BipedalWalker-v3", 250, scoring=True)
    all_at_once, *others = scores(saved.agent, task, [1, 2, 3, 4], (4, 3, 1))
    assert all(other == all_at_once for other in others)


@pytest.mark.parametrize("name", ["sac-pendulum", "cartpole-ppo"])
def test_with_random_actions_too_and_the_agents_generator_is_left_alone(name):
    saved = load_policy(ZOO / name)
    before = saved.agent.generator.get_state()
    all_at_once, *others = scores(saved.agent, Task(saved.task.id, 60), [5, 6, 7], (3, 2, 1), explore=True)
    assert all(other == all_at_once for other in others)
    assert torch.equal(saved.agent.generator.get_state(), before)


def specs():
    flat, bounded = Spec((3,), "float32", Discrete(4)), Spec((3,), "float32", Box((2,), (-1.0,) * 2, (1.0,) * 2))
    levels = HIROConfig(
        high=SACConfig(hidden=(32,)), low=TD3Config(hidden=(32,)), subgoal=(0, 2), subgoal_range=(1, 1), every=3
    )
    narrow = Spec((3,), "float32", Box((1,), (-1.0,), (1.0,)))
    return [
        (DQNConfig(hidden=(64, 64)), flat),
        (PPOConfig(hidden=(64, 64)), flat),
        (PPOConfig(hidden=(64, 64)), bounded),
        (SACConfig(hidden=(64, 64)), bounded),
        (TD3Config(hidden=(64, 64)), bounded),
        (TD3Config(hidden=(33, 33)), narrow),
        (levels, bounded),
    ]


@pytest.mark.parametrize(("cfg", "spec"), specs())
def test_a_rows_action_does_not_depend_on_the_others(cfg, spec):
    agent = build(cfg, spec, seed=1, device="cpu")
    draw = np.random.default_rng(0)
    many, few = Solo(agent, 50), Solo(agent, 3)
    for row in range(3):
        many.begin(40 + row, 0)
        few.begin(row, 0)
    for _ in range(7):
        obs = draw.normal(size=(50, 3)).astype(np.float32)
        asked = np.ones(50, bool)
        asked[7:20] = False
        together, alone = many(obs, asked), few(obs[40:43], np.ones(3, bool))
        np.testing.assert_array_equal(together[40:43], alone)
        if not many.memories:
            assert not together[7:20].any()


WIDE = Spec((20,), "float32", Discrete(20))  # as many entries and actions as a block has rows
IMAGES_OF_6, IMAGES_OF_4 = (Spec((4, 84, 84), "uint8", Discrete(n)) for n in (6, 4))


@pytest.mark.parametrize(
    ("cfg", "spec"),
    [
        (DQNConfig(hidden=(20,)), WIDE),
        (DQNConfig(hidden=(64,), quantiles=20), WIDE),
        (PPOConfig(hidden=(20,)), WIDE),
        (DQNConfig(), IMAGES_OF_6),
        (PPOConfig(), IMAGES_OF_4),
    ],
)
def test_rows_are_asked_about_together_whatever_the_networks_widths(cfg, spec):
    """An axis that is as long as a block is not one of rows; NatureCNN's kernels are 8 x 8."""
    agent = build(cfg, spec, seed=1, device="cpu")
    many, few = Solo(agent, 11), Solo(agent, 2)
    assert len(many.places) > 1
    seen, plain = [], agent.act
    agent.act = lambda obs, **given: seen.append(out := plain(obs, **given)) or out
    obs = np.random.default_rng(0).integers(0, 256, (11, *spec.obs_shape)).astype(spec.obs_dtype)
    asked = np.ones(11, bool)
    asked[3] = False
    np.testing.assert_array_equal(many(obs, asked)[9:], few(obs[9:], np.ones(2, bool)))
    assert len(seen) < 11


def test_places_that_round_differently_are_left_empty(monkeypatch):
    agent = build(PPOConfig(hidden=(8,)), Spec((3,), "float32", Discrete(2)), seed=1, device="cpu")
    plain = agent.net.policy_head.forward

    def uneven(x):
        out = plain(x)
        out[1::2] += 1e-5
        return out * 1

    monkeypatch.setattr(agent.net.policy_head, "forward", uneven)
    solo = Solo(agent, 30)
    assert solo.block == ROWS and solo.places.tolist() == list(range(0, ROWS, 2))
    rows = []
    monkeypatch.setattr(agent, "act", lambda obs, **_: rows.append(obs.clone()) or obs[:, 0].long())
    obs = np.arange(1, 91, dtype=np.float32).reshape(30, 3)
    assert solo(obs, np.ones(30, bool)).tolist() == obs[:, 0].tolist()
    assert len(rows) == 3 and not any(block[1::2].any() for block in rows)


def test_where_the_place_matters_rows_are_asked_one_by_one(monkeypatch):
    agent = build(PPOConfig(hidden=(8,)), Spec((3,), "float32", Discrete(2)), seed=1, device="cpu")
    assert _together(agent)[0] == len(_together(agent)[1]) == ROWS
    plain = agent.net.policy_head.forward

    def uneven(x):
        return plain(x) + 1e-7 * torch.arange(len(x))[:, None]

    monkeypatch.setattr(agent.net.policy_head, "forward", uneven)
    assert _together(agent)[0] == len(_together(agent)[1]) == 1


@pytest.mark.parametrize("make", [Sync, lambda makers: Workers(makers, workers=2)])
def test_environments_that_are_through_are_not_stepped_on(make):
    class Lasts(gym.Env):
        """An episode from seed s has s steps; rewards count every step that was ever taken here."""

        observation_space, action_space = gym.spaces.Box(-1, 1e6, (1,)), gym.spaces.Discrete(2)
        taken = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.left = 1000 if seed is None else seed
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.left -= 1
            Lasts.taken += 1
            return np.zeros(1, np.float32), 1.0, self.left <= 0, False, {}

    envs = make([Lasts] * 3)
    try:
        score = evaluate(lambda obs: np.zeros(len(obs), np.int64), envs, [1, 2, 9, 4, 3])
    finally:
        envs.close()
    assert score.lengths == (1, 2, 9, 4, 3)
    if make is Sync:
        assert Lasts.taken == 19 + 2 * (
            STEPS + EPISODES * SHORT
        )  # those of the episodes, and of the trial whether it remembers


def test_a_lost_worker_plays_the_same_seed_again():
    envs = Workers([lambda: Counting(0, (5,), "t"), lambda: Counting(1, (5,), "t", ("raise", 1, 3))], workers=2)
    try:
        score = evaluate(lambda obs: np.zeros(len(obs), np.int64), envs, [1, 2, 3, 4])
    finally:
        envs.close()
    assert score.lengths == (5, 5, 5, 5)


def test_a_task_without_a_time_limit_is_cut_and_says_so_once(capsys):
    say_cut.cache_clear()
    task = Task("CliffWalking-v1").for_scoring()
    assert task.longest == LONGEST
    envs = make_vector(task, 2, backend="sync")
    for _ in range(2):
        score = evaluate(lambda obs: np.zeros(len(obs), np.int64), envs, [1, 2, 3], longest=50)
        assert score.lengths == (50, 50, 50) and score.mean == -50
    said = capsys.readouterr().err
    assert said.count("truncated after 50 steps") == 1 and "time_limit" in said and "--" not in said
    say_cut.cache_clear()
    with commands():
        evaluate(lambda obs: np.zeros(len(obs), np.int64), envs, [1], longest=50)
    assert "--time-limit" in capsys.readouterr().err


def test_a_tasks_own_limit_is_kept():
    assert Task("CartPole-v1").longest == 500 and Task("CartPole-v1", 20_000).longest == 20_000
    pytest.importorskip("ale_py")
    assert Task("ALE/Pong-v5", scoring=True).longest == 27_000
