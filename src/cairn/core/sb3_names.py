"""Names of settings in Stable-Baselines3 and CleanRL, what Cairn calls them, and hints for unknown names."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cairn.core.errors import nearest

# Their name -> Cairn's names. A hint gives the first one that is valid in its context.
RENAMED: dict[str, tuple[str, ...]] = {
    # the run
    "total_timesteps": ("steps",),
    "track": ("log",),
    "timesteps": ("steps",),
    "n_timesteps": ("steps",),
    "n_envs": ("envs",),
    "num_envs": ("envs",),
    "env_id": ("env",),
    "env_name": ("env",),
    "env_kwargs": ("env_args",),
    "algo": ("agent",),
    "algorithm": ("agent",),
    "vec_env_cls": ("vector",),
    "vec_env": ("vector",),
    "log_interval": ("log_every",),
    "eval_freq": ("eval_every",),
    "eval_frequency": ("eval_every",),
    "n_eval_episodes": ("eval_episodes", "episodes"),
    "save_freq": ("checkpoint_every",),
    "max_episode_steps": ("time_limit",),
    "log_folder": ("out",),
    "log_dir": ("out",),
    "log_path": ("out",),
    "save_path": ("out",),
    "output": ("out",),
    "output_dir": ("out",),
    "tensorboard_log": ("out",),
    "tb_log_name": ("out",),
    "reset_num_timesteps": ("resume",),
    "trained_agent": ("start",),
    "num_threads": ("threads",),
    "n_trials": ("trials",),
    "n_jobs": ("jobs",),
    "cuda": ("device",),
    "replay_buffer_class": ("hindsight",),
    "replay_buffer_kwargs": ("hindsight_k",),
    "n_sampled_goal": ("hindsight_k",),
    "goal_selection_strategy": ("hindsight",),
    "reward_threshold": ("target",),
    # the agent
    "learning_rate": ("lr",),
    "policy_lr": ("actor_lr", "lr"),
    "q_lr": ("lr",),
    "net_arch": ("hidden",),
    "policy_kwargs": ("hidden",),
    "activation_fn": ("activation",),
    "n_steps": ("horizon", "n_step"),
    "num_steps": ("horizon",),
    "n_epochs": ("epochs",),
    "update_epochs": ("epochs",),
    "gae_lambda": ("lam",),
    "clip_range": ("clip",),
    "clip_coef": ("clip",),
    "clip_range_vf": ("value_clip",),
    "clip_vloss": ("value_clip",),
    "ent_coef": ("entropy_weight", "alpha"),
    "vf_coef": ("value_weight",),
    "max_grad_norm": ("max_norm",),
    "normalize_advantage": ("normalise_advantage",),
    "norm_adv": ("normalise_advantage",),
    "norm_obs": ("normalise_obs", "normalise"),
    "normalize_obs": ("normalise_obs", "normalise"),
    "normalize": ("normalise", "normalise_obs"),
    "norm_reward": ("normalise_reward",),
    "normalize_reward": ("normalise_reward",),
    "use_rms_prop": ("rmsprop",),
    "log_std_init": ("log_std",),
    "discount": ("gamma",),
    "discount_factor": ("gamma",),
    "buffer_size": ("capacity",),
    "train_freq": ("updates_per_step",),
    "train_frequency": ("updates_per_step",),
    "gradient_steps": ("updates_per_step",),
    "target_update_interval": ("target_every",),
    "target_network_frequency": ("target_every",),
    "exploration_fraction": ("epsilon",),
    "exploration_initial_eps": ("epsilon",),
    "exploration_final_eps": ("epsilon",),
    "start_e": ("epsilon",),
    "end_e": ("epsilon",),
    "action_noise": ("noise",),
    "exploration_noise": ("noise",),
    "target_policy_noise": ("target_noise",),
    "policy_noise": ("target_noise",),
    "target_noise_clip": ("noise_clip",),
    "policy_frequency": ("policy_delay",),
    "n_critics": ("ensemble",),
    "n_quantiles": ("quantiles",),
    "autotune": ("learn_alpha",),
    "epsilon_start": ("epsilon",),
    "anneal_lr": ("lr",),
    "num_minibatches": ("batch_size",),
    "batch": ("batch_size",),
    "minibatch_size": ("batch_size",),
    "hidden_sizes": ("hidden",),
    "hidden_size": ("hidden",),
}

# Example values in Python syntax. `written` converts them for the command line.
EXAMPLES: dict[str, str] = {
    "steps": "100_000",
    "envs": "8",
    "env": '"CartPole-v1"',
    "env_args": '{"gravity": 9.8}',
    "vector": '"async"',
    "log_every": "1_000",
    "log": '"wandb"',
    "eval_every": "10_000",
    "eval_episodes": "20",
    "episodes": "20",
    "checkpoint_every": "50_000",
    "time_limit": "500",
    "out": '"runs/mine"',
    "resume": "True",
    "start": '"runs/mine"',
    "trials": "20",
    "jobs": "2",
    "device": '"cuda"',
    "hindsight": '"future"',
    "hindsight_k": "4",
    "target": "475",
    "lr": "3e-4",
    "actor_lr": "3e-4",
    "hidden": "(64, 64)",
    "activation": '"relu"',
    "horizon": "2048",
    "n_step": "3",
    "epochs": "10",
    "lam": "0.95",
    "clip": "0.2",
    "value_clip": "0.2",
    "entropy_weight": "0.01",
    "alpha": "0.2",
    "value_weight": "0.5",
    "max_norm": "0.5",
    "normalise_advantage": "True",
    "normalise_obs": "True",
    "normalise": "True",
    "normalise_reward": "True",
    "rmsprop": "True",
    "log_std": "-1.0",
    "gamma": "0.99",
    "tau": "0.005",
    "target_kl": "0.01",
    "learning_starts": "1_000",
    "seed": "3",
    "hold": "3",
    "metric": '"success"',
    "threads": "4",
    "capacity": "1_000_000",
    "updates_per_step": "0.25",
    "target_every": "1_000",
    "epsilon": '"linear(1.0,0.05,0.1)"',
    "noise": "0.1",
    "target_noise": "0.2",
    "noise_clip": "0.5",
    "policy_delay": "2",
    "ensemble": "2",
    "quantiles": "200",
    "learn_alpha": "True",
    "batch_size": "64",
}
# Examples for names that mean only one use of Cairn's setting.
EXAMPLES_OF: dict[str, str] = {"anneal_lr": '"linear(3e-4,0)"'}

# How to convert their values.
NOTES: dict[str, str] = {
    "policy_kwargs": "net_arch is hidden and activation_fn is activation",
    "activation_fn": "relu, tanh or silu, as a string",
    "train_freq": "gradient steps per environment step: train_freq=4 with gradient_steps=1 is 0.25",
    "train_frequency": "gradient steps per environment step: train_frequency=4 is 0.25",
    "gradient_steps": "gradient steps per environment step: train_freq=4 with gradient_steps=1 is 0.25",
    "target_update_interval": "counted in gradient steps, not in environment steps",
    "target_network_frequency": "counted in gradient steps, not in environment steps",
    "exploration_fraction": "from 1.0 to 0.05 over the first 0.1 of the run",
    "exploration_initial_eps": "from 1.0 to 0.05 over the first 0.1 of the run",
    "exploration_final_eps": "from 1.0 to 0.05 over the first 0.1 of the run",
    "start_e": "from 1.0 to 0.05 over the first 0.1 of the run",
    "end_e": "from 1.0 to 0.05 over the first 0.1 of the run",
    "epsilon_start": "from 1.0 to 0.05 over the first 0.1 of the run",
    "action_noise": "the standard deviation of Gaussian noise; actions lie in [-1, 1]",
    "exploration_noise": "the standard deviation of Gaussian noise; actions lie in [-1, 1]",
    "replay_buffer_class": "HerReplayBuffer with the strategy future",
    "replay_buffer_kwargs": "n_sampled_goal; goal_selection_strategy is hindsight",
    "anneal_lr": "a schedule from 3e-4 to 0 over the run",
    "num_minibatches": "batch_size is envs times horizon divided by num_minibatches",
    "log_interval": "counted in environment steps",
    "tensorboard_log": "TensorBoard logs are in its folder tb",
    "tb_log_name": "TensorBoard logs are in its folder tb",
    "eval_freq": "counted in environment steps",
    "save_freq": "counted in environment steps",
}

# Their settings that Cairn does not have, and why.
WITHOUT: dict[str, str] = {
    "policy": "there is no policy to name: the network follows from the observation space",
    "verbose": "progress is always shown",
    "progress_bar": "progress is always shown",
    "callback": "a callback is a function, which Python gives to a training: learn(100_000, callback=f)",
    "tensorboard_log": "TensorBoard logs are written to tb/ in the folder of the run, which `out` names",
    "tb_log_name": "TensorBoard logs are written to tb/ in the folder of the run, which `out` names",
    "use_sde": "state-dependent exploration is not offered",
    "sde_sample_freq": "state-dependent exploration is not offered",
    "use_sde_at_warmup": "state-dependent exploration is not offered",
    "optimize_memory_usage": "the replay buffer always stores each observation once",
    "rollout_buffer_class": "the rollout buffer has one setting, its length",
    "rollout_buffer_kwargs": "the rollout buffer has one setting, its length",
    "normalize_advantage": "ppo always normalises the advantages of a minibatch",
    "norm_adv": "ppo always normalises the advantages of a minibatch",
    "rms_prop_eps": "it is fixed at 1e-5",
    "stats_window_size": "statistics are over the last 100 episodes",
    "monitor_wrapper": "every run writes monitor.csv",
    "_init_setup_model": "networks are always made at once",
    "target_entropy_scale": "the target entropy is set directly, by target_entropy",
    "torch_deterministic": "a run on a CPU is always deterministic",
    "capture_video": "`cairn watch` films a saved policy",
}


def renamed(name: str, known: Iterable[str]) -> str | None:
    """The known name that means what another library calls `name`; None where there is none.

    Names may be keywords (`learning_rate`) or options (`--learning-rate`, `--agent.lr`). Only their last word is
    compared.
    Where several match, the shortest is returned: `--lr` means `--agent.lr`.
    """
    by_word: dict[str, str] = {}
    for one in known:
        word = _word(one)
        if word not in by_word or len(one) < len(by_word[word]):
            by_word[word] = one
    for word in meanings(name):
        if word in by_word and by_word[word] != name:
            return by_word[word]
    return None


def meanings(name: str) -> tuple[str, ...]:
    """Cairn's possible names for `name`, beginning with the name itself without dashes and prefix."""
    asked = _word(name)
    return (asked, *RENAMED.get(asked, ()))


