"""Compressed frames against the same frames as they are: batches, budgets, checkpoints."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.core.errors import CairnError
from cairn.core.types import Discrete, Spec
from cairn.replay.frames import Frames
from cairn.replay.packed_frames import Packed
from tests.replay.test_frames import Player, expected, frames


def store(slots=10, each=100, live=10, slack=0, folder=None, shape=(20, 20)):
    return Packed(slots, shape, "uint8", folder, each=each, live=live, slack=slack)


def picture(seed, noise=False, shape=(20, 20)):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, shape, np.uint8) if noise else np.full(shape, seed % 256, np.uint8)


def test_frames_come_back_as_they_were_until_they_are_overwritten():
    packed, last = store(slots=50, live=50), {}
    for k in range(400):
        slot = k % 50
        packed.write(np.array([slot]), picture(k, noise=k % 3 == 0)[None])
        last[slot] = picture(k, noise=k % 3 == 0)
        there = [s for s in last if packed.holds(np.array([s]))[0]]
        assert slot in there and len(there) >= min(5, k + 1)
        found = packed.read(np.array([there, there]))
        assert found.shape == (2, len(there), 20, 20)
        for row in found:
            for s, one in zip(there, row, strict=True):
                np.testing.assert_array_equal(one, last[s])
    assert packed.written > 3 * packed.size  # it went round more than once


@settings(max_examples=60, deadline=None)
@given(
    envs=st.integers(1, 3),
    rows=st.integers(1, 60),
    n=st.integers(1, 3),
    each=st.sampled_from([6, 17, 40]),
    seed=st.integers(0, 99),
)
def test_whatever_the_budget_batches_are_true(envs, rows, n, each, seed):
    replay = frames(20 * envs, envs, n=n, frame_bytes=each)
    player = Player(envs, 3, 1, np.random.default_rng(seed), length=8, fillers=seed % 2 == 1)
    player.play([replay], rows)
    lived = {(e, s["row"]) for e in range(envs) for s in player.history[e] if s["row"] >= replay.first}
    if not lived or replay.first == replay.ring.rows:
        return
    cell = replay.ring.draw(30, newest=rows - replay.first)
    batch = replay.gather(cell)
    for b, c in enumerate(cell.tolist()):
        row, env = divmod(c, envs)
        start, _, _, after = expected(player.history[env], row, n, rows - 1)
        np.testing.assert_array_equal(batch.obs[b], start["obs"])
        np.testing.assert_array_equal(batch.next_obs[b], after)


def test_with_room_enough_nothing_is_kept_less_long():
    plain, packed = frames(300, 3, n=2), frames(300, 3, n=2, frame_bytes=40)
    Player(3, 3, 1, np.random.default_rng(0), length=200).play([plain, packed], 400)
    assert plain.first == packed.first
    a, b = plain.sample(64), packed.sample(64)
    for name in a.__dict__:
        assert torch.equal(getattr(a, name), getattr(b, name)), name


def test_what_a_checkpoint_needs_survives_what_came_after(tmp_path):
    def made():
        return frames(40, 2, slack=9, folder=tmp_path, frame_bytes=40)

    replay, player = made(), Player(2, 3, 1, np.random.default_rng(1), 30)
    for _ in range(4):
        player.play([replay], 9)
        replay.cut()
        player.cut()
        saved = replay.save()
    replay.generator.manual_seed(7)
    before = replay.sample(64)
    player.play([replay], 9)
    again = made()
    again.load(saved)
    again.generator.manual_seed(7)
    after = again.sample(64)
    for name in before.__dict__:
        assert torch.equal(getattr(before, name), getattr(after, name)), name


def test_frames_that_would_overwrite_a_checkpoint_are_refused(tmp_path):
    packed = store(slots=100, each=30, live=100, slack=20, folder=tmp_path)
    packed.save()
    packed.save()
    with pytest.raises(CairnError, match="agent.frame_bytes is 30, and the compressed frames are larger"):
        for k in range(100):
            packed.write(np.array([k]), picture(k, noise=True)[None])
    assert packed.written <= packed.size - packed.live


def test_it_takes_what_is_said():
    spec = Spec((4, 84, 84), "uint8", Discrete(6), stack=4)
    replay = Frames(64_000, 8, spec, generator=torch.Generator(), gamma=0.99, frame_bytes=1_000)
    stores = [replay.ring.storage, replay.store.storage]
    taken = sum(a.nbytes for s in stores for name, a in s.arrays.items() if name != "final")
    assert taken / 64_000 == pytest.approx(Frames.bytes_each(spec, 1_000), rel=0.02) and taken / 64_000 < 1_100


def test_a_compressed_replay_reserves_no_room_for_whole_frames(tmp_path):
    spec = Spec((4, 84, 84), "uint8", Discrete(6), stack=4)
    Frames(2_000, 2, spec, generator=torch.Generator(), gamma=0.99, frame_bytes=500, folder=tmp_path)
    assert not (tmp_path / "frames.bin").exists() and (tmp_path / "packed.bin").exists()
