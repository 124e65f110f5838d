"""Environments as people have them: classes, functions, instances, vectors and lists, in wrappers of their own."""

import functools
import json
import sys
import types

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import FlattenObservation, RescaleAction, TimeLimit, TransformReward

import cairn
from cairn import A2C, PPO, SAC, CairnError, Task
from cairn.algorithms import A2CConfig
from cairn.core.serialise import from_json, to_json
from cairn.core.state import pack
from cairn.envs.given import Lent
from cairn.recipes.identity import config_hash
from cairn.recipes.recipe import Recipe
from cairn.runs.config import stored
from cairn.runs.train import train
from cairn.vector.choose import choose, make_vector

QUICK = {"log_every": 100, "eval_every": 100, "eval_episodes": 2, "checkpoint_every": 100}
PLAN = Recipe(env="CartPole-v1", agent=A2CConfig(hidden=(8,)), steps=200, name="small", **QUICK)


class Line(gym.Env):
    """Walk to the right end of a line. Notes what was done to it."""

    def __init__(self, length=5):
        self.observation_space = gym.spaces.Box(-1, length + 1, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.length, self.at, self.resets, self.steps, self.closed = length, 0, 0, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.t, self.resets = 0, 0, self.resets + 1
        return np.array([self.at], np.float32), {}

    def step(self, action):
        self.at, self.t, self.steps = max(self.at + 2 * int(action) - 1, 0), self.t + 1, self.steps + 1
        there = self.at == self.length
        return np.array([self.at], np.float32), float(there), there, self.t >= 20, {}

    def close(self):
        self.closed += 1


def make_line():
    return Line(4)


class Doubled(gym.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


def learned(env, **kwargs):
    model = A2C(env, hidden=8, **kwargs).learn(200, **QUICK)
    assert model.evaluate(3).episodes == 3
    return model


# -- each form


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize(
    ("env", "name"),
    [
        (Line, "Line"),
        (make_line, "make_line"),
        (lambda: Line(3), "lambda"),
        (functools.partial(Line, length=6), "Line"),
        (Task(Line, args={"length": 7}), "Line"),
        (Task("mine", make=make_line), "mine"),
        (functools.partial(gym.make, "CartPole-v1"), "make"),
    ],
)
def test_a_class_or_a_function_is_a_task(env, name, envs):
    model = learned(env, envs=envs)
    assert model.task.id == name and model.envs == envs
    assert next(iter(cairn.sample(env, model, envs=2, steps=1, vector="sync"))).obs.shape[0] == 2


def test_workers_and_sync_step_a_function_alike():
    """A local class and a lambda that holds on to a variable travel to worker processes."""
    length = 6

    class Local(Line):
        pass

    task = Task(lambda: Local(length))
    actions, seen = np.random.default_rng(0).integers(0, 2, (30, 2)), []
    for backend in ("sync", "async"):
        envs = make_vector(task, 2, backend=backend, workers=2)
        try:
            envs.reset([1, 2])
            seen.append(np.concatenate([envs.step(action).obs for action in actions]))
        finally:
            envs.close()
    np.testing.assert_array_equal(*seen)


def test_an_instance_is_used_itself_and_left_open():
    env = Line()
    model = A2C(env, hidden=8).learn(200, **QUICK)
    assert env.closed == 0 and env.steps > 200  # training, and the evaluations
    model.learn(50)
    assert env.closed == 0 and model.evaluate(2).episodes == 2


def test_evaluations_in_the_environment_of_the_training_change_no_weight_but_by_the_reset(capsys):
    """After each, the environment is reset, as it is after a checkpoint: a run that is resumed there is the same."""
    weights = []
    for _ in range(2):
        model = A2C(Line(), hidden=8, seed=2).learn(200, **QUICK)
        weights.append(pack(model.agent.policy_parts))
    assert "evaluations play in the environments of the training" in capsys.readouterr().err
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_a_run_in_an_instance_is_resumed_exactly(tmp_path):
    plan = dict(QUICK, eval_every=50)
    whole = A2C(Line(), hidden=8, seed=2).learn(200, out=tmp_path / "whole", **plan)
    part = A2C(Line(), hidden=8, seed=2)
    part.learn(200, out=tmp_path / "part", callback=lambda p: p.step < 100, **plan)
    rest = A2C(Line(), hidden=8, seed=2).learn(200, out=tmp_path / "part", resume=True, **plan)
    mine, theirs = pack(whole.agent.policy_parts), pack(rest.agent.policy_parts)
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)


def test_an_instance_cannot_be_scored_while_it_is_trained_in():
    def look(progress):
        progress.agent.evaluate(2)

    with pytest.raises(CairnError, match="Line is being trained in"):
        A2C(Line(), hidden=8).learn(100, callback=look, **QUICK)
    model = A2C(gym.make("CartPole-v1"), hidden=8)
    model.learn(100, callback=look, **QUICK)  # of this one there are others


def test_an_instance_that_gymnasium_made_is_copied_by_its_spec(tmp_path):
    env = gym.make("CartPole-v1", max_episode_steps=50)
    env.unwrapped.marker = True
    model = learned(env, envs=3)
    assert (model.task.id, model.task.time_limit, model.task.shared) == ("CartPole-v1", 50, False)
    envs = make_vector(model.task, 3, backend="async", workers=2)
    assert envs.reset([1, 2, 3]).shape == (3, 4)
    envs.close()
    one = make_vector(model.task, 1, backend="sync")
    assert one.batch.envs[0].unwrapped is env.unwrapped
    scored = make_vector(model.task.for_scoring(), 1, backend="sync")
    assert scored.batch.envs[0].unwrapped is not env.unwrapped
    model.save(tmp_path / "model")
    again = A2C.load(tmp_path / "model")  # its id and arguments tell everything
    assert again.task == Task("CartPole-v1", 50)


def test_an_instance_in_wrappers_is_copied_with_them():
    env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -0.5, 0.5)
    task = Task(env)
    assert task.make.uncopied == "" and isinstance(task(), RescaleAction)
    assert learned(env, envs=2).spec.action.high == (0.5,)


