"""Hints: only where they are close, and by the names that other libraries use."""

from __future__ import annotations

from dataclasses import fields

import gymnasium as gym
import pytest

from cairn.algorithms.registry import ALGORITHMS
from cairn.core.errors import closest
from cairn.core.sb3_names import RENAMED, WITHOUT, hint, renamed
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
    assert {one for names in RENAMED.values() for one in names} <= settings
    assert not settings & set(WITHOUT)


def test_one_name_means_what_the_agent_has() -> None:
    known = {name: [f.name for f in fields(one.config)] for name, one in ALGORITHMS.items()}
    assert hint("ent_coef", known["ppo"]) == " Did you mean entropy_weight?"
    assert hint("ent_coef", known["sac"]) == " Did you mean alpha?"
    assert hint("n_steps", known["ppo"]) == " Did you mean horizon?"
    assert hint("verbose", known["ppo"]) == " Leave it out: progress is always shown."
