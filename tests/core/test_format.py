"""Numbers as people read them, and the one number of a score that is judged."""

from cairn.core.format import duration, number, percent, short, tabled, writer
from cairn.core.metric import MEASURES, TRAINING, WORDS, figure


def test_shares_numbers_and_figures():
    assert percent(0.985) == "98.5 %" and number(12345.6) == "12,346" and number(12345.6, 4) == "1.235e+04"
    assert writer("success")(0.985) == "98.5 %" and writer("return")(12345.6) == "12,346"
    assert [tabled(x, "return") for x in (1103.94, 1000.0, -0.06)] == ["1103.9", "1000", "-0.1"]
    assert tabled(0.9778, "success") == "97.78 %"


def test_large_numbers_are_short():
    assert [short(v) for v in (0, 0.25, 1500, 20_000, 1.5e6, -2e9)] == ["0", "0.25", "1500", "20k", "1.5M", "-2G"]


def test_durations():
    assert [duration(s) for s in (5, 65, 3_900, float("inf"))] == ["5 s", "1 min 05 s", "1 h 05 min", "-"]


def test_a_recipe_is_judged_by_its_metric():
    assert figure("return", -3.5, 0.9) == -3.5 and figure("success", -3.5, 0.9) == 0.9
    assert figure("success", -3.5, None) == 0.0  # the task reports none
    assert MEASURES.keys() == TRAINING.keys() == WORDS.keys() == {"return", "success"}