@pytest.mark.parametrize(
    ("env", "why"),
    [
        (Line(), "it has no spec"),
        (Doubled(gym.make("CartPole-v1")), "its spec makes none"),
        (TimeLimit(Line(), 5), "it has no spec"),
    ],
)
def test_an_instance_that_cannot_become_eight_is_one_sentence(env, why):
    with pytest.raises(CairnError, match="cannot become 8: ") as caught:
        PPO(env, envs=8)
    assert why in str(caught.value) and "give its class, or a function that makes one" in str(caught.value)
    assert str(caught.value).count(". ") == 0
    with pytest.raises(CairnError, match="cannot become 4"):
        cairn.train(PLAN, env=env, envs=4)


def test_a_list_has_a_function_for_each_environment():
    lengths = []

    def make(length):
        lengths.append(length)
        return Line(length)

    model = learned([functools.partial(make, 3), functools.partial(make, 6)])
    assert model.envs == 2 and set(lengths) == {3, 6}
    envs = make_vector(model.task, 2, backend="async", workers=2)
    envs.reset([0, 1])
    ends = [[], []]
    for _ in range(8):
        step = envs.step(np.ones(2, np.int64))
        for k in np.flatnonzero(step.terminated):
            ends[k].append(float(step.next_obs[k, 0]))
    envs.close()
    assert set(ends[0]) == {3.0} and set(ends[1]) == {6.0}


@pytest.mark.parametrize("vector_class", [gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv])
@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode)[:2])
def test_a_vector_of_gymnasium_is_stepped_as_it_is_and_left_open(vector_class, mode):
    vector = vector_class([Line, Line], autoreset_mode=mode)
    try:
        model = learned(vector)
        assert model.envs == 2 and model.task.shared
        assert not vector.closed
        vector.reset(seed=1)
    finally:
        vector.close()


def test_a_vecenv_of_sb3_is_stepped_as_it_is_and_left_open():
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    lines = [Line(), Line(4)]
    vector = vec_env.DummyVecEnv([lambda: lines[0], lambda: lines[1]])
    assert learned(vector).envs == 2
    with pytest.raises(CairnError, match="copies of one environment"):
        make_vector(Task([Line, Line]), 2, backend="sb3")
    assert cairn.train(PLAN, env=vector).step == 200
    assert [line.closed for line in lines] == [0, 0] and lines[0].steps > 200


