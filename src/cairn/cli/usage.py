"""The text of `cairn --help`."""

from __future__ import annotations

from collections.abc import Callable

Command = Callable[[list[str]], int]  # the arguments after its name -> the exit code

USAGE = """cairn: reinforcement learning for tasks with sparse or distant rewards

Train:
  cairn train NAME [--seed 3] [--steps N] [--agent.gamma 0.95] [--out FOLDER]
      train a recipe; `cairn list` shows them
  cairn train --env ENV --agent sac [--steps N]
      train on any Gymnasium id, without a recipe
  cairn train FILE.json [--trust]
      train a recipe in a file: a run's config.json, or the result of tune
  cairn train RUN --resume [--steps N]
      continue the run in a folder
  cairn sweep NAME [--seeds 5] [--jobs 2] [options of train]
      train several seeds and summarise them
  cairn tune NAME [--trials 20] [--jobs 2] [--vary lr,gamma]
      search for better settings with Optuna

Look at policies and runs:
  cairn list [--json]
      list the recipes with their best recorded result
  cairn results [--folder results] [--json]
      show recorded results of each recipe over its seeds
  cairn eval PATH [--episodes 100] [--seed 1000] [--record results]
      evaluate a saved policy on new seeds
  cairn watch PATH [--out video.mp4 | plan.png] [--episodes 1]
      write a video of a policy, or a plan of its paths
  cairn report RUN... [-o page.html]
      write a page with curves, evaluations, settings and videos of runs
  cairn report RUN... --live [--port 8000]
      serve that page for runs in progress, on this machine only

Your own task:
  cairn doctor ENV [--recipe NAME] [--seconds 60] [--json]
      find out what keeps an agent from learning a task
  cairn doctor PATH [--episodes 20] [--seconds 60] [--json]
      find out which level of a hierarchy is at fault
  cairn new-env NAME [--goal] [--out FOLDER]
      write a template of a task of your own, and its test

Policies from elsewhere, and for elsewhere:
  cairn import FILE.zip [--normalizer FILE.pkl] [--env ENV] --out FOLDER
      convert a Stable-Baselines3 policy
  cairn export PATH --out FOLDER [--half]
      write the policy of a run as a folder of its own
  cairn export PATH --onnx FILE [--torchscript FILE] [--sb3 FILE.zip]
      write it as a file that runs without Cairn, or in Stable-Baselines3
  cairn demos PATH --out FILE.npz [--episodes 20]
      record episodes of a policy, to imitate with --demos FILE.npz

Speed:
  cairn bench vector ENV [--envs 1 4 16 64]
      measure the speed of each vector backend
  cairn bench peers [--tasks cartpole-ppo] [--yes]
      compare with SB3, SBX, Tianshou and RLlib (from a checkout)
  cairn native [--build]
      build the C++ core for small networks on a CPU, or say if it is there

To begin: `cairn list`, `cairn train cartpole-ppo --seed 1`, then
`cairn eval runs/cartpole-ppo-s1`. `cairn COMMAND --help` shows every option.
PATH is a run folder, a checkpoint or a zoo entry. A task that a file names as
module:id is imported only with --trust."""


def first_of(command: str) -> str:
    """The first usage of a command, without its options: `cairn train NAME`."""
    line = next(line for line in USAGE.splitlines() if f"{line} ".startswith(f"  cairn {command} "))
    return f"`{line.partition('[')[0].strip()}`"


def lines_of(command: str) -> str:
    """The usage of one command, with its explanations."""
    found, ours = list[str](), False
    for line in USAGE.splitlines():
        if not line.startswith("      "):
            ours = line.startswith(f"  cairn {command} ")
        if ours:
            found.append(line)
    return "\n".join(found)
