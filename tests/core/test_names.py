"""Hints: only where they are close, and by the names that other libraries use."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import gymnasium as gym
import pytest

from cairn import A2C, DQN, PPO, SAC, TD3, CairnError
from cairn.algorithms.registry import ALGORITHMS
from cairn.cli.main import main
from cairn.core.errors import closest
from cairn.core.sb3_members import MEMBERS
from cairn.core.sb3_names import EXAMPLES, EXAMPLES_OF, NOTES, RENAMED, WITHOUT, hint, renamed
from cairn.recipes.recipe import Recipe

OPTIONS = ["--steps", "--envs", "--no-envs", "--hold", "--no-hold", "--agent.lr", "--agent.high.lr", "--agent.gamma"]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("gama", ["lr", "gamma", "lam"], "gamma"),
        ("trian", ["train", "eval", "tune"], "train"),
        ("pop", ["ppo", "dqn", "bc"], "ppo"),
        ("cartpole-pop", ["cartpole-dqn", "cartpole-ppo"], "cartpole-ppo"),
        ("--epsiodes", ["--episodes", "--seed"], "--episodes"),
        ("CartPole", gym.registry, "CartPole-v1"),
        ("cartpole-v7", gym.registry, "CartPole-v1"),
        ("hopper", gym.registry, "Hopper-v5"),
        ("learning_rate", ["learning_starts", "gamma"], None),
        ("gae_lambda", ["gamma", "lr"], None),
        ("Nope-v0", gym.registry, None),
        ("--lr", ["--hold", "--no-hold", "--seed"], None),
        ("x", ["y", "z"], None),
        ("", ["a", "steps"], None),
    ],
)
def test_a_hint_is_given_only_where_it_is_close(name: str, known: list[str], meant: str | None) -> None:
    assert closest(name, known) == ("" if meant is None else f" Did you mean {meant}?")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("--n-envs", "--envs"),
        ("--num-envs", "--envs"),
        ("--lr", "--agent.lr"),
        ("--learning-rate", "--agent.lr"),
        ("--agent.learning-rate", "--agent.lr"),
        ("--gamma", "--agent.gamma"),
        ("--total-timesteps", "--steps"),
        ("--buffer-size", None),
    ],
)
def test_other_libraries_names_are_known_as_options(name: str, meant: str | None) -> None:
    assert renamed(name, OPTIONS) == meant


def test_every_name_of_the_table_leads_to_a_setting_that_exists() -> None:
    settings = {f.name for one in ALGORITHMS.values() for f in fields(one.config)} | {f.name for f in fields(Recipe)}
    settings |= {"out", "resume", "trials", "jobs", "episodes"}
    assert set(EXAMPLES) <= settings and set(EXAMPLES_OF) | set(NOTES) <= set(RENAMED)
    assert {one for names in RENAMED.values() for one in names} <= settings
    assert not settings & set(WITHOUT)


def test_one_name_means_what_the_agent_has() -> None:
    known = {name: [f.name for f in fields(one.config)] for name, one in ALGORITHMS.items()}
    assert hint("ent_coef", known["ppo"]) == " In Cairn it is entropy_weight: write entropy_weight=0.01."
    assert hint("ent_coef", known["sac"]) == " In Cairn it is alpha: write alpha=0.2."
    assert hint("n_steps", known["ppo"]) == " In Cairn it is horizon: write horizon=2048."
    assert hint("n_steps", known["dqn"]) == " In Cairn it is n_step: write n_step=3."
    assert hint("buffer_size", known["ppo"]) == " In Cairn it is capacity, which is no setting here."
    assert hint("verbose", known["ppo"]) == " Leave it out: progress is always shown."


LEARN, LEAVE = "of learn: write learn(100_000, ", "Leave it out: "
CART, PENDULUM = "CartPole-v1", "Pendulum-v1"
# name -> algorithm, what its class answers ("": it takes it), what `cairn train` with a recipe of it answers.
KNOWN: dict[str, tuple[Any, str, str]] = {
    "learning_rate": (PPO, "lr=3e-4", "--agent.lr 3e-4"),
    "n_steps": (PPO, "horizon=2048", "--agent.horizon 2048"),
    "batch_size": (PPO, "", "--agent.batch-size 64"),
    "n_epochs": (PPO, "epochs=10", "--agent.epochs 10"),
    "gamma": (PPO, "", "--agent.gamma 0.99"),
    "gae_lambda": (PPO, "lam=0.95", "--agent.lam 0.95"),
    "clip_range": (PPO, "clip=0.2", "--agent.clip 0.2"),
    "clip_range_vf": (PPO, "value_clip=0.2", "--agent.value-clip 0.2"),
    "ent_coef": (SAC, "alpha=0.2", "--agent.alpha 0.2"),
    "vf_coef": (PPO, "value_weight=0.5", "--agent.value-weight 0.5"),
    "max_grad_norm": (PPO, "max_norm=0.5", "--agent.max-norm 0.5"),
    "target_kl": (PPO, "", "--agent.target-kl 0.01"),
    "normalize_advantage": (PPO, LEAVE + "ppo always normalises", LEAVE + "ppo always normalises"),
    "use_sde": (PPO, LEAVE + "state-dependent exploration", LEAVE + "state-dependent exploration"),
    "policy_kwargs": (PPO, "hidden=(64, 64) (net_arch is hidden and activation_fn", "--agent.hidden 64 64"),
    "net_arch": (PPO, "hidden=(64, 64)", "--agent.hidden 64 64"),
    "activation_fn": (PPO, 'activation="relu"', "--agent.activation relu"),
    "total_timesteps": (PPO, "write learn(100_000)", "--steps 100000"),
    "buffer_size": (DQN, "capacity=1_000_000", "--agent.capacity 1000000"),
    "learning_starts": (DQN, "", "--agent.learning-starts 1000"),
    "train_freq": (DQN, "updates_per_step=0.25 (gradient steps per", "--agent.updates-per-step 0.25"),
    "gradient_steps": (DQN, "updates_per_step=0.25", "--agent.updates-per-step 0.25"),
    "tau": (SAC, "", "--agent.tau 0.005"),
    "target_update_interval": (DQN, "target_every=1_000 (counted in gradient", "--agent.target-every 1000"),
    "exploration_fraction": (DQN, 'epsilon="linear(1.0,0.05,0.1)"', '--agent.epsilon "linear(1.0,0.05,0.1)"'),
    "exploration_initial_eps": (DQN, 'epsilon="linear(1.0,0.05,0.1)"', '--agent.epsilon "linear(1.0,0.05,0.1)"'),
    "exploration_final_eps": (DQN, 'epsilon="linear(1.0,0.05,0.1)"', '--agent.epsilon "linear(1.0,0.05,0.1)"'),
    "action_noise": (TD3, "noise=0.1 (the standard deviation", "--agent.noise 0.1"),
    "target_policy_noise": (TD3, "target_noise=0.2", "--agent.target-noise 0.2"),
    "policy_delay": (TD3, "", "--agent.policy-delay 2"),
    "replay_buffer_class": (SAC, LEARN + 'hindsight="future")', "--hindsight future"),
    "optimize_memory_usage": (DQN, LEAVE + "the replay buffer", LEAVE + "the replay buffer"),
    "verbose": (PPO, LEAVE + "progress is always shown", LEAVE + "progress is always shown"),
    "tensorboard_log": (PPO, LEAVE + "TensorBoard logs are written to tb/", "--out runs/mine"),
    "n_envs": (PPO, "envs=8", "--envs 8"),
    "eval_freq": (PPO, LEARN + "eval_every=10_000)", "--eval-every 10000"),
    "n_eval_episodes": (PPO, LEARN + "eval_episodes=20)", "--eval-episodes 20"),
    "callback": (PPO, LEAVE + "a callback is a function", LEAVE + "a callback is a function"),
    "track": (PPO, LEARN + 'log="wandb")', "--log wandb"),
    "log_interval": (PPO, LEARN + "log_every=1_000)", "--log-every 1000"),
    "progress_bar": (PPO, LEAVE + "progress is always shown", LEAVE + "progress is always shown"),
    "num_envs": (PPO, "envs=8", "--envs 8"),
    "num_steps": (PPO, "horizon=2048", "--agent.horizon 2048"),
    "anneal_lr": (PPO, 'lr="linear(3e-4,0)"', '--agent.lr "linear(3e-4,0)"'),
    "update_epochs": (PPO, "epochs=10", "--agent.epochs 10"),
    "num_minibatches": (PPO, "batch_size=64 (batch_size is envs times horizon", "--agent.batch-size 64"),
    "clip_coef": (PPO, "clip=0.2", "--agent.clip 0.2"),
    "seed": (PPO, "", ""),
    "device": (PPO, "", ""),
}
RECIPE = {PPO: "cartpole-ppo", DQN: "cartpole-dqn", SAC: "sac-pendulum", TD3: "td3-pendulum"}


@pytest.mark.parametrize("name", KNOWN)
def test_names_of_sb3_and_cleanrl_are_answered_in_python(name: str) -> None:
    kind, answer, _ = KNOWN[name]
    env = PENDULUM if kind in (SAC, TD3) else CART
    if not answer:
        assert name in {f.name for f in fields(ALGORITHMS[kind.kind].config)} | {"seed", "device", "envs", "threads"}
        return
    with pytest.raises(CairnError) as error:
        kind(env, **{name: 1})
    assert answer in str(error.value) and f"no setting {name!r}" in str(error.value)


@pytest.mark.parametrize("name", [name for name, (_, _, answer) in KNOWN.items() if answer])
def test_names_of_sb3_and_cleanrl_are_answered_on_the_command_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, _, answer = KNOWN[name]
    for flag in {f"--{name}", f"--{name.replace('_', '-')}"}:
        with pytest.raises(SystemExit) as stop:
            main(["train", RECIPE[kind], flag, "1"])
        said = capsys.readouterr().err
        assert stop.value.code == 2 and answer in said and f"no option {flag}." in said


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"total_timesteps": 10}, "it is called steps: write learn(10_000)."),
        ({"steps": 10, "learning_rate": 1e-3}, "a setting of the agent: write PPO(env, lr=3e-4)"),
        ({"steps": 10, "anneal_lr": True}, 'write PPO(env, lr="linear(3e-4,0)")'),
        ({"steps": 10, "eval_freq": 5}, "write eval_every=10_000"),
        ({"steps": 10, "buffer_size": 5}, "capacity is a setting of dqn, sac, td3; ppo has none"),
        ({"steps": 10, "tensorboard_log": "x"}, 'write out="runs/mine"'),
    ],
    ids=str,
)
def test_names_of_sb3_are_answered_by_learn(arguments: dict[str, Any], answer: str) -> None:
    with pytest.raises(CairnError) as error:
        PPO(CART, hidden=8).learn(**arguments)
    assert answer in str(error.value)


def test_no_hint_leads_to_another_setting() -> None:
    """learning_rate is not learning_starts, and gae_lambda is not gamma, whatever the algorithm has."""
    for one in ALGORITHMS.values():
        known = [f.name for f in fields(one.config)]
        assert "learning_starts" not in hint("learning_rate", known)
        assert "gamma" not in hint("gae_lambda", known)


@pytest.mark.parametrize(
    ("recipe", "flag", "owner"),
    [
        ("cartpole-dqn", "--agent.clip", "ppo, and cartpole-dqn trains dqn; for ppo write cairn train cartpole-ppo"),
        ("cartpole-ppo", "--agent.epsilon", "dqn, and"),
        ("cartpole-ppo", "--buffer-size", "dqn, sac, td3, and cartpole-ppo trains ppo"),
        ("sac-pendulum", "--agent.policy-delay", "td3, and"),
    ],
)
def test_an_option_of_another_algorithm_names_it(
    recipe: str, flag: str, owner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["train", recipe, flag, "0.1"])
    assert f"is an option of {owner}" in capsys.readouterr().err


def test_a_setting_of_another_algorithm_names_it_in_python() -> None:
    for kind, name, owners in (
        (DQN, "clip", "ppo"),
        (A2C, "epochs", "ppo"),
        (PPO, "capacity", "dqn, sac, td3"),
    ):
        with pytest.raises(CairnError, match=f"{name} is a setting of {owners}; {kind.kind} has none"):
            kind(CART, **{name: 1})


def test_an_attribute_of_their_models_is_answered() -> None:
    model: Any = PPO("CartPole-v1", hidden=8)
    with pytest.raises(
        AttributeError, match="'PPO' object has no attribute 'policy'. In Cairn, its networks belong to `agent`"
    ):
        model.policy
    with pytest.raises(AttributeError, match="no attribute 'learning_rate'. It is `config.lr`.$"):
        model.learning_rate
    with pytest.raises(AttributeError, match="'PPO' object has no attribute 'nothing'.$"):
        model.nothing
    assert not [name for name in MEMBERS if hasattr(model, name)], "Cairn has it itself"


def test_the_attributes_are_those_of_their_models() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    theirs = [sb3.PPO("MlpPolicy", "CartPole-v1"), sb3.SAC("MlpPolicy", "Pendulum-v1", buffer_size=1)]
    theirs.append(sb3.DQN("MlpPolicy", "CartPole-v1", buffer_size=1))
    assert [name for name in MEMBERS if not any(name in dir(model) for model in theirs)] == []