@pytest.mark.parametrize(
    ("env", "envs"),
    [
        (Line, 1),
        (Line(), 1),
        ([Line, make_line], 2),
        (gym.vector.SyncVectorEnv([Line] * 3), 3),
        (Task(Line, time_limit=7), 1),
    ],
)
def test_a_recipe_takes_them_too(env, envs, tmp_path):
    outcome = cairn.train(PLAN, env=env, out=tmp_path / "run")
    assert outcome.step == 200 or envs == 3
    found = stored(tmp_path / "run")[0]
    assert found.envs == envs and found.make.what
    if isinstance(env, Task):
        assert found.time_limit == 7 and found.env == "Line"


# -- wrappers


@pytest.mark.parametrize("wrappers", [Doubled, [Doubled], [lambda env: TransformReward(env, lambda r: 2 * r)]])
@pytest.mark.parametrize("env", ["CartPole-v1", lambda: gym.make("CartPole-v1")])
def test_wrappers_are_put_around_every_environment(env, wrappers):
    task = Task(env, wrappers=wrappers)
    for backend in ("sync", "async"):
        envs = make_vector(task, 2, backend=backend, workers=1)
        envs.reset([0, 1])
        assert envs.step(np.zeros(2, np.int64)).reward.tolist() == [2.0, 2.0]
        envs.close()
    assert PPO(env, wrappers=wrappers).evaluate(1).mean % 2 == 0


def test_wrappers_are_put_on_in_their_order():
    inner, outer = (functools.partial(TimeLimit, max_episode_steps=n) for n in (9, 8))
    env = Task("CartPole-v1", wrappers=[inner, outer])()
    assert (env._max_episode_steps, env.env._max_episode_steps) == (8, 9)


def test_a_policy_in_wrappers_asks_for_them(tmp_path):
    PPO("CartPole-v1", wrappers=[Doubled], hidden=8).save(tmp_path / "model")
    with pytest.raises(CairnError, match=r"was trained in wrappers \(Doubled\); their code is not saved"):
        PPO.load(tmp_path / "model")
    again = PPO.load(tmp_path / "model", wrappers=[Doubled])
    assert [one.name for one in again.task.wrappers] == ["Doubled"]


# -- saved, loaded, resumed


def test_a_policy_of_a_class_asks_for_it(tmp_path):
    model = learned(Line)
    model.save(tmp_path / "model")
    card = json.loads((tmp_path / "model" / "policy.json").read_text())
    assert (card["task"]["id"], card["task"]["make"]) == ("Line", "the class Line")
    with pytest.raises(CairnError, match=r"was trained on Line, the class Line; its code is not saved"):
        A2C.load(tmp_path / "model")
    again = A2C.load(tmp_path / "model", env=Line)
    assert again.evaluate(3) == model.evaluate(3)
    assert A2C.load(tmp_path / "model", env=Line()).evaluate(3) == model.evaluate(3)
    with pytest.raises(CairnError, match="was trained on another version of CartPole-v1"):
        A2C.load(tmp_path / "model", env="CartPole-v1")


def test_what_a_task_keeps_of_its_settings_is_there_again(tmp_path):
    A2C(Task(Line, time_limit=9, history=2), hidden=8).save(tmp_path / "model")
    again = A2C.load(tmp_path / "model", env=make_line)
    assert (again.task.time_limit, again.task.history, again.task.id) == (9, 2, "make_line")


