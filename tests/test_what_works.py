"""The tables of docs/environments.md: what works with which algorithm and which backend, a test for each cell."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import cairn
from cairn.collect.local import LocalCollector
from cairn.collect.protocol import Order
from cairn.core.errors import CairnError
from cairn.envs.task import Task
from cairn.nets.own import as_shown
from cairn.vector.choose import make_vector
from cairn.vector.gymnasium import Gymnasium
from tests import any_tasks  # registers the tasks
from tests.test_memory import Going, check_states

DOCS = Path(__file__).parent.parent / "docs"


def table(mark, page="environments.md"):
    """{(row, column): whether it says yes} of a table between two marks."""
    text = (DOCS / page).read_text().split(f"<!-- {mark}:begin -->")[1].split(f"<!-- {mark}:end -->")[0]
    lines = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in text.strip().splitlines()]
    heads = lines[0][1:]
    return {(row[0], head): cell != "-" for row in lines[2:] for head, cell in zip(heads, row[1:], strict=True)}


# -- algorithms


class Picture(gym.ObservationWrapper):
    """The picture of the camera task alone."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = env.observation_space["camera"]

    def observation(self, observation):
        return observation["camera"]


def picture(kind):
    return lambda: Picture(any_tasks.Camera(kind))


def toy(name, **args):
    return lambda kind: Task(f"toys/{name}-v0", args=args)


def camera(kind):
    return Task("toys/Camera-v0", args={"kind": kind})


# The rows of the first table: a task, with the actions that the algorithm can take where the row is about something
# else, and settings.
PARTS = {
    "`Discrete` actions": (lambda kind: Task("CartPole-v1"), {}),
    "`MultiDiscrete` actions": (toy("Combination"), {}),
    "`MultiBinary` actions": (toy("Combination", kind="multibinary"), {}),
    "`Box` actions": (lambda kind: Task("Pendulum-v1"), {}),
    "`Dict` and `Tuple` of actions": (toy("Parts"), {}),
    "vectors": (lambda kind: Task("Pendulum-v1" if kind == "box" else "CartPole-v1"), {}),
    "pictures": (picture, {}),
    "a picture beside numbers and a category": (camera, {}),
    "action masks": (toy("Masked"), {}),
    "memory": (lambda kind: Task("Pendulum-v1" if kind == "box" else "CartPole-v1"), {"memory": "gru"}),
    "goals, with hindsight": (
        lambda kind: Task("goaltoy/Plane-v0" if kind == "box" else "goaltoy/Line-v0"),
        {"hindsight": "future"},
    ),
}
SMALL = {
    "ppo": {"horizon": 32, "batch_size": 32, "epochs": 1, "hidden": 8},
    "a2c": {"horizon": 8, "hidden": 8},
    "reinforce": {"hidden": 8},
    "dqn": {"learning_starts": 20, "batch_size": 8, "hidden": 8},
    "sac": {"learning_starts": 20, "batch_size": 8, "hidden": 8},
    "td3": {"learning_starts": 20, "batch_size": 8, "hidden": 8},
}
CLASSES = {"ppo": "PPO", "a2c": "A2C", "reinforce": "Reinforce", "dqn": "DQN", "sac": "SAC", "td3": "TD3"}
ALGORITHMS = table("algorithms")


def test_the_tables_are_the_same_in_both_languages_and_miss_nothing():
    assert {row for row, _ in ALGORITHMS} == set(PARTS) and {head for _, head in ALGORITHMS} == set(SMALL)
    assert {row for row, _ in BACKENDS} == set(NEEDS) and {head for _, head in BACKENDS} == set(VECTORS)
    for mark in ("algorithms", "backends"):
        assert list(table(mark).values()) == list(table(mark, "environments.zh.md").values())


@pytest.mark.parametrize(("part", "name"), ALGORITHMS)
def test_an_algorithm_trains_on_what_the_table_says_and_refuses_the_rest(part, name, tmp_path):
    import tests.envs.toys  # noqa: F401  registers the tasks with goals

    make, more = PARTS[part]
    settings = {**SMALL[name], **{key: value for key, value in more.items() if key == "memory"}}
    hindsight = {key: value for key, value in more.items() if key == "hindsight"}

    def trained():
        model = getattr(cairn, CLASSES[name])(make("box" if name in ("sac", "td3") else "discrete"), **settings)
        return model.learn(40, **hindsight)

    if not ALGORITHMS[part, name]:
        with pytest.raises(CairnError) as told:
            trained()
        assert re.fullmatch(r"[^\n]+\.", str(told.value))
        return
    model = trained()
    assert (model.spec.masked > 0) == (part == "action masks")
    model.save(tmp_path / "policy")
    again = getattr(cairn, CLASSES[name]).load(tmp_path / "policy", **({"env": model.task} if model.task.make else {}))
    for name, part in model.agent.policy_parts.items():
        other = again.agent.policy_parts[name].state_dict()
        assert all(torch.equal(one, other[key]) for key, one in part.state_dict().items())


# -- backends


def right_choices(spec, rows):
    hot = torch.from_numpy(rows).split(spec.action.nvec, 1)
    return torch.stack([one.argmax(1) for one in hot], 1).numpy()


