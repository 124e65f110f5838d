"""Pictures in the documents that are drawn from policies: `python docs/pictures.py COMMAND`.

    walker RUN        docs/img/bipedal.png: six frames of one episode above the learning curve of a run
    frames [NAME...]  docs/img/frames/NAME.jpg: six moments of one episode of each policy in the zoo
    film              docs/img/tasks.gif: one episode each of eight policies in the zoo, side by side (README.md)
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cairn.report.play import play
from cairn.report.video import prepare_headless
from cairn.runs.checkpoint import load_policy
from cairn.runs.evaluation import as_policy

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "img"

# The tiles of the film: policy, caption, how many steps from the start are shown, seed of the episode.
TILES = (
    ("bipedal-hardcore", "PPO", 240, 1000),
    ("hopper-aggrevated", "AggreVaTeD", 90, 1000),
    ("racecar-her", "SAC + hindsight", 120, 1000),
    ("fetch-pick-her", "SAC + hindsight", 30, 1000),
    ("ant-maze-hiro", "HIRO", 300, 1000),
    ("rooms-hiro-dqn", "HIRO on DQN", 60, 1000),
    ("breakout-dqn", "DQN from pixels", 240, 1000),
    ("sac-pendulum", "SAC", 80, 1074),
)
MOMENTS = 40  # frames of the film
PAUSE = 100  # milliseconds between two of them
WIDTH, HEIGHT, CAPTION = 200, 150, 18  # of a tile, in pixels
COLOURS = 160


class Enough(Exception):
    """The last wanted frame is drawn: the rest of the episode need not be played."""


def render_episode(name: str, steps: set[int], seed: int = 1000) -> list[Any]:
    """Frames of one episode of zoo/NAME, from a seed, at these steps; fewer where the episode is shorter."""
    from cairn.report.video import _mark

    policy, env = open_policy(name, drawn=True)
    frames, step = [], 0

    def watch(row: object, point: Any) -> None:
        nonlocal step
        if step in steps:
            if point is not None:
                _mark(env, point)
            frames.append(np.asarray(env.render()))
        step += 1
        if step > max(steps):
            raise Enough

    with contextlib.suppress(Enough):
        play(policy, env, seed=seed, watch=watch)
    env.close()
    return frames


def open_policy(name: str, drawn: bool) -> tuple[Any, Any]:
    """The policy zoo/NAME and its environment."""
    prepare_headless()
    saved = load_policy(ROOT / "zoo" / name)
    return as_policy(saved.agent), replace(saved.task, render_mode="rgb_array" if drawn else None)()


def draw_walker(run: Path) -> None:
    """Frames of one episode in a strip, above the learning curve of the run."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from cairn.envs.task import Task
    from cairn.runs.curves import evaluations

    saved = load_policy(run)
    policy, env = as_policy(saved.agent), Task(saved.task.id, render_mode="rgb_array")()
    obs, _ = env.reset(seed=1000)
    frames, over = [], False
    while not over:
        frames.append(env.render())
        obs, _, terminated, truncated, _ = env.step(policy(obs[None])[0])
        over = terminated or truncated
    env.close()
    chosen = [frames[i] for i in np.linspace(20, 160, 6).astype(int)]
    points = evaluations(run, "return")
    figure = plt.figure(figsize=(10, 4.6), constrained_layout=True)
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1.35))
    for axis, frame in zip(top.subplots(1, 6), chosen, strict=True):
        axis.imshow(frame)
        axis.axis("off")
    axis = bottom.subplots()
    axis.plot([p.step / 1e6 for p in points], [p.value for p in points], "o-", color="#b3541e")
    axis.axhline(300, color="#888", linewidth=0.8, linestyle="--")
    axis.set_xlabel("environment steps (millions)")
    axis.set_ylabel("mean return, 20 episodes")
    axis.set_title(f"{saved.about['recipe']}, seed {saved.about['seed']}", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "bipedal.png", dpi=110)


def draw_frames(names: list[str]) -> None:
    """Six moments of one episode of each policy, in a strip."""
    import imageio.v3 as imageio
    from PIL import Image

    folder = IMAGES / "frames"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or sorted(p.name for p in (ROOT / "zoo").iterdir()):
        policy, env = open_policy(name, drawn=False)
        length = play(policy, env, seed=1000, watch=lambda row, point: None).length
        env.close()
        frames = render_episode(name, set(np.linspace(0, length, 6).astype(int).tolist()))
        pictures = [Image.fromarray(frame) for frame in frames]
        strip = [np.asarray(p.resize((round(180 * p.width / p.height), 180))) for p in pictures]
        imageio.imwrite(folder / f"{name}.jpg", np.concatenate(strip, 1), quality=80)
        print(f"{name}: {len(frames)} of {length} steps")


def draw_film() -> None:
    """A looping GIF of all tiles, four in a row. A tile whose episode is over shows its last frame."""
    from PIL import Image

    rows, columns = -(-len(TILES) // 4), 4
    sheets = [Image.new("RGB", (columns * WIDTH, rows * (HEIGHT + CAPTION)), "white") for _ in range(MOMENTS)]
    for k, (name, caption, span, seed) in enumerate(TILES):
        corner = (k % columns) * WIDTH, (k // columns) * (HEIGHT + CAPTION)
        tiles = [_tile(frame, f"{name}: {caption}") for frame in _moments(name, span, seed)]
        for sheet, tile in zip(sheets, tiles, strict=True):
            sheet.paste(tile, corner)
        print(name)
    both = Image.new("RGB", (sheets[0].width, 2 * sheets[0].height))
    both.paste(sheets[0], (0, 0))
    both.paste(sheets[-1], (0, sheets[0].height))
    palette = both.quantize(COLOURS)  # one for all frames, so that what stands still is stored once
    frames = [sheet.quantize(palette=palette, dither=Image.Dither.NONE) for sheet in sheets]
    frames[0].save(
        IMAGES / "tasks.gif", save_all=True, append_images=frames[1:], duration=PAUSE, loop=0, optimize=True
    )  # fmt: skip
    print(f"docs/img/tasks.gif: {(IMAGES / 'tasks.gif').stat().st_size:,} bytes")


def _moments(name: str, span: int, seed: int) -> list[Any]:
    """MOMENTS frames of the first `span` steps of an episode, evenly spaced; the last repeats if it ends earlier."""
    steps = np.linspace(0, span, MOMENTS).astype(int).tolist()
    frames = render_episode(name, set(steps), seed)
    order = sorted(set(steps))
    return [frames[min(order.index(step), len(frames) - 1)] for step in steps]


def _tile(frame: Any, caption: str) -> Any:
    """A frame scaled to the tile, above its caption."""
    from PIL import Image, ImageDraw, ImageFont, ImageOps

    tile = Image.new("RGB", (WIDTH, HEIGHT + CAPTION), "white")
    tile.paste(ImageOps.pad(Image.fromarray(frame), (WIDTH - 4, HEIGHT), color="white"), (2, 0))
    ImageDraw.Draw(tile).text((4, HEIGHT + 3), caption, fill="#333", font=ImageFont.load_default(11))
    return tile


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["walker", run]:
            draw_walker(Path(run))
        case ["frames", *names]:
            draw_frames(names)
        case ["film"]:
            draw_film()
        case _:
            sys.exit(__doc__)
