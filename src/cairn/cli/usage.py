"""What `cairn --help` prints."""

from __future__ import annotations

from collections.abc import Callable

Command = Callable[[list[str]], int]  # the arguments after its name -> the exit code

USAGE = """cairn: reinforcement learning for tasks whose reward is far away

  cairn train NAME [--seed 3] [--steps N] [--agent.gamma 0.95] [--out FOLDER] [--record results]
  cairn train RUN --resume [--steps N]     continue the run of a folder
  cairn train --env ENV --agent sac [options]     any Gymnasium id, without a recipe
  cairn train FILE.json [--trust] [options]     a recipe in a file: a run's config.json, what tune found, your own
  cairn eval PATH [--episodes 100] [--seed 1000] [--json] [--record results]
  cairn watch PATH [--out video.mp4 | plan.png] [--episodes 1]
  cairn report RUN... [-o page.html]     curves, evaluations, settings, findings and films of runs, as one page
  cairn report RUN... --live [--port 8000]     the same of runs in progress, served to this machine alone
  cairn list [--json]
  cairn results [--folder results] [--json]     what recorded results say of each recipe, over its seeds
  cairn import FILE.zip [--normalizer FILE.pkl] [--env ENV] --out FOLDER     a policy of Stable-Baselines3
  cairn export PATH --out FOLDER [--half]     a policy by itself, to keep or to give away
  cairn demos PATH --out FILE.npz [--episodes 20]     record a policy, to be learned from with --demos FILE.npz
  cairn doctor ENV [--recipe NAME] [--seconds 60] [--json]     why a task does not learn
  cairn new-env NAME [--goal] [--out FOLDER]     a task of your own to begin with, and its test
  cairn bench vector ENV [--envs 1 4 16 64]     how fast each backend steps a task here
  cairn bench peers [--tasks cartpole-ppo] [--yes]     Cairn beside SB3, SBX, Tianshou and RLlib; from a checkout
  cairn sweep NAME [--seeds 5] [--jobs 2] [options of train]     several seeds, and what they say together
  cairn tune NAME [--trials 20] [--jobs 2] [--vary lr,gamma] [options of train]     look for better settings

`cairn COMMAND --help` shows every option. PATH is a run folder, a checkpoint or a zoo entry.
Nothing that a file names is imported: for a policy or a recipe whose task is module:id, say --trust."""


def lines_of(command: str) -> str:
    """What the usage says of one command."""
    return "\n".join(line for line in USAGE.splitlines() if line.startswith(f"  cairn {command} "))
