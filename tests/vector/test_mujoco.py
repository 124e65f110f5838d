"""The mujoco vector against the environments themselves, stepped one by one: equal to the bit."""

import os
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from cairn.algorithms import PPOConfig
from cairn.core.errors import CairnError, EnvError
from cairn.envs.task import Task
from cairn.recipes.recipe import Recipe
from cairn.runs.callbacks import Callbacks
from cairn.runs.train import train
from cairn.vector import choose as choosing
from cairn.vector.choose import choose, make_vector, suitable_backends
from cairn.vector.in_process import Sync
from cairn.vector.protocol import Separate
from tests.native.conftest import core  # noqa: F401

pytest.importorskip("mujoco")

from cairn.envs import ant_tasks
from cairn.native import library as native
from cairn.native.physics import CompiledPool, PythonPool
from cairn.vector.mujoco import fits
from cairn.vector.mujoco.vector import MuJoCo

GYMNASIUM = (
    "Ant",
    "HalfCheetah",
    "Hopper",
    "Humanoid",
    "HumanoidStandup",
    "InvertedDoublePendulum",
    "InvertedPendulum",
    "Pusher",
    "Reacher",
    "Swimmer",
    "Walker2d",
)
TASKS = {
    **{name: Task(f"{name}-v5", 90) for name in GYMNASIUM},
    "AntMaze": Task("cairn/AntMaze-v0", 90),
    "AntPush": Task("cairn/AntPush-v0", 90, {"many_goals": True}),
    "AntFall": Task("cairn/AntFall-v0", 90, {"sees_block": True}),
    "AntFallStiff": Task("cairn/AntFallStiff-v0", 90),
    "AntGather": Task("cairn/AntGather-v0", 90),
    "AntWalk": Task("cairn/AntWalk-v0"),
    "FetchReachFar": Task("cairn/FetchReachFar-v0"),
    "FetchReach": Task("FetchReach-v4"),
    "FetchPush": Task("FetchPush-v4"),
    "FetchSlide": Task("FetchSlideDense-v4"),
    "FetchPickAndPlace": Task("FetchPickAndPlace-v4"),
}
SETTINGS = {  # what changes rewards, ends and observations
    "Ant, other body": Task(
        "Ant-v5",
        30,
        {
            "main_body": 2,
            "contact_force_range": (-0.1, 0.1),
            "contact_cost_weight": 0.01,
            "include_cfrc_ext_in_observation": False,
            "exclude_current_positions_from_observation": False,
        },
    ),
    "Hopper, never ends": Task("Hopper-v5", 30, {"terminate_when_unhealthy": False, "forward_reward_weight": 3.0}),
    "Hopper, other ranges": Task("Hopper-v5", 0, {"healthy_z_range": (1.1, 1.4), "healthy_state_range": (-2.0, 2.0)}),
    "Humanoid, sees less": Task("Humanoid-v5", 30, {"include_cvel_in_observation": False, "contact_cost_weight": 0.1}),
    "another body": Task("HalfCheetah-v5", 30, {"xml_file": "walker2d.xml", "frame_skip": 2}),
    "an ant that may fall": Task("cairn/AntGather-v0", 30, {"falling_ends": False}),
    "one goal": Task("cairn/AntMaze-v0", 30, {"goal": (0.0, 16.0)}),
    "dense": Task("FetchReach-v4", 20, {"reward_type": "dense"}),
    "time, of goals": Task("FetchReach-v4", 20, time_feature=True),
    "time": Task("Hopper-v5", 9, time_feature=True),
    "history": Task("Hopper-v5", 9, history=3),
    "floor": Task("cairn/AntMaze-v0", 30, reward_floor=-7.0),
}
FIELDS = ("obs", "next_obs", "reward", "terminated", "truncated", "valid")


def installed(task):
    if task.id.startswith(("Fetch", "cairn/Fetch")):
        pytest.importorskip("gymnasium_robotics")


def same(a, b, where=""):
    for name in FIELDS:
        ours, theirs = getattr(a, name), getattr(b, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs, err_msg=f"{name} {where}")
    assert a.episodes == b.episodes


