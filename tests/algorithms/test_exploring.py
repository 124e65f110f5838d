"""Exploring episodes of a hierarchy: the way back, patience, and that the archive is filled, saved and resumed."""

from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

from cairn.algorithms import DQNConfig, HIROConfig, TD3Config
from cairn.algorithms.hiro.agent import HIRO
from cairn.algorithms.hiro.exploring import LONGEST, PATIENCE, Explorer, Trail
from cairn.algorithms.hiro.loop import hierarchy
from cairn.core.errors import CairnError
from cairn.core.schedules import constant
from cairn.core.types import Box, GoalSpec, Spec
from cairn.explore.archive import Archive
from cairn.recipes.recipe import Recipe
from cairn.runs.callbacks import Callbacks
from cairn.runs.checkpoint import load_agent
from cairn.runs.train import train

gym.register("toys/PlaneOf20-v0", "tests.envs.toys:Plane", max_episode_steps=20)

HIGH = DQNConfig(hidden=(16,), batch_size=16, learning_starts=100)
LOW = TD3Config(hidden=(16,), batch_size=16, learning_starts=100, updates_per_step=0.25)
EXPLORING = HIROConfig(HIGH, LOW, subgoal_range=(2.0, 2.0), every=4, explore=constant(1.0), cell=(1.0, 1.0), walk=3.0)
PLANE = Recipe(env="toys/PlaneOf20-v0", agent=EXPLORING, steps=400, envs=2, eval_every=100, eval_episodes=1)
SPEC = Spec((6,), "float32", Box((2,), (-1.0,) * 2, (1.0,) * 2), GoalSpec(2, 2))


def explorer(seed=0, reach=(2.0, 1.0), walk=10.0):
    generator = torch.Generator().manual_seed(seed)
    return Explorer(Archive((1.0, 1.0), 2, 8), np.array(reach, np.float32), walk, generator)


def point(*xy):
    return np.array(xy, np.float32)


def test_the_share_of_exploring_episodes_is_what_was_asked_for():
    one = explorer()
    assert np.mean([one.begin(0.3).explores for _ in range(2000)]) == pytest.approx(0.3, abs=0.04)
    assert not one.begin(0.0).explores and one.begin(1.0).explores


def test_it_goes_back_by_the_points_that_once_led_there():
    one = explorer()
    one.archive.visit(point(9, 9), [point(4, 0), point(4, 4)])
    trail = one.begin(1.0)
    np.testing.assert_allclose(one.displacement(trail, point(0, 0)), (2, 0))  # no longer than the reach, same direction
    np.testing.assert_allclose(one.displacement(trail, point(3.5, 0)), (0.125, 1.0))  # near the first: on to the second
    assert len(trail.plan) == 1


def test_a_point_that_cannot_be_reached_is_given_up():
    one, trail = explorer(), Trail(True, plan=[point(100, 0), point(-100, 0)])
    moves = [one.displacement(trail, point(0, 0)) for _ in range(PATIENCE + 1)]
    assert all(move[0] == 2 for move in moves[:-1]) and moves[-1][0] == -2


def test_after_the_way_back_it_walks_to_random_points_no_further_than_walk():
    one, trail, seen = explorer(walk=5.0), Trail(True), []
    for _ in range(300):
        move = one.displacement(trail, point(0, 0))
        assert (np.abs(move) <= one.reach + 1e-6).all()
        seen.append(tuple(trail.plan[0]))
    points = np.array(sorted(set(seen)))
    assert len(points) >= 300 // PATIENCE
    assert np.linalg.norm(points, axis=1).max() <= 5.0 and (points.min(0) < 0).all() and (points.max(0) > 0).all()


def test_only_exploring_episodes_of_training_leave_the_high_level():
    agent = HIRO(replace(EXPLORING, explore=constant(0.5)), SPEC, seed=0)
    obs = torch.zeros(64, 6)
    memory = agent.memory(64)
    agent.act(obs, explore=True, memory=memory)
    explores = np.array([trail.explores for trail in memory.trails])
    assert 0.3 < explores.mean() < 0.7 and len(agent.explorer.archive) == 1 and agent.explorer.archive.visits[0] == 64
    still = agent.memory(64)
    agent.act(obs, explore=False, memory=still)
    assert still.trails == [] and agent.explorer.archive.visits[0] == 64