def test_a_run_is_resumed_by_who_has_its_environment(tmp_path, capsys):
    folder = tmp_path / "run"
    A2C(Line, hidden=8).learn(200, out=folder, callback=lambda p: False, **QUICK)
    with pytest.raises(CairnError, match="Line is the class Line, which no file holds; give it again in Python"):
        train(stored(folder)[0], folder, resume=True)
    from cairn.cli.main import main

    for command in (["train", str(folder), "--resume"], ["eval", str(folder)]):
        with pytest.raises(SystemExit) as stopped:
            main(command)
        assert stopped.value.code == 2 and "which no file holds" in capsys.readouterr().err
    A2C(Line, hidden=8).learn(200, out=folder, resume=True, **QUICK)
    third = {"env": Line, "out": tmp_path / "third", **QUICK}
    assert cairn.train("cartpole-a2c", steps=40, **third).step == 40
    assert cairn.train("cartpole-a2c", steps=80, resume=True, **third).step == 80


def test_a_file_brings_no_code(tmp_path):
    """The description of an environment is text, whatever it says."""
    plan = Recipe(env=Line, agent=A2CConfig(), steps=10)
    data = json.loads(json.dumps(to_json(plan)))
    assert data["make"] == "the class Line" and data["env"] == "Line"
    data["make"] = "os.system"
    read = from_json(Recipe, data)
    assert read.make.value is None
    with pytest.raises(CairnError, match="which no file holds"):
        read.task()


def test_the_hash_of_a_recipe_tells_environments_apart_and_named_ones_are_as_before():
    plain = Recipe(env="CartPole-v1", agent=A2CConfig(), steps=10)
    assert "make" not in json.dumps([f for f in to_json(plain).items() if f[1]])
    hashes = {config_hash(Recipe(env=env, agent=A2CConfig(), steps=10)) for env in ("CartPole-v1", Line, make_line)}
    assert len(hashes) == 3
    wrapped = Recipe(env="CartPole-v1", agent=A2CConfig(), steps=10, wrappers=[FlattenObservation])
    assert config_hash(wrapped) not in hashes


def test_another_id_replaces_what_was_given():
    from dataclasses import replace

    plan = Recipe(env=Line, agent=A2CConfig(), steps=10)
    assert replace(plan, steps=20).make is plan.make
    assert replace(plan, env="CartPole-v1").make is None


# -- diagnosis, hindsight


def test_the_doctor_takes_an_instance_that_can_be_copied():
    assert cairn.diagnose(gym.make("CartPole-v1"), seconds=3) is not None
    for wrong in (Line(), gym.vector.SyncVectorEnv([Line])):
        with pytest.raises(CairnError):
            cairn.diagnose(wrong)


def test_hindsight_works_on_a_goal_task_that_is_given():
    env = gym.make("cairn/BitFlip-v0", n=4)
    for given in (env, lambda: gym.make("cairn/BitFlip-v0", n=4)):
        model = cairn.DQN(given, hidden=8, learning_starts=20, batch_size=8)
        assert model.learn(60, hindsight="future").spec.goal is not None


class Masked(Line):
    """Forbids the way to the left, in info."""

    def reset(self, **given):
        return super().reset(**given)[0], {"action_mask": np.array([0, 1], np.int8)}

    def step(self, action):
        return *super().step(action)[:4], {"action_mask": np.array([0, 1], np.int8)}


@pytest.mark.parametrize("env", [Masked, lambda: Masked(), Masked(), [Masked, Masked]])
def test_action_masks_of_what_is_given_are_found(env):
    model = PPO(env, hidden=8)
    assert model.spec.masked == 2
    steps = cairn.sample(env, lambda obs: np.ones(len(obs), np.int64), steps=2, vector="sync")
    assert all(one.step.obs[:, -2:].tolist() == [[0, 1]] * len(one.obs) for one in steps)


# -- what does not fit


def old_gym():
    """A class as the package gym would have it."""
    module = types.ModuleType("gym")
    exec("class Env:\n    def reset(self): pass\n    def step(self, action): pass", module.__dict__)
    module.Env.__module__ = "gym.core"
    return type("OldLine", (module.Env,), {})


class Alike:
    def reset(self, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}