def play(vectors, steps, seed=0):
    """Reset and step both with the same actions, some beyond their range; returns the number of episodes."""
    count, draw, ends = vectors[0].num_envs, np.random.default_rng(seed), 0
    np.testing.assert_array_equal(*(v.reset(range(seed, seed + count)) for v in vectors))
    for t in range(steps):
        action = draw.uniform(-1.3, 1.3, (count, *vectors[0].spec.action_shape)).astype(np.float32)
        a, b = (v.step(action) for v in vectors)
        same(a, b, f"in step {t}")
        ends += len(a.episodes)
    return ends


def compare(task, count, steps):
    vectors = [make_vector(task, count, backend="mujoco"), make_vector(task, count, backend="sync")]
    try:
        assert vectors[0].spec == vectors[1].spec
        return play(vectors, steps)
    finally:
        for v in vectors:
            v.close()


@pytest.fixture(params=["compiled", "python"])
def form(request, core, monkeypatch):  # noqa: F811
    """Both forms of the physics."""
    if request.param == "compiled":
        if core is None:
            pytest.skip("no C++ compiler")
        yield CompiledPool
        return
    monkeypatch.setattr(native, "places", lambda: [])
    native.forget()
    yield PythonPool
    native.forget()


@pytest.mark.parametrize("name", TASKS)
def test_a_thousand_steps(name, core):  # noqa: F811
    installed(TASKS[name])
    assert compare(TASKS[name], 4, 250) >= 8


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name, core):  # noqa: F811
    installed(SETTINGS[name])
    assert compare(SETTINGS[name], 2, 40) >= 2 or SETTINGS[name].time_limit == 0


@pytest.mark.parametrize("name", ["Hopper", "AntGather", "FetchReach"])
def test_forms(name, form):
    installed(TASKS[name])
    envs = MuJoCo(TASKS[name], 3, threads=2)
    try:
        assert type(envs.pool) is form
        play([envs, Sync([TASKS[name]] * 3)], 60)
    finally:
        envs.close()


def test_any_number_of_threads_steps_alike_and_ends_with_the_vector(form):
    vectors = [MuJoCo(TASKS["Walker2d"], 5, threads=threads) for threads in (1, 4)]
    play(vectors, 50)
    running = len(os.listdir("/proc/self/task"))
    for envs in vectors:
        envs.close()
        envs.close()
        with pytest.raises(RuntimeError, match="closed|shutdown"):
            envs.step(np.zeros((5, 6), np.float32))
    assert len(os.listdir("/proc/self/task")) <= running - 3


def test_a_reset_depends_on_its_seeds_alone(form):
    envs = MuJoCo(TASKS["Hopper"], 3)
    try:
        play([envs, Sync([TASKS["Hopper"]] * 3)], 40)
        envs.send(np.zeros((3, 3), np.float32))  # and never received
        play([envs, Sync([TASKS["Hopper"]] * 3)], 40, seed=7)
    finally:
        envs.close()


def test_what_an_ant_collects_is_gone_in_its_own_environment_alone(core, monkeypatch):  # noqa: F811
    monkeypatch.setattr(ant_tasks, "CATCH", 2.5)  # some are within reach from the start
    task = Task("cairn/AntGather-v0", 12)
    vectors = [MuJoCo(task, 4), Sync([task] * 4)]
    rewards = 0.0
    firsts = [v.reset(range(4)) for v in vectors]
    np.testing.assert_array_equal(*firsts)
    for _ in range(30):
        a, b = (v.step(np.zeros((4, 8), np.float32)) for v in vectors)
        same(a, b)
        rewards += np.abs(a.reward).sum()
    assert rewards > 4
    for v in vectors:
        v.close()


