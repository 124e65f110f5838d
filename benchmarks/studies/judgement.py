"""`python -m benchmarks.studies.judgement [--updates 1000]`

What A* = Q* - V* of an expert's critics teaches where the expert went.

A learner of AggreVaTeD's is given eight trajectories of zoo/bipedal-sac and nothing else. Printed before and after: the
mean A* of its own actions there, how far they lie from the expert's, and what it scores when it plays itself.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from cairn.algorithms import AggreVaTeD, AggreVaTeDConfig
from cairn.algorithms.imitation.demos import record
from cairn.algorithms.imitation.expert import Expert
from cairn.algorithms.imitation.values import Critics
from cairn.core.schedules import constant
from cairn.recipes import find
from cairn.report.video import prepare_headless
from cairn.runs.checkpoint import load_policy
from cairn.runs.evaluation import as_policy, evaluate
from cairn.vector.choose import make_vector


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    prepare_headless()
    saved = load_policy(Path("zoo/bipedal-sac"))
    envs = make_vector(saved.task, 8, backend="sync")
    demos = record(Expert(saved.agent, envs.spec), envs, range(100, 108), saved.task.id)
    assert demos is not None
    obs = torch.from_numpy(np.concatenate([e.obs[:-1] for e in demos.episodes]))
    action = torch.from_numpy(np.concatenate([e.action for e in demos.episodes]))
    learner = find("bipedal-aggrevated-reinforce").agent.learner  # type: ignore[union-attr]
    bold = replace(learner, lr=constant(3e-4), log_std=-2.3)  # than where it begins as a clone
    agent = AggreVaTeD(AggreVaTeDConfig(bold, updates=options.updates), saved.agent.spec)
    critics = Critics(saved.agent)
    v = critics.v(obs)
    print(f"the expert scores {np.mean(demos.returns):.1f} in {demos.steps:,} steps of 8 episodes.")
    for done in (0, options.updates):
        if done:
            agent.update(obs, action, v, v, critics.q)
        mine = agent.act(obs, explore=False)
        gain, apart = (critics.q(obs, mine) - v).mean(), (mine - action).square().sum(1).mean().sqrt()
        score = evaluate(as_policy(agent), envs, range(8))
        print(f"after {done:,} updates: mean A* {gain:+.3f}, {apart:.2f} from the expert's actions, return {score}.")
    envs.close()


if __name__ == "__main__":
    main()
