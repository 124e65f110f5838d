"""The model of scaling: its arithmetic, and that the guide shows what it says."""

from pathlib import Path

import pytest
from benchmarks.speed.model import Stages, samplers, sampling, tables

DOCS = Path(__file__).parent.parent / "docs"


def test_one_sampler_waits_and_works_and_many_are_limited_by_the_cores() -> None:
    assert samplers(1, 0.01, 0.002, 2) == pytest.approx(1 / 0.012)
    assert samplers(1000, 0.01, 0.002, 2) == pytest.approx(1000, rel=0.01)  # two cores, 2 ms each
    assert samplers(2, 0.0, 0.004, 1) == pytest.approx(250)


def test_stages_follow_each_other() -> None:
    stages = Stages(playing=0.008, learning=0.004, exchange=0.001, rest=0.001)
    assert stages.speed(1, 1) == pytest.approx(1 / 0.013) and stages.bottleneck(1, 1) == "playing"
    assert stages.speed(8, 2) == pytest.approx(1 / 0.005) and stages.bottleneck(8, 2) == "learning"
    assert stages.shares(8, 4)["exchange"] == pytest.approx(0.0015)  # a ring of four sends 3/4 twice


def test_samplers_are_predicted_within_a_tenth() -> None:
    assert all(abs(predicted / measured - 1) < 0.1 for _, predicted, measured in sampling())


@pytest.mark.parametrize("name", ["scale.md", "scale.zh.md"])
def test_the_guide_shows_the_rows_of_the_model(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert [row for rows in tables() for row in rows if row not in text] == []