def test_environments_begin_and_rest_one_by_one(form):
    task = TASKS["Hopper"]
    vectors = [MuJoCo(task, 3), Sync([task] * 3)]
    assert all(isinstance(v, Separate) for v in vectors)
    draw = np.random.default_rng(0)
    for v in vectors:
        v.reset([1, 2, 3])
        v.rest(np.array([False, True, False]))
    for t in range(60):
        if t in (20, 35):
            np.testing.assert_array_equal(*(v.begin(1 if t == 20 else 2, 5) for v in vectors))
        if t == 45:
            for v in vectors:
                v.rest(np.array([True, False, True]))
        action = draw.uniform(-1, 1, (3, 3)).astype(np.float32)
        a, b = (v.step(action) for v in vectors)
        awake = a.valid
        np.testing.assert_array_equal(awake, b.valid)
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(a, name)[awake], getattr(b, name)[awake])
        assert a.episodes == b.episodes and not (a.terminated | a.truncated)[~awake].any()
    for v in vectors:
        v.close()


def test_work_between_send_and_recv_changes_nothing_and_steps_are_new_arrays(core):  # noqa: F811
    envs, plain = MuJoCo(TASKS["Walker2d"], 4, threads=2), Sync([TASKS["Walker2d"]] * 4)
    kept = []
    try:
        envs.reset(range(4)), plain.reset(range(4))
        for t in range(30):
            action = np.full((4, 6), np.sin(t), np.float32)
            envs.send(action)
            action[:] = 0  # the caller may reuse it
            kept.append((envs.recv(), plain.step(np.full((4, 6), np.sin(t), np.float32))))
        for a, b in kept:
            same(a, b)
    finally:
        envs.close()
        plain.close()


@pytest.mark.parametrize("name", ["AntMaze", "FetchReachFar"])
def test_actions_that_are_no_numbers_are_refused_as_by_the_environment(name, core):  # noqa: F811
    installed(TASKS[name])
    said = []
    for backend in ("mujoco", "sync"):
        envs = make_vector(TASKS[name], 2, backend=backend)
        envs.reset([0, 1])
        action = np.zeros((2, *envs.spec.action_shape), np.float32)
        action[1, 0] = np.nan
        with pytest.raises(EnvError, match="environment 1 raised ValueError: the action .* is not finite") as raised:
            envs.step(action)
        said.append(str(raised.value))
        envs.close()
    assert said[0] == said[1]


def test_an_error_of_mujoco_is_that_of_the_environment(form, tmp_path, monkeypatch):
    """A model without enough memory for contacts: the first error ends the run with a sentence, not the process."""
    monkeypatch.setattr(fits, "_differs", lambda task: None)
    monkeypatch.chdir(tmp_path)  # MuJoCo may write a log
    text = (Path(gym.__file__).parent / "envs/mujoco/assets/half_cheetah.xml").read_text()
    head, _, tail = text.partition("<size")
    tried = {}
    for memory in range(14_000, 24_000, 200):
        path = tmp_path / f"{memory}.xml"
        path.write_text(f'{head}<size memory="{memory}"{tail[tail.index("/>") :]}')
        task = Task("HalfCheetah-v5", args={"xml_file": str(path)})
        for backend in ("sync", "mujoco"):
            envs = make_vector(task, 2, backend=backend)
            try:
                envs.reset([0, 1])
                tried[backend] = "fine"
                for t in range(60):
                    envs.step(np.full((2, 6), np.sin(t), np.float32))
            except EnvError as error:
                tried[backend] = str(error)
            finally:
                envs.close()
            if " at reset" in tried[backend] or tried["sync"] == "fine":
                break
        else:
            break
    if tried["sync"] == "fine":
        pytest.skip("this MuJoCo has no such error")
    assert tried["mujoco"] == tried["sync"] and "raised FatalError: mj_stackAlloc" in tried["sync"]


class Kinder(gym.Wrapper):
    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        return obs, reward + 1, *rest


def hopper_of_mine(**kwargs):
    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv

    class Mine(HopperEnv):
        pass

    return Mine(**kwargs)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Task("CartPole-v1"), "does not know CartPole-v1; use .*sync"),
        (Task("Hopper-v4"), "does not know Hopper-v4"),
        (Task("Hopper-v77"), "does not know Hopper-v77"),
        (Task("Hopper-v5", wrappers=[Kinder]), "without wrappers and resets"),
        (Task("Hopper-v5", resets=2), "without wrappers and resets"),
        (Task(hopper_of_mine), "without wrappers and resets"),
        (lambda: gym.make("Hopper-v5"), "takes a task by its id, not a function"),
    ],
)
def test_what_it_cannot_step_is_one_sentence(task, words):
    with pytest.raises(CairnError, match=words):
        make_vector(task, 2, backend="mujoco")
    assert "mujoco" not in suitable_backends(task, 2)


