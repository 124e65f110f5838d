"""What Stable-Baselines3 and CleanRL call a setting, and what Cairn calls it; hints for unknown names."""

from __future__ import annotations

from collections.abc import Iterable

from cairn.core.errors import closest

# Their name -> Cairn's names. The first one that is known where the hint is given is the answer.
RENAMED: dict[str, tuple[str, ...]] = {
    # the run
    "total_timesteps": ("steps",),
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
    "n_steps": ("horizon",),
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
    "batch": ("batch_size",),
    "minibatch_size": ("batch_size",),
    "hidden_sizes": ("hidden",),
    "hidden_size": ("hidden",),
}

# Their names for which Cairn has no setting, and why.
WITHOUT: dict[str, str] = {
    "policy": "there is no policy to name: the network follows from the observations",
    "verbose": "progress is always shown",
    "progress_bar": "progress is always shown",
    "callback": "there are no callbacks: evaluations, checkpoints and logs are settings of a run",
    "tensorboard_log": "logs go into the folder of the run",
    "tb_log_name": "logs go into the folder of the run",
    "log_interval": "how often a run is logged is a setting of the run",
    "reset_num_timesteps": "a run goes on in its folder, where it is resumed",
    "use_sde": "state-dependent exploration is not offered",
    "sde_sample_freq": "state-dependent exploration is not offered",
    "use_sde_at_warmup": "state-dependent exploration is not offered",
    "optimize_memory_usage": "the replay always keeps every observation once",
    "rollout_buffer_class": "a rollout has no setting but its length",
    "rollout_buffer_kwargs": "a rollout has no setting but its length",
    "replay_buffer_class": "hindsight is a setting of the run",
    "replay_buffer_kwargs": "hindsight is a setting of the run",
    "rms_prop_eps": "it is fixed",
    "stats_window_size": "statistics are over the last 100 episodes",
    "monitor_wrapper": "every run writes monitor.csv",
    "_init_setup_model": "networks are always made at once",
    "num_minibatches": "the size of a batch is set instead, by batch_size",
    "anneal_lr": 'write the learning rate as a schedule: "linear(3e-4,0)"',
    "target_entropy_scale": "the target entropy is set itself, by target_entropy",
    "torch_deterministic": "a run on a CPU is always exact",
    "track": "there is no tracker: a run writes TensorBoard logs",
    "capture_video": "`cairn watch` films a policy",
}


def renamed(name: str, known: Iterable[str]) -> str | None:
    """The known name that means what another library, or a user in a hurry, calls `name`; None where there is none.

    Names may be keywords (`learning_rate`) or options (`--learning-rate`, `--agent.lr`): they are compared by their
    last word, and the shortest of several wins. So `--lr` is found to mean `--agent.lr`.
    """
    by_word: dict[str, str] = {}
    for one in known:
        word = _word(one)
        if word not in by_word or len(one) < len(by_word[word]):
            by_word[word] = one
    asked = _word(name)
    for word in (asked, *RENAMED.get(asked, ())):
        if word in by_word and by_word[word] != name:
            return by_word[word]
    return None


def hint(name: str, known: Iterable[str]) -> str:
    """' Did you mean X?' for an unknown name, or why there is no such setting, or nothing."""
    known = list(known)
    found = renamed(name, known)
    if found is not None:
        return f" Did you mean {found}?"
    why = WITHOUT.get(_word(name))
    return f" Leave it out: {why}." if why else closest(name, known)


def _word(name: str) -> str:
    return name.rpartition(".")[2].lstrip("-").replace("-", "_").lower()
