"""Any action and observation space, and action masks: tasks that need each part, beside a control without it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.envs.toy_text.taxi import TaxiEnv

import cairn
from cairn.core.composite_actions import Composite
from cairn.core.errors import CairnError, EnvError
from cairn.core.layout import examples
from cairn.core.policy_module import in_env_units
from cairn.core.random_actions import random_actions
from cairn.envs.task import Task
from cairn.nets.features import Features, shift
from cairn.nets.normalizer import Normalizer
from cairn.nets.own import as_shown
from cairn.vector.choose import make_vector
from cairn.vector.gymnasium import Gymnasium
from cairn.vector.spaces import action_spec, spec_of, spec_of_env
from tests import any_tasks  # registers the tasks

PPO = {"horizon": 64, "envs": 4, "lr": 3e-3, "entropy_weight": 0.03}  # without it one seed in four stops exploring
ON_POLICY = {
    "ppo": (cairn.PPO, PPO),
    "a2c": (cairn.A2C, {"envs": 8, "lr": 3e-3}),
    "reinforce": (cairn.Reinforce, {"envs": 16, "lr": 3e-3}),
}
DQN = (cairn.DQN, {"learning_starts": 100, "lr": 1e-3})


def score(algorithm, task, steps):
    cls, settings = algorithm
    model = cls(task, seed=1, **settings)
    model.learn(steps)
    return model.evaluate(100).mean


# -- actions


@pytest.mark.parametrize("name", [*ON_POLICY, "dqn"])
@pytest.mark.parametrize("kind", ["multidiscrete", "multibinary"])
def test_several_choices_at_once_are_learned(name, kind):
    steps = 10_000 if name == "reinforce" else 6_000
    assert score({**ON_POLICY, "dqn": DQN}[name], Task("toys/Combination-v0", args={"kind": kind}), steps) > 0.9


@pytest.mark.parametrize("name", list(ON_POLICY))
def test_actions_of_a_dict_and_a_tuple_are_learned(name):
    random = score((cairn.PPO, PPO), Task("toys/Parts-v0"), 1)
    assert random < 0.8
    assert score(ON_POLICY[name], Task("toys/Parts-v0"), 16_000) > 0.92


def test_an_action_of_parts_goes_to_the_environment_and_back():
    space = any_tasks.Parts().action_space
    spec = action_spec(space)
    assert isinstance(spec, Composite)
    space.seed(3)
    for _ in range(20):
        action = space.sample()
        again = spec.structured(spec.to_env(spec.from_env(action))[0])
        assert space.contains(again)
        assert again["arm"][0] == action["arm"][0]
        np.testing.assert_allclose(again["arm"][1], action["arm"][1], atol=1e-6)
        np.testing.assert_array_equal(again["switch"], action["switch"])


def test_random_actions_are_in_the_space():
    for space in (spaces.MultiDiscrete([3, 4]), spaces.MultiBinary((2, 2)), any_tasks.Parts().action_space):
        spec, _ = spec_of(spaces.Box(-1, 1, (1,)), space)
        drawn = random_actions(spec, np.zeros((50, 1), np.float32), torch.Generator().manual_seed(0))
        given = spec.action.to_env(drawn)
        rows = [spec.action.structured(row) for row in given] if isinstance(spec.action, Composite) else given
        assert all(space.contains(row) for row in rows)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.array([0.3, -0.7]), np.array([0.7, 0.1]), dtype=np.float64),  # float32(0.1) > 0.1
        spaces.Box(np.array([0.3, -0.7], np.float32), np.array([0.7, 0.1], np.float32)),  # -0.7 + 0.8 > 0.1
        spaces.Box(np.array([-1.0, 0.3]), np.array([1.0, 0.3]), dtype=np.float64),  # 0.3 is no float32
        spaces.Box(np.array([0.1, -np.inf]), np.array([np.inf, 0.1]), dtype=np.float64),
        spaces.Box(-0.1, 0.1, (2,), np.float16),
        spaces.Box(0, 5, (2,), np.int32),
        spaces.Tuple((spaces.Box(-0.1, 0.1, (1,), np.float64), spaces.Box(0, 255, (1,), np.uint8))),
    ],
)
def test_every_real_action_is_in_the_space(space):
    """Also one that tests its actions with `contains`, as Gymnasium's checker does."""
    spec, _ = spec_of(spaces.Box(-1, 1, (1,)), space)
    given = np.linspace(-1.5, 1.5, 61, dtype=np.float32)[:, None].repeat(2, 1)
    made = spec.action.to_env(given)
    assert all(space.contains(spec.action.structured(x) if isinstance(spec.action, Composite) else x) for x in made)
    if not isinstance(spec.action, Composite):  # exported policies do the same
        again = in_env_units(spec.action, torch.from_numpy(given)).numpy()
        assert again.dtype == made.dtype and (again == made).all()


