"""Some of what `python -m benchmarks.checks.fuzz --inputs 10000` tries: no traceback, no hang."""

from benchmarks.checks.fuzz import fuzz


def test_every_reader_reads_or_refuses():
    counts, faults = fuzz(150, seed=1)
    assert not faults, faults[0]
    assert counts["read"] > 10 and counts["refused"] > 50
