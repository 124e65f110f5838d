"""Several learners: two of batch B equal one of batch 2B, stop together and resume exactly; a lost one is told of."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv

from cairn.algorithms import (
    A2CConfig,
    BCConfig,
    DQNConfig,
    HIROConfig,
    PPOConfig,
    ReinforceConfig,
    SACConfig,
    TD3Config,
    build,
)
from cairn.core.errors import CairnError
from cairn.core.learners import average_, learning_with, part_of, standardised
from cairn.core.schedules import linear
from cairn.core.state import pack
from cairn.core.types import Box, Discrete, Rollout, Spec, Transition
from cairn.nets.normalizer import Normalizer
from cairn.recipes.recipe import Recipe
from cairn.runs.callbacks import Callbacks, TrainingProgress
from cairn.runs.process_group import Group, file_store
from cairn.runs.shared_run import all_of, even_
from cairn.runs.team import check_learners
from cairn.runs.train import train
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
    with Group(file_store(store, 2), rank, 2, device="cpu", local=True) as group, learning_with(group):
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
    assert (
        average_(x) is x
        and part_of(33) == 33
        and all_of(True)
        and not all_of(False)
        and valid.tolist() == [[True, False]]
    )


# -- whole runs


def recipe(**changes: Any) -> Recipe:
    cfg = DQNConfig(hidden=(16,), batch_size=16, learning_starts=40, capacity=600, normalise=True)
    usual: dict[str, Any] = {"steps": 600, "envs": 2, "learners": 2, "seed": 3, "checkpoint_every": 200}
    return Recipe(
        **{
            "env": "CartPole-v1",
            "agent": cfg,
            "eval_every": 300,
            "eval_episodes": 2,
            "log_every": 50,
            **usual,
            **changes,
        }
    )


def other_learners() -> list[int]:
    """The processes of the other learners of this process's run."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")[:-1] if folder.name.isdigit() else []
            if b"cairn.runs.learner" in words and words[-1] == str(os.getpid()).encode():
                found.append(int(folder.name))
    return found


def weights(agent: Any) -> dict[str, torch.Tensor]:
    return pack(agent.policy_parts) | pack(agent.training_parts)


ON = PPOConfig(hidden=(16,), horizon=25, batch_size=20, epochs=2, normalise_obs=True, normalise_reward=True)


@pytest.mark.parametrize("changes", [{}, {"agent": ON}], ids=["dqn", "ppo"])
def test_a_run_that_lost_a_learner_resumes_exactly(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Only whole runs, one of them with a killed process, show that every learner takes up what it had."""
    whole = train(recipe(**changes), tmp_path / "whole")
    assert whole.step == 600 and not other_learners()

    def lose(progress: TrainingProgress) -> None:
        if progress.step >= 450:
            for pid in other_learners():
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(CairnError, match=r"learner 1 was killed by SIGKILL.*checkpoints/0000000400"):
        train(recipe(**changes), tmp_path / "lost", callbacks=Callbacks((lose,)))
    assert sorted(p.name for p in (tmp_path / "lost/learners/1/checkpoints").iterdir())[-1] == "0000000400"
    again = train(recipe(**changes), tmp_path / "lost", resume=True)
    for name, value in weights(whole.agent).items():
        assert torch.equal(weights(again.agent)[name], value), name
    with pytest.raises(CairnError, match="learners 2; it cannot be resumed with 1"):
        train(recipe(**changes, learners=1, steps=700), tmp_path / "lost", resume=True)


@pytest.mark.parametrize("why", ["callback", "SIGTERM"])
def test_a_wish_to_stop_stops_all_learners_with_a_checkpoint(tmp_path: Path, why: str) -> None:
    def stop(progress: TrainingProgress) -> bool:
        if why != "callback":
            os.kill(os.getpid(), signal.SIGTERM)
        return why != "callback"

    stopped = train(recipe(), tmp_path / "run", callbacks=Callbacks((stop,)))
    assert stopped.interrupted == why and stopped.saved and stopped.step < 600
    folders = [tmp_path / "run/checkpoints", tmp_path / "run/learners/1/checkpoints"]
    assert [[p.name for p in folder.iterdir()] for folder in folders] == [[f"{stopped.step:010d}"]] * 2


def test_two_learners_reach_a_target_and_stop_together() -> None:
    """Only a whole training shows that what two learners find out together solves a task."""
    easy = PPOConfig(horizon=128, batch_size=128, epochs=10, lr=linear(1e-3, 0))
    solved = train(
        recipe(agent=easy, envs=8, steps=60_000, target=150.0, hold=1, eval_every=4096, eval_episodes=20), None
    )
    assert solved.solved and solved.step < 60_000 and not other_learners()


def test_the_fault_of_another_learner_is_told(tmp_path: Path) -> None:
    with pytest.raises(CairnError, match="learner 1 stopped: .*is not on this machine"):
        train(recipe(env=Elsewhere), tmp_path / "run")


class Elsewhere(CartPoleEnv):
    """A task that cannot be made by a further learner."""

    def __init__(self) -> None:
        if sys.argv[0].endswith("learner.py"):
            raise CairnError("this task is not on this machine.")
        super().__init__()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"envs": 3}, "envs is 3, which 2 learners cannot share equally; use a multiple of 2"),
        ({"agent": DQNConfig(batch_size=33)}, "batch_size is 33"),
        ({"agent": DQNConfig(priority=0.6)}, "set agent.priority to 0"),
        ({"agent": DQNConfig(memory="gru")}, "set agent.memory to none"),
        ({"agent": ReinforceConfig()}, "reinforce learns from whole episodes"),
        ({"agent": BCConfig()}, "imitation asks its expert in one process"),
        ({"agent": HIROConfig()}, "windows"),
        ({"vector": "ray"}, "Ray's samplers serve one learner"),
        ({"native": "python"}, "the native core updates weights without the other learners' gradients"),
    ],
)
def test_what_learners_cannot_share_is_refused_in_one_sentence(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(CairnError, match=re.escape(why)) as told:
        check_learners(recipe(**changes))
    assert str(told.value).startswith("--learners 2 is not possible here: ") or "learners=2" in str(told.value)


def test_each_learner_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(CairnError, match="each learner needs a GPU of its own, and this machine has 1"):
        check_learners(recipe(device="cuda"))


def test_learners_on_ray_resume_after_the_loss_of_a_node(tmp_path: Path) -> None:
    """Only a cluster with a node that dies shows that learners work as tasks, and what is said when one is lost."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    agent = SACConfig(hidden=(16,), batch_size=30, learning_starts=50, capacity=500)
    task: dict[str, Any] = {"env": "Pendulum-v1", "agent": agent, "learners": 3, "envs": 3, "steps": 900}
    task |= {"checkpoint_every": 150}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        node = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()

        def lose(progress: TrainingProgress) -> None:
            if progress.step >= 400:
                cluster.remove_node(node, allow_graceful=False)

        where = {**task, "ray_address": cluster.address}
        with pytest.raises(CairnError, match="learner [12] was lost with its node or its process"):
            train(recipe(**where), tmp_path / "run", callbacks=Callbacks((lose,)))
        cluster.add_node(num_cpus=1)
        again = train(recipe(**where), tmp_path / "run", resume=True)
        assert again.step == 900 and len(list((tmp_path / "run/learners").iterdir())) == 2
    finally:
        ray.shutdown()
        cluster.shutdown()