def test_a_policy_of_float32_fits_float64():
    """As one that was saved before the type was noted."""
    one, other = (action_spec(spaces.Box(-1, 1, (2,), kind)) for kind in (np.float32, np.float64))
    assert one == other and hash(one) == hash(other)
    assert one != action_spec(spaces.Box(-1, 1, (2,), np.int8))


def test_dqn_refuses_too_many_combinations():
    gym.register("toys/Wide-v0", entry_point=lambda: Wide())
    with pytest.raises(CairnError, match="1,048,576 combinations"):
        cairn.DQN("toys/Wide-v0")


class Wide(any_tasks.Combination):
    def __init__(self):
        super().__init__("multibinary")
        self.action_space = spaces.MultiBinary(20)


# -- observations


@pytest.mark.parametrize(
    ("algorithm", "args", "steps", "bar"),
    [
        ((cairn.PPO, {**PPO, "lr": 1e-3}), {"last": False}, 3_000, 0.9),
        ((cairn.DQN, {"learning_starts": 200, "lr": 1e-3}), {"floats": True}, 2_000, 0.9),
    ],
)
def test_a_picture_and_a_number_are_combined(algorithm, args, steps, bar):
    assert score(algorithm, Task("toys/Camera-v0", args=args), steps) > bar
    assert score(algorithm, Task("toys/Camera-v0", args={**args, "blind": True}), 600) < 0.75


@pytest.mark.parametrize("cls", [cairn.SAC, cairn.TD3])
def test_pictures_and_numbers_are_learned_with_real_actions(cls):
    algorithm = (cls, {"learning_starts": 200, "batch_size": 64, "lr": 1e-3})
    seen = score(algorithm, Task("toys/Camera-v0", args={"kind": "box"}), 900)
    blind = score(algorithm, Task("toys/Camera-v0", args={"kind": "box", "blind": True}), 500)
    assert seen > 0.68 > blind


def test_a_row_of_bytes_holds_pictures_and_numbers_exactly():
    env = any_tasks.Camera(last=False)
    spec, layout = spec_of(env.observation_space, env.action_space)
    obs, _ = env.reset(seed=4)
    row = layout(obs)
    assert row.dtype == np.uint8 and row.shape == spec.obs_shape
    shown = as_shown(spec, torch.from_numpy(row)[None])
    np.testing.assert_array_equal(shown["camera"][0].numpy(), obs["camera"])
    assert float(shown["number"][0, 0]) == float(obs["number"][0])
    assert shown["mode"][0].tolist() == [0.0, 1.0]


def test_a_large_category_is_embedded_and_text_is_left_out(capsys):
    space = spaces.Dict(
        {"place": spaces.Discrete(100_000, start=5), "say": spaces.Text(5), "x": spaces.Box(0, 1, (2,))}
    )
    spec, layout = spec_of(space, spaces.Discrete(2))
    assert [part.form for part in spec.parts] == ["category", "numbers"]
    row = layout({"place": 77, "say": "hello", "x": np.array([0.5, 0.25])})
    assert row.tolist() == [72.0, 0.5, 0.25]
    assert "the part 'say' of the observation is text" in capsys.readouterr().err
    features = Features(spec)
    assert features(torch.from_numpy(row)[None]).shape == (1, 64 + 2)


