"""Goal tasks learned by hindsight with every off-policy agent, in seconds; without it they are not."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import cairn
import tests.envs.toys  # noqa: F401  registers the toys
from cairn.algorithms import DQNConfig, PPOConfig, SACConfig, TD3Config
from cairn.core.errors import CairnError
from cairn.core.schedules import constant
from cairn.core.types import Discrete, GoalSpec, Spec, Transition
from cairn.envs.task import Task
from cairn.nets.encoder import Encoder
from cairn.recipes.recipe import Recipe
from cairn.report.video import record
from cairn.runs.checkpoint import load_policy
from cairn.runs.evaluation import as_policy
from cairn.runs.train import train

COMMON = {"hidden": (64,), "batch_size": 64, "learning_starts": 300, "gamma": 0.95, "lr": constant(2e-3)}
BITS = Recipe(
    env="cairn/BitFlip-v0",
    env_args={"n": 12},
    agent=DQNConfig(**COMMON, updates_per_step=0.5, epsilon=constant(0.1), tau=0.05, target_every=1),
    hindsight="future",
    steps=6000,
    envs=4,
    eval_every=6000,
    eval_episodes=40,
    metric="success",
)
REACH = replace(BITS, env="goaltoy/Plane-v0", env_args={}, steps=4000, eval_every=4000, envs=2)
AGENTS = {
    "sac": SACConfig(**COMMON, tau=0.02, normalise=True),
    "td3": TD3Config(**COMMON, tau=0.02, noise=0.3, relative_goals=True),
}


def test_dqn_flips_twelve_bits_with_hindsight_and_not_without():
    recipe = replace(BITS, agent=replace(BITS.agent, relative_goals=True))
    assert train(recipe).score.success >= 0.9
    assert train(replace(recipe, hindsight="off")).score.success <= 0.3


@pytest.mark.parametrize(("name", "steps"), [("sac", 4000), ("td3", 2500)])
def test_continuous_agents_reach_with_hindsight_and_not_without(name, steps):
    """Only it shows that hindsight is what makes agents of continuous actions learn."""
    recipe = replace(REACH, agent=AGENTS[name], steps=steps, eval_every=steps)
    recipe = replace(recipe, env_args={"near": 0.06})  # small enough that nobody hits it by chance
    assert train(recipe).score.success >= 0.5
    assert train(replace(recipe, hindsight="off")).score.success <= 0.2


def test_a_policy_is_judged_saved_and_filmed_on_the_judged_task(tmp_path):
    recipe = replace(REACH, agent=AGENTS["sac"], steps=400, eval_every=400, eval_args={"near": 9.0}, time_feature=True)
    outcome = train(recipe, tmp_path / "run")
    assert outcome.score.success == 1.0  # anything is within 9
    saved = load_policy(tmp_path / "run")
    assert saved.task.args == {"near": 9.0} and saved.task.time_feature
    played = record(as_policy(saved.agent), saved.task, tmp_path / "film.mp4", episodes=2)
    assert [e.success for e in played] == [True, True] and (tmp_path / "film.mp4").stat().st_size > 0
    with np.load(tmp_path / "run" / "evaluations.npz") as file:
        assert file["successes"].shape == (1, 40) and file["successes"].all()


def test_from_python_with_hindsight_and_the_time_feature():
    task = Task("goaltoy/Plane-v0", time_feature=True)
    model = cairn.SAC(task, hidden=(8,), learning_starts=20).learn(80, hindsight="future")
    assert model.spec.obs_shape == (7,)
    with pytest.raises(CairnError, match="which the model was made for"):
        cairn.SAC("goaltoy/Plane-v0", hidden=(8,)).learn(80, time_feature=True)


def test_hindsight_needs_a_replay():
    with pytest.raises(CairnError, match="needs an agent with a replay buffer: dqn, sac or td3"):
        train(replace(BITS, agent=PPOConfig()))


def test_the_encoder_shows_goals_from_where_one_stands():
    spec = Spec((4,), "float32", Discrete(2), GoalSpec(2, 1))
    obs = torch.tensor([[1.0, 2.0, 5.0, 7.0]])
    assert Encoder(spec, relative_goals=True)(obs).tolist() == [[1, 2, 5, 2]]
    assert Encoder(spec)(obs).tolist() == [[1, 2, 5, 7]]
    with pytest.raises(CairnError, match="needs a task with goals"):
        Encoder(Spec((4,), "float32", Discrete(2)), relative_goals=True)


def test_the_encoder_normalises_goals_too():
    spec = Spec((3,), "float32", Discrete(2), GoalSpec(1, 1))
    encoder = Encoder(spec, normalise=True, relative_goals=True)
    obs = torch.randn(5000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([100.0, 0.01, 0.01]) + 3
    z = torch.zeros(5000)
    out = encoder.learn(Transition(obs, z, z, obs, z))
    assert out.obs.mean(0).abs().max() < 0.01 and (out.obs.std(0) - 1).abs().max() < 0.01
    assert torch.equal(out.obs, encoder(obs))
