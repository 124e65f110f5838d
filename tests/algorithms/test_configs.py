"""Every field of every config, and of a recipe: a wrong value is one sentence, a right one of NumPy's is taken."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from cairn.algorithms import BCConfig, DQNConfig, PPOConfig, SACConfig
from cairn.algorithms.registry import ALGORITHMS
from cairn.core.checks import fit, validated
from cairn.core.errors import CairnError
from cairn.core.game import Game
from cairn.core.schedules import Schedule, constant, exponential, linear
from cairn.core.serialise import from_json, to_json
from cairn.envs.given import Given
from cairn.recipes.recipe import Recipe

CONFIGS = {name: one.config() for name, one in ALGORITHMS.items()}
CONFIGS |= {"recipe": Recipe("CartPole-v1", PPOConfig(), 100), "game": Game("pong")}
FIELDS = [(name, f.name) for name, config in CONFIGS.items() for f in fields(config)]


class Odd:
    """Nothing can be done with it, not even shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = object.__hash__


WRONG = [
    *(None, "", "x", -1, 0, 2.5, 10**30, float("nan"), float("inf"), -float("inf"), True, b"x", 1j, ...),
    *([], [[]], [None], ["x"], (), (1, "x"), (-1,), (float("nan"),), {}, {"a": 1}, {1: 2}, set(), range(3)),
    *(lambda x: x, object(), object, Odd(), np.array([]), np.array([1.5, -2.0]), np.array("x"), np.array(np.nan)),
    *(np.zeros((2, 2)), np.array(["a"]), np.array([None]), torch.zeros(2), torch.zeros(()), SACConfig(), SACConfig),
    *("linear(1)", "linear(a,b)", "linear(1.2.3,0)", "nan", "linear(1,0,9)", "exponential(1,0)", linear(0.5, 2.0)),
]


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_wrong_value_is_one_sentence_or_a_valid_config(name: str, field: str) -> None:
    for value in WRONG:
        try:
            config = validated(replace(CONFIGS[name], **{field: value}), "x.")
        except CairnError as error:
            assert str(error).endswith(".") and "\n" not in str(error) and len(str(error)) < 500, error
            continue
        kept = getattr(config, field)
        assert type(kept) in (
            bool,
            int,
            float,
            str,
            tuple,
            dict,
            type(None),
            Schedule,
            Given,
            *(one.config for one in ALGORITHMS.values()),
        )
        assert validated(config) == config  # what was accepted once is accepted again


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_numpy_and_lists_are_taken(name: str, field: str) -> None:
    config = CONFIGS[name]
    value: Any = getattr(config, field)
    if type(value) is bool:
        others: list[Any] = [np.bool_(value), np.array(value)]
    elif type(value) is int:
        others = [np.int32(value), np.int64(value), np.array(value), float(value), np.float64(value)]
    elif type(value) is float:
        others = [np.float64(value), np.array(value)]
    elif isinstance(value, tuple):
        others = [list(value), np.array(value)] if value else [[]]
    elif isinstance(value, Schedule):
        others = [str(value)] + ([value.start, np.float64(value.start)] if value.kind == "constant" else [])
    else:
        others = []
    for other in others:
        found = getattr(validated(replace(config, **{field: other})), field)
        assert found == value and type(found) is type(value)


def test_what_is_accepted_can_be_written_and_read() -> None:
    cfg = validated(DQNConfig(lr=np.float32(1e-3), hidden=[np.int64(8)], q_range=np.array([0.0, 1.0]), epsilon=0.5))
    assert from_json(DQNConfig, to_json(cfg)) == cfg
    assert cfg.hidden == (8,) and cfg.q_range == (0.0, 1.0) and cfg.epsilon == constant(0.5)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("lr", lambda share: 1e-3, "lr is a function, which cannot be saved with a run; write a number, or a schedule"),
        ("lr", None, "lr is None; it must be a number, or a schedule such as"),
        ("lr", [1e-3], "lr is [0.001]; it must be a number, or a schedule"),
        ("lr", "fast", "lr is 'fast', which is not a schedule"),
        ("lr", float("nan"), "lr is nan; it must be a finite number."),
        ("lr", True, "lr is True; it must be a number"),
        ("lr", -1, "lr is -1; it must be at least 0."),
        ("hidden", "64", "hidden is '64'; it must be whole numbers, such as (64, 64)."),
        ("hidden", (), "hidden is empty; it must hold at least one number."),
        ("hidden", 0, "hidden is 0; it must be at least 1."),
        ("activation", "swish", "activation is 'swish'; it must be one of 'relu', 'tanh', 'silu', 'elu', 'gelu'."),
        ("batch_size", 10**30, "; it must be at most 9223372036854775807."),
        ("target_entropy", float("inf"), "target_entropy is inf; it must be a finite number."),
    ],
)
def test_the_sentence_names_what_is_meant(field: str, value: Any, words: str) -> None:
    with pytest.raises(CairnError) as error:
        validated(SACConfig(**{field: value}))
    assert words in str(error.value)


def test_one_number_is_a_network_of_one_layer() -> None:
    assert validated(BCConfig(hidden=64)).hidden == (64,)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: linear(1.0, None),  # type: ignore[arg-type]
        lambda: linear("1", 0.0),  # type: ignore[arg-type]
        lambda: linear(1.0, 0.0, 0.0),
        lambda: linear(1.0, 0.0, 2.0),
        lambda: exponential(1.0, 0.0),
        lambda: constant(float("nan")),
        lambda: Schedule("cosine", 1.0, 0.0),
    ],
)
def test_a_schedule_that_is_none_cannot_be_made(make: Any) -> None:
    with pytest.raises(CairnError):
        make()
    assert type(linear(np.float32(0.5), np.int64(0)).start) is float


def test_a_path_and_a_device_are_texts(tmp_path: Any) -> None:
    assert fit("out", tmp_path, str) == str(tmp_path)
    assert fit("device", torch.device("cpu"), str) == "cpu"
