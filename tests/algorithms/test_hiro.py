"""The hierarchy: its arithmetic against plain loops, its clocks, its bad input; then it learns a toy."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch

from cairn.algorithms import DQNConfig, HIROConfig, SACConfig, TD3Config
from cairn.algorithms.hiro.agent import HIRO
from cairn.core.errors import CairnError
from cairn.core.goals import Region
from cairn.core.types import Box, Discrete, GoalSpec, ObsPart, Spec, SubgoalBatch, Transition, Window
from cairn.recipes.recipe import Recipe
from cairn.runs.evaluation import as_policy
from cairn.runs.train import train

SMALL = {"hidden": (16, 16)}
SPEC = Spec((5,), "float32", Box((2,), (-1.0,) * 2, (1.0,) * 2))
PARTS = (
    ObsPart("camera", "image", (1, 36, 36)),
    *(ObsPart(f"{x}_goal", "numbers", (2,)) for x in ("achieved", "desired")),
)
PICTURE = Spec((1296 + 16,), "uint8", SPEC.action, GoalSpec(1296, 2, itemsize=4), parts=PARTS)  # a row of bytes
ROOMS = Spec((5,), "float32", Discrete(4))
LEVELS = {
    "td3": (SPEC, HIROConfig(TD3Config(**SMALL), TD3Config(**SMALL))),
    "sac": (SPEC, HIROConfig(SACConfig(**SMALL), SACConfig(**SMALL))),
    "dqn": (ROOMS, HIROConfig(DQNConfig(**SMALL), DQNConfig(**SMALL))),
    "dqn over td3": (SPEC, HIROConfig(DQNConfig(**SMALL), TD3Config(**SMALL))),
}


def make(kind="td3", **changes):
    spec, cfg = LEVELS[kind]
    cfg = replace(cfg, **{"subgoal": (1, 3), "subgoal_range": (2.0, 0.5), "every": 4, "candidates": 6, **changes})
    return HIRO(cfg, spec, seed=3)


def windows(agent, batch=7, seed=0):
    rng = torch.Generator().manual_seed(seed)
    c = agent.cfg.every
    length = torch.randint(1, c + 1, (batch,), generator=rng)
    discrete = isinstance(agent.spec.action, Discrete)
    action = torch.randint(4, (batch, c), generator=rng) if discrete else torch.rand(batch, c, 2, generator=rng) * 2 - 1
    return Window(
        obs=torch.randn(batch, c, 5, generator=rng),
        action=action,
        inside=torch.arange(c) < length[:, None],
        next_obs=torch.randn(batch, 5, generator=rng),
        target=torch.randn(batch, 2, generator=rng),
        reward=torch.randn(batch, generator=rng),
        terminated=torch.rand(batch, generator=rng) < 0.3,
    )


@pytest.mark.parametrize("kind", LEVELS)
def test_the_correction_is_what_a_plain_triple_loop_says(kind):
    """One state at a time, with the subgoal moved by h(s, g, s') = s + g - s' from step to step."""
    agent = make(kind)
    window = windows(agent)
    candidates = torch.randn(7, 6, 2, generator=torch.Generator().manual_seed(1))
    expected = np.zeros((7, 6))
    for b in range(7):
        for k in range(6):
            g = candidates[b, k].clone()
            for i in range(agent.cfg.every):
                if not window.inside[b, i]:
                    break
                s = window.obs[b, i]
                view = torch.cat([s, s[1:3], s[1:3] + g])[None]
                if isinstance(agent.spec.action, Discrete):
                    q = agent.low.q(agent.low.encoder(view))[0].detach()
                    expected[b, k] += float(q[window.action[b, i]] - q.max())
                else:
                    mu = agent.low.act(view, explore=False)[0]
                    expected[b, k] -= 0.5 * float((window.action[b, i] - mu).square().sum())
                if i + 1 < agent.cfg.every:
                    g = s[1:3] + g - window.obs[b, i + 1][1:3]
    with torch.no_grad():
        got = agent.likelihood(window, candidates)
    np.testing.assert_allclose(got, expected, atol=2e-4)


def test_the_candidates_are_the_papers():
    agent = make(candidates=200)
    window = windows(agent)
    asked = torch.full((7, 2), 0.3)
    achieved = window.next_obs[:, 1:3] - window.obs[:, 0, 1:3]
    found = agent.candidates(window, asked, achieved)
    assert found.shape == (7, 200, 2)
    assert torch.equal(found[:, 0], asked)
    limit = torch.tensor([2.0, 0.5])
    torch.testing.assert_close(found[:, 1], achieved.clamp(-limit, limit))
    assert (found.abs() <= limit + 1e-6).all()
    free = achieved[:, 0].abs() < 0.3  # far from the bounds, the draws are N(s' - s, ½ range)
    if free.any():
        assert found[free, 2:, 0].std() == pytest.approx(1.0, abs=0.25)


def test_what_the_low_level_did_is_what_it_is_believed_to_have_been_asked():
    """Actions played by the present low level under some subgoal: no other candidate is likelier than that one."""
    agent = make(candidates=10)
    window = windows(agent, batch=50)
    wanted = (torch.rand(50, 2) * 2 - 1) * agent.range
    target = window.obs[:, :1, 1:3] + wanted[:, None]
    view = agent.low_view(window.obs, target.expand(-1, 4, -1))
    window = replace(window, action=agent.low.act(view.flatten(0, 1), explore=False).view(50, 4, 2))
    torch.testing.assert_close(agent.corrected(window, wanted), wanted)
    off = agent.corrected(window, -wanted)  # had another been noted down, it is not kept where a better one is found
    assert (off != -wanted).any(1).float().mean() > 0.3


def test_the_other_ways_to_correct():
    window = windows(make())
    asked = torch.full((7, 2), 0.1)
    assert torch.equal(make(correction="off").corrected(window, asked), asked)
    achieved = window.next_obs[:, 1:3] - window.obs[:, 0, 1:3]
    got = make(correction="achieved").corrected(window, asked)
    torch.testing.assert_close(got, achieved.clamp(-torch.tensor([2.0, 0.5]), torch.tensor([2.0, 0.5])))


def test_the_low_level_is_paid_for_coming_near():
    obs, succ = torch.zeros(3, 5), torch.zeros(3, 5)
    succ[:, 1:3] = torch.tensor([[3.0, 4.0], [1.0, 0.0], [3.0, 4.0]])
    target = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    asked = SubgoalBatch(obs, torch.zeros(3, 2), succ, target, torch.tensor([False, True, True]))
    batch = make(low_scale=2.0).paid(asked)
    # to end where it was to be is well; to end elsewhere is to be there for ever, at γ = 0.99 a hundred steps
    torch.testing.assert_close(batch.reward, torch.tensor([-10.0, 0.0, -1000.0]))
    torch.testing.assert_close(batch.discount, torch.tensor([0.99, 0.0, 0.0]))  # the world's end, no window's
    torch.testing.assert_close(batch.next_obs[0], torch.tensor([0, 3, 4, 0, 0, 3, 4, 0, 0.0]))  # obs | here | target
    sparse = make(low_reward="within", near=0.5).paid(asked)
    torch.testing.assert_close(sparse.reward, torch.tensor([-1.0, 0.0, -100.0]))


def test_hidden_entries_do_not_reach_the_low_level_in_any_way():
    agent = make(hide=(1, 2))
    obs = torch.randn(4, 5)
    moved = obs.clone()
    moved[:, 1:3] += 7.0
    target = obs[:, 1:3] + 0.1
    a = agent.low.act(agent.low_view(obs, target), explore=False)
    b = agent.low.act(agent.low_view(moved, target + 7.0), explore=False)  # the same displacement elsewhere
    torch.testing.assert_close(a, b)
    seen = make().low
    view = make().low_view
    assert not torch.allclose(
        seen.act(view(obs, target), explore=False), seen.act(view(moved, target + 7.0), explore=False)
    )


def test_each_environment_has_a_clock_of_its_own():
    agent = make(every=3)
    memory = agent.memory(2)
    obs, targets = torch.zeros(2, 5), []
    for t in range(6):
        obs = obs + 0.1
        agent.act(obs, explore=True, memory=memory)
        targets.append(memory.target.clone())
        if t == 1:
            memory.forget(np.array([False, True]))  # the second one's episode ended after two steps
    first, second = torch.stack(targets).unbind(1)
    assert torch.equal(first[0], first[2]) and not torch.equal(first[2], first[3]) and torch.equal(first[3], first[5])
    assert torch.equal(second[0], second[1]) and not torch.equal(second[1], second[2])
    assert torch.equal(second[2], second[4]) and not torch.equal(second[4], second[5])


def test_no_subgoal_is_asked_for_that_cannot_be_reached():
    region = Region((((-1.0, -1.0), (1.0, 1.0)),))
    spec, cfg = LEVELS["td3"]
    cfg = replace(cfg, subgoal=(1, 3), subgoal_range=(5.0, 5.0))
    agent = HIRO(cfg, replace(spec, reachable=region), seed=0)
    memory, obs = agent.memory(500), torch.randn(500, 5)
    agent.act(obs, explore=True, memory=memory, random_subgoals=True)
    assert region.holds(memory.target.numpy()).all()
    # the high level learns what it asked for, and not what that was moved to; the low level what it was shown
    moved = ~region.holds(memory.asked.numpy())
    assert 100 < moved.sum() < 500
    assert torch.equal(memory.target, region.nearest(memory.asked))
    asked = memory.asked - obs[:, 1:3]
    torch.testing.assert_close(agent.high_action(asked) * 5.0, asked)
    batch = agent.paid(SubgoalBatch(obs, torch.zeros(500, 2), obs, memory.asked, torch.zeros(500, dtype=torch.bool)))
    torch.testing.assert_close(batch.obs[:, -2:], memory.target)
    torch.testing.assert_close(batch.reward, -(memory.target - obs[:, 1:3]).norm(dim=-1))
    window = windows(agent, batch=50)
    here = window.obs[:, :1, 1:3]
    found = agent.candidates(window, torch.zeros(50, 2), window.next_obs[:, 1:3] - here[:, 0])
    again = region.nearest(here + found[:, 1:]) - here
    torch.testing.assert_close(found[:, 1:], again)


def test_a_dqn_chooses_among_displacements_of_a_grid():
    agent = make("dqn", bins=3)
    assert agent.table.shape == (9, 2)
    assert {tuple(row) for row in agent.table.tolist()} == {(x, y) for x in (-2, 0, 2) for y in (-0.5, 0, 0.5)}
    assert agent.high_action(torch.tensor([[1.9, 0.1], [-0.4, -0.5]])).tolist() == [7, 3]


def walled(seed=0):
    """A dqn over a floor of 3 × 2 cells and a table of 5 × 5, and states on that floor."""
    region = Region((((0.0, 0.0), (2.0, 1.0)),))
    spec, cfg = LEVELS["dqn"]
    agent = HIRO(replace(cfg, subgoal=(1, 3), subgoal_range=(2.0, 2.0)), replace(spec, reachable=region), seed=seed)
    obs = torch.randn(60, 5)
    obs[:, 1] = torch.arange(60) % 3
    obs[:, 2] = torch.arange(60) % 2
    return agent, obs


def test_a_dqn_is_offered_the_subgoals_that_need_not_be_moved():
    agent, obs = walled()
    here = obs[:, 1:3]
    wanted = [[agent.spec.reachable.holds((h + g).numpy()) for g in agent.table] for h in here]
    assert agent.offered(obs).tolist() == wanted
    assert agent.offered(obs + 50.0).all()  # far outside nothing is, and it must choose all the same
    for random_subgoals, explore in ((True, True), (False, True), (False, False)):
        target = agent.choose(obs, explore=explore, random_subgoals=random_subgoals)
        asked = agent.table[agent.high_action(target - here)]
        assert torch.equal(asked, target - here)  # what is learned is what was chosen
    chosen = {tuple(t) for _ in range(50) for t in agent.choose(obs, explore=True, random_subgoals=True).tolist()}
    assert chosen == {(x, y) for x in (0.0, 1.0, 2.0) for y in (0.0, 1.0)}


@pytest.mark.parametrize("double", [True, False])
def test_no_target_is_made_of_a_subgoal_that_is_never_asked_for(double):
    """Nothing is paid, and what leads out of the rooms is believed to be worth 9: that must not get in."""
    agent, obs = walled()
    agent.high.cfg = replace(agent.high.cfg, double=double)
    out = ~agent.offered(obs)
    high = agent.high
    high.q = high.target = lambda x: out.float() * 9.0
    batch = Transition(obs, torch.zeros(60, dtype=torch.int64), torch.zeros(60), obs, torch.full((60,), 0.9))
    assert torch.equal(high.td_target(batch, obs), torch.zeros(60))
    assert not out[torch.arange(60), high.act(obs, explore=False)].any()
    high.allowed = None
    torch.testing.assert_close(high.td_target(batch, obs), torch.full((60,), 8.1))


GOALS = Spec((8,), "float32", SPEC.action, GoalSpec(4, 2))


def test_without_a_slice_subgoals_live_in_the_tasks_goal_space():
    agent = HIRO(HIROConfig(subgoal_range=(1.0, 1.0)), GOALS)
    assert agent.positions == slice(4, 6)
    assert agent.low.spec.obs_shape == (4 + 2 + 2,)  # it does not see what the task wants


@pytest.mark.parametrize(
    ("spec", "changes", "named"),
    [
        (SPEC, {}, "agent.subgoal is not set"),
        (SPEC, {"subgoal": (3, 6), "subgoal_range": (1.0,) * 3}, "agent.subgoal is"),
        (SPEC, {"subgoal": (3, 3)}, "agent.subgoal is"),
        (SPEC, {"subgoal": (0, 1, 2)}, "agent.subgoal is"),
        (GOALS, {"subgoal": (3, 6), "subgoal_range": (1.0,) * 3}, "agent.subgoal is"),
        (SPEC, {"subgoal": (0, 2), "subgoal_range": (1.0,)}, "agent.subgoal_range has 1 numbers"),
        (PICTURE, {"subgoal_range": (1.0,) * 8}, "hiro reads numbers only"),
        (SPEC, {"subgoal": (0, 1), "subgoal_range": (0.0,)}, "agent.subgoal_range is"),
        (SPEC, {"subgoal": (0, 1), "every": 0}, "agent.every is 0"),
        (SPEC, {"subgoal": (0, 1), "candidates": 0}, "agent.candidates is 0"),
        (SPEC, {"subgoal": (0, 1), "hide": (5,)}, "agent.hide names 5"),
        (SPEC, {"subgoal": (0, 1), "low": DQNConfig()}, "continuous: agent.low must be a sac or td3"),
        (ROOMS, {"subgoal": (0, 1)}, "discrete: agent.low must be a dqn"),
        (SPEC, {"subgoal": (0, 1), "high": TD3Config(n_step=3)}, "agent.high.n_step is 3"),
        (SPEC, {"subgoal": (0, 5), "subgoal_range": (1.0,) * 5, "high": DQNConfig(), "bins": 9}, "agent.bins of 9"),
        (replace(SPEC, obs_shape=(3, 4)), {"subgoal": (0, 1)}, "flat (one-dimensional) observations"),
        (SPEC, {"subgoal": (0, 1), "low": TD3Config(gamma=2.0)}, "agent.low.gamma is 2"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(spec, changes, named):
    with pytest.raises(CairnError) as error:
        HIRO(replace(HIROConfig(), **changes), spec)
    assert named in str(error.value)


gym.register("toys/PlaneOf30-v0", "tests.envs.toys:Plane", max_episode_steps=30)

PLANE = Recipe(
    env="toys/PlaneOf30-v0",
    agent=HIROConfig(
        high=TD3Config(hidden=(32, 32), gamma=0.9, updates_per_step=0.5, learning_starts=500, relative_goals=True),
        low=TD3Config(hidden=(32, 32), gamma=0.8, learning_starts=500),
        subgoal_range=(2.0, 2.0),
        every=3,
        near=0.5,
        low_hindsight=0.5,
        high_hindsight=0.5,
    ),
    steps=8_000,
    envs=4,
    target=0.95,
    metric="success",
    eval_every=1_000,
    eval_episodes=40,
    hold=1,
    seed=1,
)


def test_both_levels_learn_together_to_reach_points_far_off():
    """Only it trains both levels until the task is solved."""
    outcome = train(PLANE)
    assert outcome.solved, outcome.score
    player = as_policy(outcome.agent)
    assert player(np.zeros((3, 6), np.float32)).shape == (3, 2)


def test_a_level_is_loaded_and_stays_as_it_was_where_frozen(tmp_path):
    train(replace(PLANE, steps=700), tmp_path / "first")
    frozen = replace(PLANE, steps=700, agent=replace(PLANE.agent, freeze="low"), seed=2)
    from cairn.runs.checkpoint import load_policy

    before = load_policy(tmp_path / "first").agent
    outcome = train(replace(frozen, levels={"low": str(tmp_path / "first")}))
    for old, new in zip(before.low.actor.parameters(), outcome.agent.low.actor.parameters(), strict=True):
        assert torch.equal(old, new)
    assert outcome.agent.updates[1] == 0 and outcome.agent.updates[0] > 0
    with pytest.raises(CairnError, match="holds a td3 policy, and agent.low is sac"):
        other = replace(PLANE.agent, low=SACConfig(hidden=(32, 32)))
        train(replace(PLANE, agent=other, levels={"low": str(tmp_path / "first")}))
    with pytest.raises(CairnError, match="no level 'middle'"):
        train(replace(PLANE, levels={"middle": str(tmp_path / "first")}))
    with pytest.raises(CairnError, match="has none"):
        train(replace(PLANE, agent=SACConfig(), levels={"low": str(tmp_path / "first")}))
    with pytest.raises(CairnError, match=r"agent\.low_hindsight"):
        train(replace(PLANE, hindsight="future"))
