"""What a recorded graph of PPO relies on: numbers that change may be tensors, and a part of a batch is learned too."""

import pytest
import torch

from cairn.algorithms.ppo import PPO, PPOConfig
from cairn.core.schedules import constant
from cairn.core.types import Discrete, Rollout, Spec

SPEC = Spec((3,), "float32", Discrete(2))


def rollout(steps=10, envs=3):
    g = torch.Generator().manual_seed(0)
    obs, after = torch.randn(2, steps, envs, 3, generator=g)
    no = torch.zeros(steps, envs, dtype=torch.bool)
    return Rollout(obs, torch.randint(2, (steps, envs), generator=g), torch.ones(steps, envs), after, no, no, ~no)


def agent(**options):
    return PPO(PPOConfig(hidden=(8,), clip=constant(0.1), entropy_weight=constant(0.01), **options), SPEC, seed=1)


def test_a_clip_and_a_weight_in_tensors_do_what_numbers_do():
    plain, knobs = agent(), agent()
    fields = plain.prepare(rollout())
    for _ in range(3):
        a = plain._learn([*fields, 0.1, 0.01])
        b = knobs._learn([*fields, torch.tensor(0.1), torch.tensor(0.01)])
    for name in a:
        torch.testing.assert_close(a[name], b[name])
    torch.testing.assert_close(plain.opt.flat.data, knobs.opt.flat.data)


@pytest.mark.parametrize(("size", "full", "parts"), [(10, 3, 0), (11, 2, 1), (12, 2, 0), (64, 0, 1)])
def test_full_batches_go_where_a_graph_may_be_and_a_large_rest_is_learned_as_well(size, full, parts):
    ppo, seen = agent(batch_size=size, epochs=1), []
    ppo.learn = lambda batch: seen.append(("learn", len(batch[0]))) or {}
    ppo._learn = lambda batch: seen.append(("rest", len(batch[0]))) or {}
    ppo.update(rollout())
    assert [s for s in seen if s[0] == "learn"] == [("learn", size)] * full
    assert len([s for s in seen if s[0] == "rest"]) == parts
