"""The ring against plain lists: wrap-around, n-step walks, fillers, cuts, mapped files."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.core.types import Discrete, Spec, Step
from cairn.replay.ring import Ring

SPEC = Spec((1,), "float32", Discrete(3))
GAMMA = 0.9


def ring(capacity, envs, **kw):
    return Ring(capacity, envs, SPEC, generator=torch.Generator().manual_seed(0), gamma=GAMMA, **kw)


def fill(r, rows, rng, fillers=False):
    """Random rows; returns what was stored as history[env] = list of dicts in order (fillers left out)."""
    history = [[] for _ in range(r.num_envs)]
    fresh = lambda k: (1000 * np.arange(r.num_envs) + k).astype(np.float32)[:, None]  # noqa: E731
    obs = fresh(0)
    for k in range(rows):
        valid = rng.random(r.num_envs) > (0.2 if fillers else 0)
        terminated, truncated = rng.random(r.num_envs) < 0.15, rng.random(r.num_envs) < 0.15
        reward = rng.normal(size=r.num_envs).astype(np.float32)
        after = fresh(k + 0.5)
        action = rng.integers(0, 3, r.num_envs)
        apart = (terminated | truncated | ~valid)[:, None]
        seen = np.where(apart, fresh(k + 1), after)  # a new episode, or the successor itself
        r.add(obs, action, Step(seen, after, reward, terminated & valid, truncated & valid, valid))
        for e in range(r.num_envs):
            if valid[e]:
                history[e].append(
                    dict(k=k, obs=obs[e, 0], action=action[e], reward=reward[e], next=after[e, 0], term=terminated[e])
                )
                history[e][-1]["end"] = bool(terminated[e] or truncated[e])
            elif history[e]:
                history[e][-1]["end"] = True  # what was open is cut by a lost step
        obs = seen
    return history


def expected(history, e, k, n, newest):
    """The n-step transition that starts at row k of environment e, by a plain walk."""
    at = next(i for i, row in enumerate(history[e]) if row["k"] == k)
    total, i = 0.0, 0
    while True:
        row = history[e][at + i]
        total += GAMMA**i * row["reward"]
        i += 1
        if row["end"] or i == n or row["k"] == newest:
            return total, 0.0 if row["term"] else GAMMA**i, row["next"]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 5),
    st.integers(0, 99),
)
def test_every_sample_is_a_true_transition(envs, live, rows, n, fillers, slack, seed):
    r = ring(live * envs, envs, n=n, slack=slack)
    history = fill(r, rows, np.random.default_rng(seed), fillers)
    first = max(rows - live, 0)
    stored = {(e, row["k"]) for e in range(envs) for row in history[e] if row["k"] >= first}
    if not stored:
        return
    cell = r.draw(64)
    row, env = cell // envs, cell % envs
    assert {(int(e), int(k)) for e, k in zip(env, row, strict=True)} <= stored
    batch = r.gather(cell)
    for b, (k, e) in enumerate(zip(row.tolist(), env.tolist(), strict=True)):
        total, discount, nxt = expected(history, e, k, n, rows - 1)
        assert batch.obs[b, 0] == next(row["obs"] for row in history[e] if row["k"] == k)
        np.testing.assert_allclose(batch.reward[b], total, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(batch.discount[b], discount, rtol=1e-5)
        assert batch.next_obs[b, 0] == nxt


def test_sampling_is_uniform_over_what_is_stored():
    r = ring(10, 2)
    fill(r, 23, np.random.default_rng(0))
    counts = np.bincount(r.draw(20000) - 18 * 2, minlength=10)
    assert len(counts) == 10 and counts.min() > 1700 and counts.max() < 2300


def test_cut_ends_what_is_open():
    r = ring(10, 1, n=3)
    for k in range(4):
        o = np.array([[float(k)]], np.float32)
        no = np.zeros(1, bool)
        r.add(o, np.zeros(1, np.int64), Step(o, o + 1, np.ones(1, np.float32), no, no, ~no))
        if k == 1:
            r.cut()
    batch = r.gather(np.array([0]))
    assert batch.reward.item() == pytest.approx(1 + GAMMA) and batch.next_obs.item() == 2.0


def test_what_a_checkpoint_needs_survives_what_came_after(tmp_path):
    """After a checkpoint more rows are written, the process dies, and a new ring reads the old state."""
    rng = np.random.default_rng(0)
    r = ring(8, 2, n=2, slack=5, folder=tmp_path)
    fill(r, 11, rng)
    r.cut()  # as before every save: the environments are reset
    saved = r.save()
    r.generator.manual_seed(7)
    before = r.sample(32)
    fill(r, 5, rng)  # no more than the slack
    again = ring(8, 2, n=2, slack=5, folder=tmp_path)
    again.load(saved)
    again.generator.manual_seed(7)
    after = again.sample(32)
    for name in before.__dict__:
        assert torch.equal(getattr(before, name), getattr(after, name)), name
