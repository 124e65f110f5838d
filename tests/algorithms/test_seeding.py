"""Making an agent is a function of its seed, and leaves the caller's random state alone."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from cairn.algorithms import build
from cairn.core.state import pack
from cairn.core.types import Box, Discrete, Spec
from tests.runs.test_resume import AGENTS

SRC = Path(__file__).parent.parent.parent / "src"


def made(name, seed=3):
    env, cfg = AGENTS[name]
    discrete = env != "Pendulum-v1"
    action = Discrete(2) if discrete else Box((1,), (-1.0,), (1.0,))
    return build(cfg, Spec((4 if discrete else 3,), "float32", action), seed=seed, device="cpu")


def state():
    return torch.get_rng_state().numpy().tobytes(), str(np.random.get_state()), str(random.getstate())


@pytest.mark.parametrize("name", AGENTS)
def test_the_global_generators_are_left_alone(name):
    before = state()
    made(name)
    assert state() == before


@pytest.mark.parametrize("name", AGENTS)
def test_weights_come_from_the_seed_and_not_from_the_global_generator(name):
    first = pack(made(name).policy_parts)
    torch.rand(17)
    again = pack(made(name).policy_parts)
    assert all(torch.equal(first[key], again[key]) for key in first)
    other = pack(made(name, seed=4).policy_parts)
    assert any(not torch.equal(first[key], other[key]) for key in first)


def test_weights_of_a_seed_are_those_of_the_first_release():
    """Sums of absolute values, as 0.1 had them."""
    found = {
        name: float(sum(v.double().abs().sum() for v in pack(made(name).policy_parts).values())) for name in RECORDED
    }
    assert found == pytest.approx(RECORDED, rel=1e-6)


def test_no_file_seeds_the_global_generators():
    for path in SRC.rglob("*.py"):
        text = path.read_text()
        assert "torch.manual_seed" not in text.replace("`torch.manual_seed`", ""), path
        assert "np.random.seed" not in text and "random.seed(" not in text, path


RECORDED = {
    "dqn": 118.77894580364227,
    "dqn-all": 226.97409439086914,
    "sac": 280.03782417532057,
    "td3": 332.33309773914516,
    "dqn-her": 122.77894580364227,
    "hiro": 659.4106707039755,
    "ppo": 182.16224637633422,
    "a2c": 193.88945841077657,
    "reinforce": 189.88945841077657,
    "bc": 63.38947290182114,
    "dagger": 63.38947290182114,
    "aggrevate": 63.38947290182114,
    "aggrevated": 193.88945841077657,
    "aggrevated-natural": 189.88945841077657,
}
