"""For every watcher a run that it must speak of and its repaired twin, of which it is silent."""

import io
import json
import time
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

from cairn.algorithms import DQNConfig, HIROConfig, PPOConfig, SACConfig, build
from cairn.core.schedules import constant
from cairn.core.types import Box, Discrete, Episode, Spec
from cairn.doctor.watchers import WATCHERS, Watch, read_findings, watching
from cairn.envs.task import Task
from cairn.recipes.recipe import Recipe
from cairn.runs.progress import Progress
from cairn.runs.run import Run
from cairn.runs.train import train
from cairn.runs.watching import Moment
from cairn.vector.spaces import spec_of_env
from tests.doctor.tasks import Puck

ARM = Spec((3,), "float32", Box((2,), (-1.0, -1.0), (1.0, 1.0)))
KEYS = Spec((3,), "float32", Discrete(4))
NORMAL = 0.5 * np.log(2 * np.pi * np.e)  # the entropy of one dimension with σ = 1


def said(cfg, spec, values, *, episodes=((-100.0, 100),), deaths=False, logs=25, until=0.9, **more):
    """The codes of a run whose metrics were always these, or `values(i)` at log i."""
    watch, found = Watch(cfg, spec), []
    for i in range(logs):
        for total, length in episodes:
            watch.episode(Episode(0, total, length, None), deaths)
        now = values(i) if callable(values) else values
        found += watch.check(Moment(1000 * (i + 1), until * (i + 1) / logs, more.get("updates", 0), now))
    codes = [f.code for f in found]
    assert len(codes) == len(set(codes))  # once each
    assert all(f.what.endswith(".") and f.evidence and f.remedy.endswith(".") for f in found)
    return codes


def entropy(*sigma):
    return lambda i: {"train/entropy": 2 * (NORMAL + np.log(sigma[i % len(sigma)]))}


def rising(top):
    return lambda i: {"rollout/ep_rew_mean": float(min(i, top))}


PPO, SAC = PPOConfig(), SACConfig(batch_size=256)
VARIED = ((-100.0, 100), (-90.0, 100))
CASES = [
    ("run-not-finite", {"values": {"train/loss": float("nan")}}, {"values": {"train/loss": 1.0}}),
    ("q-beyond-rewards", {"values": {"train/q_mean": 5e4}}, {"values": {"train/q_mean": -90.0}}),
    ("q-beyond-rewards", {"values": {"train/actor_loss": -5e4}, "cfg": SAC}, {"values": {"train/actor_loss": 80.0}}),
    ("std-stuck", {"values": entropy(0.5)}, {"values": entropy(0.5, 0.501)}),
    ("actions-saturated", {"values": entropy(7.4, 7.41)}, {"values": entropy(1.0, 0.9)}),
    ("entropy-collapsed", {"values": entropy(0.001, 0.0011)}, {"values": entropy(0.1, 0.11)}),
    (
        "entropy-collapsed",
        {"values": {"train/entropy": 0.001}, "spec": KEYS},
        {"values": {"train/entropy": 1.0}, "spec": KEYS},
    ),
    ("kl-large", {"values": {"train/approx_kl": 0.5}}, {"values": {"train/approx_kl": 0.02}}),
    (
        "critic-blind",
        {"values": {"train/explained_variance": 0.01, "rollout/ep_rew_mean": 3.0}},
        {"values": {"train/explained_variance": 0.3, "rollout/ep_rew_mean": 3.0}},
    ),
    (
        "critic-blind",
        {"values": {"train/explained_variance": 0.01, "rollout/ep_rew_mean": 3.0}},
        {"values": lambda i: {"train/explained_variance": 0.01, "rollout/ep_rew_mean": float(i)}},  # learns without it
    ),
    ("units-dead", {"values": {"train/dead_units": 0.95}}, {"values": {"train/dead_units": 0.25}}),
    ("units-dead", {"values": {"low/dead_units": 0.95}}, {"values": {"low/dead_units": 0.25}}),
    ("no-reward", {"values": {}}, {"values": {}, "episodes": VARIED}),
    ("reward-scale", {"values": {}, "episodes": ((-8e5, 200),)}, {"values": {}, "episodes": ((-8e2, 200),)}),
    (
        "limit-terminates",
        {"values": {}, "episodes": VARIED, "deaths": True},
        {"values": {}, "episodes": VARIED, "deaths": False},
    ),
    (
        "limit-terminates",
        {"values": {}, "episodes": VARIED, "deaths": True, "cfg": DQNConfig()},
        {"values": {}, "episodes": VARIED, "deaths": True, "cfg": DQNConfig(gamma=0.0)},  # rounds of a game, say
    ),
    (
        "replay-overused",
        {"values": {}, "cfg": SAC, "updates": 400_000},
        {"values": {}, "cfg": SAC, "updates": 1_000},
    ),
    ("plateau", {"values": rising(5)}, {"values": rising(25)}),
    (
        "subgoals-missed",
        {"values": {"hiro/subgoal_reached": 0.01}, "cfg": HIROConfig()},
        {"values": {"hiro/subgoal_reached": 0.4}, "cfg": HIROConfig()},
    ),
    (
        "expert-inconsistent",
        {"values": {"imitation/q": 10.0, "imitation/advantage": 4.0}},
        {"values": {"imitation/q": 10.0, "imitation/advantage": -4.0}},
    ),
]


