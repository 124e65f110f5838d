"""Wrong calls from Python: each ends in one sentence that names what is wrong, never in an exception from inside."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import cairn
from cairn import A2C, BC, DQN, HIRO, PPO, SAC, TD3, AggreVaTe, CairnError, DAgger, diagnose, sample, train
from cairn.algorithms import DQNConfig, PPOConfig, SACConfig, build
from cairn.algorithms.imitation.demos import read as read_demos
from cairn.algorithms.imitation.expert import Expert
from cairn.algorithms.registry import ALGORITHMS
from cairn.api import Model
from cairn.core.device import resolve_device
from cairn.core.schedules import exponential, linear, parse
from cairn.core.serialise import to_json
from cairn.core.types import Box, Spec
from cairn.envs.task import Task
from cairn.recipes import find
from cairn.recipes.recipe import Recipe
from cairn.runs.checkpoint import load_policy, save_policy
from cairn.runs.config import read_recipe
from cairn.vector.choose import make_vector


class Shown(gym.Env):
    """One step an episode; shows whatever its space holds."""

    observation_space: spaces.Space[Any] = spaces.Box(-1, 1, ())
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 1.0, False, True, {}


class NoSpace(gym.Env):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return 0, {}


SPACES: dict[str, spaces.Space[Any]] = {
    "Scalar": spaces.Box(-1, 1, ()),
    "Pair": spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,)))),
    "Many": spaces.MultiDiscrete([3, 4]),
    "Bits": spaces.MultiBinary(3),
    "Parts": spaces.Dict({"eye": spaces.Box(0, 1, (2, 2)), "ear": spaces.Discrete(3)}),
    "Image": spaces.Box(0, 255, (48, 48, 1), np.uint8),
    "Five": spaces.Discrete(5, start=1),
}


def registered() -> None:
    for name, space in SPACES.items():
        kind = type(name, (Shown,), {"observation_space": space})
        gym.register(f"wrong/{name}-v0", kind)
    gym.register("wrong/NoSpace-v0", NoSpace)


registered()
CART = "CartPole-v1"
_made: dict[str, Any] = {}


def made(env: str = CART, kind: Any = PPO, **config: Any) -> Any:
    """A small model of a task, made once."""
    key = f"{kind.__name__} {env} {config}"
    if key not in _made:
        _made[key] = kind(env, hidden=8, **config)
    return _made[key]


def taught(expert: Any) -> Any:
    return train("cartpole-dagger", expert=expert, steps=64, eval_episodes=1)


def of(name: str) -> Any:
    return made(f"wrong/{name}-v0")


def zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "afile").write_text("x")
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    yield tmp_path


# -- what the issue names, and what is like it

HABITS: list[tuple[Callable[[], Any], str]] = [
    (lambda: PPO("MlpPolicy", CART), "PPO takes no policy ('MlpPolicy')"),
    (lambda: PPO("MlpPolicy", env=CART), "Write PPO('CartPole-v1')."),
    (lambda: PPO(policy="MlpPolicy", env=CART), "there is no policy to name"),
    (lambda: SAC("CnnPolicy", gym.make(CART)), "SAC takes no policy"),
    (lambda: PPO(), 'PPO needs an environment: PPO("CartPole-v1").'),
    (lambda: PPO(CART, 64), "settings are given by name"),
    (lambda: PPO(CART, learning_rate=1e-3), "In Cairn it is lr: write lr=3e-4."),
    (lambda: PPO(CART, n_steps=128), "In Cairn it is horizon"),
    (lambda: PPO(CART, gae_lambda=0.9), "In Cairn it is lam"),
    (lambda: PPO(CART, ent_coef=0.1), "In Cairn it is entropy_weight"),
    (lambda: PPO(CART, vf_coef=0.1), "In Cairn it is value_weight"),
    (lambda: PPO(CART, clip_range=0.1), "In Cairn it is clip"),
    (lambda: PPO(CART, n_epochs=3), "In Cairn it is epochs"),
    (lambda: PPO(CART, n_envs=3), "In Cairn it is envs"),
    (lambda: PPO(CART, policy_kwargs={"net_arch": [64]}), "In Cairn it is hidden"),
    (lambda: PPO(CART, verbose=1), "progress is always shown"),
    (lambda: PPO("MlpPolicy", Shown()), "follows from the observation space. Write PPO(env)."),
    (lambda: PPO("MlpPolicy", "CartPole-v1"), "Write PPO('CartPole-v1')."),
    (lambda: PPO(CART, tensorboard_log="x"), "TensorBoard logs are written to tb/"),
    (lambda: PPO(CART, use_sde=True), "state-dependent exploration is not offered"),
    (lambda: DQN(CART, buffer_size=10), "In Cairn it is capacity"),
    (lambda: DQN(CART, train_freq=4), "In Cairn it is updates_per_step"),
    (lambda: DQN(CART, target_update_interval=4), "In Cairn it is target_every"),
    (lambda: DQN(CART, exploration_fraction=0.1), "In Cairn it is epsilon"),
    (lambda: SAC("Pendulum-v1", ent_coef="auto"), "In Cairn it is alpha"),
    (lambda: TD3("Pendulum-v1", action_noise=0.1), "In Cairn it is noise"),
    (lambda: made().learn(total_timesteps=100), "it is called steps"),
    (lambda: made().learn(), "learn needs the number of steps"),
    (lambda: made().learn(10, lambda a, b: True), "given by name, such as learn(10_000, callback=f)"),
    (lambda: made().learn(10, callback=3), "callback is 3; it must be a function of one argument"),
    (lambda: PPO(CART, callback=print), "gives to a training: learn(100_000, callback=f)."),
    (lambda: made().learn(10, progress_bar=True), "progress is always shown"),
    (lambda: made().learn(10, reset_num_timesteps=False), "In Cairn it is resume: write resume=True."),
]

MODELS: list[tuple[Callable[[], Any], str]] = [
    (lambda: PPO([CART]), "must hold a class or a function for each environment"),
    (lambda: PPO(None), "env is None; it must be an id"),
    (lambda: PPO(""), "the id of an environment is empty"),
    (lambda: PPO("Nope-v0"), "there is no environment 'Nope-v0'."),
    (lambda: PPO("CartPole-v7"), "Did you mean CartPole-v1?"),
    (lambda: PPO("PongNoFrameskip-v4"), "use ALE/Pong-v5"),
    (lambda: PPO("wrong/NoSpace-v0"), "has no observation_space"),
    (lambda: PPO(CART, seed=None), "seed is None; it must be a whole number."),
    (lambda: PPO(CART, seed=-1), "seed is -1; it must be at least 0."),
    (lambda: PPO(CART, seed=1.5), "seed is 1.5; it must be a whole number."),
    (lambda: PPO(CART, seed="1"), "seed is '1'"),
    (lambda: PPO(CART, seed=10**30), "it must be at most"),
    (lambda: PPO(CART, seed=10**400), "it must be at most 9223372036854775807"),  # has no float
    (lambda: PPO(CART, seed=10**5000), "seed is a number of thousands of digits; it must be at most"),
    (lambda: PPO(CART, lr=10**400), "lr is 1000000000000...00000000000000; it must be at most"),
    (lambda: PPO(CART, lr=-(10**400)), "it must be at least -9223372036854775807"),
    (lambda: PPO(CART, epochs=-(10**400)), "it must be at least 1"),
    (lambda: PPO(CART, hidden=(10**400,)), "it must be at most"),
    (lambda: PPO(CART, gamma=Fraction(10**400, 3)), "gamma is inf; it must be between 0 and 1"),
    (lambda: PPO(CART, entropy_weight=10**400), "it must be at most"),
    (lambda: train("cartpole-ppo", target=10**400), "target is 1000000000000...00000000000000; it must be at most"),
    (lambda: PPO(CART, envs=0), "envs is 0; it must be at least 1."),
    (lambda: PPO(CART, threads=-1), "threads is -1"),
    (lambda: PPO(CART, device="gpu"), "device 'gpu' is not available here; use device=\"cpu\""),
    (lambda: PPO(CART, device=None), "device is None"),
    (lambda: PPO(CART, device="meta"), "is not available here"),
    (lambda: PPO(CART, lr=None), "lr is None; it must be a number, or a schedule"),
    (lambda: PPO(CART, lr=[1e-3]), "lr is [0.001]"),
    (lambda: PPO(CART, lr=lambda share: 1e-3), "lr is a function, which cannot be saved"),
    (lambda: PPO(CART, lr="quick"), "lr is 'quick', which is not a schedule"),
    (lambda: PPO(CART, hidden="64"), "hidden is '64'"),
    (lambda: PPO(CART, hidden=()), "hidden is empty"),
    (lambda: PPO(CART, hidden=[64, None]), "hidden is [64, None]"),
    (lambda: PPO(CART, gamma=1.2), "gamma is 1.2; it must be between 0 and 1."),
    (lambda: PPO(CART, gama=0.9), "Did you mean gamma?"),
    (lambda: PPO(CART, activation="swish"), "activation is 'swish'"),
    (lambda: PPO(CART, log_std=float("nan")), "log_std is nan"),
    (lambda: SAC(CART), "SAC"),
    (lambda: DQN("Pendulum-v1"), "DQN acts in discrete action spaces only"),
    (lambda: DQN(CART, q_range=3), "q_range is (3,); it must be two numbers"),
    (lambda: HIRO("Pendulum-v1", subgoal=3), "subgoal is (3,); it must be two numbers"),
    (lambda: HIRO("Pendulum-v1", subgoal=(0, 2), subgoal_range=1.0), "subgoal_range has 1 numbers"),
    (lambda: HIRO("Pendulum-v1", subgoal=(0, 2), low="td3"), "low is 'td3'; it must be a config"),
    (lambda: DAgger(CART, learner=PPOConfig()), "learner is"),
    (lambda: Model(CART), "Model has no algorithm"),
]

LEARN: list[tuple[Callable[[], Any], str]] = [
    (lambda: made().learn(0), "steps is 0; it must be at least 1."),
    (lambda: made().learn(1.5), "steps is 1.5"),
    (lambda: made().learn("10"), "steps is '10'"),
    (lambda: made().learn(None), "steps is None"),
    (lambda: made().learn(10, agent="sac"), "learn takes no agent"),
    (lambda: made().learn(10, agent=DQNConfig()), "learn takes no agent"),
    (lambda: made().learn(10, env="Acrobot-v1"), "learn takes no env"),
    (lambda: made().learn(10, device="cuda"), "learn takes no device"),
    (lambda: made().learn(10, time_limit=3), "Task('CartPole-v1', time_limit=...)"),
    (lambda: made().learn(10, env_args={"g": 1}), "args=...)"),
    (lambda: made().learn(10, vector="subproc"), "vector is 'subproc'"),
    (lambda: made().learn(10, gamma=0.9), "gamma, a setting of the agent: write PPO(env, gamma=0.99)."),
    (lambda: made().learn(10, metric="score"), "metric is 'score'"),
    (lambda: made().learn(10, eval_every=0), "eval_every is 0"),
    (lambda: made().learn(10, eval_episodes=True), "eval_episodes is True"),
    (lambda: made().learn(10, levels={"low": "x"}), "levels are loaded into hiro only"),
    (lambda: made().learn(10, hindsight="future"), "hindsight needs an agent with a replay buffer"),
    (lambda: made().learn(10, expert=3), "expert is 3"),
    (lambda: made().learn(10, expert=Path("x")), "are used by bc, dagger, aggrevate and aggrevated only"),
    (lambda: made(kind=BC).learn(10, expert=Path("nowhere")), "there is no nowhere to learn from"),
    (lambda: made(kind=BC).learn(10), "name one with expert"),
    (lambda: made(kind=AggreVaTe).learn(10, expert=made("Acrobot-v1")), "name an expert of this task"),
    (lambda: made().learn(10, start=3), "start is 3"),
    (lambda: made().learn(10, out=""), "out"),
    (lambda: made().learn(10, out=3), "out is 3"),
    (lambda: made().learn(10, out="afile"), "afile"),
    (lambda: made().learn(10, out="afile/run"), "afile"),
    (lambda: made().learn(10, resume="yes"), "resume is 'yes'"),
    (lambda: made().learn(10, resume=True), "folder"),
]

PLAY: list[tuple[Callable[[], Any], str]] = [
    (lambda: made().evaluate(0), "episodes is 0"),
    (lambda: made().evaluate(-1), "episodes is -1"),
    (lambda: made().evaluate(1.5), "episodes is 1.5"),
    (lambda: made().evaluate("5"), "episodes is '5'"),
    (lambda: made().evaluate(1, seed=-1), "seed is -1"),
    (lambda: made().evaluate(2, seed=2**31 - 1), "the last seed is 2147483648"),
    (lambda: made().evaluate(n_eval_episodes=3), "In Cairn it is episodes"),
    (lambda: made().predict(), "missing a required argument: 'obs'"),
    (lambda: made().predict(None), "the observation is None"),
    (lambda: made().predict("x"), "the observation is 'x'"),
    (lambda: made().predict(zeros(3)), "has shape (4,), or (N, 4) for a batch, not (3,)."),
    (lambda: made().predict(zeros(2, 3, 4)), "not (2, 3, 4)"),
    (lambda: made().predict([[1, 2, 3, 4], [1]]), "it must be an array of numbers"),
    (lambda: made().predict(np.array(["a", "b", "c", "d"])), "it must be an array of numbers"),
    (lambda: made().predict(np.zeros(4, object)), "it must be an array of numbers"),
    (lambda: made().predict(np.full(4, np.nan)), "holds NaN"),
    (lambda: made().predict(np.full(4, np.inf)), "not finite"),
    (lambda: made().predict(np.full(4, 1e300)), "not finite"),
    (lambda: made().predict({"obs": zeros(4)}), "it must be an array of numbers"),
    (lambda: made().predict(zeros(4), deterministic="yes"), "deterministic is 'yes'"),
    (lambda: made().predict(zeros(4), episode_start=[True, False]), "true or false for each of 1"),
    (lambda: made().predict(zeros(4), greedy=True), "has no argument 'greedy'"),
    (lambda: of("Five").predict(0), "whole numbers from 1 to 5"),
    (lambda: of("Five").predict(6), "holds 6"),
    (lambda: of("Five").predict(1.5), "holds 1.5"),
    (lambda: of("Five").predict([1, 99]), "holds 99"),
    (lambda: of("Five").predict(zeros(2, 2)), "not (2, 2)"),
    (lambda: of("Many").predict([3, 0]), "holds 3"),
    (lambda: of("Many").predict([1, 2, 3]), "has shape (2,)"),
    (lambda: of("Bits").predict([0, 1, 2]), "holds 2"),
    (lambda: of("Pair").predict((1,)), "a tuple of 2 parts"),
    (lambda: of("Pair").predict(1), "a tuple of 2 parts"),
    (lambda: of("Pair").predict((1, zeros(2, 2))), "hold different numbers of observations"),
    (lambda: of("Pair").predict((7, zeros(2))), "holds 7"),
    (lambda: of("Parts").predict({"eye": zeros(2, 2)}), "the observation has no 'ear'; this task shows"),
    (lambda: of("Parts").predict({"eye": zeros(2, 2), "ear": 0, "nose": 1}), "has 'nose', which this task does not"),
    (lambda: of("Parts").predict({}), "has no 'ear'"),
    (lambda: of("Parts").predict(3), "a dictionary with the keys"),
    (lambda: of("Image").predict(np.full((48, 48, 1), 0.5)), "holds 0.5"),
    (lambda: of("Image").predict(np.full((48, 48, 1), 300)), "holds 300"),
]

FUNCTIONS: list[tuple[Callable[[], Any], str]] = [
    (lambda: PPO(CART, threads=10**9), "threads is 1000000000; it must be at most 1024."),
    (lambda: PPO(CART, envs=10**9), "envs is 1000000000; it must be at most 100,000."),
    (lambda: PPO(CART, hidden=(10**9, 10**9)), "the networks of this agent do not fit into the"),
    (lambda: SAC("Pendulum-v1", hidden=(10**18, 8)), "of memory; lower hidden."),
    (lambda: DQN(CART, n_step=10**9), "n_step is 1000000000; it must be at most 10,000."),
    (lambda: train("cartpole-ppo", threads=10**9), "threads is 1000000000"),
    (lambda: train("cartpole-ppo", workers=10**9), "workers is 1000000000"),
    (lambda: train("cartpole-ppo", envs=10**9), "envs is 1000000000"),
    (lambda: train("cartpole-ppo", eval_episodes=10**12), "eval_episodes is 1000000000000"),
    (lambda: made().evaluate(10**9), "episodes is 1000000000; it must be at most 1,000,000."),
    (lambda: sample(CART, made(), envs=10**9), "envs is 1000000000"),
    (lambda: make_vector(Task(CART), 10**9, backend="sync"), "envs is 1000000000"),
    (lambda: DQN(CART, hidden=8, batch_size=10**14, learning_starts=8).learn(32), "there is not enough memory"),
    (lambda: train(), "missing a required argument: 'recipe'"),
    (lambda: train("cartpole-pop"), "Did you mean cartpole-ppo?"),
    (lambda: train(3), "train takes a recipe, its name or its file (.json), not 3."),
    (lambda: train(PPOConfig()), "train takes a recipe"),
    (lambda: train(Path("nope.json")), "nope.json"),
    (lambda: train("bad.json"), "bad.json"),
    (lambda: train(Path("list.json")), "list.json was not written by Cairn"),
    (lambda: train("cartpole-ppo", "runs/x"), "too many positional arguments"),
    (lambda: train("cartpole-ppo", agent={}), "agent is {}; it must be a config such as"),
    (lambda: train("cartpole-ppo", agent="sac"), "agent is 'sac'"),
    (lambda: train("cartpole-ppo", agent=SACConfig), "it must be a config"),
    (lambda: train("cartpole-ppo", total_timesteps=9), "In Cairn it is steps"),
    (lambda: train("cartpole-ppo", lr=1e-3), "agent=cairn.PPOConfig(lr=3e-4)"),
    (lambda: train("cartpole-ppo", steps=None), "steps is None"),
    (lambda: train("cartpole-ppo", env=3), "env is 3"),
    (lambda: train("cartpole-ppo", env_args=[1]), "env_args is [1]"),
    (lambda: train("cartpole-ppo", env_args={"gravity": 1}), "does not take these arguments"),
    (lambda: train("cartpole-ppo", device=5), "device is 5"),
    (lambda: train("cartpole-ppo", expert=[]), "expert is []"),
    (lambda: train("cartpole-ppo", out="afile"), "afile"),
    (lambda: sample(CART), "missing a required argument: 'policy'"),
    (lambda: sample(CART, 3), "policy is 3"),
    (lambda: sample(3, made()), "env is 3; it must be an id"),
    (lambda: sample(CART, made(), envs=0), "envs is 0"),
    (lambda: sample(CART, made(), envs=1.5), "envs is 1.5"),
    (lambda: sample(CART, made(), vector="subproc"), "vector is 'subproc'"),
    (lambda: sample(CART, made(), steps=0), "steps is 0"),
    (lambda: sample(CART, made(), seed=-1), "seed is -1"),
    (lambda: sample(CART, made(), n_envs=2), "In Cairn it is envs"),
    (lambda: next(sample(CART, lambda obs: ["a"], vector="sync")), "actions are finite numbers"),
    (lambda: next(sample(CART, lambda obs: [5], vector="sync")), "whole numbers from 0 to 1"),
    (lambda: next(sample(CART, lambda obs: [0.5], vector="sync")), "whole numbers from 0 to 1"),
    (lambda: next(sample("Pendulum-v1", lambda obs: [[np.nan]], vector="sync")), "actions are finite numbers"),
    (lambda: next(sample(CART, lambda obs: None, vector="sync")), "actions of shape ()"),
    (lambda: next(sample(CART, lambda obs: (), vector="sync")), "actions of shape (0,)"),
    (lambda: next(sample(CART, lambda obs: [[1], [1, 2]], vector="sync")), "its rows differ in length"),
    (lambda: sample(CART, lambda: 0, vector="sync"), "policy must be a function of one argument"),
    (lambda: taught(lambda obs: None), "the expert returned the action None; the task expects one of 2 actions."),
    (lambda: taught(lambda obs: ()), "the expert returned the action ();"),
    (lambda: taught(lambda obs: "left"), "the expert returned the action 'left';"),
    (lambda: taught(lambda obs: [[1], [1, 2]]), "; the task expects one of 2 actions."),
    (lambda: taught(lambda obs: np.nan), "the expert returned the action nan;"),
    (lambda: taught(lambda obs: 0.5), "the expert returned the action 0.5;"),
    (lambda: taught(lambda: 0), "the expert must be a function of one argument, an observation; this one takes ()."),
    (lambda: Expert(lambda obs: None, made("Pendulum-v1", SAC).spec)(zeros(2, 3)), "the task expects 1 finite numbers"),
    (lambda: train("cartpole-ppo", steps=100, agent=PPOConfig(horizon=10**11)), "one rollout takes 800,000,000,000"),
    (lambda: A2C(CART, horizon=10**10).learn(100), "and the run has 100; lower horizon or envs, or raise steps."),
    (lambda: diagnose(), "missing a required argument: 'make_env'"),
    (lambda: diagnose(CART, time=3), "diagnose has no argument 'time'"),
    (lambda: diagnose(3), "env is 3; it must be an id"),
    (lambda: diagnose(CART, seconds=-1), "seconds above 0"),
    (lambda: diagnose(CART, seconds="x"), "seconds above 0"),
    (lambda: diagnose(CART, "ppo"), "an agent's config"),
    (lambda: diagnose(CART, hindsight="no"), "hindsight is 'no'"),
    (lambda: Task(), "missing a required argument: 'id'"),
    (lambda: Task(CART, limit=3), "Task has no argument 'limit'."),
    (lambda: Task(CART, max_episode_steps=3), "In Cairn it is time_limit"),
    (lambda: Task(CART, time_limit=-1), "time_limit is -1"),
    (lambda: Task(CART, args=[1]), "args is [1]"),
    (lambda: Task(CART, history=0), "history is 0"),
    (lambda: Task(CART, render_mode=3), "render_mode is 3"),
    (lambda: Recipe(CART, PPOConfig()), "missing a required argument: 'steps'"),
    (lambda: Recipe(CART, PPOConfig(), 10, timesteps=3), "In Cairn it is steps"),
    (lambda: PPOConfig(learning_rate=1e-3), "PPOConfig has no argument 'learning_rate'. In Cairn it is lr"),
    (lambda: make_vector(CART, 2, backend="sync"), "a vector is made of a cairn.envs.task.Task"),
    (lambda: make_vector(Task(CART), 0, backend="sync"), "envs is 0"),
    (lambda: make_vector(Task(CART), 2, backend="subproc"), "vector is 'subproc'"),
    (lambda: make_vector(Task(CART), 2, backend="sync", workers=-1), "workers is -1"),
    (lambda: make_vector(Task(CART), 2, backend="atari"), 'use vector="sync" or async'),
    (lambda: Task(CART, time_limit=0, time_feature=True)(), "set time_limit"),
    (lambda: resolve_device("cuda:99"), "is not available here"),
    (lambda: parse("linear(1)"), "is not a schedule"),
    (lambda: linear(1.0, 0.0, 0.0), "greater than 0 and at most 1"),
    (lambda: exponential(1.0, 0.0), "two numbers above zero"),
    (lambda: build(PPOConfig(gamma=2), made().spec), "gamma is 2"),
    (lambda: load_policy("nowhere"), "there is no nowhere"),
    (lambda: load_policy(3), "path is 3"),
    (lambda: read_demos("nowhere.npz", made().spec), "there are no demonstrations"),
    (lambda: Expert(lambda obs: 7, made().spec)(zeros(2, 4)), "the task expects one of 2 actions"),
    (lambda: PPO.load("nowhere"), "there is no nowhere"),
    (lambda: PPO.load("afile"), "afile is a file"),
    (lambda: PPO.load(""), "path is ''"),
    (lambda: PPO.load(3), "path is 3"),
    (lambda: PPO.load("."), "holds no policy"),
    (lambda: made().save(""), "path is ''"),
    (lambda: made().save(None), "path is None"),
    (lambda: made().save("afile"), "afile"),
    (lambda: made().save("afile/x"), "afile"),
]


@pytest.mark.parametrize(("call", "words"), [*HABITS, *MODELS, *LEARN, *PLAY, *FUNCTIONS])
def test_a_wrong_call_is_one_sentence(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(CairnError) as error:
        call()
    said = str(error.value)
    assert words in said
    assert "\n" not in said and len(said) < 500
    assert "--" not in re.sub(r"`cairn [^`]*`", "", said)  # options are the command line's


def test_there_are_more_than_a_hundred() -> None:
    assert sum(map(len, (HABITS, MODELS, LEARN, PLAY, FUNCTIONS))) > 150


# -- what is accepted, and answered rightly


@pytest.mark.parametrize(
    ("name", "single", "many", "count"),
    [
        ("Five", 3, np.arange(1, 6), 5),
        ("Five", np.int64(1), [1, 2], 2),
        ("Five", np.eye(5)[2], np.eye(5)[[0, 3]], 2),
        ("Many", [1, 2], [[1, 2], [0, 0], [2, 3]], 3),
        ("Bits", [0, 1, 1], np.ones((4, 3), np.int8), 4),
        ("Pair", (1, zeros(2)), (np.array([1, 2]), zeros(2, 2)), 2),
        ("Parts", {"eye": zeros(2, 2), "ear": 1}, {"ear": [1, 2, 0], "eye": torch.zeros(3, 2, 2)}, 3),
        ("Scalar", 0.5, [0.1, 0.2, 0.3], 3),
        ("Image", np.zeros((48, 48, 1), np.uint8), np.zeros((2, 48, 48, 1), int), 2),
    ],
)
def test_one_observation_or_many_of_any_space(name: str, single: Any, many: Any, count: int) -> None:
    model = of(name)
    assert model.predict(single, deterministic=True)[0].shape == ()
    assert model.predict(many, deterministic=True)[0].shape == (count,)


def test_a_batch_is_what_its_rows_are_alone() -> None:
    model = of("Five")
    alone = [int(model.predict(k, deterministic=True)[0]) for k in range(1, 6)]
    assert model.predict(np.arange(1, 6), deterministic=True)[0].tolist() == alone


def test_tensors_lists_and_no_observation_at_all() -> None:
    model = made()
    want = model.predict(zeros(2, 4), deterministic=True)[0].tolist()
    for same in (torch.zeros(2, 4), [[0, 0, 0, 0]] * 2, np.zeros((2, 4), int)):
        assert model.predict(same, deterministic=True)[0].tolist() == want
    assert model.predict(np.zeros((0, 4)))[0].shape == (0,)
    assert made("Pendulum-v1", SAC).predict(np.zeros((0, 3)))[0].shape == (0, 1)


def test_numbers_of_numpy_devices_and_paths(tmp_path: Path) -> None:
    model = PPO(CART, seed=np.int64(3), envs=2.0, device=torch.device("cpu"), hidden=[np.int64(8)], lr=np.float32(1e-3))
    assert (model.seed, model.envs, model.device, model.config.hidden) == (3, 2, "cpu", (8,))
    assert model.evaluate(np.int64(1)).episodes == 1
    (tmp_path / "mine.json").write_text(json.dumps(to_json(find("cartpole-ppo"))))
    with pytest.raises(CairnError, match="steps is 0"):
        train(tmp_path / "mine.json", steps=0)  # the file was read
    assert next(iter(sample(CART, model, envs=2, vector="sync"))).action.shape == (2,)


def test_aggrevate_is_greedy_unless_it_is_asked_to_try() -> None:
    model, obs = made(kind=AggreVaTe), np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    want = model.predict(obs, deterministic=True)[0]
    assert (model.predict(obs)[0] == want).all()


def test_a_state_of_another_number_of_observations() -> None:
    model = HIRO("Pendulum-v1", subgoal=(0, 2), subgoal_range=(1.0, 1.0))
    _, state = model.predict(zeros(2, 3))
    assert model.predict(zeros(2, 3), state)[0].shape == (2, 1)
    for wrong in (3, "x"):
        with pytest.raises(CairnError, match="the one that predict returned before"):
            model.predict(zeros(2, 3), wrong)
    with pytest.raises(CairnError, match="the one that predict returned before"):
        model.predict(zeros(3), state)


def test_settings_survive_save_and_load(tmp_path: Path) -> None:
    task = Task(CART, time_limit=50, history=2)
    model = DQN(task, seed=7, envs=3, threads=2, hidden=8, lr="linear(1e-3,0)", capacity=99)
    model.save(tmp_path / "kept")
    again = DQN.load(tmp_path / "kept")
    for name in ("seed", "envs", "threads", "device", "task", "config"):
        assert getattr(again, name) == getattr(model, name)
    with pytest.raises(CairnError, match=r"holds a policy of dqn, not ppo; load it with cairn\.DQN\.load"):
        PPO.load(tmp_path / "kept")
    with pytest.raises(CairnError, match=r"cairn\.DQN\.load"):
        Model.load(tmp_path / "kept")


def saved_of_a_module(tmp_path: Path) -> Path:
    """A policy whose task is of a module that leaves a file behind where it is imported."""
    (tmp_path / "leaves_a_file.py").write_text(
        "import gymnasium as gym\nfrom pathlib import Path\nPath('imported').touch()\n"
        "gym.register('Left-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    model = made()
    save_policy(tmp_path / "kept", model.agent, Task("leaves_a_file:Left-v0"), {})
    return tmp_path / "kept"


@pytest.mark.parametrize("trust", ["no", "yes", 1, None, [False]])
def test_trust_is_true_or_false_and_nothing_else(tmp_path: Path, monkeypatch: Any, trust: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    folder = saved_of_a_module(tmp_path)
    for load in (PPO.load, load_policy):
        with pytest.raises(CairnError, match="trust is .*; it must be true or false"):
            load(folder, trust=trust)
    with pytest.raises(CairnError, match="trust is .*; it must be true or false"):
        read_recipe(written(tmp_path), trust=trust)
    with pytest.raises(CairnError, match="if you trust it, say trust=True"):
        PPO.load(folder, trust=np.bool_(False))
    assert not (tmp_path / "imported").exists()


def written(tmp_path: Path) -> Path:
    (tmp_path / "mine.json").write_text(json.dumps(to_json(find("cartpole-ppo"))))
    return tmp_path / "mine.json"


def test_a_wrong_environment_is_told_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CairnError, match="env is None"):
        train("cartpole-ppo", env=None)
    assert capsys.readouterr().err == ""


def test_a_run_that_cannot_learn_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    DQN(CART, learning_starts=10_000, hidden=8).learn(128, eval_episodes=1)
    said = capsys.readouterr().err
    assert "nothing is learned: learning_starts is 10,000 and the run has 128 steps" in said


def test_a_rollout_longer_than_the_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    PPO(CART, hidden=8, horizon=64, envs=2).learn(100, eval_episodes=1)
    said = capsys.readouterr().err
    assert "one rollout takes 128 steps (horizon 64 in 2 environments) and the run has 100: it ends after 128" in said
    PPO(CART, hidden=8, horizon=64, envs=2).learn(128, eval_episodes=1)
    assert "one rollout" not in capsys.readouterr().err


def test_what_a_users_function_raises_passes_through() -> None:
    def broken(obs: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        taught(broken)
    with pytest.raises(ValueError, match="mine"):
        next(sample(CART, broken, vector="sync"))


def test_a_success_that_nobody_tells_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    A2C(CART, hidden=8).learn(10, metric="success", eval_episodes=1)
    assert "CartPole-v1 has not told of any success, so the score is 0" in capsys.readouterr().err


def test_messages_name_options_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    from cairn.cli.main import main

    with pytest.raises(SystemExit):
        main(["train", "--env", CART, "--agent", "ppo", "--device", "gpu"])
    assert "use --device cpu, or auto" in capsys.readouterr().err
    assert "CAIRN_FRONT" not in os.environ
    with pytest.raises(CairnError, match='use device="cpu"'):
        resolve_device("gpu")


def test_old_atari_names_do_not_depend_on_what_was_imported() -> None:
    pytest.importorskip("ale_py")
    for name in ("PongNoFrameskip-v4", "BreakoutDeterministic-v0", "Pong-v4", "Pong-ram-v4"):
        with pytest.raises(CairnError, match="is an old name; use ALE/"):
            Task(name)()


def test_every_agent_refuses_an_unknown_setting() -> None:
    refused = []
    for name, config in ((name, one.config) for name, one in ALGORITHMS.items()):
        with pytest.raises(CairnError, match=f"^{config.__name__} has no argument 'nonsense'"):
            config(nonsense=1)
        refused.append(name)
    assert {"ppo", "dqn", "sac", "hiro"} <= set(refused)


def test_cairn_has_what_it_names() -> None:
    trained = [one for one in ALGORITHMS.values() if one.trained]
    names = {one.label for one in trained} | {one.config.__name__ for one in trained}
    others = {"Algorithm", "CairnError", "Finding", "OFF_POLICY", "ON_POLICY", "Recipe", "Task"}
    assert set(cairn.__all__) == names | others | {"diagnose", "model", "register", "sample", "train"}
    named = {name: getattr(cairn, name) for name in cairn.__all__ if not name.isupper() or "_" not in name}
    assert {name: found.__name__ for name, found in named.items()} == {name: name for name in named}
    assert cairn.PPO is cairn.model("ppo") and cairn.PPO.kind == "ppo"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cairn.nonsense
    assert Spec((4,), "float32", Box((1,), (-1.0,), (1.0,))).action_shape == (1,)