def right_parts(spec, rows):
    which, where = rows[:, :3].argmax(1), rows[:, 3:]
    actions = [
        {"arm": (int(k) + 2, np.append(x, 0.0).astype(np.float32)), "switch": np.array([k == 1], np.int8)}
        for k, x in zip(which, where, strict=True)
    ]
    return np.stack([spec.action.from_env(one) for one in actions]).reshape(len(rows), -1)


def right_picture(spec, rows):
    seen = as_shown(spec, torch.from_numpy(rows))
    picture = seen["camera"] if seen["camera"].shape[-1] == 36 else seen["camera"].movedim(-1, 1)
    lit = (picture[..., 18:].float().mean((1, 2, 3)) > picture[..., :18].float().mean((1, 2, 3))).long()
    return (lit ^ (seen["number"][:, 0] > 0).long()).numpy()


def right_masked(spec, rows):
    return np.stack([rows[:, -5:-2].argmax(1), rows[:, -2:].argmax(1)], 1)


# The rows of the second table: a task in which only the right action pays 1, and that action, read from the rows of
# observations. Of memory: the states that an agent with memory carries.
NEEDS = {
    "`MultiDiscrete` actions": (lambda: any_tasks.Combination(), right_choices),
    "`MultiBinary` actions": (lambda: any_tasks.Combination("multibinary"), right_choices),
    "`Dict` and `Tuple` of actions": (lambda: any_tasks.Parts(), right_parts),
    "a picture beside numbers and a category": (lambda: any_tasks.Camera(), right_picture),
    "action masks": (lambda: any_tasks.Masked("info", multi=True), right_masked),
    "memory": (lambda: gym.make("CartPole-v1"), None),
}


MASKED = Task("toys/Masked-v0", args={"by": "info", "multi": True})


def vector_of(cls):
    return lambda makers, mode: Gymnasium(cls(makers, autoreset_mode=mode))


def backend(name):
    def make(makers, mode):
        if name == "ray":
            pytest.importorskip("ray")
        if name == "sb3":
            pytest.importorskip("stable_baselines3")
        task = MASKED if isinstance(makers[0](), any_tasks.Masked) else makers[0]  # a Task brings the mask
        return make_vector(task, len(makers), backend=name, workers=2)

    return make


def envpool(makers, mode):
    pytest.importorskip("envpool")
    return make_vector(Task("CartPole-v1"), 3, backend="envpool")


VECTORS = {
    "sync": backend("sync"),
    "async": backend("async"),
    "`SyncVectorEnv`": vector_of(SyncVectorEnv),
    "`AsyncVectorEnv`": vector_of(AsyncVectorEnv),
    "sb3": backend("sb3"),
    "ray": backend("ray"),
    "envpool": envpool,
}
BACKENDS = table("backends")
CASES = [
    (part, name, mode)
    for (part, name), works in BACKENDS.items()
    if works
    for mode in (AutoresetMode if "VectorEnv" in name else [AutoresetMode.NEXT_STEP])
]


@pytest.mark.parametrize(("part", "name", "mode"), CASES)
def test_a_backend_carries_what_the_table_says(part, name, mode):
    make, right = NEEDS[part]
    envs = VECTORS[name]([make] * 3, mode)
    try:
        if right is None:
            check_memory(envs)
            return
        obs, paid = envs.reset([1, 2, 3]), []
        for _ in range(10):
            step = envs.step(right(envs.spec, obs))
            paid += step.reward[step.valid].tolist()
            obs = step.obs
        assert len(paid) >= 12 and np.allclose(paid, 1)
    finally:
        envs.close()


def check_memory(envs):
    model = cairn.PPO("CartPole-v1", memory="lstm", memory_size=8, hidden=8, seed=1)
    collector = LocalCollector(envs, "cpu")
    first = collector.rollout(model.agent, Order(60, seeds=(1, 2, 3)), Going())
    check_states(model.agent, first)
    second = collector.rollout(model.agent, Order(30), Going())
    assert second.state[0].any()  # open episodes go on
    check_states(model.agent, second)


@pytest.mark.parametrize("part", [part for (part, name), works in BACKENDS.items() if name == "envpool" and not works])
def test_envpool_refuses_tasks_that_are_not_its_own(part):
    pytest.importorskip("envpool")
    with pytest.raises(CairnError, match="envpool vector takes a task by its id"):
        make_vector(NEEDS[part][0], 3, backend="envpool")


@pytest.mark.parametrize(
    ("task", "settings", "bar"),
    [
        (MASKED, {}, 1.0),
        (Task("toys/Corridor-v0", args={"length": 3}), {"memory": "gru", "memory_size": 16, "lr": 3e-3}, 0.9),
    ],
)
def test_masks_and_memory_are_trained_by_ray_samplers(task, settings, bar):
    """Only it trains both through samplers, which act in other processes; memory is learned, masks are obeyed."""
    pytest.importorskip("ray")
    paid = []

    def note(progress):
        paid.append(progress.metrics.get("rollout/ep_rew_mean"))

    model = cairn.PPO(task, horizon=48, envs=4, seed=1, **settings)
    model.learn(200 if bar == 1 else 4_000, vector="ray", workers=2, callback=note, log_every=192)
    if bar == 1:
        assert {one for one in paid if one is not None} == {1.0}
    assert model.evaluate(50).mean >= bar
