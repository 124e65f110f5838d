"""A video of a policy at work, made without a screen."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cairn.agents.player import Player
from cairn.core.errors import CairnError
from cairn.core.types import Array, Episode
from cairn.envs.make import Task
from cairn.report.play import play
from cairn.train.evaluate import Policy

SUBGOAL = (0.1, 0.5, 1.0, 0.8)  # the colour of a subgoal
SPHERE = 2  # MuJoCo's number for one
BALL = 0.015  # radius of a subgoal in MuJoCo, as a share of the world's extent
KINDS = (".mp4", ".mkv", ".mov", ".avi")


def prepare_headless() -> None:
    """Choose off-screen rendering before MuJoCo or pygame is imported."""
    if "DISPLAY" not in os.environ:
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("PYOPENGL_PLATFORM", os.environ["MUJOCO_GL"])
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def record(policy: Policy | Player, task: Task, out: Path, *, episodes: int = 1, seed: int = 1000) -> list[Episode]:
    """Play `episodes` from fresh seeds, write every frame to `out`, and return how each went."""
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        raise CairnError("writing a video needs an extra: pip install 'cairn-rl[video]'.")
    if out.suffix.lower() not in KINDS:
        raise CairnError(f"{out} is no video by its name; end it in {', '.join(KINDS)}.")
    import imageio.v2 as imageio

    env = replace(task, render_mode="rgb_array")()
    rate = int(env.metadata.get("render_fps") or 30)
    played: list[Episode] = []
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        writer: Any = imageio.get_writer(out, fps=rate, macro_block_size=2)
        with writer as video:

            def film(row: Array, point: Array | None) -> None:
                if point is not None:
                    _mark(env, point)
                video.append_data(_frame(env.render()))

            for k in range(episodes):
                played.append(play(policy, env, seed=seed + k, watch=film))
    except OSError as error:
        raise CairnError(f"{out} could not be written as a video ({error}); name a file such as video.mp4.") from error
    except ImportError as error:
        raise CairnError(f"{task.id} cannot be drawn: {error}.") from error
    except Exception as error:
        if "gl" in type(error).__name__.lower() or "EGL" in str(error) or "OpenGL" in str(error):
            raise CairnError(
                f"{task.id} cannot be drawn without a screen ({error});"
                " install EGL or OSMesa and set MUJOCO_GL=egl or osmesa."
            ) from error
        raise
    finally:
        env.close()
    return played


def _mark(env: Any, point: Array) -> None:
    """Draw a subgoal into the next frame: by the task's own `mark`, or as a ball where MuJoCo draws."""
    bare = env.unwrapped
    if hasattr(bare, "mark"):
        bare.mark(point)
        return
    drawn = getattr(bare, "point_env", bare)  # a point in a maze is drawn by the point
    renderer = getattr(drawn, "mujoco_renderer", None)
    if renderer is not None:
        size = BALL * float(drawn.model.stat.extent)
        pos = np.concatenate([point, np.full(3, size)])[:3].astype(float)  # a flat task's lies on the ground
        renderer._get_viewer("rgb_array").add_marker(
            type=SPHERE, pos=pos, size=np.full(3, size), rgba=np.array(SUBGOAL)
        )


def _frame(image: object) -> Array:
    if not isinstance(image, np.ndarray):
        raise CairnError("this environment does not render to rgb_array, so it cannot be filmed.")
    return image
