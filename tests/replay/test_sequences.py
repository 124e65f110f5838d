"""Sequences against plain walks: ends, lost steps, cuts, wrap-around, n-step returns, padding, files."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.core.errors import CairnError
from cairn.core.types import Discrete, Spec, Step
from cairn.replay.frames import Frames
from cairn.replay.ring import Ring
from cairn.replay.sequences import SequenceReplay
from tests.replay import test_frames

SPEC = Spec((1,), "float32", Discrete(3))
GAMMA = 0.9
WIDTH = 2


def sequences(capacity, envs, length, burn_in, *, folder=None, **kw):
    draws = torch.Generator().manual_seed(0)
    steps = Ring(capacity, envs, SPEC, generator=draws, gamma=GAMMA, folder=folder, **kw)
    return SequenceReplay(steps, length=length, burn_in=burn_in, width=WIDTH, folder=folder)


class Lived:
    """Random steps that are stored, and what a plain list knows of them."""

    def __init__(self, replay, envs, seed, fillers=False):
        self.replay, self.rng, self.fillers = replay, np.random.default_rng(seed), fillers
        self.rows = []  # of columns by name, each [envs]
        self.obs = self.fresh(envs)
        self.begins = np.ones(envs, bool)

    def fresh(self, envs):
        return self.rng.normal(size=(envs, 1)).astype(np.float32)

    def play(self, count):
        for _ in range(count):
            envs = len(self.obs)
            valid = self.rng.random(envs) > (0.2 if self.fillers else 0)
            terminated, truncated = (self.rng.random((2, envs)) < 0.15) & valid
            reward, action = self.rng.normal(size=envs).astype(np.float32), self.rng.integers(0, 3, envs)
            after = self.fresh(envs)
            state = np.where(self.begins[:, None], 0, self.rng.normal(size=(envs, WIDTH))).astype(np.float32)
            over = terminated | truncated | ~valid
            seen = np.where(over[:, None], self.fresh(envs), after)
            self.replay.add(self.obs, action, Step(seen, after, reward, terminated, truncated, valid), state)
            if self.rows:
                self.rows[-1]["end"] = self.rows[-1]["end"] | ~valid
            row = {"obs": self.obs[:, 0], "action": action, "reward": reward, "next": after[:, 0], "state": state}
            self.rows.append({**row, "term": terminated, "end": over, "valid": valid, "begins": self.begins})
            self.obs, self.begins = seen, over

    def cut(self):
        self.replay.cut()
        if self.rows:
            self.rows[-1]["end"] = np.ones(len(self.obs), bool)
        self.obs, self.begins = self.fresh(len(self.obs)), np.ones(len(self.obs), bool)

    def walk(self, row, env, n):
        """R, its discount and the row whose successor it ends with."""
        total = 0.0
        for i in range(n):
            step = {name: column[env] for name, column in self.rows[row + i].items()}
            total += GAMMA**i * step["reward"]
            if step["end"] or row + i == len(self.rows) - 1 or i == n - 1:
                return total, 0.0 if step["term"] else GAMMA ** (i + 1), row + i


@settings(max_examples=80, deadline=None)
@given(
    envs=st.integers(1, 3),
    more=st.integers(0, 8),
    rows=st.integers(1, 50),
    n=st.integers(1, 4),
    length=st.integers(1, 6),
    burn_in=st.integers(0, 4),
    slack=st.integers(0, 4),
    fillers=st.booleans(),
    cut_at=st.none() | st.integers(0, 40),
    seed=st.integers(0, 99),
)
def test_every_sequence_is_what_was_lived(envs, more, rows, n, length, burn_in, slack, fillers, cut_at, seed):
    live = length + burn_in + more
    replay = sequences(live * envs, envs, length, burn_in, n=n, slack=slack)
    lived = Lived(replay, envs, seed, fillers)
    for row in range(rows):
        lived.play(1)
        if row == cut_at:
            lived.cut()
    first, cell = max(rows - live, 0), replay.draw(40)
    batch = replay.gather(cell)
    wide = burn_in + length + n - 1
    assert batch.obs.shape == (wide, 40, 1) and batch.begins.shape == (wide, 40) and batch.state.shape == (40, WIDTH)
    weight = batch.weight.view(length, 40)
    assert (weight.sum() == 0) or weight.mean().item() == pytest.approx(1)
    for b, (start, env) in enumerate(zip(*np.divmod(cell, envs), strict=True)):
        begin = start - burn_in
        if begin >= 0:
            assert begin >= first  # its state is still stored
            np.testing.assert_array_equal(batch.state[b], lived.rows[begin]["state"][env])
        for t in range(wide):
            if 0 <= begin + t < rows:
                row = {name: column[env] for name, column in lived.rows[begin + t].items()}
                assert batch.obs[t, b, 0] == row["obs"]
                assert t == 0 or not row["valid"] or batch.begins[t, b] == row["begins"]
                assert not row["begins"] or t > 0 or not batch.state[b].any()
        for i in range(length):
            at, row = i * 40 + b, start + i
            learned = 0 <= row < rows and bool(lived.rows[row]["valid"][env])
            assert (weight[i, b] > 0) == learned
            if learned:
                total, discount, last = lived.walk(row, env, n)
                np.testing.assert_allclose(batch.reward[at], total, rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(batch.discount[at], discount, rtol=1e-5)
                assert batch.action[at] == lived.rows[row]["action"][env]
                assert batch.next_obs[at, 0] == lived.rows[last]["next"][env]
                assert batch.after[at] == (last - start) * 40 + b
                assert not batch.begins[burn_in + i + 1 : burn_in + last - start + 1, b].any()  # the same episode


@pytest.mark.parametrize(("rows", "least"), [(9, 0), (60, 30)])
def test_every_step_is_as_likely_to_be_learned_from_as_any_other(rows, least):
    """But for the oldest of a full replay, which burn-in needs and which were learned from while they were younger."""
    replay = sequences(2 * 40, 2, 5, 3)
    Lived(replay, 2, 0).play(rows)
    counts = np.zeros((rows + 5, 2))
    row, env = np.divmod(replay.draw(50_000), 2)
    weight = replay.gather(row * 2 + env).weight.view(5, -1).numpy() > 0
    for i in range(5):
        np.add.at(counts, (np.maximum(row + i, 0), env), weight[i])
    found = counts[least:rows] / counts[least:rows].mean()
    assert not counts[rows:].any() and found.min() > 0.9 and found.max() < 1.1


def test_a_replay_with_little_in_it_is_filled_up_with_steps_that_do_not_count():
    replay = sequences(100, 2, 8, 4)
    Lived(replay, 2, 0).play(2)
    batch = replay.sample(64)
    assert batch.obs.shape == (12, 8, 1) and int((batch.weight > 0).sum()) < 64 == len(batch.weight)
    assert replay.sample(7).state.shape == (1, WIDTH)  # never less than one sequence


def test_stacked_frames_are_sequences_too():
    steps = test_frames.frames(60, 2, n=2)
    replay = SequenceReplay(steps, length=4, burn_in=2, width=WIDTH)

    class Stored:
        def add(self, *told):
            replay.add(*told, np.zeros((2, WIDTH), np.float32))

    player = test_frames.Player(2, 3, 1, np.random.default_rng(0))
    player.play([Stored()], 50)
    cell = replay.draw(16)
    batch = replay.gather(cell)
    assert isinstance(steps, Frames) and batch.obs.shape == (7, 16, 3, 3, 2)
    for b, (start, env) in enumerate(zip(*np.divmod(cell, 2), strict=True)):
        for i in range(4):
            if batch.weight[i * 16 + b] > 0:
                step, _, _, after = test_frames.expected(player.history[env], start + i, 2, 49)
                np.testing.assert_array_equal(batch.obs[2 + i, b], step["obs"])
                np.testing.assert_array_equal(batch.next_obs[i * 16 + b], after)


def test_what_a_checkpoint_needs_survives_what_came_after(tmp_path):
    replay = sequences(40, 2, 4, 2, n=2, slack=5, folder=tmp_path)
    lived = Lived(replay, 2, 0)
    lived.play(33)
    lived.cut()  # as before every save: the environments are reset
    saved = replay.save()
    replay.generator.manual_seed(7)
    before = replay.sample(32)
    lived.play(5)  # no more than the slack
    again = sequences(40, 2, 4, 2, n=2, slack=5, folder=tmp_path)
    again.load(saved)
    again.generator.manual_seed(7)
    after = again.sample(32)
    for name in before.__dict__:
        assert torch.equal(getattr(before, name), getattr(after, name)), name
    again.state[20] += 1
    with pytest.raises(CairnError, match=r"state\.bin: its checksum differs"):
        sequences(40, 2, 4, 2, n=2, slack=5, folder=tmp_path).load(saved)
