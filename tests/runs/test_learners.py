"""Several learners: two of batch B equal one of batch 2B, they stop together, resume exactly, and a lost one is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from cairn.algorithms import A2CConfig, DQNConfig, PPOConfig, TD3Config, build
from cairn.core.learners import all_of, average_, even_, learning_with, part_of, standardised
from cairn.core.types import Box, Discrete, Rollout, Spec, Transition
from cairn.nets.normalizer import Normalizer
from cairn.runs.process_group import Group
from tests.processes import Forked

NUMBERS = Spec((3,), "float32", Box((2,), (-1.0,) * 2, (1.0,) * 2))
FEW = Spec((3,), "float32", Discrete(4))
PIXELS = Spec((4, 84, 84), "uint8", Discrete(4), stack=4)
CASES: dict[str, tuple[Any, Spec]] = {
    "ppo": (PPOConfig(horizon=8, epochs=1, batch_size=32, normalise_obs=True, normalise_reward=True), NUMBERS),
    "ppo-value-clip": (PPOConfig(horizon=8, epochs=1, batch_size=32, value_clip=0.1, target_kl=0.01), FEW),
    "ppo-pixels": (PPOConfig(horizon=8, epochs=1, batch_size=32), PIXELS),
    "a2c": (A2CConfig(horizon=8, normalise_advantage=True, normalise_obs=True), NUMBERS),
    "dqn": (DQNConfig(batch_size=32, normalise=True, target_every=2), FEW),
    "dqn-pixels": (DQNConfig(batch_size=32, max_norm=0.1), PIXELS),
    "td3": (TD3Config(batch_size=32, normalise=True, target_noise=0.0, policy_delay=2), NUMBERS),
}


def rollout_of(spec: Spec, seed: int) -> Rollout:
    """8 steps of 4 environments."""
    draw = torch.Generator().manual_seed(seed)
    shape = (8, 4)
    obs = torch.rand(9, 4, *spec.obs_shape, generator=draw) * (255 if spec.obs_dtype == "uint8" else 3)
    obs = obs.to(getattr(torch, spec.obs_dtype))
    ends = torch.rand(shape, generator=draw) < 0.2
    return Rollout(
        obs[:-1], actions(spec, shape, draw), torch.randn(shape, generator=draw), obs[1:], ends, ends & False,
        torch.ones(shape, dtype=torch.bool), None,
    )  # fmt: skip


def actions(spec: Spec, shape: tuple[int, ...], draw: torch.Generator) -> torch.Tensor:
    if isinstance(spec.action, Discrete):
        return torch.randint(4, shape, generator=draw)
    return torch.rand(*shape, 2, generator=draw) * 2 - 1


def batch_of(spec: Spec, seed: int) -> Transition:
    """32 transitions."""
    r = rollout_of(spec, seed)
    flat = (r.obs, r.action, r.reward, r.next_obs)
    return Transition(*(x.flatten(0, 1) for x in flat), 0.9 * ~r.terminated.flatten())


def part(data: Any, rank: int) -> Any:
    """Half of the environments of a rollout, or of the rows of a batch."""
    if isinstance(data, Rollout):
        halves = {name: x[:, rank * 2 : rank * 2 + 2].clone() for name, x in vars(data).items() if x is not None}
    else:
        halves = {name: x[rank * 16 : rank * 16 + 16].clone() for name, x in vars(data).items()}
    return replace(data, **halves)


def learned(case: str, rank: int | None) -> dict[str, torch.Tensor]:
    """The gradients, weights and statistics after three updates, with all data or with that of one of two learners."""
    cfg, spec = CASES[case]
    agent = build(cfg, spec, seed=5)
    found: dict[str, torch.Tensor] = {}
    for k in range(3):
        data = (rollout_of if hasattr(cfg, "horizon") else batch_of)(spec, k)
        agent.update(data if rank is None else part(data, rank))
        found |= {f"gradient.{k}.{n}": p.flat.grad.clone() for n, p in agent.training_parts.items() if "opt" in n}
    found |= {f"weights.{name}": p.flat.data for name, p in agent.training_parts.items() if "opt" in name}
    nets = [m for m in agent.policy_parts.values() if isinstance(m, torch.nn.Module)]
    seen = [m for net in nets for m in net.modules() if isinstance(m, Normalizer)]
    return found | {f"statistics.{i}": torch.stack([m.mean, m.var]) for i, m in enumerate(seen)}


def run_learner(rank: int, store: str, out: str) -> None:
    """One of two learners of every case."""
    torch.set_num_threads(1)
    with Group(dist.FileStore(store, 2), rank, 2, device="cpu", local=True) as group, learning_with(group):
        found = {case: learned(case, rank) for case in CASES}
        x = torch.arange(6.0)[rank * 3 : rank * 3 + 3]
        valid = torch.ones(4, 2, dtype=torch.bool)
        valid[0, rank] = valid[1, 0] = rank == 0  # learner 1 has lost two steps
        even_(valid)
        told = {"standardised": standardised(x), "average": average_(x.clone()), "part": torch.tensor(part_of(33))}
        told |= {"all": torch.tensor([all_of(True), all_of(rank == 0)]), "valid": valid}
        torch.save({**found, "told": told}, f"{out}-{rank}")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, torch.Tensor]]]:
    folder = tmp_path_factory.mktemp("two")
    args = str(folder / "store"), str(folder / "out")
    processes = [Forked("tests.runs.test_learners", "run_learner", rank, *args) for rank in (0, 1)]
    for process in processes:
        assert process.wait() == 0, process.said()
    return [torch.load(f"{folder / 'out'}-{rank}") for rank in (0, 1)]


@pytest.mark.parametrize("case", CASES)
def test_two_learners_of_batch_b_equal_one_of_batch_2b(two: list[Any], case: str) -> None:
    alone = learned(case, None)
    assert two[0][case].keys() == alone.keys()
    for name, value in alone.items():
        assert torch.equal(two[0][case][name], two[1][case][name]), name  # equal on both to the bit
        if name.startswith("gradient.0"):
            torch.testing.assert_close(two[0][case][name], value, rtol=1e-5, atol=1e-6)
        else:  # Adam amplifies what the first updates round differently
            torch.testing.assert_close(two[0][case][name], value, rtol=1e-3, atol=1e-4)


def test_learners_agree(two: list[Any]) -> None:
    first, second = two[0]["told"], two[1]["told"]
    both = torch.cat([first["standardised"], second["standardised"]])
    torch.testing.assert_close(both, standardised(torch.arange(6.0)))
    assert torch.equal(first["average"], torch.tensor([1.5, 2.5, 3.5]))
    assert int(first["part"]) == int(second["part"]) == 17
    assert first["all"].tolist() == second["all"].tolist() == [True, False]


def test_learners_learn_from_equally_many_steps(two: list[Any]) -> None:
    first, second = (found["told"]["valid"] for found in two)
    assert first.sum() == second.sum() == 6 and first[:3].all() and not first[3].any()


def test_alone_nothing_is_shared() -> None:
    x = torch.arange(3.0)
    valid = torch.tensor([[True, False]])
    even_(valid)
    assert average_(x) is x and part_of(33) == 33 and all_of(True) and not all_of(False) and valid.tolist() == [[True, False]]