ONE = 'it must be an id such as "CartPole-v1", a class or a function'
WRONG = [
    (lambda: PPO(3), f"env is 3; {ONE}"),
    (lambda: PPO(None), f"env is None; {ONE}"),
    (lambda: PPO(sys), ONE),
    (lambda: PPO({"CartPole-v1": 1}), ONE),
    (lambda: cairn.train(PLAN, env=3), ONE),
    (lambda: next(iter(cairn.sample(3, print))), ONE),
    (lambda: cairn.diagnose(3), ONE),
    (lambda: Task(3), ONE),
    (lambda: PPO([]), "env is a list with nothing"),
    (lambda: PPO(["CartPole-v1"]), "a list with 'CartPole-v1'; it must hold a class or a function for each"),
    (lambda: PPO([Line, lambda: gym.make("CartPole-v1")]), "environment 1 has observations (4,)"),
    (lambda: PPO([Line, Line], envs=3), "envs is 3; leave it out"),
    (lambda: PPO(dict), "the class dict, which does not inherit from gymnasium.Env"),
    (lambda: PPO(Alike), "the class Alike, which does not inherit from gymnasium.Env"),
    (
        lambda: PPO(Alike()),
        "an object of Alike, which is no environment of Gymnasium; let it inherit from gymnasium.Env",
    ),
    (lambda: PPO(lambda: Alike()), "which is no environment of Gymnasium"),
    (lambda: PPO(lambda: 3), "lambda makes 3; it must make an environment of Gymnasium"),
    (lambda: PPO(lambda: None), "lambda makes None"),
    (lambda: PPO(lambda n: Line(n)), "lambda cannot be made so: missing a required argument: 'n'"),
    (lambda: PPO(Task(Line, args={"width": 3})), "got an unexpected keyword argument 'width'"),
    (lambda: PPO(lambda: 1 / 0), "environment lambda could not be made: ZeroDivisionError: division by zero"),
    (lambda: PPO(lambda: gym.make_vec("CartPole-v1", 2)), "makes a vector of environments; give that vector itself"),
    (lambda: PPO(old_gym()), "environment OldLine: it follows the interface of old Gym"),
    (lambda: PPO(old_gym()()), "shimmy"),
    (lambda: PPO(lambda: old_gym()()), "shimmy"),
    (lambda: cairn.diagnose(old_gym()()), "shimmy"),
    (lambda: PPO("CartPole-v1", wrappers=3), "wrappers has 3; it must hold wrappers of Gymnasium"),
    (lambda: PPO("CartPole-v1", wrappers=[Line]), "wrappers has"),
    (lambda: PPO("CartPole-v1", wrappers=[lambda: 1]), "a wrapper must be a function of one argument"),
    (lambda: PPO("CartPole-v1", wrappers=[lambda env: None]), "wrapper lambda makes None"),
    (lambda: PPO("CartPole-v1", wrappers=[lambda env: 1 / 0]), "wrapper lambda could not be put around CartPole-v1"),
    (lambda: PPO(Task(gym.make("CartPole-v1"), args={"x": 1})), "is made already and takes no args"),
    (lambda: PPO(gym.vector.SyncVectorEnv([Line]), wrappers=[Doubled]), "put wrappers into its environments"),
    (lambda: PPO(gym.vector.SyncVectorEnv([Line]), envs=2), "envs is 2; leave it out"),
    (lambda: PPO(gym.vector.SyncVectorEnv([Line])).learn(10, vector="async"), "steps itself; leave out vector"),
    (lambda: make_vector(Task(Line), 2, backend="envpool"), "EnvPool has tasks of its own"),
    (lambda: make_vector(Task("CartPole-v1", wrappers=[Doubled]), 2, backend="envpool"), "without wrappers"),
    (lambda: SAC(Line), "SAC acts in continuous action spaces only"),
]


@pytest.mark.parametrize(("call", "words"), WRONG, ids=range(len(WRONG)))
def test_what_does_not_fit_is_one_sentence(call, words):
    with pytest.raises(CairnError) as caught:
        call()
    assert words in str(caught.value), str(caught.value)
    assert "\n" not in str(caught.value)


def test_auto_does_not_play_in_the_environment_of_the_user():
    env = Line()
    assert choose(Task(env), 1) == "sync" and env.steps == 0
    assert choose(Task(gym.vector.SyncVectorEnv([Line] * 2)), 2) == "sync"


def test_what_is_lent_is_not_closed():
    env = Line()
    Lent(env).close()
    assert env.closed == 0
