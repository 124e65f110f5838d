"""Pictures in the documents that are drawn from policies: `python docs/pictures.py COMMAND`.

    walker RUN        docs/img/bipedal.png: six frames of one episode above the learning curve of a run
    frames [NAME...]  docs/img/frames/NAME.jpg: six moments of one episode of each policy in the zoo
    films [NAME...]   docs/img/NAME.gif, NAME.webp: policies of the zoo at work, side by side (FILMS below)

A film states in itself which policies it shows; tests/test_pictures.py compares that with FILMS and with the zoo.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cairn.report.play import play
from cairn.report.video import prepare_headless
from cairn.runs.checkpoint import load_policy
from cairn.runs.evaluation import as_policy

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "img"


@dataclass(frozen=True)
class Tile:
    """A policy in a film."""

    policy: str  # of the zoo
    caption: str
    steps: int  # how many are shown, from the first
    seed: int = 1000  # of the episode


@dataclass(frozen=True)
class Film:
    """Episodes side by side, as a picture that repeats."""

    tiles: tuple[Tile, ...]
    columns: int
    width: int  # of a tile, in pixels
    height: int
    moments: int  # frames
    pause: int  # milliseconds between two of them


FILMS = {
    "tasks.gif": Film(  # README.md
        (
            Tile("bipedal-hardcore", "PPO", 240),
            Tile("hopper-aggrevated", "AggreVaTeD", 90),
            Tile("racecar-her", "SAC + hindsight", 120),
            Tile("fetch-pick-her", "SAC + hindsight", 30),
            Tile("ant-maze-hiro", "HIRO", 300),
            Tile("rooms-hiro-dqn", "HIRO on DQN", 60),
            Tile("breakout-dqn", "DQN from pixels", 240),
            Tile("sac-pendulum", "SAC", 80, seed=1074),
        ),
        columns=4, width=200, height=150, moments=40, pause=100,
    ),
    "films/basics.webp": Film(
        (
            Tile("cartpole-ppo", "PPO", 120),
            Tile("sac-pendulum", "SAC", 120, seed=1074),
            Tile("balancing-plate-dqn", "DQN", 120),
        ),
        columns=3, width=240, height=180, moments=60, pause=80,
    ),
    "films/walker.webp": Film(
        (Tile("bipedal-sac", "SAC", 240), Tile("bipedal-hardcore", "PPO", 360)),
        columns=2, width=360, height=240, moments=80, pause=80,
    ),
    "films/goals.webp": Film(
        (
            Tile("fetch-push-her", "SAC + hindsight", 30),
            Tile("fetch-slide-her", "SAC + hindsight", 30),
            Tile("racecar-her", "SAC + hindsight", 120),
        ),
        columns=3, width=240, height=180, moments=60, pause=80,
    ),
    "films/subgoals.webp": Film(
        (
            Tile("point-maze-hiro", "HIRO", 90),
            Tile("ant-maze-hiro", "HIRO", 360),
            Tile("rooms-hiro-dqn", "HIRO on DQN", 60),
        ),
        columns=3, width=240, height=180, moments=60, pause=100,
    ),
    "films/experts.webp": Film(
        (Tile("bipedal-aggrevated-reinforce", "AggreVaTeD", 240), Tile("hopper-aggrevated", "AggreVaTeD", 100)),
        columns=2, width=360, height=240, moments=80, pause=80,
    ),
    "films/pixels.webp": Film(
        (
            Tile("pong-ppo", "PPO from pixels", 400),
            Tile("breakout-dqn", "DQN from pixels", 400),
            Tile("pixel-cartpole", "PPO from pixels", 120),
        ),
        columns=3, width=240, height=180, moments=80, pause=80,
    ),
}  # fmt: skip
CAPTION = 18  # pixels under a tile
COLOURS = 160  # of a GIF
QUALITY = 55  # of WebP
DESCRIPTION = 0x010E  # where a WebP keeps its comment: the EXIF tag ImageDescription


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


def draw_film(name: str) -> None:
    """docs/img/NAME, repeating. A tile whose episode is over shows its last frame."""
    from PIL import Image

    film, path = FILMS[name], IMAGES / name
    rows = -(-len(film.tiles) // film.columns)
    size = film.columns * film.width, rows * (film.height + CAPTION)
    sheets = [Image.new("RGB", size, "white") for _ in range(film.moments)]
    for k, tile in enumerate(film.tiles):
        corner = (k % film.columns) * film.width, (k // film.columns) * (film.height + CAPTION)
        for sheet, frame in zip(sheets, moments(tile, film.moments), strict=True):
            sheet.paste(framed(frame, tile, film), corner)
    path.parent.mkdir(exist_ok=True)
    told = {"save_all": True, "duration": film.pause, "loop": 0}
    if path.suffix == ".gif":
        both = Image.new("RGB", (sheets[0].width, 2 * sheets[0].height))
        both.paste(sheets[0], (0, 0))
        both.paste(sheets[-1], (0, sheets[0].height))
        palette = both.quantize(COLOURS)  # one for all frames, so that what stands still is stored once
        sheets = [sheet.quantize(palette=palette, dither=Image.Dither.NONE) for sheet in sheets]
        told |= {"optimize": True, "comment": shown(film).encode()}
    else:
        exif = Image.Exif()
        exif[DESCRIPTION] = shown(film)
        told |= {"quality": QUALITY, "method": 6, "exif": exif}
    sheets[0].save(path, append_images=sheets[1:], **told)
    print(f"docs/img/{name}: {path.stat().st_size:,} bytes")


def shown(film: Film) -> str:
    """What a film was made from, as JSON: each tile, with the checksum of its policy."""
    tiles = [asdict(tile) | {"sha256": checksum(tile.policy)} for tile in film.tiles]
    return json.dumps({"made by": "docs/pictures.py films", "tiles": tiles})


def checksum(policy: str) -> str:
    """SHA-256 of the weights of zoo/POLICY."""
    return hashlib.sha256((ROOT / "zoo" / policy / "policy.safetensors").read_bytes()).hexdigest()


def read_shown(path: Path) -> str:
    """What a film says that it was made from."""
    from PIL import Image

    with Image.open(path) as picture:
        if path.suffix == ".gif":
            return str(picture.info["comment"].decode())
        return str(picture.getexif()[DESCRIPTION])


def moments(tile: Tile, count: int) -> list[Any]:
    """`count` frames of the first steps of an episode, evenly spaced; the last repeats if it ends earlier."""
    steps = np.linspace(0, tile.steps, count).astype(int).tolist()
    frames = render_episode(tile.policy, set(steps), tile.seed)
    order = sorted(set(steps))
    return [frames[min(order.index(step), len(frames) - 1)] for step in steps]


def framed(frame: Any, tile: Tile, film: Film) -> Any:
    """A frame scaled to its tile, above the caption."""
    from PIL import Image, ImageDraw, ImageFont, ImageOps

    sheet = Image.new("RGB", (film.width, film.height + CAPTION), "white")
    sheet.paste(ImageOps.pad(Image.fromarray(frame), (film.width - 4, film.height), color="white"), (2, 0))
    caption = f"{tile.policy}: {tile.caption}"
    ImageDraw.Draw(sheet).text((4, film.height + 3), caption, fill="#333", font=ImageFont.load_default(11))
    return sheet


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["walker", run]:
            draw_walker(Path(run))
        case ["frames", *names]:
            draw_frames(names)
        case ["films", *names]:
            for name in names or FILMS:
                draw_film(name)
        case _:
            sys.exit(__doc__)
