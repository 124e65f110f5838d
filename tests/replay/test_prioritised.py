"""Prioritised replay: by how much, of what, with which weights, and to the bit after a kill."""

import numpy as np
import pytest
import torch

from cairn.core.errors import CairnError
from cairn.core.types import Discrete, Spec, Step
from cairn.replay.frames import Frames
from cairn.replay.prioritised import LEAST, Prioritised
from cairn.replay.ring import Ring
from tests.replay.test_frames import Player, frames


def ring(capacity, envs, **kw):
    spec = Spec((1,), "float32", Discrete(3))
    return Ring(capacity, envs, spec, generator=torch.Generator().manual_seed(0), gamma=0.9, **kw)


def fill(replay, rows, envs=2, start=0, valid=None):
    """Row r of environment e has the action 100 r + e, so that a batch tells which cells it is of."""
    for row in range(start, start + rows):
        obs, no = np.zeros((envs, 1), np.float32), np.zeros(envs, bool)
        there = ~no if valid is None else valid[row - start]
        replay.add(obs, 100 * row + np.arange(envs), Step(obs, obs, np.ones(envs, np.float32), no, no, there))


def shares(replay, batches=400, batch=50):
    """How often each action is drawn, with nothing told in between."""
    drawn = np.concatenate([replay.sample(batch).action.numpy() for _ in range(batches)])
    action, count = np.unique(drawn, return_counts=True)
    return dict(zip(action.tolist(), (count / count.sum()).tolist(), strict=True))


def told(replay, errors):
    """Tell the errors of cells by their actions: a batch is pretended to have held them."""
    action = np.array(list(errors))
    replay.drawn = action // 100 * replay.ring.num_envs + action % 100
    replay.update_priorities(torch.tensor(list(errors.values()), dtype=torch.float32))


def test_what_is_new_is_drawn_evenly_and_what_was_told_by_its_error():
    replay = Prioritised(ring(8, 2), alpha=0.5)
    fill(replay, 3)
    assert shares(replay) == pytest.approx(dict.fromkeys([0, 1, 100, 101, 200, 201], 1 / 6), abs=0.01)
    told(replay, {0: 0.04, 1: 0.25, 100: 0.0, 101: 0.01, 200: 0.36, 201: 0.16})
    found, sum_ = shares(replay), 0.2 + 0.5 + 0.1 + 0.6 + 0.4
    assert found == pytest.approx(
        {0: 0.2 / sum_, 1: 0.5 / sum_, 100: LEAST**0.5 / sum_, 101: 0.1 / sum_, 200: 0.6 / sum_, 201: 0.4 / sum_},
        abs=0.01,
    )


def test_weights_make_an_even_mean_of_an_uneven_draw():
    replay = Prioritised(ring(8, 2), alpha=1.0)
    fill(replay, 3)
    told(replay, {0: 1.0, 1: 2.0, 100: 3.0, 101: 4.0, 200: 5.0, 201: 6.0})
    batch = replay.sample(20_000)
    total = 21 + 6 * LEAST
    for action, weight in zip(batch.action.tolist()[:200], batch.weight.tolist()[:200], strict=True):
        error = {0: 1.0, 1: 2.0, 100: 3.0, 101: 4.0, 200: 5.0, 201: 6.0}[action]
        assert weight == pytest.approx(total / (6 * (error + LEAST)))
    even = (batch.weight * batch.action).mean()
    assert even == pytest.approx((0 + 1 + 100 + 101 + 200 + 201) / 6, rel=0.02)


def test_the_newest_have_the_highest_priority_so_far_and_the_oldest_go():
    replay = Prioritised(ring(8, 2), alpha=1.0)
    fill(replay, 4)
    told(replay, {0: 7.0})
    replay.sample(1)
    assert replay.peak == pytest.approx(7.0, rel=1e-5)
    fill(replay, 2, start=4)
    found = shares(replay)
    assert set(found) <= {200, 201, 300, 301, 400, 401, 500, 501}
    assert found[400] / found[300] == pytest.approx(7.0, rel=0.15)
    told(replay, {200: 3.0})
    fill(replay, 4, start=6)  # row 2 is gone by the time its error is read
    assert set(shares(replay)) == {100 * r + e for r in (6, 7, 8, 9) for e in (0, 1)}


def test_what_never_happened_is_never_drawn():
    replay = Prioritised(ring(8, 2), alpha=0.6)
    fill(replay, 3, valid=np.array([[True, False], [False, False], [True, True]]))
    assert set(shares(replay, 20)) == {0, 200, 201}
    empty = Prioritised(ring(8, 2), alpha=0.6)
    fill(empty, 1, valid=np.zeros((1, 2), bool))
    with pytest.raises(CairnError, match="no valid transition"):
        empty.sample(4)


def test_frames_that_were_overwritten_are_not_drawn():
    replay = Prioritised(frames(60, 2), alpha=0.6)
    player = Player(2, 3, 1, np.random.default_rng(0), length=1)  # short episodes: frames run out before rows do
    for _ in range(10):
        player.play([replay], 13)
        batch = replay.sample(64)
        replay.update_priorities(torch.rand(64))
        assert replay.first == replay.replay.first > replay.ring.first or replay.ring.rows < 30
        for b, cell in enumerate(replay.drawn.tolist()):
            row, env = divmod(cell, 2)
            step = next(s for s in player.history[env] if s["row"] == row)
            np.testing.assert_array_equal(batch.obs[b], step["obs"])
            assert batch.action[b] == step["action"]


@pytest.mark.parametrize("kind", [Ring, Frames])
def test_what_a_checkpoint_needs_survives_what_came_after(tmp_path, kind):
    def made():
        return Prioritised(frames(20, 2, slack=9, kind=kind, folder=tmp_path), alpha=0.7, folder=tmp_path)

    def learn(replay, times):
        for _ in range(times):
            replay.update_priorities(replay.sample(16).reward.abs())

    replay, player = made(), Player(2, 3, 1, np.random.default_rng(1), 20)
    for _ in range(3):  # the checkpoint is the third of its kind
        player.play([replay], 12)
        learn(replay, 5)
        replay.cut()
        player.cut()
        saved = replay.save()
    replay.generator.manual_seed(7)
    before = [replay.sample(32) for _ in range(2)]
    player.play([replay], 9)  # no more than the slack
    learn(replay, 5)
    replay.save()  # of a checkpoint that is never finished
    again = made()
    again.load(saved)
    again.generator.manual_seed(7)
    after = [again.sample(32) for _ in range(2)]
    for a, b in zip(before, after, strict=True):
        for name in a.__dict__:
            assert torch.equal(getattr(a, name), getattr(b, name)), name
    again.storage.arrays["priorities"][:] = 3.0
    with pytest.raises(CairnError, match="priorities of this checkpoint"):
        made().load(saved)