def test_subgoals_of_exploring_episodes_are_actions_of_the_high_level():
    agent = HIRO(EXPLORING, SPEC, seed=0)
    memory = agent.memory(16)
    agent.act(torch.randn(16, 6), explore=True, memory=memory)
    obs = torch.randn(16, 6)
    memory.clock[:] = 0
    agent.act(obs, explore=True, memory=memory)
    away = memory.asked - obs[:, 2:4]
    assert torch.cdist(away, agent.table).min(1).values.max() < 1e-5


def test_a_way_that_is_too_long_to_be_kept_leads_nowhere():
    """Past LONGEST decisions `way` lacks the last subgoals, so no cell is said to lie at its end."""
    agent = HIRO(EXPLORING, SPEC, seed=0)
    memory = agent.memory(1)
    for step in range(LONGEST + 5):
        memory.clock[:] = 0
        agent.act(torch.full((1, 6), 10.0 * step), explore=True, memory=memory)
    assert len(memory.trails[0].way) == LONGEST and len(agent.explorer.archive) == LONGEST


def test_a_new_episode_forgets_its_trail():
    agent = HIRO(EXPLORING, SPEC, seed=0)
    memory = agent.memory(2)
    agent.act(torch.zeros(2, 6), explore=True, memory=memory)
    kept = memory.trails[1]
    memory.forget(np.array([True, False]))
    assert memory.trails[0] is None and memory.trails[1] is kept


def test_a_run_fills_the_archive_and_resumes_it(tmp_path):
    recipe = replace(PLANE, checkpoint_every=100)
    whole = train(recipe, tmp_path / "whole").agent
    train(recipe, tmp_path / "half", callbacks=Callbacks((lambda progress: progress.step < 200,)))
    half = load_agent(tmp_path / "half" / "best", device="cpu")[0]  # a policy has no archive
    assert len(half.explorer.archive) == 0
    resumed = train(recipe, tmp_path / "half", resume=True).agent
    assert len(whole.explorer.archive) > 3
    for name, tensor in whole.explorer.archive.state().items():
        assert torch.equal(tensor, resumed.explorer.archive.state()[name]), name


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"low_sees": (2,)}, "agent.low_sees is"),
        ({"low_sees": (0, 9)}, "agent.low_sees is"),
        ({"cells": (7,)}, "agent.cells names 7"),
        ({"cell": (1.0,)}, "agent.cell has 1 numbers; cells have 2 axes"),
        ({"cells": (0,), "cell": ()}, "agent.cell has 0 numbers; cells have 1 axes"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, said):
    with pytest.raises(CairnError, match=said):
        HIRO(replace(EXPLORING, **changes), SPEC, seed=0)


def test_samplers_elsewhere_are_refused():
    agent = HIRO(EXPLORING, SPEC, seed=0)
    with pytest.raises(CairnError, match="keeps one archive"):
        hierarchy(agent, SimpleNamespace(rows=64), None, None)


def test_within_needs_goals():
    spec = Spec((6,), "float32", SPEC.action)
    with pytest.raises(CairnError, match="high_reward is within"):
        HIRO(replace(EXPLORING, subgoal=(0, 2), high_reward="within"), spec, seed=0)


def test_the_low_level_sees_its_slice_alone():
    agent = HIRO(replace(EXPLORING, low_sees=(1, 2)), SPEC, seed=0)
    obs, target = torch.arange(12.0).reshape(2, 6), torch.full((2, 2), 50.0)
    torch.testing.assert_close(agent.low_view(obs, target), torch.tensor([[1, 2, 3, 50, 50], [7, 8, 9, 50, 50.0]]))
    assert agent.low.encoder.width == 3  # the slice and the displacement, without the place itself
