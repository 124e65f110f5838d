"""Films a policy without a display."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.algorithms.player import Player
from cairn.core.errors import CairnError
from cairn.core.types import Array, Episode
from cairn.envs.task import Task
from cairn.report.play import play
from cairn.runs.evaluation import Policy
from cairn.vector.checks import close_env

SUBGOAL = (0.1, 0.5, 1.0, 0.8)  # colour of a subgoal
SPHERE = 2  # MuJoCo's number of a sphere
BALL = 0.015  # radius of a subgoal in MuJoCo, as a share of the world's extent
KINDS = (".mp4", ".mkv", ".mov", ".avi")


def prepare_headless() -> None:
    """Let pygame draw without a display; call it before pygame is imported. For MuJoCo see `envs.rendering`."""
    if "DISPLAY" not in os.environ:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def needs(out: Path) -> None:
    """Raise CairnError where `out` is not a video's name, or an extra is missing."""
    if out.suffix.lower() not in KINDS:
        raise CairnError(f"{out} is not a video file; its name must end in {', '.join(KINDS)}.")
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        raise CairnError("writing a video needs an extra: pip install 'cairn-rl[video]'.")


def record(policy: Policy | Player, task: Task, out: Path, *, episodes: int = 1, seed: int = 1000) -> list[Episode]:
    """Play `episodes` with new seeds and write all frames to `out`; returns the episodes."""
    needs(out)
    import imageio.v2 as imageio

    env = replace(task, render_mode="rgb_array")()
    rate = int(env.metadata.get("render_fps") or 30)
    played: list[Episode] = []
    part = out.with_name(f".{out.stem}.part{out.suffix}")  # an incomplete film must not replace an older one
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
        writer: Any = imageio.get_writer(part, fps=rate, macro_block_size=2)
        with writer as video:

            def film(row: Array, point: Array | None) -> None:
                if point is not None:
                    _mark(env, point)
                video.append_data(_frame(env, task.id))

            for k in range(episodes):
                played.append(play(policy, env, seed=seed + k, watch=film, longest=task.longest))
        part.replace(out)
    except OSError as error:
        why = error.strerror or str(error).splitlines()[0]
        raise CairnError(f"{out} could not be written as a video ({why}); name a file such as video.mp4.") from error
    finally:
        close_env(env)
        with contextlib.suppress(OSError):
            part.unlink()
    return played


def _mark(env: Any, point: Array) -> None:
    """Show a subgoal in the next frame: by the task's own `mark`, or as a ball in MuJoCo."""
    bare = env.unwrapped
    if hasattr(bare, "mark"):
        bare.mark(point)
        return
    drawn = getattr(bare, "point_env", bare)  # PointMaze draws its point environment
    renderer = getattr(drawn, "mujoco_renderer", None)
    if renderer is not None:
        size = BALL * float(drawn.model.stat.extent)
        pos = np.concatenate([point, np.full(3, size)])[:3].astype(float)  # 2D subgoals lie on the ground
        renderer._get_viewer("rgb_array").add_marker(
            type=SPHERE, pos=pos, size=np.full(3, size), rgba=np.array(SUBGOAL)
        )


def _frame(env: Any, name: str) -> Array:
    """A frame of the environment. Raises CairnError where drawing fails."""
    try:
        image = env.render()
    except Exception as error:
        why = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        if "pygame" in why and isinstance(error, (ImportError, gym.error.DependencyNotInstalled)):
            why = "pygame is not installed; pip install 'cairn-rl[video]' brings it"
        raise CairnError(f"{name} cannot be drawn: {why}.") from error
    if not isinstance(image, np.ndarray):
        raise CairnError(f"{name} does not render to rgb_array, so it cannot be filmed.")
    return image