@pytest.mark.parametrize(("code", "broken", "repaired"), CASES)
def test_it_speaks_once_and_its_twin_is_silent(code, broken, repaired):
    def run(cfg=PPO, spec=ARM, **more):
        return said(cfg, spec, **more)

    assert code in run(**broken)
    assert code not in run(**repaired)


def test_a_resumed_run_is_not_judged_by_its_first_episodes():
    """Ten episodes after a resume at half of the run say nothing of what was paid before."""
    watch, found = Watch(PPO, ARM), []
    for i in range(20):
        watch.episode(Episode(0, -100.0, 100, None), False)
        found.append([f.code for f in watch.check(Moment(50_000 + 1000 * i, 0.5 + 0.02 * i, 0, {}))])
    assert [codes for codes in found[:10] if codes] == [] and ["no-reward"] in found[10:]


def test_what_was_paid_before_the_last_episodes_is_not_forgotten():
    watch = Watch(PPO, ARM)
    watch.episode(Episode(0, -50.0, 100, None), False)
    for i in range(300):
        watch.episode(Episode(0, -100.0, 100, None), False)
        assert watch.check(Moment(1000 * i, i / 300, 0, {})) == []


def test_units_that_rest_early_or_in_a_run_that_learns_are_not_dead():
    dead = {"train/dead_units": 0.9}
    assert "units-dead" not in said(PPO, ARM, dead, until=0.15)  # frames of a game that has just begun
    assert "units-dead" not in said(PPO, ARM, lambda i: {**dead, "rollout/ep_rew_mean": float(i)})
    assert "units-dead" in said(PPO, ARM, lambda i: {**dead, "rollout/ep_rew_mean": float(i % 2)})


def test_an_entropy_that_ran_away_stops_no_run():
    for entropy in (-1e6, 1e6, float("inf"), float("-inf"), float("nan")):
        watch = Watch(PPO, ARM)
        for i in range(6):
            watch.check(Moment(1000 * i, i / 100, 0, {"train/entropy": entropy}))


def test_every_watcher_is_in_the_table():
    assert {case[0] for case in CASES} == set(WATCHERS)


# -- whole runs


class Scaled(Puck):
    def __init__(self, scale=1.0, fault=None):
        super().__init__(fault)
        self.scale = scale

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, 1000 * self.scale * reward, *rest


gym.register("watchtest/Scaled-v0", Scaled)
RECIPE = Recipe(
    env="watchtest/Scaled-v0",
    agent=PPOConfig(hidden=(16,), horizon=64, epochs=2, batch_size=64),
    steps=4_000,
    log_every=500,
    eval_every=100_000,
    eval_episodes=1,
    env_args={"scale": 1e-3},
)


def run(folder, agent=None, recipe=RECIPE, **env_args):
    recipe = replace(recipe, env_args={**recipe.env_args, **env_args})
    train(recipe, folder, agent=agent, watch=watching)
    path = folder / "watch.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {line["code"]: line["step"] for line in lines}