def test_a_space_without_numbers_is_one_sentence():
    for space in (spaces.Box(0, 1, (0,)), spaces.Dict(), spaces.Dict(a=spaces.Box(0, 1, (2, 0)))):
        with pytest.raises(CairnError, match="has no part that a network can read"):
            spec_of(space, spaces.Discrete(2))
    with pytest.raises(CairnError, match="has no numbers"):
        spec_of(spaces.Box(0, 1, (1,)), spaces.Box(0, 1, (0,)))


@pytest.mark.parametrize("cls", [cairn.PPO, cairn.A2C, cairn.DQN, cairn.SAC, cairn.TD3])
def test_the_numbers_beside_a_picture_are_normalised_and_clipped_as_set(cls):
    kind = "box" if cls in (cairn.SAC, cairn.TD3) else "discrete"
    on = "normalise_obs" if cls in (cairn.PPO, cairn.A2C) else "normalise"
    agent = cls(Task("toys/Camera-v0", args={"kind": kind}), clip_obs=3.0, **{on: True}).agent
    found = [m for part in agent.policy_parts.values() for m in part.modules() if isinstance(m, Normalizer)]
    assert found and all(one.clip == 3.0 for one in found)


@pytest.mark.parametrize("space", [spaces.Sequence(spaces.Discrete(3)), spaces.Graph(spaces.Box(0, 1), None)])
def test_a_space_without_a_fixed_size_is_one_sentence(space):
    with pytest.raises(CairnError, match="no fixed size"):
        spec_of(space, spaces.Discrete(2))
    with pytest.raises(CairnError, match="is not supported"):
        spec_of(spaces.Box(0, 1, (1,)), space)


def test_a_shift_moves_pictures_and_repeats_their_edges():
    image = torch.arange(2 * 1 * 6 * 6, dtype=torch.uint8).view(2, 1, 6, 6)
    moved = shift(image, 2, torch.Generator().manual_seed(1))
    assert moved.shape == image.shape and moved.dtype == torch.uint8
    places = [
        (dy, dx)
        for dy in range(-2, 3)
        for dx in range(-2, 3)
        if torch.equal(
            moved[0, 0],
            image[0, 0][(torch.arange(6) + dy).clamp(0, 5)][:, (torch.arange(6) + dx).clamp(0, 5)],
        )
    ]
    assert len(places) == 1


# -- masks


@pytest.mark.parametrize("by", ["method", "info", "obs"])
@pytest.mark.parametrize("multi", [False, True])
def test_masks_are_found_wherever_a_task_tells_them(by, multi):
    task = Task("toys/Masked-v0", args={"by": by, "multi": multi})
    assert score((cairn.PPO, PPO), task, 1) == 1.0  # the mask leaves one action
    assert score((cairn.PPO, PPO), Task(task.id, args=task.args, action_masks=False), 1) < 0.5


class Inherited(TaxiEnv):
    """The source of the class does not mention masks, and that of its base does."""


def test_masks_of_a_base_class_are_found():
    assert spec_of_env(Task(Inherited)())[0].masked == 6
    assert Gymnasium(gym.vector.SyncVectorEnv([Inherited] * 2)).spec.masked == 6


@pytest.mark.parametrize("name", [*ON_POLICY, "dqn"])
@pytest.mark.parametrize("backend", ["sync", "async", "sb3"])
def test_every_algorithm_acts_by_masks_in_every_backend(name, backend):
    cls, settings = {**ON_POLICY, "dqn": DQN}[name]
    model = cls(Task("toys/Masked-v0", args={"multi": True}), seed=1, **{**settings, "envs": 2})
    envs = make_vector(model.task, 2, backend=backend)
    try:
        obs = envs.reset([1, 2])
        for _ in range(10):
            step = envs.step(model.agent.act(torch.from_numpy(obs), explore=True).numpy())
            assert (step.reward == 1).all()
            obs = step.obs
    finally:
        envs.close()


@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode))
@pytest.mark.parametrize("by", ["info", "method"])
def test_masks_of_a_vector_of_the_users_are_read(mode, by):
    makers = [lambda: any_tasks.Masked(by, multi=True)] * 3
    vector = gym.vector.SyncVectorEnv(makers, autoreset_mode=mode)
    model = cairn.PPO(vector, seed=1)
    assert model.spec.masked == 5
    assert paid_in(model, Gymnasium(vector)) == {1.0}
    assert Gymnasium(vector, masks=False).spec.masked == 0


