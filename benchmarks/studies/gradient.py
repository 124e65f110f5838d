"""`python -m benchmarks.studies.gradient RUN [--batches 12] [--envs 16] [--record NAME]`

How much of a policy gradient is signal.

A policy plays batches of whole episodes, one an environment. From each batch the gradient of log π is taken twice: by
REINFORCE's reward-to-go less V (λ = 1), and by advantages that look a few steps ahead (GAE, λ = 0.95, as PPO's), both
with the same V. Two batches of one policy should point the same way; the mean cosine between them says how far they do.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from benchmarks.store import STUDIES, save
from cairn.collect.local import LocalCollector
from cairn.collect.protocol import Order
from cairn.core.losses import policy_gradient
from cairn.core.returns import gae
from cairn.core.types import Rollout
from cairn.runs.checkpoint import load_policy
from cairn.vector.choose import make_vector

GRADIENT = STUDIES / "gradient.json"
LAMBDAS = (1.0, 0.95)


def gradient(agent: Any, rollout: Rollout, lam: float) -> Tensor:
    """Of all that the policy is made of, flat; V's own half of the network has none."""
    net = agent.net
    policy, value = net(net.normalise(rollout.obs).flatten(0, 1))
    value = value.detach().view_as(rollout.reward)
    ends = net.next_values(rollout, value), rollout.terminated, rollout.truncated
    advantage = gae(rollout.reward, value, *ends, gamma=agent.cfg.gamma, lam=lam)[rollout.valid]
    log_prob = policy.log_prob(rollout.action.flatten(0, 1)).view_as(rollout.reward)[rollout.valid]
    loss = policy_gradient(log_prob, advantage / advantage.std())
    found = torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)
    return torch.cat([g.flatten() for g in found if g is not None])


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.studies.gradient")
    parser.add_argument("run", type=Path)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--record", default="", help="keep it in results/studies/gradient.json under this name")
    args = parser.parse_args()
    torch.set_num_threads(1)
    agent: Any = load_policy(args.run).agent
    envs = make_vector(load_policy(args.run).task, args.envs, backend="sync")
    run: Any = SimpleNamespace(interrupted=None, device="cpu", advance=lambda *_: None, checkpoint_due=lambda: False)
    found: dict[float, list[Tensor]] = {lam: [] for lam in LAMBDAS}
    total, episodes = 0.0, 0
    for batch in range(args.batches):
        seeds = tuple(range(1000 * batch, 1000 * batch + args.envs))
        rollout = LocalCollector(envs, "cpu").rollout(agent, Order(0, seeds=seeds), run)
        assert rollout is not None
        total, episodes = total + float(rollout.reward[rollout.valid].sum()), episodes + args.envs
        for lam in LAMBDAS:
            found[lam].append(gradient(agent, rollout, lam))
    envs.close()
    rows = {}
    for lam, gradients in found.items():
        cosines = [float(torch.cosine_similarity(a, b, dim=0)) for a, b in combinations(gradients, 2)]
        rows[str(lam)] = round(sum(cosines) / len(cosines), 4)
        print(f"λ = {lam}: the gradients of two batches of {args.envs} episodes have a mean cosine of {rows[str(lam)]}")
    print(f"mean return of the {episodes} episodes: {total / episodes:.1f}")
    if args.record:
        body = {"envs": args.envs, "batches": args.batches, "return": round(total / episodes, 1), "cosine": rows}
        save({"name": args.record, **body}, GRADIENT)


if __name__ == "__main__":
    main()
