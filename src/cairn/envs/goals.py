"""Finds the reward rule of a goal task, and checks it before anything is learned from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.goals import GoalRule, Within
from cairn.core.types import Array
from cairn.envs.task import Task

PROBES = 60  # random steps that the rule must explain


@dataclass(frozen=True)
class ComputeReward:
    """The rule of a Gymnasium-Robotics task: its `compute_reward` and, if there is one, `compute_terminated`.

    With `cost`, a step that fails may cost more than the rule says; hindsight keeps the difference. With `ends`, an
    episode ends where the reward is that of a reached goal, although there is no `compute_terminated`.
    """

    env: Any
    cost: bool = False
    ends: bool = False

    def reward(self, achieved: Array, desired: Array) -> Array:
        return self._ask("compute_reward", achieved, desired)

    def terminated(self, achieved: Array, desired: Array) -> Array:
        if self.ends:
            reached: Array = np.isclose(self.reward(achieved, desired), self.reward(achieved, achieved))
            return reached
        if not hasattr(self.env, "compute_terminated"):
            return np.zeros(achieved.shape[:-1], bool)
        told = self._ask("compute_terminated", achieved, desired).astype(bool)
        return np.broadcast_to(told, achieved.shape[:-1]) if told.ndim == 0 else told

    def _ask(self, what: str, achieved: Array, desired: Array) -> Array:
        """Call such a function, which expects two arrays [pairs, goal] of the same shape."""
        ask = getattr(self.env, what)
        if achieved.ndim <= 2 and achieved.shape == desired.shape:
            return np.asarray(ask(achieved, desired, {}))
        width = achieved.shape[-1]
        pairs = np.broadcast_to(desired, achieved.shape).reshape(-1, width)
        told = np.asarray(ask(achieved.reshape(-1, width), pairs, {}))
        return told.reshape(achieved.shape[:-1]) if told.ndim else told


def goal_rule(task: Task) -> GoalRule:
    """The reward rule of a task: its `goal_rule`, else its `compute_reward`.

    Raises:
        CairnError: The task has no goals or no rule, or the rule disagrees with the task's rewards.
    """
    env = task.one()
    try:
        return rule_in(env, task.id)
    except BaseException:
        env.close()
        raise


def rule_in(env: gym.Env[Any, Any], name: str) -> GoalRule:
    """The rule of an existing environment. It is closed if the rule does not need it."""
    if not _has_goals(env.observation_space):
        raise CairnError(
            f"hindsight needs a task with goals, and {name} has none: its observations must be a Dict of observation,"
            f" achieved_goal and desired_goal, the last two alike, and nothing else. Leave {option('hindsight')} off."
        )
    bare: Any = env.unwrapped
    declared: GoalRule | None = getattr(bare, "goal_rule", None)
    if declared is None and name.startswith("Fetch") and getattr(bare, "reward_type", "") == "sparse":
        declared = Within(float(bare.distance_threshold))
    if declared is None and not hasattr(bare, "compute_reward"):
        raise CairnError(f"{name} has neither goal_rule nor compute_reward, so hindsight cannot compute rewards.")
    rule = ComputeReward(bare) if declared is None else declared
    pairs = _play(env)
    _check_vectorised(rule, pairs, name)
    if declared is None:
        ends = not hasattr(bare, "compute_terminated") and _ends_at_goals(rule, pairs)
        rule = ComputeReward(bare, ends=ends)
        rule = replace(rule, cost=_penalises_failure(rule, pairs))
    _check_agreement(rule, pairs, name)
    if declared is not None:
        env.close()
    return rule


def _has_goals(space: gym.Space[Any]) -> bool:
    """Whether a space is that of a goal task, as `cairn.vector.protocol.spec_of` defines it."""
    if not isinstance(space, gym.spaces.Dict) or set(space.spaces) != {"observation", "achieved_goal", "desired_goal"}:
        return False
    return gym.spaces.flatdim(space["achieved_goal"]) == gym.spaces.flatdim(space["desired_goal"])


@dataclass(frozen=True)
class Pairs:
    """Achieved and desired goals of random steps [P, goal], and their rewards and terminations [P]."""

    achieved: Array
    desired: Array
    reward: Array
    terminated: Array


def _play(env: gym.Env[Any, Any]) -> Pairs:
    rows = []
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    for _ in range(PROBES):
        after, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        rows.append((np.ravel(after["achieved_goal"]), np.ravel(obs["desired_goal"]), float(reward), bool(terminated)))
        obs = env.reset()[0] if terminated or truncated else after
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Pairs(*columns)


def _check_vectorised(rule: GoalRule, pairs: Pairs, name: str) -> None:
    """Raise CairnError where the rule gives other results for many pairs than for each, also for reached goals."""
    achieved = np.concatenate([pairs.achieved, pairs.achieved])
    desired = np.concatenate([pairs.desired, pairs.achieved])
    for what in ("reward", "terminated"):
        ask = getattr(rule, what)
        word = f"compute_{what}" if isinstance(rule, ComputeReward) else f"goal_rule.{what}"
        remedy = f"it must take arrays of shape [pairs, {achieved.shape[1]}], goals flat, and answer with [pairs]"
        try:
            together = np.asarray(ask(achieved, desired))
        except Exception as error:
            raise CairnError(
                f"{word} of {name} is not vectorised: given {len(achieved)} pairs it raised"
                f" {type(error).__name__} ({error}); {remedy}."
            ) from error
        if together.shape != achieved.shape[:1]:
            raise CairnError(
                f"{word} of {name} is not vectorised: given {len(achieved)} pairs it answered with shape"
                f" {together.shape}; {remedy}."
            )
        for i in range(len(achieved)):
            alone = float(np.asarray(ask(achieved[i : i + 1], desired[i : i + 1]))[0])
            if not np.isclose(alone, float(together[i]), atol=1e-5):
                raise CairnError(
                    f"{word} of {name} is not vectorised: for achieved {_show(achieved[i])} and desired"
                    f" {_show(desired[i])} it says {alone:g} alone and {float(together[i]):g} among others."
                )


def _ends_at_goals(rule: GoalRule, pairs: Pairs) -> bool:
    """Whether every step with the reward of a reached goal ended its episode, and there was one."""
    reached = np.isclose(pairs.reward, rule.reward(pairs.achieved, pairs.achieved))
    return bool(reached.any() and pairs.terminated[reached].all())


def _penalises_failure(rule: GoalRule, pairs: Pairs) -> bool:
    """Whether steps that end in failure cost more than the rule says, such as a crash, and all others what it says."""
    paid = pairs.reward - rule.reward(pairs.achieved, pairs.desired)
    failed = pairs.terminated & ~rule.terminated(pairs.achieved, pairs.desired)
    other = ~np.isclose(paid, 0, atol=1e-4)
    return bool(other.any() and (failed & (paid < 0))[other].all())


def _check_agreement(rule: GoalRule, pairs: Pairs, name: str) -> None:
    """Raise CairnError where rewards do not follow from the rule: hindsight would teach another task."""
    reward, terminated = rule.reward(pairs.achieved, pairs.desired), rule.terminated(pairs.achieved, pairs.desired)
    for i in range(len(pairs.reward)):
        where = f"for achieved {_show(pairs.achieved[i])} and desired {_show(pairs.desired[i])}"
        if not rule.cost and not np.isclose(reward[i], pairs.reward[i], atol=1e-4):
            raise CairnError(
                f"the reward of {name} is not what its rule says: {where} the step paid {pairs.reward[i]:g} and"
                f" the rule {float(reward[i]):g}; hindsight would teach another task."
            )
        if terminated[i] and not pairs.terminated[i]:
            raise CairnError(
                f"the termination of {name} is not what its rule says: {where} the rule ends the episode and"
                " the step did not."
            )
        reached = np.isclose(reward[i], rule.reward(pairs.achieved[i : i + 1], pairs.achieved[i : i + 1])[0])
        if pairs.terminated[i] and not terminated[i] and reached:
            raise CairnError(
                f"{name} ends where its goal is reached, and its rule does not say so ({where}): give it a"
                " compute_terminated, or a goal_rule that ends."
            )


def _show(goal: Array) -> str:
    head = ", ".join(f"{x:.3g}" for x in goal[:6])
    return f"({head}{', ...' if len(goal) > 6 else ''})"
