"""The loops of imitation: who plays, who is asked, what is counted, and that it is learned."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cairn.algorithms import (
    BC,
    AggreVaTeConfig,
    AggreVaTeD,
    AggreVaTeDConfig,
    BCConfig,
    DAggerConfig,
    DQNConfig,
    PPOConfig,
    ReinforceConfig,
    SACConfig,
    build,
)
from cairn.algorithms.imitation import loop as imitation
from cairn.algorithms.imitation.demos import record, write
from cairn.algorithms.imitation.expert import Expert
from cairn.core.errors import CairnError
from cairn.core.schedules import constant
from cairn.envs.task import Task
from cairn.recipes.recipe import Recipe
from cairn.runs.checkpoint import load_policy, save_policy
from cairn.runs.run import Run
from cairn.runs.train import train
from cairn.vector.choose import make_vector
from tests.algorithms import test_learns  # noqa: F401  (registers the toys)
from tests.envs import toys  # noqa: F401

CLONE = BCConfig(hidden=(32,), batch_size=32)
PLAIN = ReinforceConfig(hidden=(32,), lr=constant(1e-2))
CLIPPED = PPOConfig(hidden=(32,), lr=constant(3e-3), batch_size=32)


def right(obs):
    return 1


def hit(obs):
    return obs


def goalward(obs):
    return int(obs["desired_goal"][0] > obs["achieved_goal"][0])


def recipe(env, agent, steps, envs=4, **more):
    return Recipe(env=env, agent=agent, steps=steps, envs=envs, eval_every=10**9, eval_episodes=20, **more)


@pytest.mark.parametrize(
    ("agent", "steps"),
    [
        (CLONE, 200),
        (DAggerConfig(CLONE), 400),
        (AggreVaTeConfig(hidden=(32,), batch_size=32, values="rollouts", judged=20), 800),
        (AggreVaTeDConfig(PLAIN, values="fitted"), 4000),
        (AggreVaTeDConfig(PLAIN, values="fitted", gradient="natural"), 4000),
        (AggreVaTeDConfig(CLIPPED, values="fitted", mixing="harmonic"), 2000),
        (AggreVaTeDConfig(CLIPPED, values="rollouts", judged=50, mixing="linear"), 4000),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, int) else str(x),
)
def test_reaches_the_end_of_the_corridor(agent, steps):
    outcome = train(recipe("toy/Corridor-v0", agent, steps), expert=right)
    assert outcome.score.success == 1.0
    assert outcome.score.steps == 20 * 5  # and by the shortest way


@pytest.mark.parametrize(
    ("agent", "steps"),
    [
        (replace(CLONE, updates_per_step=2.0), 600),
        (DAggerConfig(replace(CLONE, updates_per_step=2.0)), 600),
        (AggreVaTeDConfig(PLAIN, values="rollouts", judged=50, gradient="natural"), 8000),
        (AggreVaTeDConfig(CLIPPED, values="rollouts", judged=50), 6000),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, int) else str(x),
)
def test_hits_the_target(agent, steps):
    assert train(recipe("toy/Aim-v0", agent, steps, envs=16), expert=hit).score.mean > -0.3


@pytest.mark.parametrize(
    ("agent", "steps"),
    [
        (DAggerConfig(replace(CLONE, relative_goals=True)), 600),
        (AggreVaTeDConfig(CLIPPED, values="rollouts", judged=50), 8000),
    ],
    ids=["DAgger", "AggreVaTeD"],
)
def test_goals_are_seen_by_learner_and_expert(agent, steps):
    assert train(recipe("goaltoy/Line-v0", agent, steps), expert=goalward).score.success == 1.0


@pytest.mark.parametrize("gradient", ["plain", "natural"])
def test_an_experts_critics_teach(gradient):
    """A SAC that has learned to hit; its learner draws many actions in each state it met, at no step's cost."""
    expert = SACConfig(hidden=(32,), batch_size=64, learning_starts=200, lr=constant(3e-3), gamma=0.5)
    teacher = train(recipe("toy/Aim-v0", expert, 1500, envs=1)).agent
    learner = replace(PLAIN, lr=constant(3e-3 if gradient == "plain" else 1e-2))
    agent = AggreVaTeDConfig(learner, gradient=gradient, updates=40, batch_size=128)
    outcome = train(recipe("toy/Aim-v0", agent, 600, envs=16), expert=teacher)
    assert outcome.score.mean > -0.3 and outcome.step < 600 + 16


def test_a_poor_expert_is_outdone():
    """It aims at half the distance. Cloned, so does the learner; judged by what follows, the point itself is better."""

    def short(obs):
        return 0.5 * obs

    cloned = train(recipe("toy/Aim-v0", DAggerConfig(replace(CLONE, updates_per_step=2.0)), 600), expert=short)
    assert -0.4 < cloned.score.mean < -0.15  # the expert's own is -0.25
    agent = AggreVaTeDConfig(CLIPPED, values="rollouts", judged=50)
    assert train(recipe("toy/Aim-v0", agent, 6000, envs=16), expert=short).score.mean > -0.1


