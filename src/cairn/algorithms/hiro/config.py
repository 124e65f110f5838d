"""Settings of a hierarchy, and what they must fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from cairn.algorithms.dqn import DQNConfig
from cairn.algorithms.sac import SACConfig
from cairn.algorithms.td3 import TD3Config
from cairn.core.checks import AnyIndices, AnyLengths, Count, Indices, Lengths, NonNegative, Positive, Unit
from cairn.core.errors import CairnError
from cairn.core.schedules import Share, constant
from cairn.core.types import Discrete, Spec

LevelConfig = DQNConfig | SACConfig | TD3Config
MOST_SUBGOALS = 10_000  # subgoals that a dqn may choose from


@dataclass(frozen=True)
class HIROConfig:
    """Settings of HIRO."""

    high: LevelConfig = TD3Config(updates_per_step=0.1)  # high level, which chooses subgoals: dqn, sac or td3
    low: LevelConfig = TD3Config()  # low level, which reaches subgoals: dqn, sac or td3
    subgoal: Indices | None = None  # (start, end) of the observation slice used for subgoals; None: the goal space
    subgoal_range: Lengths = (1.0,)  # largest distance of a subgoal from the state per axis, in observation units
    every: Count = 10  # environment steps between two subgoals (c in the paper)
    bins: Count = 5  # displacements per axis that a dqn high level chooses from
    hide: AnyIndices = ()  # indices of the observation that the low level does not see
    # (start, end) of the observation slice that the low level sees, without a place in it for the rest; None: all of it
    low_sees: Indices | None = None
    # reward of the low level: minus the distance to the subgoal, or -1 until within `near`
    low_reward: Literal["distance", "within"] = "distance"
    near: Positive = 0.05  # distance in observation units within which a subgoal counts as reached
    low_scale: Positive = 1.0  # factor of the low level's reward
    high_scale: Positive = 1.0  # factor of the task's reward for the high level
    low_hindsight: Unit = 0.0  # share of the low level's batch relabelled with a state reached later (HER)
    low_ahead: Count | None = None  # latest step, after the transition, that such a state is taken from; None: `every`
    high_hindsight: Unit = 0.0  # share of the high level's batch relabelled with a goal achieved later (HER)
    # reward of the high level: the task's, or -1 for each step until the goal is within `high_near`
    high_reward: Literal["task", "within"] = "task"
    high_near: Positive = 1.0  # distance in units of the goal within which the high level counts it as reached
    # share of the episodes of training that explore: they go back to a visited cell and then on from there
    explore: Share = constant(0.0)
    cells: AnyIndices = ()  # indices of the observation whose values make up a cell; none: those of the subgoals
    cell: AnyLengths = ()  # size of a cell along each of them; none: `subgoal_range`
    walk: Positive = 8.0  # largest distance of a point that exploring walks to, in observation units
    # off-policy correction of old subgoals: the most likely candidate (the paper), the achieved s' - s, or none
    correction: Literal["likeliest", "achieved", "off"] = "likeliest"
    candidates: Count = 10  # candidate subgoals of the correction, including the original and the achieved one
    spread: NonNegative = 0.5  # std of the other candidates around the achieved one, as a share of subgoal_range
    # who chooses subgoals: the learned high level, or random, which trains the low level alone
    subgoals: Literal["learned", "random"] = "learned"
    freeze: Literal["none", "low", "high"] = "none"  # level whose weights stay fixed during training: none, low or high


def positions_of(cfg: HIROConfig, spec: Spec) -> slice:
    """The slice of the flat observation in which subgoals are points."""
    if len(spec.obs_shape) != 1:
        raise CairnError(f"hiro needs flat (one-dimensional) observations; this task's have shape {spec.obs_shape}.")
    if spec.mixed:
        raise CairnError(f"hiro reads numbers only, and this task's observations are {spec.seen}; use sac or td3.")
    if cfg.subgoal is None:
        if spec.goal is None:
            raise CairnError(
                "agent.subgoal is not set, and this task has no goals; set it to the slice FROM TO of the observation,"
                " such as 0 2."
            )
        return spec.goal.achieved
    width = spec.obs_shape[0] if spec.goal is None else spec.goal.observation
    if len(cfg.subgoal) != 2 or not 0 <= cfg.subgoal[0] < cfg.subgoal[1] <= width:
        raise CairnError(
            f"agent.subgoal is {cfg.subgoal}; it must be two numbers, FROM and TO, with 0 <= FROM < TO <= {width},"
            " the width of the observation."
        )
    return slice(*cfg.subgoal)


def check(cfg: HIROConfig, spec: Spec, dim: int) -> None:
    """Refuse settings that do not fit the task, whose subgoals have `dim` axes. Raises CairnError."""
    if len(cfg.subgoal_range) != dim:
        raise CairnError(
            f"agent.subgoal_range has {len(cfg.subgoal_range)} numbers; subgoals have {dim} axes, and each needs one."
        )
    if not all(math.isfinite(r) and r > 0 for r in cfg.subgoal_range):
        raise CairnError(f"agent.subgoal_range is {cfg.subgoal_range}; each number must be greater than 0.")
    width = spec.obs_shape[0] if spec.goal is None else spec.goal.observation
    for index in cfg.hide:
        if not 0 <= index < width:
            raise CairnError(f"agent.hide names {index}; the observation has the entries 0 to {width - 1}.")
    discrete = isinstance(spec.action, Discrete)
    if discrete != cfg.low.discrete:
        kind = "discrete: agent.low must be a dqn" if discrete else "continuous: agent.low must be a sac or td3"
        raise CairnError(f"the actions of this task are {kind}.")
    if cfg.high.discrete and cfg.bins ** min(dim, 64) > MOST_SUBGOALS:
        raise CairnError(
            f"agent.bins of {cfg.bins} on {dim} axes makes {float(cfg.bins) ** min(dim, 16):,.0f} subgoals or more;"
            f" the most is {MOST_SUBGOALS:,}: lower it, or use a sac or td3 as agent.high."
        )
    if cfg.low.gamma == 1:
        raise CairnError(
            "agent.low.gamma is 1; set it below 1, such as 0.95: the low level's reward is negative at every step."
        )
    for name, level in (("high", cfg.high), ("low", cfg.low)):
        if level.n_step != 1:
            raise CairnError(f"agent.{name}.n_step is {level.n_step}; hiro learns from single steps: set it to 1.")
    if cfg.low_sees is not None and not (len(cfg.low_sees) == 2 and 0 <= cfg.low_sees[0] < cfg.low_sees[1] <= width):
        raise CairnError(
            f"agent.low_sees is {cfg.low_sees}; it must be two numbers, FROM and TO, with 0 <= FROM < TO <= {width},"
            " the width of the observation."
        )
    if cfg.high_reward == "within" and spec.goal is None:
        raise CairnError("agent.high_reward is within, which needs a task with goals; this one has none: use task.")
    if any(index >= width for index in cfg.cells):
        raise CairnError(f"agent.cells names {max(cfg.cells)}; the observation has the entries 0 to {width - 1}.")
    axes = len(cfg.cells) or dim
    if (cfg.cell or cfg.cells) and len(cfg.cell) != axes:
        raise CairnError(f"agent.cell has {len(cfg.cell)} numbers; cells have {axes} axes, and each needs one.")
