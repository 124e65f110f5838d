"""Run folders made by hand: what a training would leave, without the training."""

import json
from dataclasses import replace

import numpy as np

from cairn.core.serialise import to_json
from cairn.recipes import find

HEAD = "step,seconds,name,value\n"


def write_run(folder, returns, *, recipe="cartpole-ppo", every=1000, config=None, **changes):
    """A run of a recipe with these mean returns, one evaluation each `every` steps."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = to_json(replace(find(recipe), **changes)) | (config or {})
    (folder / "config.json").write_text(json.dumps(plain))
    lines = [HEAD]
    for k, value in enumerate(returns, 1):
        lines.append(f"{k * every},{k},rollout/ep_rew_mean,{value / 2:.6g}\n")
        lines.append(f"{k * every},{k},train/value_loss,{1 / k:.6g}\n")
        lines.append(f"{k * every},{k},eval/mean_reward,{value:.6g}\n")
    (folder / "metrics.csv").write_text("".join(lines))
    np.savez(
        folder / "evaluations.npz",
        timesteps=[k * every for k in range(1, len(returns) + 1)],
        results=[[v - 1, v + 1] for v in returns],
        ep_lengths=[[10, 10] for _ in returns],
    )
    return folder


def remark(folder, **changes):
    body = {"step": 2000, "code": "units-dead", "severity": "warning", "what": "Most units are dead."}
    body |= {"evidence": "80% or more at three logs", "remedy": "Start anew with a lower agent.lr.", **changes}
    with open(folder / "watch.jsonl", "a") as file:
        file.write(json.dumps(body) + "\n")


def film(path, frames=20):
    """A short film that a browser can play."""
    import imageio.v2 as imageio

    with imageio.get_writer(path, fps=10, macro_block_size=2) as video:
        for k in range(frames):
            picture = np.full((64, 96, 3), 255, np.uint8)
            picture[20:44, 4 * k : 4 * k + 12] = (11, 99, 176)
            video.append_data(picture)