def test_masks_of_a_vecenv_are_read():
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    from cairn.vector.sb3 import SB3

    vector = vec_env.DummyVecEnv([lambda: any_tasks.Masked()] * 3)
    model = cairn.PPO(vector, seed=1)
    assert model.spec.masked == 6
    assert paid_in(model, SB3(vector)) == {1.0}
    assert SB3(vector, masks=False).spec.masked == 0
    for allowed in range(6):
        assert model.predict(np.zeros(1, np.float32), action_masks=np.eye(6)[allowed])[0] == allowed


def paid_in(model, envs):
    """The rewards of an agent that acts in a vector, of steps that count."""
    obs, paid = envs.reset([1, 2, 3]), set()
    for _ in range(12):
        step = envs.step(model.agent.act(torch.from_numpy(obs), explore=True).numpy())
        paid |= set(step.reward[step.valid].tolist())
        obs = step.obs
    return paid


def test_a_vector_is_asked_for_its_masks_once_a_step():
    vector = gym.vector.SyncVectorEnv([any_tasks.Masked] * 3)
    asked, call = [], vector.call
    vector.call = lambda name, *given: asked.append(name) or call(name, *given)
    envs = Gymnasium(vector)
    envs.reset([1, 2, 3])
    envs.step(np.zeros(3, np.int64))
    assert asked == ["action_masks"] * 2


def test_a_mask_may_forbid_everything_where_an_episode_is_cut():
    class Late(any_tasks.Masked):
        def step(self, action):
            self.over = True
            return self.shown(), 0.0, False, True, {}

        def reset(self, **given):
            self.over = False
            return super().reset(**given)

        def _mask(self):
            return np.zeros(6) if self.over else super()._mask()

    envs = make_vector(Task(Late), 1, backend="sync")
    obs = envs.reset([1])
    step = envs.step(obs[:, -6:].argmax(1))
    assert step.next_obs[0, -6:].tolist() == [1.0] * 6 and step.obs[0, -6:].sum() == 1


def test_a_wrong_mask_of_a_vector_names_the_environment():
    envs = Gymnasium(gym.vector.SyncVectorEnv([any_tasks.Masked, lambda: Wrong("none")]))
    with pytest.raises(EnvError, match="environment 1 returned an action_mask that allows no action"):
        envs.reset([0, 1])


def test_the_target_of_dqn_maximises_over_allowed_actions():
    model = cairn.DQN(Task("toys/Masked-v0"), double=False)
    rows = torch.from_numpy(examples(model.spec, 1, np.random.default_rng(0)))
    rows[:, -6:] = torch.tensor([0.0, 0, 0, 1, 0, 0])
    q = model.agent.q(model.agent.encoder(rows))
    assert model.agent._best(q, rows).tolist() == [3]
    assert q.argmax() != 3 or model.agent._best(-q, rows).tolist() == [3]


def test_predict_takes_masks():
    model = cairn.PPO(Task("toys/Masked-v0"))
    nothing = np.zeros(1, np.float32)
    for allowed in range(6):
        assert model.predict(nothing, action_masks=np.eye(6)[allowed])[0] == allowed
    many = model.predict(np.zeros((6, 1), np.float32), action_masks=np.eye(6))[0]
    assert many.tolist() == list(range(6))
    model.predict(nothing)  # every action is allowed
    with pytest.raises(CairnError, match="allows no action"):
        model.predict(nothing, action_masks=np.zeros(6))
    with pytest.raises(CairnError, match="action_masks has shape"):
        model.predict(nothing, action_masks=np.ones(5))
    with pytest.raises(CairnError, match="was not trained with any"):
        cairn.PPO("CartPole-v1").predict(np.zeros(4, np.float32), action_masks=np.ones(2))


