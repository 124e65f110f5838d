"""Several learners of one run: processes that share every batch (`runs/team.py`). With one nothing happens here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor


class Learners(Protocol):
    """What a learner asks of the others. All of them ask the same questions in the same order."""

    rank: int
    count: int

    def sum_(self, x: Tensor) -> None:
        """Add up x over the learners, in place."""

    def gathered(self, x: Tensor) -> Tensor:
        """The x of every learner, [learners, ...]."""

    def exchange(self, value: Any) -> list[Any]:
        """The value of every learner: any object."""

    def broadcast_(self, x: Tensor) -> None:
        """Overwrite x with that of learner 0."""


_learners: Learners | None = None


def shared() -> Learners | None:
    """The learners of this process's run; None if it learns alone."""
    return _learners


@contextmanager
def learning_with(learners: Learners) -> Iterator[None]:
    """Context in which this process is one of several learners."""
    global _learners
    before, _learners = _learners, learners
    try:
        yield
    finally:
        _learners = before


def part_of(total: int) -> int:
    """This learner's part of a batch or a replay buffer of `total` rows."""
    return total if _learners is None else -(-total // _learners.count)


def average_(x: Tensor) -> Tensor:
    """The mean of x over the learners, in place."""
    if _learners is not None:
        _learners.sum_(x)
        x /= _learners.count
    return x


def gathered(x: Tensor) -> Tensor:
    """The x of every learner, [learners, ...]."""
    return x[None] if _learners is None else _learners.gathered(x)


def standardised(x: Tensor) -> Tensor:
    """(x - mean) / std of x [B], with the mean and std over the equally long x of all learners."""
    if _learners is None:
        return (x - x.mean()) / (x.std(correction=0) + 1e-8)
    means, variances = gathered(torch.stack([x.mean(), x.var(correction=0)])).T
    mean: Tensor = means.mean()
    std: Tensor = (variances + (means - mean).square()).mean().sqrt()
    return (x - mean) / (std + 1e-8)
