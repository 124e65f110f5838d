"""Stable-Baselines3's VecEnv in both directions: a VecEnv as a Cairn vector, and a Cairn vector as a VecEnv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from cairn.core.errors import CairnError, EnvError
from cairn.core.goals import GoalRule
from cairn.core.types import Array, Box, Composite, Discrete, MultiDiscrete, Spec, Step
from cairn.envs.masks import MASK, METHOD, Beside, MaskFault, maskable
from cairn.vector.checks import Rows, blame, check_reset, check_step, close_env, make_env
from cairn.vector.protocol import EnvMaker, EpisodeStats, Vector, success_of
from cairn.vector.spaces import GOAL_KEYS, lies_as_shown, spec_of, spec_of_env
from cairn.vector.world_reuse import must_renew


class SB3:
    """A Cairn vector over any VecEnv. The successor of an end is in info["terminal_observation"].

    A VecEnv reports a truncation only where the episode did not also terminate.

    Args:
        env: The VecEnv.
        shown: Spec and layout of one of its environments, if the environment declares more than its spaces do.
        remake: Makes the VecEnv again for every reset but the first, if resets depend on earlier use.
    """

    def __init__(
        self,
        env: VecEnv,
        shown: tuple[Spec, Callable[[Any], Array]] | None = None,
        remake: Callable[[], VecEnv] | None = None,
        *,
        ours: bool = True,
        masks: bool = True,
    ) -> None:
        self.remake, self.used, self.ours = remake, False, ours
        self.env, self.num_envs, self.restarts = env, env.num_envs, 0
        self.told = told_masks(env) if masks and shown is None else None  # puts masks beside observations
        self.space: Any = env.observation_space if self.told is None else self.told.space
        self.spec, self.layout = shown or spec_of(self.space, env.action_space)
        self.stats = EpisodeStats(self.num_envs)

    def reset(self, seeds: Sequence[int]) -> Array:
        self.stats.reset()
        if self.used and self.remake is not None:
            self.env.close()
            self.env = self._call(self.remake)
        self.used = True
        self.env.seed(0)  # makes the list of seeds that a reset passes on
        self.env.unwrapped._seeds[:] = [int(s) for s in seeds]
        return self._rows(self._call(self.env.reset))

    def _call(self, function: Callable[[], Any]) -> Any:
        """Call a function of the VecEnv. Raises EnvError where an environment failed."""
        try:
            return function()
        except EnvError:
            raise
        except (EOFError, ConnectionError):
            raise EnvError(0, "or another lost its process; what it said is above") from None
        except Exception as error:
            raise blame(0, error) from error

    def send(self, action: Array) -> None:
        act = self.spec.action
        rows = act.to_env(action)
        sent: Any = [act.structured(row) for row in rows] if isinstance(act, Composite) else rows
        self.env.step_async(sent)

    def recv(self) -> Step:
        seen, reward, done, infos = self._call(self.env.step_wait)
        obs = self._rows(seen)
        done = np.asarray(done, bool)
        truncated = done & np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
        next_obs = obs
        if done.any():
            next_obs = obs.copy()
            for i in np.flatnonzero(done):
                final = infos[i]["terminal_observation"]  # of whose mask nobody tells
                next_obs[i] = self.layout(final if self.told is None else self.told(final, None, over=True))
        reward = np.array(reward, np.float32)
        success = np.array([success_of(info) for info in infos], np.int8)
        valid = np.ones(self.num_envs, bool)
        score = np.array([info.get("cairn/score", paid) for info, paid in zip(infos, reward, strict=True)], np.float32)
        over = done & ~np.array([bool(info.get("cairn/goes_on")) for info in infos])
        episodes = self.stats.update(score, over, valid, success)
        return Step(obs, next_obs, reward, done & ~truncated, truncated, valid, episodes)

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def close(self) -> None:
        if self.ours:
            close_env(self.env)

    def _rows(self, obs: Any) -> Array:
        """A batched observation as a new array [N, *spec.obs_shape]."""
        if isinstance(obs, dict):
            obs = [{key: value[i] for key, value in obs.items()} for i in range(self.num_envs)]
        elif isinstance(obs, tuple):
            obs = [tuple(part[i] for part in obs) for i in range(self.num_envs)]
        if self.told is not None:
            masks = self._call(lambda: self.env.env_method(METHOD))
            obs = [self.told(row, mask, over=False) for row, mask in zip(obs, masks, strict=True)]
        if not lies_as_shown(self.space, self.spec):
            obs = [self._row(i, row) for i, row in enumerate(obs)]
        rows = np.array(obs, self.spec.obs_dtype)
        return rows.reshape(self.num_envs, *self.spec.obs_shape) if self.env.observation_space.shape == () else rows

    def _row(self, i: int, obs: Any) -> Array:
        """One observation of environment `i` as a row."""
        try:
            return self.layout(obs)
        except MaskFault as fault:
            raise EnvError(i, f"returned {fault}") from None


def told_masks(env: VecEnv) -> Beside | None:
    """What puts masks beside observations, if the environments have a method `action_masks` as in sb3-contrib."""
    shown = env.observation_space
    if not maskable(env.action_space) or (isinstance(shown, spaces.Dict) and MASK in shown.spaces):
        return None
    return Beside(shown, env.action_space) if env.has_attr(METHOD) else None


class Checked(gym.Wrapper[Any, Any, Any, Any]):
    """An environment for a foreign vector: what it returns is checked and passed on unchanged."""

    def __init__(self, env: gym.Env[Any, Any], row: Rows) -> None:
        super().__init__(env)
        self.row = row

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        try:
            out = self.env.reset(**given)
            self.row(check_reset(out))
        except (Exception, SystemExit) as error:
            raise blame(0, error, " at reset") from error
        return out

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        try:
            out = self.env.step(action)
            self.row(check_step(out)[0])
        except (Exception, SystemExit) as error:
            raise blame(0, error) from error
        return out


def of_task(task: EnvMaker, num_envs: int, *, processes: bool = True) -> SB3:
    """`num_envs` copies of a task in SB3's own vector: one process each, or all in this process."""
    probe = make_env(0, task)
    shown = spec_of_env(probe)
    renews = must_renew(task, probe)
    close_env(probe)
    makers: list[EnvMaker] = [lambda: Checked(task(), Rows(*shown))] * num_envs

    def remake() -> VecEnv:
        return SubprocVecEnv(makers, start_method="spawn") if processes else DummyVecEnv(makers)

    return SB3(remake(), shown, remake if renews else None)


