"""ALE's own vector of Atari games: emulated, resized and batched in C++ threads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.game import Game
from cairn.core.types import Array, Discrete, Spec, Step
from cairn.vector.protocol import EpisodeStats


class Atari:
    """N copies of one game, preprocessed as `Game` says. Its steps are those of the environment but for three points.

    - the number of idle frames at the start of a game is drawn from another generator
    - a step in which FIRE is pressed for a lost life is not valid, because the other games step meanwhile; if the game
    ends
      in it, the episode is reported in that step
    - the newest frame after a game's last step is the frame before it, as the pixel-wise maximum with what ALE still
      rendered; Gymnasium's AtariPreprocessing does the same

    If ALE ended an episode at a lost life it would also begin another game, so it only reports lost lives. It neither
    clips rewards nor stacks frames: true scores are needed, and a stack must be cleared at a lost life.
    """

    def __init__(self, game: Game, num_envs: int, *, threads: int = 0) -> None:
        from ale_py.vector_env import AtariVectorEnv

        if game.mode is not None or game.difficulty is not None:
            raise CairnError(
                f"vector atari supports the default mode and difficulty only; use {option('vector', 'sync')} or async."
            )
        self.game, self.num_envs, self.restarts = game, num_envs, 0
        self.env: Any = AtariVectorEnv(
            game.rom,
            num_envs,
            num_threads=min(threads or os.cpu_count() or 1, num_envs),
            max_num_frames_per_episode=game.limit,
            repeat_action_probability=game.sticky,
            full_action_space=game.full_actions,
            autoreset_mode=AutoresetMode.SAME_STEP,
            img_height=game.size,
            img_width=game.size,
            stack_num=1,
            frameskip=game.skip,
            noop_max=game.noops,
            life_loss_info=game.life_loss,
            reward_clipping=False,
            use_fire_reset=game.fire,
        )
        names = [action.name for action in self.env.ale.get_action_set()]
        self.button = names.index("FIRE") if game.fire and game.life_loss and "FIRE" in names else None
        shape = (game.stack, game.size, game.size)
        self.spec = Spec(shape, "uint8", Discrete(len(names)), stack=game.stack)
        self.stats = EpisodeStats(num_envs)
        self.obs: Array = np.zeros((num_envs, *shape), np.uint8)
        self.began = np.zeros(num_envs, np.int64)  # the frame at which each game began; a new number is a new game
        self.press = np.zeros(num_envs, bool)  # lost a life: FIRE is pressed next
        self.silent = np.full(num_envs, -1, np.int8)  # no game reports success

    def reset(self, seeds: Sequence[int]) -> Array:
        frame, info = self.env.reset(seed=np.asarray(seeds, np.int64))
        self.stats.reset()
        self.press[:] = False
        self.began = _beginning(info)
        self.obs = np.zeros((self.num_envs, *self.spec.obs_shape), np.uint8)
        self.obs[:, -1] = frame[:, 0]
        return self.obs

    def send(self, action: Array) -> None:
        self.env.send(np.where(self.press, self.button, action) if self.button is not None else action)

    def recv(self) -> Step:
        game, pressed = self.game, self.press
        frame, score, ended, truncated, info = self.env.recv()
        began = _beginning(info)
        over, self.began = began != self.began, began
        lost = ended & ~over
        score = np.asarray(score, np.float32)
        valid = ~pressed if game.learning else np.ones(self.num_envs, bool)

        next_obs = np.empty_like(self.obs)
        next_obs[:, :-1] = self.obs[:, 1:]
        next_obs[:, -1] = frame[:, 0]
        if over.any():
            next_obs[over, -1] = info["final_obs"][over, 0]
        if not game.learning:
            next_obs[lost | pressed, :-1] = 0
        fresh = over | lost | pressed if game.learning else over
        self.obs = next_obs
        if fresh.any():
            self.obs = next_obs.copy()
            self.obs[fresh, :-1] = 0
            self.obs[fresh, -1] = frame[fresh, 0]

        self.press = lost if self.button is not None else np.zeros(self.num_envs, bool)
        terminated = (ended if game.learning else ended & over) & valid
        reward = np.sign(score) if game.clip and game.learning else score
        self.stats.length -= ~valid  # pressing FIRE does not count as a step
        episodes = self.stats.update(score, over, np.ones(self.num_envs, bool), self.silent)
        return Step(self.obs, next_obs, reward * valid, terminated, truncated & valid, valid, episodes)

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def close(self) -> None:
        self.env.close()


def _beginning(info: dict[str, Array]) -> Array:
    """The emulator's frame number at which each game began."""
    return info["frame_number"].astype(np.int64) - info["episode_frame_number"]