def written(setting: str, name: str = "") -> str:
    """A setting with an example value: `lr=3e-4`, or `--agent.lr 3e-4` where the setting is an option.

    `name` is the other library's name, which may have an example of its own.
    """
    word = _word(setting)
    value = EXAMPLES_OF.get(_word(name)) or EXAMPLES.get(word, "...")
    if not setting.startswith("-"):
        return f"{setting}={value}"
    if value.startswith("("):
        value = value.strip("()").replace(",", "")
    elif value.startswith("{"):
        value = f"'{value}'"
    elif value.startswith('"') and "(" not in value:
        value = value.strip('"')
    return setting if value == "True" else f"{setting} {value.replace('_', '') if value[0].isdigit() else value}"


def hint(name: str, known: Iterable[str], elsewhere: Callable[[str], str] | None = None) -> str:
    """What to write instead of an unknown name: a sentence with a space before it, or "".

    Args:
        name: The unknown name.
        known: The names that are valid here.
        elsewhere: Returns a sentence that says where else Cairn has this setting, or "".
    """
    known = list(known)
    asked, found = _word(name), renamed(name, known)
    if found is not None and _word(found) == asked:
        return _meant(found)
    if found is not None:
        return f" In Cairn it is {found}: write {written(found, name)}{note(name)}."
    if asked in WITHOUT:
        return f" Leave it out: {WITHOUT[asked]}."
    found_elsewhere = [said for word in meanings(name) if elsewhere is not None and (said := elsewhere(word))]
    if found_elsewhere:
        return f" {found_elsewhere[0]}"
    if asked in RENAMED:
        return f" In Cairn it is {RENAMED[asked][0]}, which is no setting here."
    found = nearest(name, known)
    return _meant(found) if found is not None else ""


def _meant(found: str) -> str:
    return f" Did you mean {found}?" + (f" Write {written(found)}." if _word(found) in EXAMPLES else "")


def note(name: str) -> str:
    """How to convert another library's value, in parentheses with a space before them; or ""."""
    return f" ({NOTES[_word(name)]})" if _word(name) in NOTES else ""


def _word(name: str) -> str:
    return name.rpartition(".")[2].lstrip("-").replace("-", "_").lower()