class Watched:
    """Records who played: the expert takes 1 everywhere, the learner 0."""

    def __init__(self, alpha, spec):
        self.alpha, self.spec, self.progress = alpha, spec, 0.0

    def act(self, obs, *, explore):
        return torch.zeros(len(obs), dtype=torch.int64)


def rolled(alpha, ask="playing", steps=10**6, envs=64, seed=0, cut=0):
    plan = replace(recipe("toy/Corridor-v0", CLONE, steps, envs=envs), seed=seed)
    vector = make_vector(Task("toy/Corridor-v0"), envs, backend="sync")
    run = Run(plan, None)
    found = imitation.roll_in(
        Watched(alpha, vector.spec), Expert(right, vector.spec), vector, run, ask=ask, explore=True, cut=cut
    )
    vector.close()
    return found[0], found[1], run


def test_a_coin_a_trajectory_says_who_plays_all_of_it():
    played, _, run = rolled(0.5)
    taken = torch.where(played.valid, played.taken, -1)
    for n in range(64):
        mine = taken[:, n][played.valid[:, n]]
        assert len(set(mine.tolist())) == 1 and bool(mine[0]) == bool(played.by_expert[n])
        assert len(mine) == (5 if played.by_expert[n] else 20)
    assert 20 < played.by_expert.sum() < 44
    assert run.step == int(played.valid.sum()) == 5 * int(played.by_expert.sum()) + 20 * int((~played.by_expert).sum())
    assert not torch.equal(played.by_expert, rolled(0.5, seed=1)[0].by_expert)
    assert rolled(1.0)[0].by_expert.all() and not rolled(0.0)[0].by_expert.any()


def test_actions_to_be_judged_are_the_learners_also_where_the_expert_played():
    played, _, _ = rolled(1.0)
    assert (played.taken == 1).all() and (played.drawn == 0).all()


def test_an_expert_that_is_disturbed_still_says_what_it_meant(monkeypatch):
    """It stands still. What it executes is off by the noise and within bounds; what is learned, or cloned, is not."""
    told = {"learn": [], "clone": [], "taken": []}
    roll_in = imitation.roll_in

    def noting(*args, **options):
        found = roll_in(*args, **options)
        told["taken"].append(found[0].taken[found[0].valid & found[0].by_expert])
        return found

    monkeypatch.setattr(imitation, "roll_in", noting)
    monkeypatch.setattr(BC, "update", lambda self, obs, action: told["learn"].append(action) or {})
    monkeypatch.setattr(AggreVaTeD, "clone", lambda self, obs, action: told["clone"].append(action))
    train(recipe("toy/Aim-v0", replace(CLONE, noise=0.6), 600), expert=np.zeros_like)
    train(recipe("toy/Aim-v0", AggreVaTeDConfig(PLAIN, values="fitted", clone=1, noise=0.6), 200), expert=np.zeros_like)
    taken = torch.cat(told["taken"])
    assert 0.4 < taken.std() < 0.6 and taken.abs().max() == 1  # some of them are cut off
    assert all((a == 0).all() for a in told["learn"] + told["clone"]) and told["learn"] and told["clone"]


@pytest.mark.parametrize("agent", [replace(CLONE, noise=0.1), AggreVaTeDConfig(PLAIN, values="fitted", noise=0.1)])
def test_discrete_actions_are_not_disturbed(agent):
    with pytest.raises(CairnError, match="agent.noise is for continuous actions"):
        train(recipe("toy/Corridor-v0", agent, 100), expert=right)


def test_dagger_asks_the_expert_everywhere():
    played, asked, _ = rolled(0.0, ask="always")
    assert (played.taken == 0).all() and (asked == 1).all()


def test_the_last_trajectories_end_with_the_budget():
    played, _, run = rolled(0.0, steps=100, envs=8)
    assert run.step == 104 and played.valid.shape == (13, 8)


def test_trajectories_are_left_after_as_many_steps_as_were_drawn():
    """The learner's have 20 steps: those that were to go on for longer end there, the others are drawn evenly."""
    lengths = rolled(0.0, cut=40, envs=256)[0].valid.sum(0)
    assert 100 < (lengths == 20).sum() < 165 and set(lengths.tolist()) == set(range(1, 21))
    assert 8 < lengths[lengths < 20].float().mean() < 12
    assert len(set(rolled(0.0, cut=1)[0].valid.sum(0).tolist())) == 1


def test_rates_fall_with_gradient_steps_also_within_one_roll_in(monkeypatch):
    seen = []
    update = BC.update

    def noting(self, obs, action):
        seen.append(self.progress)
        return update(self, obs, action)

    monkeypatch.setattr(BC, "update", noting)
    train(recipe("toy/Corridor-v0", replace(CLONE, updates_per_step=0.5), 100, envs=20), expert=right)
    assert seen == [i / 50 for i in range(50)]