class Wrong(any_tasks.Masked):
    """Its mask is wrong in one of several ways."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def _mask(self):
        return {"short": np.ones(5), "none": np.zeros(6), "text": "abc", "half": np.full(6, 0.5)}[self.how]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("short", "an action_mask of 5 entries where its action space has 6 options"),
        ("none", "an action_mask that allows no action"),
        ("text", "an action_mask with entries that are neither 0 nor 1"),
        ("half", "an action_mask with entries that are neither 0 nor 1"),
    ],
)
def test_a_wrong_mask_names_the_environment(how, words):
    gym.register("toys/Wrong-v0", entry_point=Wrong)
    try:
        envs = make_vector(Task("toys/Wrong-v0", args={"how": how}), 2, backend="sync")
        with pytest.raises(EnvError, match="environment 0 returned " + words):
            envs.reset([0, 1])
    finally:
        gym.registry.pop("toys/Wrong-v0")


# -- saved and resumed


class TwoParts(any_tasks.OneStep):
    """A Dict of two numbers and one, in one order or the other."""

    def __init__(self, first):
        self.observation_space = spaces.Dict(a=spaces.Box(0, 1, (first,)), b=spaces.Box(0, 1, (3 - first,)))
        self.action_space = spaces.Discrete(2)

    def shown(self):
        return self.observation_space.sample()


def test_parts_of_other_sizes_are_another_task(tmp_path):
    """Their rows are equally long."""
    with pytest.raises(CairnError, match="environments that differ"):
        cairn.PPO([lambda: TwoParts(1), lambda: TwoParts(2)])
    cairn.PPO(lambda: TwoParts(1)).save(tmp_path / "policy")
    cairn.PPO.load(tmp_path / "policy", env=lambda: TwoParts(1))
    with pytest.raises(CairnError, match="its observation or action space differs"):
        cairn.PPO.load(tmp_path / "policy", env=lambda: TwoParts(2))


@pytest.mark.parametrize(
    ("algorithm", "task"),
    [
        ((cairn.PPO, PPO), Task("toys/Parts-v0")),
        ((cairn.PPO, PPO), Task("toys/Camera-v0", args={"last": False})),
        (DQN, Task("toys/Masked-v0", args={"by": "info", "multi": True})),
        ((cairn.PPO, PPO), Task("toys/Masked-v0", args={"by": "obs"})),
        ((cairn.SAC, {"learning_starts": 50, "batch_size": 16}), Task("toys/Camera-v0", args={"kind": "box"})),
    ],
)
def test_any_task_is_saved_loaded_and_resumed_exactly(algorithm, task, tmp_path):
    cls, settings = algorithm
    every = {"checkpoint_every": 256, "eval_every": 1024}
    whole = cls(task, seed=2, **settings).learn(1024, out=tmp_path / "whole", **every)
    parts = cls(task, seed=2, **settings).learn(512, out=tmp_path / "parts", **every)
    parts = cls(task, seed=2, **settings).learn(1024, out=tmp_path / "parts", resume=True, **every)
    mine, theirs = whole.agent.policy_parts, parts.agent.policy_parts
    for name, part in mine.items():
        for one, other in zip(part.state_dict().values(), theirs[name].state_dict().values(), strict=True):
            assert torch.equal(one, other), name
    whole.save(tmp_path / "policy")
    loaded = cls.load(tmp_path / "policy")
    assert loaded.spec == whole.spec
    rows = torch.from_numpy(examples(whole.spec, 5, np.random.default_rng(1)))
    assert torch.equal(loaded.agent.act(rows, explore=False), whole.agent.act(rows, explore=False))


@pytest.mark.parametrize("cls", [cairn.SAC, cairn.TD3])
def test_pictures_alone_are_read_with_real_actions(cls, tmp_path):
    class Alone(gym.ObservationWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.observation_space = env.observation_space["camera"]

        def observation(self, observation):
            return observation["camera"]

    model = cls(lambda: Alone(any_tasks.Camera("box")), learning_starts=20, batch_size=16, random_shift=2)
    model.learn(60)
    assert {"encoder", "target_encoder"} <= model.agent.policy_parts.keys()
    picture = np.zeros((36, 36, 3), np.uint8)
    assert model.predict(picture, deterministic=True)[0].shape == (1,)
