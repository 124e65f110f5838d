"""Frames stored once against lists of whole stacks: beginnings, wrap-around, n-step walks, fillers, cuts, files."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.core.types import Discrete, Spec, Step
from cairn.replay.frames import Frames
from cairn.replay.packed_frames import Mirrored, Plain
from cairn.replay.ring import Ring

GAMMA = 0.9


def spec(stack, channels=1):
    return Spec((stack * channels, 3, 2), "uint8", Discrete(3), stack=stack)


def frames(capacity, envs, stack=3, channels=1, kind=Frames, **kw):
    generator = torch.Generator().manual_seed(0)
    return kind(capacity, envs, spec(stack, channels), generator=generator, gamma=GAMMA, **kw)


class Player:
    """Environments that show random frames, stacked as they must be, and remember every transition whole."""

    def __init__(self, envs, stack, channels, rng, length=8, fillers=False):
        self.rng, self.length, self.fillers, self.channels = rng, length, fillers, channels
        self.obs = np.zeros((envs, stack * channels, 3, 2), np.uint8)
        self.history = [[] for _ in range(envs)]
        self.row = 0
        self.begin(np.ones(envs, bool))

    def picture(self):
        return self.rng.integers(1, 256, (self.channels, 3, 2), np.uint8)

    def begin(self, which):
        for e in np.flatnonzero(which):
            self.obs[e] = 0
            self.obs[e, -self.channels :] = self.picture()

    def cut(self):
        for rows in self.history:
            if rows:
                rows[-1]["end"] = True
        self.begin(np.ones(len(self.obs), bool))

    def play(self, replays, rows):
        envs = len(self.obs)
        for _ in range(rows):
            valid = self.rng.random(envs) > (0.2 if self.fillers else 0)
            terminated, truncated = (self.rng.random((2, envs)) < 0.5 / self.length) & valid
            reward = self.rng.normal(size=envs).astype(np.float32)
            action = self.rng.integers(0, 3, envs)
            before, after = self.obs.copy(), self.obs.copy()
            for e in range(envs):
                after[e, : -self.channels] = before[e, self.channels :]
                after[e, -self.channels :] = self.picture()
            self.obs = after.copy()
            self.begin(terminated | truncated | ~valid)
            for replay in replays:
                replay.add(before, action, Step(self.obs.copy(), after, reward, terminated, truncated, valid))
            for e in range(envs):
                if valid[e]:
                    step = dict(row=self.row, obs=before[e], action=action[e], reward=reward[e], next=after[e])
                    step |= dict(term=terminated[e], end=bool(terminated[e] or truncated[e]))
                    self.history[e].append(step)
                elif self.history[e]:
                    self.history[e][-1]["end"] = True
            self.row += 1


def expected(history, row, n, newest):
    """The n-step transition that starts at this row, by a plain walk."""
    at = next(i for i, step in enumerate(history) if step["row"] == row)
    total = 0.0
    for i in range(n):
        step = history[at + i]
        total += GAMMA**i * step["reward"]
        if step["end"] or step["row"] == newest or i == n - 1:
            return history[at], total, 0.0 if step["term"] else GAMMA ** (i + 1), step["next"]


@settings(max_examples=150, deadline=None)
@given(
    envs=st.integers(1, 4),
    live=st.integers(1, 20),
    rows=st.integers(1, 60),
    n=st.integers(1, 4),
    stack=st.integers(2, 4),
    channels=st.integers(1, 2),
    slack=st.integers(0, 4),
    length=st.sampled_from([1, 3, 10, 100]),
    fillers=st.booleans(),
    cut_at=st.none() | st.integers(1, 50),
    seed=st.integers(0, 99),
)
def test_every_sample_is_the_transition_that_was_lived(
    envs, live, rows, n, stack, channels, slack, length, fillers, cut_at, seed
):
    replay = frames(live * envs, envs, stack, channels, n=n, slack=slack)
    player = Player(envs, stack, channels, np.random.default_rng(seed), length, fillers)
    for row in range(rows):
        player.play([replay], 1)
        if row == cut_at:
            replay.cut()
            player.cut()
    assert max(rows - live, 0) <= replay.first < rows
    if length >= 100 and not fillers and cut_at is None and replay.ring.finals == 0:
        assert replay.first == max(rows - live, 0)
    lived = {(e, s["row"]) for e in range(envs) for s in player.history[e] if s["row"] >= replay.first}
    if not lived:
        return
    cell = replay.ring.draw(40, newest=rows - replay.first)
    batch = replay.gather(cell)
    for b, c in enumerate(cell.tolist()):
        row, env = divmod(c, envs)
        assert (env, row) in lived
        start, total, discount, after = expected(player.history[env], row, n, rows - 1)
        np.testing.assert_array_equal(batch.obs[b], start["obs"])
        np.testing.assert_array_equal(batch.next_obs[b], after)
        assert batch.action[b] == start["action"]
        np.testing.assert_allclose(batch.reward[b], total, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(batch.discount[b], discount, rtol=1e-5)


def test_the_same_batches_as_a_ring_of_whole_stacks():
    once, whole = frames(900, 3, n=3), frames(900, 3, n=3, kind=Ring)
    player = Player(3, 3, 1, np.random.default_rng(0), length=200)
    player.play([once, whole], 800)
    for _ in range(5):
        a, b = once.sample(32), whole.sample(32)
        for name in a.__dict__:
            assert torch.equal(getattr(a, name), getattr(b, name)), name


@pytest.mark.parametrize("length", [1, 200])
def test_what_a_checkpoint_needs_survives_what_came_after(tmp_path, length):
    """After a checkpoint more rows are written, the process dies, and a new replay reads the old state and goes on."""
    replay = frames(20, 2, n=2, slack=9, folder=tmp_path / "a")
    player = Player(2, 3, 1, np.random.default_rng(1), length)
    player.play([replay], 37)
    replay.cut()
    player.cut()
    saved = replay.save()
    replay.generator.manual_seed(7)
    before = replay.sample(64)
    player.play([replay], 9)  # no more than the slack
    again = frames(20, 2, n=2, slack=9, folder=tmp_path / "a")
    again.load(saved)
    again.generator.manual_seed(7)
    after = again.sample(64)
    for name in before.__dict__:
        assert torch.equal(getattr(before, name), getattr(after, name)), name
    alone = frames(20, 2, n=2, slack=9)  # what is written from here on is what an undisturbed run writes
    one, two = (Player(2, 3, 1, np.random.default_rng(1), length) for _ in range(2))
    for player, replay in ((one, alone), (two, again)):
        player.play([alone] if replay is alone else [], 37)
        if replay is alone:
            alone.cut()
        player.cut()
        player.play([replay], 25)
    assert again.first == alone.first and (again.written == alone.written).all()
    cell = alone.ring.draw(64, newest=alone.ring.rows - alone.first)
    for name in before.__dict__:
        assert torch.equal(getattr(alone.gather(cell), name), getattr(again.gather(cell), name)), name


def test_a_transition_takes_little_more_than_a_frame():
    shape = Spec((4, 84, 84), "uint8", Discrete(6), stack=4)
    replay = Frames(64_000, 8, shape, generator=torch.Generator(), gamma=0.99)
    arrays = [*replay.ring.storage.arrays.values(), *replay.store.storage.arrays.values()]
    assert sum(a.nbytes for a in arrays) / 64_000 < 7_300  # a frame is 7,056


def test_frames_mirrored_on_a_device_are_the_same_and_come_back_from_files(tmp_path):
    plain, mirrored = frames(40, 2), frames(40, 2, device="cpu:0", folder=tmp_path)
    assert type(plain.store) is Plain and isinstance(mirrored.store, Mirrored)
    player = Player(2, 3, 1, np.random.default_rng(0))
    player.play([plain, mirrored], 90)
    cells = plain.ring.draw(64, newest=len(plain) // 2)
    want, got = plain.gather(cells), mirrored.gather(cells)
    assert torch.equal(want.obs, got.obs) and torch.equal(want.next_obs, got.next_obs)
    mirrored.store.frames[:] = 0  # what is read is what lies on the device
    assert torch.equal(mirrored.gather(cells).obs, want.obs)

    for replay in (plain, mirrored):
        replay.cut()
    player.cut()
    player.play([plain, mirrored], 60)
    for replay in (plain, mirrored):
        replay.cut()
    saved = mirrored.save()
    again = frames(40, 2, device="cpu:0", folder=tmp_path)
    again.load(saved)
    cells = plain.ring.draw(64, newest=10)
    assert torch.equal(plain.gather(cells).obs, again.gather(cells).obs)
