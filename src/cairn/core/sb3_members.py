"""What a model and a list of algorithms of Stable-Baselines3 have that Cairn has elsewhere, for hints in messages."""

from __future__ import annotations

from collections.abc import Iterable

from cairn.core.sb3_names import renamed

_NETWORKS = "its networks belong to `agent`"
_TASK = "give the environment when you make or load the model: PPO(env), PPO.load(path, env=env)"
_FILES = "learn(n, out=FOLDER) writes metrics.csv and TensorBoard logs there"
_REPLAY = "learn(n, out=FOLDER) keeps it in that folder, and learn(n, out=FOLDER, resume=True) reads it"
_WEIGHTS = "save(path) and load(path) are for the whole agent; its networks belong to `agent`"
# An attribute of a model there -> what to use here.
MEMBERS: dict[str, str] = {
    "policy": _NETWORKS,
    "q_net": _NETWORKS,
    "actor": _NETWORKS,
    "critic": _NETWORKS,
    "env": "its task is `task`",
    "get_env": "its task is `task`",
    "set_env": _TASK,
    "get_vec_normalize_env": "statistics of observations are a part of the agent: PPO(env, normalise_obs=True)",
    "observation_space": "its spaces are in `spec`",
    "action_space": "its spaces are in `spec`",
    "num_timesteps": "a callback is given the step: learn(n, callback=f), and f(progress) reads progress.step",
    "logger": _FILES,
    "set_logger": _FILES,
    "replay_buffer": _REPLAY,
    "save_replay_buffer": _REPLAY,
    "load_replay_buffer": _REPLAY,
    "get_parameters": _WEIGHTS,
    "set_parameters": _WEIGHTS,
    "set_random_seed": "the seed is given when the model is made: PPO(env, seed=1)",
    "collect_rollouts": "learn(n) collects and trains",
    "train": "learn(n) collects and trains",
}
# An algorithm there, as RL Zoo writes it -> what to use here.
ALGORITHMS: dict[str, str] = {
    "ddpg": "TD3 is its successor; an agent of ddpg can be imported and played",
    "ppo_mask": "PPO reads the action masks of a task by itself",
    "maskableppo": "PPO reads the action masks of a task by itself",
    "maskable_ppo": "PPO reads the action masks of a task by itself",
    "qrdqn": "It is dqn with --agent.quantiles 200, in Python DQN(env, quantiles=200)",
    "her": "It is not an agent here: it is dqn, sac or td3 with --hindsight future",
}


def member(name: str, settings: Iterable[str]) -> str:
    """What to use for a model's attribute `name`, as a sentence; "" if nothing is known. `settings`: of its config."""
    if name in MEMBERS:
        return f" In Cairn, {MEMBERS[name]}."
    known = list(settings)
    found = name if name in known else renamed(name, known)
    return f" It is `config.{found}`." if found is not None else ""


def algorithm(name: str) -> str:
    """What to take for an algorithm that Cairn does not have under this name, as a sentence; "" if nothing is known."""
    found = ALGORITHMS.get(name.lower(), "")
    return f" {found}." if found else ""
