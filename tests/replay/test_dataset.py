"""A data set that only grows."""

import numpy as np
import pytest
import torch

from cairn.core.errors import CairnError
from cairn.replay.dataset import FIRST, Dataset

FIELDS = {"obs": ((2,), "float32"), "action": ((), "int64")}


def made(folder=None):
    return Dataset(FIELDS, generator=torch.Generator().manual_seed(0), folder=folder)


def rows(start, count):
    at = np.arange(start, start + count)
    return {"obs": np.stack([at, -at], 1).astype(np.float32), "action": at}


@pytest.mark.parametrize("mapped", [False, True])
def test_nothing_is_lost_when_it_grows(mapped, tmp_path):
    data = made(tmp_path if mapped else None)
    for start in range(0, 3 * FIRST, 1000):
        data.add(**rows(start, 1000))
    assert len(data) == 13_000 and data.room >= 13_000
    np.testing.assert_array_equal(data.storage.arrays["action"][:13_000], np.arange(13_000))
    obs, action = data.sample(500)
    assert torch.equal(obs[:, 0], action.float()) and torch.equal(obs[:, 1], -action.float())
    assert action.max() > FIRST  # the new as well as the old


def test_a_checkpoint_is_a_count(tmp_path):
    data = made(tmp_path)
    data.add(**rows(0, 100))
    saved = data.save()
    data.add(**rows(100, 2 * FIRST))  # after the checkpoint, and past the first files
    again = made(tmp_path)
    again.load(saved)
    assert len(again) == 100
    again.add(**rows(100, 50))
    np.testing.assert_array_equal(again.storage.arrays["action"][:150], np.arange(150))


def test_missing_files_are_noticed(tmp_path):
    data = made(tmp_path)
    data.add(**rows(0, 100))
    saved = data.save()
    (tmp_path / "action.bin").unlink()
    for _ in range(2):  # nothing was made in its place
        with pytest.raises(CairnError, match="action.bin"):
            made(tmp_path).load(saved)


def test_an_empty_one_cannot_be_sampled():
    with pytest.raises(CairnError, match="nothing to learn from"):
        made().sample(4)