def test_dagger_keeps_everything_and_aggrevated_nothing(tmp_path, monkeypatch):
    kept = []
    learn = imitation.learn

    def noting(agent, data, *rest):
        kept.append(len(data))
        learn(agent, data, *rest)

    monkeypatch.setattr(imitation, "learn", noting)
    outcome = train(recipe("toy/Corridor-v0", DAggerConfig(CLONE), 300), tmp_path, expert=right)
    assert kept == sorted(kept) and kept[-1] == outcome.step == int(outcome.agent.counts[1])
    assert load_policy(tmp_path).about["queries"] == outcome.step
    assert {p.name for p in (tmp_path / "replay").iterdir()} == {"obs.bin", "action.bin"}
    train(recipe("toy/Corridor-v0", AggreVaTeDConfig(PLAIN, values="fitted"), 600), tmp_path / "none", expert=right)
    assert not (tmp_path / "none" / "replay").exists()


def test_only_the_experts_first_trajectories_are_cloned(monkeypatch):
    """Where half of them are the learner's, it is shown the other half, once."""
    shown = []

    def noting(self, obs, action):
        shown.append(action)

    monkeypatch.setattr(AggreVaTeD, "clone", noting)
    agent = AggreVaTeDConfig(PLAIN, values="fitted", clone=10, alpha_start=0.5)
    train(recipe("toy/Corridor-v0", agent, 1000, envs=16), expert=right)
    assert len(shown) == 1 and (shown[0] == 1).all() and 0 < len(shown[0]) < 16 * 5
    train(recipe("toy/Corridor-v0", replace(agent, clone=0), 1000, envs=16), expert=right)
    assert len(shown) == 1


def test_steps_that_values_cost_are_counted():
    fitted = train(
        recipe("toy/Corridor-v0", AggreVaTeDConfig(PLAIN, values="fitted", fit_episodes=7), 36), expert=right
    )
    assert fitted.step == 35 + 4  # seven episodes of five steps first
    played = AggreVaTeDConfig(PLAIN, values="rollouts", judged=3)
    assert train(recipe("toy/Corridor-v0", played, 1), expert=right).step > 4 + 3 * 2


def test_demonstrations_are_enough_for_a_clone(tmp_path):
    envs = make_vector(Task("toy/Corridor-v0"), 2, backend="sync")
    demos = record(Expert(right, envs.spec), envs, range(4), "toy/Corridor-v0")
    write(tmp_path / "d.npz", demos, envs.spec)
    envs.close()
    plan = recipe("toy/Corridor-v0", CLONE, 100, demos=str(tmp_path / "d.npz"))
    outcome = train(plan, tmp_path / "run")
    assert outcome.score.success == 1.0 and outcome.step == 100
    assert outcome.agent.counts.tolist() == [0, 0]  # nobody was asked
    assert train(replace(plan, steps=150), tmp_path / "run", resume=True).step == 150


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "dagger learns from an expert: name one with expert"),
        ({"agent": CLONE}, "bc learns from an expert"),
        ({"demos": "nowhere.npz"}, "there are no demonstrations at nowhere.npz"),
        ({"expert": "nowhere"}, "there is no nowhere to learn from"),
        ({"expert": "dqn", "env": "toy/Aim-v0"}, "is a policy for toy/Corridor-v0, not for toy/Aim-v0"),
        ({"expert": "ppo", "agent": AggreVaTeDConfig()}, "ppo has no Q function"),
        ({"expert": "dqn", "agent": PPOConfig()}, "are used by bc, dagger, aggrevate and aggrevated only"),
        ({"expert": "dqn", "time_feature": True}, "dqn observes 6 numbers and the task has 7 numbers"),
    ],
)
def test_a_wrong_expert_is_one_sentence_before_anything_starts(changes, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = Task("toy/Corridor-v0")
    envs = make_vector(task, 1, backend="sync")
    envs.close()
    for name, cfg in (("dqn", DQNConfig(hidden=(8,))), ("ppo", PPOConfig(hidden=(8,)))):
        save_policy(tmp_path / name, build(cfg, envs.spec), task, {})
    plan = replace(recipe("toy/Corridor-v0", DAggerConfig(CLONE), 100), **changes)
    with pytest.raises(CairnError, match=words):
        train(plan, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_saved_policy_is_an_expert(tmp_path):
    task = Task("toy/Corridor-v0")
    cfg = DQNConfig(hidden=(32,), batch_size=32, learning_starts=200, target_every=50)
    expert = train(recipe("toy/Corridor-v0", cfg, 3000, envs=2))
    save_policy(tmp_path / "expert", expert.agent, task, {})
    for agent in (DAggerConfig(CLONE), AggreVaTeDConfig(PLAIN, updates=20, batch_size=64)):
        outcome = train(recipe("toy/Corridor-v0", agent, 400, expert=str(tmp_path / "expert")))
        assert outcome.score.success == 1.0


def test_every_label_is_in_cairns_units(tmp_path):
    """Aim takes numbers within ±3 and shows points within ±1: what is learned is a third of them."""
    train(recipe("toy/Aim-v0", CLONE, 60), tmp_path, expert=hit)
    obs = np.fromfile(tmp_path / "replay" / "obs.bin", np.float32)[:60]
    action = np.fromfile(tmp_path / "replay" / "action.bin", np.float32)[:60]
    np.testing.assert_allclose(action, obs / 3, atol=1e-6)
