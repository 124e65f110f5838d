"""DQN with memory: a sequence gives the values that were known when acting, and targets are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cairn
from cairn.algorithms.dqn import DQN, DQNConfig
from cairn.algorithms.hiro.agent import HIRO, HIROConfig
from cairn.algorithms.off_policy import make_sequences
from cairn.core.errors import CairnError
from cairn.core.losses import huber_td, quantile_huber
from cairn.core.types import Box, Discrete, GoalSpec, Spec, Step
from cairn.recipes.recipe import Recipe
from cairn.replay.protocol import ReplayPlan
from cairn.runs.parts import check

KINDS = ["gru", "lstm"]
SPEC = Spec((3,), "float32", Discrete(2))
MASKED = Spec((5,), "float32", Discrete(2), masked=2)  # three numbers, and which of the two actions are allowed
ENVS, ROWS, GAMMA = 2, 40, 0.9


def made(memory="gru", spec=SPEC, **more):
    cfg = {"hidden": (8,), "memory_size": 4, "gamma": GAMMA, "sequence": 6, "burn_in": 3, "batch_size": 48, **more}
    return DQN(DQNConfig(memory=memory, **cfg), spec, seed=1)


def replay_of(agent, envs=ENVS):
    draws = torch.Generator().manual_seed(0)
    return make_sequences(agent, ReplayPlan(agent.spec, envs, draws, 0, None, "cpu", "off", 4, None))


def shown(rng, spec, count):
    """Random observations; where there are masks, one or both actions are allowed."""
    obs = rng.normal(size=(count, spec.obs_shape[0])).astype(np.float32)
    if spec.masked:
        obs[:, -2:] = [[(1, 1), (1, 0), (0, 1)][i] for i in rng.integers(0, 3, count)]
    return obs


def lived(agent, replay, ends=0.15):
    """Act for ROWS steps; what was known of each: Q of both networks, and after its true successor."""
    rng, memory, obs = np.random.default_rng(2), agent.memory(ENVS), shown(np.random.default_rng(1), agent.spec, ENVS)
    rows = []
    for _ in range(ROWS):
        before = memory.state
        with torch.no_grad():
            q, state = agent.q.step(agent.encoder(torch.from_numpy(obs)), before)
            theirs = agent.target.step(agent.encoder(torch.from_numpy(obs)), before)[1]
        action = agent.act(torch.from_numpy(obs), explore=True, memory=memory).numpy()
        assert torch.equal(memory.state, state)
        terminated, truncated = rng.random((2, ENVS)) < ends
        reward, after = rng.normal(size=ENVS).astype(np.float32), shown(rng, agent.spec, ENVS)
        over = terminated | truncated
        seen = np.where(over[:, None], shown(rng, agent.spec, ENVS), after)
        step = Step(seen, after, reward, terminated, truncated, np.ones(ENVS, bool))
        replay.add(obs, action, step, memory.recorded())
        memory.forget(over)
        told = {"q": q, "state": state, "theirs": theirs, "action": action, "reward": reward, "after": after}
        rows.append({**told, "term": terminated, "over": over})
        obs = seen
    return rows


def target_of(agent, rows, row, env, n):
    """y of one step, by a plain walk."""
    total = 0.0
    for i in range(n):
        step = rows[row + i]
        total += GAMMA**i * step["reward"][env]
        if step["over"][env] or row + i == ROWS - 1 or i == n - 1:
            break
    if step["term"][env]:
        return total
    after = torch.from_numpy(step["after"][env : env + 1])
    q = agent.q.step(agent.encoder(after), step["state"][env : env + 1])[0]
    judged = agent.target.step(agent.encoder(after), step["theirs"][env : env + 1])[0]
    if agent.spec.masked:
        q = q.masked_fill(after[:, -2:] == 0, -torch.inf)
    return total + GAMMA ** (i + 1) * float(judged[0, q.argmax()])


@pytest.mark.parametrize("memory", KINDS)
@pytest.mark.parametrize(("n", "spec", "burn_in"), [(1, SPEC, 3), (3, SPEC, 3), (2, MASKED, 0)])
def test_the_loss_is_that_of_what_was_known_when_acting(memory, n, spec, burn_in):
    """Stored states and burn-in change nothing while the weights are those that acted."""
    agent = made(memory, spec, n_step=n, burn_in=burn_in)
    with torch.no_grad():
        for _, weight in agent.target.head.named_parameters():
            weight += 0.1  # the target's values differ from Q's, its states do not
    replay = replay_of(agent)
    rows = lived(agent, replay)
    cell = replay.draw(8)
    batch = replay.gather(cell)
    q, y = [], []
    for i in range(6):
        for start, env in zip(*np.divmod(cell, ENVS), strict=True):
            if 0 <= start + i < ROWS:
                step = rows[start + i]
                q.append(step["q"][env, step["action"][env]])
                with torch.no_grad():
                    y.append(target_of(agent, rows, start + i, env, n))
    assert (batch.weight > 0).sum() == len(q) and batch.begins.any()
    want = huber_td(torch.stack(q), torch.tensor(y))
    torch.testing.assert_close(agent.update(batch)["train/loss"], want, rtol=1e-4, atol=1e-5)


def test_no_gradient_reaches_another_episode_or_the_burn_in():
    agent = made(sequence=6, burn_in=3)
    replay = replay_of(agent)
    lived(agent, replay)
    batch = replay.gather(np.arange(16, 48))  # whole sequences
    batch.obs.requires_grad_()
    known, after = agent.q.unroll(batch, 3)
    assert not after.requires_grad
    count = len(batch.state)
    for i in range(6):
        reached = torch.autograd.grad(known[i * count : (i + 1) * count].sum(), batch.obs, retain_graph=True)[0]
        reached = reached.abs().sum(-1) > 0  # [T, B]
        for b in range(count):
            begun = max([t for t in range(3, 4 + i) if batch.begins[t, b]], default=3)
            assert reached[:, b].tolist() == [begun <= t <= 3 + i for t in range(9)]


def test_burn_in_replaces_a_state_of_old_weights():
    agent = made(burn_in=0)
    replay = replay_of(agent)
    lived(agent, replay, ends=0)
    with torch.no_grad():
        for weight in agent.q.core.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    row, found = 20, {}
    for burn_in in (0, 3, 12):
        replay.burn_in = burn_in
        found[burn_in] = agent.q.unroll(replay.gather(np.array([row * ENVS])), burn_in)[0][0, 3:]
    state = agent.memory(1).state  # what these weights know since the episode began
    for t in range(row + 1):
        state = agent.q.step(torch.from_numpy(replay.steps.observations(np.array([t * ENVS]))), state)[1]
    errors = [float((one - state[0]).detach().abs().max()) for one in found.values()]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


@pytest.mark.parametrize("more", [{"quantiles": 5}, {"dueling": True}, {"double": False}, {"normalise": True}])
def test_options_work_with_memory(more):
    agent = made(**more)
    replay = replay_of(agent)
    rng, memory, no = np.random.default_rng(0), agent.memory(ENVS), np.zeros(ENVS, bool)
    for _ in range(30):
        obs = 5 + 3 * shown(rng, SPEC, ENVS)
        action = agent.act(torch.from_numpy(obs), explore=True, memory=memory).numpy()
        replay.add(obs, action, Step(obs, obs, np.ones(ENVS, np.float32), no, no, ~no), memory.recorded())
    batch = replay.sample(48)
    before = agent.opt.flat.data.clone()
    assert torch.isfinite(agent.update(batch)["train/loss"]) and not torch.equal(before, agent.opt.flat.data)
    assert float(agent.update(batch)["train/dead_units"]()) <= 1
    if "normalise" in more:
        assert agent.encoder.normalizer.mean.mean() == pytest.approx(5, abs=1)
    if "quantiles" in more:
        known, read = agent._unrolled(batch)
        z = agent.q.head.quantiles(known.obs).detach()[torch.arange(48), batch.action]
        target = agent.td_target(known, batch.next_obs, read)
        want = quantile_huber(z, target, batch.weight)
        torch.testing.assert_close(agent.update(batch)["train/loss"], want, rtol=1e-3, atol=1e-4)


def test_what_memory_is_not_combined_with_is_refused():
    with pytest.raises(CairnError, match=r"agent.priority is 0.6; with agent.memory gru it must be 0"):
        made(priority=0.6)
    with pytest.raises(CairnError, match="hindsight works without memory only"):
        check(Recipe("cairn/BitFlip-v0", DQNConfig(memory="gru"), steps=10, hindsight="future"))
    with pytest.raises(CairnError, match=r"memory is gru; it works with a network of your own, not with critic"):
        cairn.DQN("CartPole-v1", memory="gru", critic=lambda spec: None)
    assert len(replay_of(made(capacity=1), envs=5).ring.arrays["reward"]) > 9  # at least a sequence each
    goal = Spec((7,), "float32", Box((2,), (-1.0, -1.0), (1.0, 1.0)), GoalSpec(3, 2))
    with pytest.raises(CairnError, match=r"agent.high.memory is gru, and hiro has no memory"):
        HIRO(HIROConfig(high=DQNConfig(memory="gru"), subgoal_range=(1.0, 1.0)), goal)
    assert not made().judges_actions() and made("none").judges_actions()