@pytest.mark.parametrize(
    ("entry", "more", "words"),
    [
        ("tests.vector.test_mujoco:hopper_of_mine", {}, "does not know"),
        (
            "gymnasium.envs.mujoco.hopper_v5:HopperEnv",
            {"additional_wrappers": (gym.wrappers.ClipReward.wrapper_spec(min_reward=0.0),)}
            if hasattr(gym.wrappers.ClipReward, "wrapper_spec")
            else {},
            "",
        ),
    ],
)
def test_a_task_that_a_user_registered(entry, more, words):
    if not words and not more:
        pytest.skip("this Gymnasium has no wrappers in its registry")
    gym.register("OfMine-v0", entry, **more)
    try:
        with pytest.raises(CairnError, match=words or "wrapper ClipReward"):
            make_vector(Task("OfMine-v0"), 2, backend="mujoco")
    finally:
        gym.registry.pop("OfMine-v0")


def test_a_package_that_computes_otherwise_is_found_by_trying(monkeypatch):
    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv

    monkeypatch.setattr(fits, "_found", {})
    monkeypatch.setattr(HopperEnv, "control_cost", lambda self, action: 0.5)
    with pytest.raises(CairnError, match="Hopper-v5 steps otherwise here than the mujoco vector expects; use"):
        make_vector(Task("Hopper-v5"), 2, backend="mujoco")
    assert "mujoco" not in suitable_backends(Task("Hopper-v5"), 2)


def test_auto_takes_it_where_it_is_fastest(monkeypatch, core):  # noqa: F811
    assert suitable_backends(Task("Swimmer-v5"), 1) == ["sync", "mujoco"]
    assert suitable_backends(Task("cairn/AntMaze-v0"), 4) == ["sync", "async", "mujoco"]
    assert suitable_backends(Task("CartPole-v1"), 1) == ["sync"]
    for fastest in ("mujoco", "sync"):
        speed = dict.fromkeys(("sync", "async", "envpool", "mujoco"), 1.0) | {fastest: 2.0}
        monkeypatch.setattr(choosing, "throughput", lambda task, n, backend, workers, speed=speed: speed[backend])
        assert choose(Task("Swimmer-v5"), 4) == fastest
    envs = make_vector(Task("Swimmer-v5"), 4, backend="mujoco")
    assert isinstance(envs, MuJoCo)
    envs.close()


def test_without_the_package_it_says_what_to_install(monkeypatch):
    find = fits.importlib.util.find_spec
    monkeypatch.setattr(fits.importlib.util, "find_spec", lambda name: None if name == "mujoco" else find(name))
    with pytest.raises(CairnError, match=r"pip install 'cairn-rl\[mujoco\]'"):
        make_vector(Task("Hopper-v5"), 2, backend="mujoco")


def weights(outcome):
    return torch.cat([p.detach().flatten() for p in outcome.agent.policy_parts["net"].parameters()])


def test_a_run_learns_the_same_and_is_resumed_in_either(tmp_path, core):  # noqa: F811
    recipe = Recipe(
        "Hopper-v5",
        PPOConfig(hidden=(8,), horizon=16, batch_size=32, epochs=2),
        steps=128,
        envs=4,
        vector="mujoco",
        eval_every=64,
        eval_episodes=3,
        checkpoint_every=64,
        native="off",
    )
    sync = replace(recipe, vector="sync")
    whole, plain = train(recipe, tmp_path / "mujoco"), train(sync, tmp_path / "sync")
    assert whole.best == plain.best and torch.equal(weights(whole), weights(plain))
    for first, second in ((recipe, sync), (sync, recipe)):
        folder = tmp_path / f"from-{first.vector}"
        half = train(first, folder, callbacks=Callbacks((lambda progress: progress.step < 64,)))
        assert half.step < 128 and not torch.equal(weights(half), weights(whole))
        assert torch.equal(weights(train(second, folder, resume=True)), weights(whole))
