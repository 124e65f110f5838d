"""Checksums of a replay: what a checkpoint needs is known, whatever is written after it."""

import numpy as np
import pytest

from cairn.core.errors import CairnError
from cairn.replay import checksums as module
from cairn.replay.checksums import Sums


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 5 * 8)  # five items


def write(array, low, high):
    for i in range(low, high):
        array[i % len(array)] = i + 1


def test_any_altered_item_that_is_needed_is_noticed_and_no_other():
    size, live = 23, 13
    array = np.zeros(size)
    saving = Sums("obs", array)
    end = 0
    for more in (3, 9, 4, 17, 8, 1, 30):
        write(array, end, end + more)
        end += more
        first = max(end - live, 0)
        saved = saving.take(first, end)
        for at in range(size):
            copy = array.copy()
            copy[at] += 1
            needed = at in {i % size for i in range(first, end)}
            if needed:
                with pytest.raises(CairnError, match=r"damaged \(obs.bin"):
                    Sums("obs", copy).check(first, end, saved)
            else:
                Sums("obs", copy).check(first, end, saved)


def test_full_blocks_are_summed_once_and_after_a_resume_too(monkeypatch):
    array = np.zeros(100)
    write(array, 0, 52)
    one = Sums("obs", array)
    saved = one.take(0, 52)
    again = Sums("obs", array)
    again.check(0, 52, saved)
    assert again.full == one.full and len(one.full) == 10
    read = []
    monkeypatch.setattr(Sums, "_sum", lambda self, low, high: read.append((low, high)) or 0)
    again.take(3, 55)
    assert read == [(3, 5), (50, 55)]


def test_another_span_or_number_of_sums_is_damage():
    array = np.arange(20.0)
    saved = Sums("obs", array).take(0, 12)
    for wrong in ({"end": 11}, {"first": 1}, {"crc": saved["crc"][8:]}):
        with pytest.raises(CairnError):
            Sums("obs", array).check(0, 12, {**saved, **wrong})
    Sums("obs", array).check(0, 12, None)  # Cairn 0.1 saved none
