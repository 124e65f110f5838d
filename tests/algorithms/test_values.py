"""Q*, V* and A* = Q* - V*, against what can be worked out by hand."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from cairn.algorithms import DQN, PPO, SAC, TD3, DQNConfig, Imported, ImportedConfig, PPOConfig, SACConfig, TD3Config
from cairn.algorithms.imitation.demos import record
from cairn.algorithms.imitation.expert import Expert
from cairn.algorithms.imitation.values import Critics, Fitted, Played, Rollouts
from cairn.core.errors import CairnError
from cairn.core.types import Box, Discrete, Spec
from cairn.envs.task import Task
from cairn.vector.choose import make_vector
from tests.algorithms import test_learns  # noqa: F401  (registers the toys)

FEW = Spec((3,), "float32", Discrete(4))
REAL = Spec((3,), "float32", Box((2,), (-2.0, -2.0), (2.0, 2.0)))
OBS = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))


def played(obs, drawn, taken=None, reward=None, next_obs=None, terminated=None, valid=None, by_expert=None, seeds=(0,)):
    """[T, N] as given; what is left out does not matter."""
    shape = obs.shape[:2]
    return Played(
        obs=obs,
        taken=drawn if taken is None else taken,
        drawn=drawn,
        reward=torch.zeros(shape) if reward is None else reward,
        next_obs=obs if next_obs is None else next_obs,
        terminated=torch.zeros(shape, dtype=torch.bool) if terminated is None else terminated,
        valid=torch.ones(shape, dtype=torch.bool) if valid is None else valid,
        by_expert=torch.zeros(shape[1], dtype=torch.bool) if by_expert is None else by_expert,
        seeds=seeds,
    )


def test_sac_is_judged_by_the_lesser_critic_at_its_mode():
    agent = SAC(SACConfig(hidden=(8,)), REAL)
    critics, action = Critics(agent), torch.full((5, 2), 0.3)
    both = agent.critic(torch.cat([OBS, action], 1))[..., 0]
    assert torch.equal(critics.q(OBS, action), both.amin(0))
    mode = agent.act(OBS, explore=False)
    assert torch.equal(critics.v(OBS), agent.critic(torch.cat([OBS, mode], 1))[..., 0].amin(0))
    assert torch.equal(critics.q(OBS, torch.full((5, 2), 9.0)), critics.q(OBS, torch.ones(5, 2)))  # as it is taken


def test_critics_are_not_believed_far_from_what_the_expert_does():
    agent, action = SAC(SACConfig(hidden=(8,)), REAL), torch.full((5, 2), 0.3)
    plain, near = Critics(agent), Critics(agent, near=2.0)
    apart = (action - agent.act(OBS, explore=False)).square().sum(1)
    assert torch.allclose(near.q(OBS, action), plain.q(OBS, action) - 2 * apart)
    assert torch.equal(near.v(OBS), plain.v(OBS))
    assert torch.equal(near.q(OBS, action.sign()), near.q(OBS, 3 * action.sign()))  # as the environment takes it
    few, choice = DQN(DQNConfig(hidden=(8,)), FEW), torch.zeros(5, dtype=torch.int64)
    other = (choice != few.act(OBS, explore=False)).float()
    assert torch.equal(Critics(few, near=2.0).q(OBS, choice), Critics(few).q(OBS, choice) - 2 * other)


def test_many_critics_count_by_their_mean():
    agent = SAC(SACConfig(hidden=(8,), ensemble=5), REAL)
    action = torch.zeros(5, 2)
    assert torch.allclose(Critics(agent).q(OBS, action), agent.critic(torch.cat([OBS, action], 1))[..., 0].mean(0))


@pytest.mark.parametrize(
    "agent",
    [
        SAC(SACConfig(hidden=(8,)), REAL),
        TD3(TD3Config(hidden=(8,)), REAL),
        DQN(DQNConfig(hidden=(8,)), FEW),
        Imported(ImportedConfig(algorithm="sac", hidden=(8,), critic_hidden=(8,), critics=2, squash=True), REAL),
        Imported(ImportedConfig(algorithm="dqn", hidden=(8,), critics=0), FEW),
    ],
    ids=lambda agent: f"{type(agent).__name__}-{getattr(agent.cfg, 'algorithm', '')}",
)
def test_an_expert_finds_no_fault_with_itself(agent):
    critics = Critics(agent)
    own = agent.act(OBS, explore=False)
    assert torch.equal(critics.q(OBS, own), critics.v(OBS))
    if isinstance(agent.spec.action, Discrete):
        best = torch.stack([critics.q(OBS, torch.full((5,), a)) for a in range(4)]).amax(0)
        assert torch.equal(best, critics.v(OBS))  # and none with the best of a dqn's


@pytest.mark.parametrize("agent", [PPO(PPOConfig(), FEW), Imported(ImportedConfig(algorithm="a2c"), FEW), None])
def test_who_judges_no_actions_is_refused(agent):
    with pytest.raises(CairnError, match="zoo/x has no Q function"):
        Critics(agent, "zoo/x")


def test_only_steps_that_were_played_are_judged():
    agent = DQN(DQNConfig(hidden=(8,)), FEW)
    valid = torch.tensor([[True, True], [True, False]])
    obs, drawn = torch.randn(2, 2, 3), torch.randint(4, (2, 2))
    verdict = Critics(agent).judge(played(obs, drawn, valid=valid))
    assert torch.equal(verdict.known, valid) and verdict.q[1, 1] == 0 == verdict.v[1, 1]
    assert torch.allclose(verdict.q[valid], Critics(agent).q(obs[valid], drawn[valid]), atol=1e-6)
    assert verdict.steps == 0


def fitted(gamma=0.9, env="toy/Corridor-v0", expert=lambda obs: 1):
    envs = make_vector(Task(env), 2, backend="sync")
    demos = record(Expert(expert, envs.spec), envs, range(4), env)
    envs.close()
    return Fitted(demos, envs.spec, gamma=gamma, hidden=(32,), epochs=40, batch_size=8)


def test_v_is_fitted_to_the_returns_and_q_follows_from_the_step():
    values = fitted()
    places = torch.eye(6)
    assert torch.allclose(values.v(places[:5]), 0.9 ** torch.arange(4, -1, -1), atol=0.05)
    obs, next_obs = places[[0, 4, 2]][:, None], places[[1, 5, 1]][:, None]
    reward, ends = torch.tensor([[0.0], [1.0], [0.0]]), torch.tensor([[False], [True], [False]])
    way = torch.tensor([[1], [1], [0]])
    verdict = values.judge(played(obs, way, reward=reward, next_obs=next_obs, terminated=ends))
    assert torch.allclose(verdict.q[:, 0], torch.tensor([0.9**4, 1.0, 0.9**4]), atol=0.06)
    assert (verdict.q - verdict.v)[2, 0] < -0.1  # a step back costs


def test_fitted_values_say_nothing_of_actions_that_were_not_taken():
    obs, drawn = torch.eye(6)[[0, 1]][None], torch.tensor([[1, 1]])
    verdict = fitted().judge(played(obs, drawn, by_expert=torch.tensor([True, False])))
    assert verdict.known.tolist() == [[False, True]]


def test_an_episode_cut_off_bootstraps_from_v():
    """Reward 1 a step for ever, shown 30 steps at a time: V = 1/(1-γ), which no episode pays."""

    class Forever(gym.Env):
        observation_space, action_space = gym.spaces.Box(-1, 1, (1,), np.float32), gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.np_random.uniform(-1, 1, 1).astype(np.float32), {}

        def step(self, action):
            return self.np_random.uniform(-1, 1, 1).astype(np.float32), 1.0, False, False, {}

    gym.registry.pop("toy/Forever-v0", None)
    gym.register("toy/Forever-v0", Forever, max_episode_steps=30)
    value = fitted(env="toy/Forever-v0").v(torch.zeros(1, 1))
    assert abs(float(value) - 10.0) < 0.5


def walk(steps):
    """Places of the corridor after these steps, from the left end."""
    at, out = 0, []
    for step in steps:
        out.append(at)
        at = max(0, at + (1 if step else -1))
    return torch.eye(6)[out][:, None]


def test_the_expert_plays_on_from_the_state():
    taken = torch.tensor([1, 1, 0, 1])[:, None]
    drawn = torch.tensor([1, 0, 1, 0])[:, None]
    spec = Spec((6,), "float32", Discrete(2))
    values = Rollouts(Task("toy/Corridor-v0"), Expert(lambda obs: 1, spec), gamma=0.9, count=10)
    verdict = values.judge(played(walk(taken[:, 0]), drawn, taken=taken))
    at = [0, 1, 2, 1]
    assert verdict.known.all()
    assert verdict.v[:, 0].tolist() == pytest.approx([0.9 ** (4 - x) for x in at])
    assert verdict.q[:, 0].tolist() == pytest.approx([0.9**4, 0.9**5, 0.9**2, 0.9**5])
    before, after_v, after_q = sum(range(4)), sum(5 - x for x in at), 5 + (1 + 5) + 3 + (1 + 5)
    assert verdict.steps == 2 * before + after_v + after_q  # the price
    values.close()


def test_as_many_are_judged_as_asked_for():
    taken = torch.ones(4, 1, dtype=torch.int64)
    spec = Spec((6,), "float32", Discrete(2))
    values = Rollouts(Task("toy/Corridor-v0"), Expert(lambda obs: 1, spec), gamma=0.9, count=2)
    assert values.judge(played(walk(taken[:, 0]), taken)).known.sum() == 2
    values.close()


def test_a_state_that_does_not_come_back_is_noticed():
    taken = torch.ones(4, 1, dtype=torch.int64)
    spec = Spec((6,), "float32", Discrete(2))
    values = Rollouts(Task("toy/Corridor-v0"), Expert(lambda obs: 1, spec), gamma=0.9, count=4)
    with pytest.raises(CairnError, match="not deterministic"):
        values.judge(played(walk([0, 0, 0, 0]), taken))
    values.close()


def test_negligible_rewards_are_not_waited_for():
    spec = Spec((6,), "float32", Discrete(2))
    assert Rollouts(Task("toy/Corridor-v0"), Expert(lambda obs: 0, spec), gamma=0.5, count=1).limit == 10


@pytest.mark.parametrize(("env", "package"), [("Pendulum-v1", "gymnasium"), ("Hopper-v5", "mujoco")])
def test_states_of_a_simulator_come_back_too(env, package):
    """None of them can restore a state: their seed and actions do."""
    pytest.importorskip(package)
    verdict = judged_after_random_play(env)
    assert verdict.known.sum() == 3 and torch.isfinite(verdict.q).all()


def test_box2d_remembers_the_episode_before():
    """Its world outlives a reset, so a seed does not decide what follows; that is said, not passed over."""
    pytest.importorskip("Box2D")
    with pytest.raises(CairnError, match="not deterministic"):
        judged_after_random_play("BipedalWalker-v3")


def judged_after_random_play(env):
    """The second episode of an environment, a few of its states judged."""
    task, rng, rows = Task(env, time_limit=40), np.random.default_rng(0), []
    envs = make_vector(task, 1, backend="sync")
    dim = envs.spec.action.dim
    for seed in (4, 5):
        rows, obs = [], envs.reset([seed])
        for _ in range(15):
            action = rng.uniform(-0.1, 0.1, (1, dim)).astype(np.float32)
            rows.append((obs, action))
            obs = envs.step(action).obs
    seen, taken = (torch.from_numpy(np.stack(x)) for x in zip(*rows, strict=True))
    values = Rollouts(task, Expert(lambda obs: np.zeros(dim), envs.spec), gamma=0.9, count=3)
    try:
        return values.judge(played(seen, taken, seeds=(5,)))
    finally:
        values.close()
        envs.close()