class ForSB3(VecEnv):
    """A Cairn vector as a VecEnv, for any algorithm of Stable-Baselines3.

    Goal tasks have the Dict observations that MultiInputPolicy takes; with `rule`, HerReplayBuffer works too.

    Args:
        envs: The Cairn vector.
        seed: Seed of the first environment at the first reset, unless SB3 sets seeds.
        rule: The reward rule of a goal task; see `cairn.envs.goals.goal_rule`.
    """

    def __init__(self, envs: Vector, seed: int = 0, rule: GoalRule | None = None) -> None:
        self.envs, self.spec, self.rule, self.render_mode = envs, envs.spec, rule, None
        self.next_seeds = [seed + i for i in range(envs.num_envs)]
        super().__init__(envs.num_envs, _observation_space(envs.spec), _action_space(envs.spec))

    def reset(self) -> Any:
        given = [s for s in self._seeds if s is not None]
        seeded = len(given) == self.num_envs
        obs = self.envs.reset(given if seeded else self.next_seeds)
        if not seeded:  # other episodes at the next reset
            self.next_seeds = [s + self.num_envs for s in self.next_seeds]
        self._reset_seeds()
        self._reset_options()
        return self._seen(obs)

    def step_async(self, actions: Array) -> None:
        self.envs.send(self.spec.action.from_env(actions))

    def step_wait(self) -> tuple[Any, Array, Array, list[dict[str, Any]]]:
        step = self.envs.recv()
        if not step.valid.all():
            raise CairnError("an environment was lost or is restarting, which a VecEnv cannot represent.")
        done = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done):
            infos[i]["terminal_observation"] = self._seen(step.next_obs[i])
            infos[i]["TimeLimit.truncated"] = bool(step.truncated[i] and not step.terminated[i])
        for episode in step.episodes:
            infos[episode.env]["episode"] = {"r": episode.total, "l": episode.length, "t": 0.0}
            if episode.success is not None:
                infos[episode.env]["is_success"] = episode.success
        return self._seen(step.obs), step.reward.copy(), done, infos

    def _seen(self, obs: Array) -> Any:
        """A copy of observations [..., width] in the form that SB3 takes."""
        goal = self.spec.goal
        if goal is None:
            return obs.copy()
        parts = (slice(0, goal.observation), goal.achieved, goal.desired)
        return {key: obs[..., part].copy() for key, part in zip(GOAL_KEYS, parts, strict=True)}

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the vector itself, repeated: its environments may be in other processes."""
        if not hasattr(self, attr_name):
            raise AttributeError(f"environments of a Cairn vector do not show their {attr_name!r}.")
        return [getattr(self, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise AttributeError: environments of a Cairn vector cannot be changed."""
        raise AttributeError(f"environments of a Cairn vector cannot be given {attr_name!r}.")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """`compute_reward` of the rule; other methods raise AttributeError."""
        if method_name != "compute_reward" or self.rule is None:
            raise AttributeError(f"environments of a Cairn vector cannot be asked to {method_name!r}.")
        achieved, desired, *_ = args
        return [self.rule.reward(achieved, desired)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """False for every environment."""
        return [False] * len(list(self._get_indices(indices)))


def _observation_space(spec: Spec) -> spaces.Space[Any]:
    goal = spec.goal
    if goal is not None:
        widths = (goal.observation, goal.goal, goal.goal)
        parts: dict[str, spaces.Space[Any]] = {
            key: spaces.Box(-np.inf, np.inf, (width,), np.float32) for key, width in zip(GOAL_KEYS, widths, strict=True)
        }
        return spaces.Dict(parts)
    if spec.obs_dtype == "uint8":
        return spaces.Box(0, 255, spec.obs_shape, np.uint8)
    return spaces.Box(-np.inf, np.inf, spec.obs_shape, np.float32)


def _action_space(spec: Spec) -> spaces.Space[Any]:
    act = spec.action
    if isinstance(act, Discrete):
        return spaces.Discrete(act.n, start=act.start)
    if isinstance(act, MultiDiscrete):
        nvec, start = (np.reshape(np.array(x), act.shape) for x in (act.nvec, act.start))
        return spaces.MultiDiscrete(nvec, start=start)
    if not isinstance(act, Box):
        raise CairnError("Stable-Baselines3 has no actions of several parts.")
    low, high = (np.reshape(np.array(end, np.float32), act.shape) for end in (act.low, act.high))
    return spaces.Box(low, high, act.shape, np.float32)
