"""A value that is not of the kind its field states gets one sentence, whatever it is."""

from dataclasses import dataclass

import numpy as np
import pytest

from cairn.core.checks import Count, NonNegative, Unit, check, validated
from cairn.core.errors import CairnError


@dataclass(frozen=True)
class Config:
    count: Count = 1
    share: Unit = 0.5
    flag: bool = False
    limit: Count | None = None
    word: str = "a"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("count", "big", "x.count is 'big'; it must be a whole number."),
        ("count", 2.5, "x.count is 2.5; it must be a whole number."),
        ("count", True, "x.count is True; it must be a whole number."),
        ("count", None, "x.count is None; it must be a whole number."),
        ("count", 0, "x.count is 0; it must be at least 1."),
        ("share", "x", "x.share is 'x'; it must be a number."),
        ("share", 1.5, "x.share is 1.5; it must be between 0 and 1."),
        ("share", float("nan"), "x.share is nan; it must be between 0 and 1."),
        ("flag", "no", "x.flag is 'no'; it must be true or false."),
        ("flag", 1, "x.flag is 1; it must be true or false."),
        ("limit", 0.5, "x.limit is 0.5; it must be a whole number."),
    ],
)
def test_what_is_amiss_is_named(field, value, words):
    with pytest.raises(CairnError) as error:
        validated(Config(**{field: value}), "x.")
    assert str(error.value) == words


def test_what_fits_is_let_through():
    good = Config(np.int64(3), np.float32(0.5), np.bool_(True), None)
    assert validated(good) == good
    assert validated(Config(share=1)).share == 1  # a whole number is a number
    check("rest", 0, NonNegative)