def test_a_healthy_run_is_not_spoken_of(tmp_path, capsys):
    assert run(tmp_path) == {}
    assert capsys.readouterr().err == ""


def test_a_thousand_times_the_reward(tmp_path, capsys):
    assert run(tmp_path, scale=1.0) == {"reward-scale": 512}
    assert "step 512: warning: Returns are too large for a critic. [reward-scale]" in capsys.readouterr().err


def test_a_truncation_that_is_treated_as_termination(tmp_path):
    assert run(tmp_path, fault="limit is death") == {"limit-terminates": 512}


def clamped(log_std):
    """PPO whose log-std gets no gradient, as beyond the end of a clamp."""
    env = Task(RECIPE.env)()
    agent = build(replace(RECIPE.agent, log_std=log_std), spec_of_env(env)[0])
    [stuck] = [p for part in agent.policy_parts.values() for n, p in _named(part) if "log_std" in n]
    stuck.register_hook(torch.zeros_like)
    return agent


def _named(part):
    return part.named_parameters() if hasattr(part, "named_parameters") else ()


def test_a_log_std_that_is_clamped_to_2(tmp_path):
    assert run(tmp_path, clamped(2.0)) == {"actions-saturated": 512, "std-stuck": 2560}


def test_a_critic_that_cannot_tell_one_state_from_another(tmp_path):
    able = PPOConfig(hidden=(32,), horizon=256, epochs=8, batch_size=64, lr=constant(3e-3), gamma=0.9)
    often = replace(RECIPE, log_every=256, steps=12_800, agent=able)
    assert run(tmp_path / "blind", recipe=replace(often, steps=6_400), fault="blind")["critic-blind"] == 5_120
    assert "critic-blind" not in run(tmp_path / "seeing", recipe=often)


def test_a_rate_that_kills_the_units(tmp_path):
    agent = DQNConfig(hidden=(64, 64), learning_starts=200, updates_per_step=0.25)
    task = replace(RECIPE, env="CartPole-v1", env_args={}, steps=3_000, agent=agent)
    deadly = replace(task, agent=replace(agent, lr=constant(0.3)))
    said = [run(tmp_path / name, recipe=recipe) for name, recipe in (("dead", deadly), ("alive", task))]
    assert said[0]["units-dead"] == 1_500 and "units-dead" not in said[1]


def test_the_progress_line_names_what_was_said():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    told = Run(RECIPE, None, watcher=Watch(PPO, ARM))
    told.progress_line = Progress("task", 100, stream=Terminal())
    told.log({"train/loss": torch.tensor(float("nan"))})
    told._write_metrics(None)
    told.advance(SimpleNamespace(episodes=()), np.ones(3, bool))
    said, line = told.progress_line.stream.getvalue().split("\x1b[2K")[1:]
    assert "Training has become NaN" in said and "no episode yet  ! run-not-finite" in line


def test_what_was_said_is_not_said_again_after_a_resume(tmp_path):
    assert run(tmp_path, scale=1.0) == {"reward-scale": 512}
    assert watching(PPO, ARM, ["reward-scale"]).reported == {"reward-scale"}
    assert watching(PPO, ARM).reported == set()
    [(step, finding)] = read_findings(tmp_path)
    assert step == 512 and finding.severity == "warning" and "Divide the reward" in finding.remedy
    assert read_findings(tmp_path / "nowhere") == []


def test_a_look_takes_less_than_two_percent_of_the_fastest_steps():
    """A thousand steps between two logs take some 20 ms at the very least (50,000 a second)."""
    watch = Watch(PPO, ARM)
    values = {f"train/{i}": float(i) for i in range(20)} | {"train/entropy": 1.0, "rollout/ep_rew_mean": 1.0}
    for _ in range(200):
        watch.episode(Episode(0, 1.0, 100, None), True)
    begun = time.process_time()
    for i in range(200):
        watch.check(Moment(1000 * i, i / 200, i, values))
    assert (time.process_time() - begun) / 200 < 0.02 * 0.02
