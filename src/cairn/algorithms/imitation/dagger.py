"""DAgger (Ross et al. 2011): learn the expert's actions in the states that the learner visits.

In each iteration the expert plays each trajectory with probability αₙ, otherwise the learner does. The expert labels
every visited state with its action, and the learner is trained on the labels of all iterations. So the data also shows
how to recover from the learner's own mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cairn.algorithms.imitation.bc import BC, BCConfig
from cairn.core.agent import BaseAgent, Metrics
from cairn.core.checks import Unit, validated
from cairn.core.schedules import Mixing, mixing
from cairn.core.state import Parts
from cairn.core.types import Spec


@dataclass(frozen=True)
class DAggerConfig:
    """Settings of DAgger."""

    learner: BCConfig = BCConfig()  # config of the behaviour cloning learner
    mixing: Mixing = "exponential"  # share αₙ of expert episodes in iteration n: α₀dⁿ, α₀/(n+1), α₀ max(0, 1 - n(1-d))
    alpha_start: Unit = 1.0  # initial share α₀ of episodes played by the expert
    alpha_decay: Unit = 0.5  # decay d of the share of expert episodes, per iteration


class DAgger(BaseAgent):
    """A `BC` learner with a schedule of the expert's share of trajectories."""

    def __init__(self, cfg: DAggerConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec = spec
        self.learner = BC(cfg.learner, spec, seed=seed, device=device)
        self.counts, self.cloning = self.learner.counts, cfg.learner
        self.policy_parts: Parts = self.learner.policy_parts
        self.training_parts: Parts = self.learner.training_parts

    @property
    def progress(self) -> float:
        """The finished share of the run, in [0, 1]; setting it sets the learner's."""
        return self.learner.progress

    @progress.setter
    def progress(self, share: float) -> None:
        self.learner.progress = share

    @property
    def alpha(self) -> float:
        """αₙ, the expert's share of trajectories in this iteration."""
        cfg = self.cfg
        return mixing(cfg.mixing, int(self.counts[0]), start=cfg.alpha_start, decay=cfg.alpha_decay)

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """The learner's actions [N] or [N, dim] for obs [N, ...]."""
        return self.learner.act(obs, explore=explore)

    def update(self, obs: Tensor, action: Tensor) -> Metrics:
        """Take one gradient step towards the expert's actions; return metrics."""
        return self.learner.update(obs, action)
