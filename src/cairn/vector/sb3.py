"""Stable-Baselines3's VecEnv in both directions: theirs behind our contract, ours handed to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from cairn.core.errors import CairnError, EnvError
from cairn.core.goals import GoalRule
from cairn.core.types import Array, Discrete, Spec, Step
from cairn.vector.checks import Checked, Rows, blame, close_env, make_env
from cairn.vector.protocol import GOAL_KEYS, EnvMaker, EpisodeStats, Vector, spec_of, spec_of_env, success_of
from cairn.vector.world_reuse import must_renew


class SB3:
    """Vector over any VecEnv. The successor of an end is in info["terminal_observation"].

    A VecEnv reports a truncation only where the episode did not terminate as well.
    """

    def __init__(
        self,
        env: VecEnv,
        shown: tuple[Spec, Callable[[Any], Array]] | None = None,
        remake: Callable[[], VecEnv] | None = None,
    ) -> None:
        """`shown`: the spec and layout of one of its environments, where it declares more than its spaces do. `remake`
        makes it again for every reset but the first, where resets depend on earlier use."""
        self.remake, self.used = remake, False
        self.env, self.num_envs, self.restarts = env, env.num_envs, 0
        self.spec, self.layout = shown or spec_of(env.observation_space, env.action_space)
        self.stats = EpisodeStats(self.num_envs)

    def reset(self, seeds: Sequence[int]) -> Array:
        self.stats.reset()
        if self.used and self.remake is not None:
            self.env.close()
            self.env = self._call(self.remake)
        self.used = True
        self.env.seed(0)  # makes the list of seeds, one each, which a reset hands to its environments
        self.env.unwrapped._seeds[:] = [int(s) for s in seeds]
        return self._rows(self._call(self.env.reset))

    def _call(self, function: Callable[[], Any]) -> Any:
        """What a function of the VecEnv returns; EnvError where an environment failed."""
        try:
            return function()
        except EnvError:
            raise
        except (EOFError, ConnectionError):
            raise EnvError(0, "or another lost its process; what it said is above") from None
        except Exception as error:
            raise blame(0, error) from error

    def send(self, action: Array) -> None:
        self.env.step_async(self.spec.action.to_env(action))

    def recv(self) -> Step:
        seen, reward, done, infos = self._call(self.env.step_wait)
        obs = self._rows(seen)
        done = np.asarray(done, bool)
        truncated = done & np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
        next_obs = obs
        if done.any():
            next_obs = obs.copy()
            for i in np.flatnonzero(done):
                next_obs[i] = self.layout(infos[i]["terminal_observation"])
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
        close_env(self.env)

    def _rows(self, obs: Any) -> Array:
        """A batched observation -> [N, *spec.obs_shape], ours to keep."""
        if isinstance(obs, dict):
            obs = [self.layout({key: value[i] for key, value in obs.items()}) for i in range(self.num_envs)]
        elif isinstance(obs, tuple) or not isinstance(self.env.observation_space, spaces.Box):
            obs = [self.layout(row) for row in obs]
        rows = np.array(obs, self.spec.obs_dtype)
        return rows.reshape(self.num_envs, *self.spec.obs_shape) if self.env.observation_space.shape == () else rows


def of_task(task: EnvMaker, num_envs: int, *, processes: bool = True) -> SB3:
    """`num_envs` copies of a task in SB3's own vector, each in a process of its own or all in this one."""
    probe = make_env(0, task)
    shown = spec_of_env(probe)
    renews = must_renew(task, probe)
    close_env(probe)
    makers: list[EnvMaker] = [lambda: Checked(task(), Rows(*shown))] * num_envs

    def remake() -> VecEnv:
        return SubprocVecEnv(makers, start_method="spawn") if processes else DummyVecEnv(makers)

    return SB3(remake(), shown, remake if renews else None)


class ForSB3(VecEnv):
    """A Vector of ours as a VecEnv, to be given to any algorithm of SB3.

    Goal tasks come as the Dict that its MultiInputPolicy asks for; with their `rule`, HerReplayBuffer works too.
    """

    def __init__(self, envs: Vector, seed: int = 0, rule: GoalRule | None = None) -> None:
        self.envs, self.spec, self.rule, self.render_mode = envs, envs.spec, rule, None
        self.next_seeds = [seed + i for i in range(envs.num_envs)]
        super().__init__(envs.num_envs, _observation_space(envs.spec), _action_space(envs.spec))

    def reset(self) -> Any:
        given = [s for s in self._seeds if s is not None]
        seeded = len(given) == self.num_envs
        obs = self.envs.reset(given if seeded else self.next_seeds)
        if not seeded:  # the next reset begins other episodes
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
        """[..., width] -> as SB3 is to see it, a copy."""
        goal = self.spec.goal
        if goal is None:
            return obs.copy()
        parts = (slice(0, goal.observation), goal.achieved, goal.desired)
        return {key: obs[..., part].copy() for key, part in zip(GOAL_KEYS, parts, strict=True)}

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Of a vector only what it says of itself: its environments may live elsewhere."""
        if not hasattr(self, attr_name):
            raise AttributeError(f"environments of a Cairn vector do not show their {attr_name!r}.")
        return [getattr(self, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(f"environments of a Cairn vector cannot be given {attr_name!r}.")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        if method_name != "compute_reward" or self.rule is None:
            raise AttributeError(f"environments of a Cairn vector cannot be asked to {method_name!r}.")
        achieved, desired, *_ = args
        return [self.rule.reward(achieved, desired)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
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
    low, high = (np.reshape(np.array(end, np.float32), act.shape) for end in (act.low, act.high))
    return spaces.Box(low, high, act.shape, np.float32)
