"""What is drawn of a hierarchy: its subgoals reach picture and film, and its memory hears of episodes that end."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch

from cairn.algorithms import HIROConfig, SACConfig, TD3Config, build
from cairn.core.errors import CairnError
from cairn.core.goals import Region
from cairn.envs.task import Task
from cairn.report import plan
from cairn.report.video import record
from cairn.runs.evaluation import as_policy, evaluate
from cairn.vector.choose import make_vector
from cairn.vector.spaces import spec_of_env
from tests.envs.toys import Plane

SMALL = TD3Config(hidden=(16,))


class Yard(Plane):
    """A plane that says where one can go, and shows the subgoal it was given."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    reachable = Region((((-9.0, -9.0), (9.0, 9.0)),))
    marked: list = []

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def mark(self, point):
        self.marked.append(point)

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)


gym.register("toys/Yard-v0", "tests.report.test_plan:Yard", max_episode_steps=12)
TASK = Task("toys/Yard-v0")


def hierarchy(**changes):
    cfg = replace(HIROConfig(high=SMALL, low=SMALL, subgoal_range=(2.0, 2.0), every=5), **changes)
    env = TASK()
    return build(cfg, spec_of_env(env)[0], seed=1)


def test_a_trace_holds_the_path_and_each_subgoal_once():
    one = plan.trace(as_policy(hierarchy()), TASK(), TASK.id, seed=3)
    assert one.path.shape == (13, 2) and one.episode.length == 12
    assert one.subgoals.shape == (3, 2)  # after 0, 5 and 10 steps
    assert one.goal.shape == (2,) and np.array_equal(one.path[0], [0, 0])


def test_the_picture_is_written_and_a_task_without_places_is_refused(tmp_path):
    played = plan.draw(as_policy(hierarchy()), TASK, tmp_path / "plan.png", episodes=2)
    assert len(played) == 2
    assert (tmp_path / "plan.png").read_bytes()[:4] == b"\x89PNG"
    flat = Task("Pendulum-v1")
    env = flat()
    agent = build(SACConfig(hidden=(16,)), spec_of_env(env)[0])
    with pytest.raises(CairnError, match="Pendulum-v1 has none"):
        plan.draw(as_policy(agent), flat, tmp_path / "no.png")


def test_a_plan_of_many_episodes_makes_one_environment(tmp_path, monkeypatch):
    agent, made = hierarchy(), []
    monkeypatch.setattr(Task, "__call__", lambda task, real=Task.__call__: made.append(real(task)) or made[-1])
    together = plan.draw(as_policy(agent), TASK, tmp_path / "plan.png", episodes=3)
    assert len(made) == 1
    alone = plan.draw(as_policy(agent), TASK, tmp_path / "plan.png", seed=1002)
    assert together[2] == alone[0]  # nothing of one episode is left to the next


def test_a_film_shows_the_subgoal_of_every_step(tmp_path):
    Yard.marked.clear()
    record(as_policy(hierarchy()), TASK, tmp_path / "film.mp4", episodes=2)
    assert len(Yard.marked) == 24
    first = [tuple(p) for p in Yard.marked[:12]]
    assert len(set(first[:5])) == 1 and first[4] != first[5]
    assert tuple(Yard.marked[12]) != first[-1]  # another episode begins with a subgoal of its own


def test_evaluation_tells_the_memory_which_episodes_ended():
    agent = hierarchy()
    player = as_policy(agent)
    envs = make_vector(TASK, 2, backend="sync")
    score = evaluate(player, envs, [1, 2, 3])
    envs.close()
    assert score.episodes == 3
    again = evaluate(as_policy(agent), make_vector(TASK, 3, backend="sync"), [1, 2, 3])
    assert score.returns == pytest.approx(again.returns)  # however many play at once, and whatever was played before


def test_a_state_is_carried_from_call_to_call():
    from cairn import HIRO

    model = HIRO("toys/Yard-v0", high=SMALL, low=SMALL, subgoal_range=(2.0, 2.0), every=3)
    obs, _ = TASK().reset(seed=0)
    action, state = model.predict(obs, deterministic=True)
    target = state.target.clone()
    assert action.shape == (2,)
    _, state = model.predict(obs, state=state, deterministic=True)
    assert torch.equal(state.target, target) and int(state.clock[0]) == 2
    _, state = model.predict(obs, state=state, episode_start=[True], deterministic=True)
    assert int(state.clock[0]) == 1
