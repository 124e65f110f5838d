"""An algorithm of one's own is one class, one config and one call of `register`. No file of src knows this one."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

import cairn
from cairn import OFF_POLICY, Algorithm, CairnError, Recipe, register
from cairn.algorithms.registry import ALGORITHMS, KINDS
from cairn.cli.main import main
from cairn.core.agent import BaseAgent, PlainReplay
from cairn.core.checks import Count, Natural, Positive, Unit, validated
from cairn.nets.optim import Optimizer
from cairn.nets.seeding import seeded
from cairn.runs.policy_files import checkpoints
from cairn.runs.train import train

NAME = "wobbly"


@dataclass(frozen=True)
class WobblyConfig(PlainReplay):
    lr: Positive = 1e-2
    gamma: Unit = 0.9
    batch_size: Count = 16
    capacity: Count = 1_000
    learning_starts: Natural = 50
    updates_per_step: Positive = 0.5
    n_step: Count = 1
    epsilon: Unit = 0.2


class Wobbly(BaseAgent):
    """Q-learning with a linear Q and no target network."""

    def __init__(self, cfg, spec, *, seed=0, device="cpu"):
        self.cfg, self.spec, self.progress = validated(cfg, "agent."), spec, 0.0
        with seeded(seed):
            self.q = nn.Linear(spec.obs_shape[0], spec.action.n).to(device)
        self.opt = Optimizer(self.q, lr=cfg.lr)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.policy_parts = {"q": self.q}
        self.training_parts = {"opt": self.opt, "generator": self.generator}

    @torch.no_grad()
    def act(self, obs, *, explore):
        best = self.q(obs).argmax(-1)
        if not explore:
            return best
        coin = torch.rand(len(obs), generator=self.generator, device=obs.device) < self.cfg.epsilon
        return torch.where(coin, torch.randint(self.spec.action.n, (len(obs),), generator=self.generator), best)

    def update(self, batch):
        with torch.no_grad():
            target = batch.reward + batch.discount * self.q(batch.next_obs).amax(-1)
        loss = (self.q(batch.obs).gather(1, batch.action[:, None])[:, 0] - target).square().mean()
        self.opt.step(loss)
        return {"train/loss": loss.detach()}


@dataclass(frozen=True)
class SeededConfig(WobblyConfig):
    seed: int = 3


@dataclass
class Thawed:
    gamma: float = 0.9


class Adamant(Wobbly):
    """Keeps an optimiser of torch's, which no checkpoint can hold."""

    def __init__(self, cfg, spec, *, seed=0, device="cpu"):
        super().__init__(cfg, spec, seed=seed, device=device)
        self.training_parts = {"opt": torch.optim.Adam(self.q.parameters())}


@pytest.fixture(scope="module", autouse=True)
def registered():
    register(Algorithm(NAME, WobblyConfig, Wobbly, **OFF_POLICY))
    yield
    del ALGORITHMS[NAME], KINDS.types["WobblyConfig"]


def plan(**more):
    often = {"eval_every": 300, "eval_episodes": 1, "checkpoint_every": 200, "log_every": 100}
    return Recipe("CartPole-v1", WobblyConfig(), **{"steps": 600, "envs": 2, "seed": 3, **often, **more})


def tensors(run: Path):
    last = checkpoints(run / "checkpoints")[-1]
    files = [safetensors.torch.load_file(last / f"{part}.safetensors") for part in ("policy", "training")]
    return {name: value for file in files for name, value in file.items()} | {"step": torch.tensor(int(last.name))}


def test_it_trains_and_resumes_bit_equal(tmp_path):
    train(plan(), tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    shutil.rmtree(checkpoints(tmp_path / "cut" / "checkpoints")[-1])  # as if killed before the last checkpoint
    train(plan(), tmp_path / "cut", resume=True)
    whole, cut = tensors(tmp_path / "whole"), tensors(tmp_path / "cut")
    assert whole.keys() == cut.keys() and all(torch.equal(whole[name], cut[name]) for name in whole)
    assert whole["opt.count"] > 0


def test_it_has_a_class_and_is_saved_loaded_and_evaluated(tmp_path, capsys):
    model = cairn.Wobbly("CartPole-v1", seed=1, lr=0.02).learn(300)
    model.save(tmp_path / "policy")
    again = cairn.model(NAME).load(tmp_path / "policy")
    assert again.config.lr == 0.02 and again.evaluate(3).returns == model.evaluate(3).returns
    with pytest.raises(CairnError, match="load it with cairn.Wobbly.load"):
        cairn.PPO.load(tmp_path / "policy")
    with pytest.raises(SystemExit) as ended:
        main(["eval", str(tmp_path / "policy"), "--episodes", "2"])
    assert ended.value.code == 0 and "over 2 episodes" in capsys.readouterr().out


def test_it_is_sampled_by_ray_actors(tmp_path):
    pytest.importorskip("ray")
    outcome = train(plan(vector="ray", workers=2), tmp_path / "run")
    assert outcome.step >= 600 and tensors(tmp_path / "run")["opt.count"] > 0


def test_the_command_line_knows_it(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert NAME in capsys.readouterr().out
    options = ["--steps", "200", "--eval-episodes", "1", "--agent.epsilon", "0.5", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as ended:
        main(["train", "--env", "CartPole-v1", "--agent", NAME, *options])
    assert ended.value.code == 0
    with pytest.raises(SystemExit) as ended:
        main(["train", str(tmp_path / "run"), "--resume", "--steps", "300"])
    assert ended.value.code == 0


def test_no_file_of_the_package_mentions_it():
    files = (Path(cairn.__file__).parent).rglob("*.py")
    assert not [path for path in files if NAME in path.read_text().lower()]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, f"there is an algorithm '{NAME}' already"),
        ({"name": "other"}, "there is an algorithm 'WobblyConfig' already"),
        ({"name": "other", "config": dict}, "must be a frozen dataclass"),
        ({"name": "other", "config": Thawed}, "must be a frozen dataclass"),
        ({"name": "other", "config": SeededConfig}, "has the field 'seed', which every model has already"),
        ({"name": "a b/../c"}, "the name of an algorithm is 'a b/../c'"),
        ({"name": "other", "config": SeededConfig, "loop": None}, "the loop of other must be a class or a function"),
        (
            {"name": "other", "config": SeededConfig, "agent": 3},
            "the agent of other must be a class or a function, not 3",
        ),
    ],
)
def test_a_wrong_registration_is_one_sentence(change, words):
    with pytest.raises(CairnError, match=words):
        register(replace(ALGORITHMS[NAME], **change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agent": Adamant}, "has the part 'opt' of type Adam, which no checkpoint can hold"),
        ({"agent": lambda cfg, spec, **more: object()}, "the agent of wobbly has no 'act'; inherit"),
        ({"attributes": ("horizon",)}, "the agent of wobbly has no 'horizon'"),
    ],
)
def test_an_agent_that_lacks_something_is_refused_before_the_first_step(change, words, monkeypatch, tmp_path):
    monkeypatch.setitem(ALGORITHMS, NAME, replace(ALGORITHMS[NAME], **change))
    with pytest.raises(CairnError, match=words):
        train(plan(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_metrics_are_a_dictionary_of_tensors_or_numbers(monkeypatch):
    monkeypatch.setattr(Wobbly, "update", lambda self, batch: {"train/loss": 0.5})
    assert train(plan(steps=100)).step >= 100
    monkeypatch.setattr(Wobbly, "update", lambda self, batch: None)
    with pytest.raises(CairnError, match="update must return a dictionary of metrics, not None"):
        train(plan(steps=100))


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="module 'cairn' has no attribute 'PPOO'. Did you mean PPO?"):
        _ = cairn.PPOO
    with pytest.raises(CairnError, match="there is no agent 'nope'"):
        cairn.model("nope")
    with pytest.raises(CairnError, match="name is None; it must be a string"):
        cairn.model(None)
    assert cairn.WobblyConfig is WobblyConfig


def test_a_config_without_a_setting_that_the_loop_reads_is_refused_at_once():
    @dataclass(frozen=True)
    class ShortConfig:
        gamma: float = 0.9

    with pytest.raises(CairnError, match="ShortConfig lacks the field 'capacity', which the loop of short reads"):
        register(Algorithm("short", ShortConfig, Wobbly, **OFF_POLICY))
    assert "short" not in ALGORITHMS

    @dataclass(frozen=True)
    class BareConfig:
        capacity: int = 100
        batch_size: int = 8
        learning_starts: int = 10
        updates_per_step: float = 1.0
        gamma: float = 0.9
        n_step: int = 1

    with pytest.raises(CairnError, match="BareConfig lacks the field 'priority'"):  # PlainReplay has it
        register(Algorithm("bare", BareConfig, Wobbly, **OFF_POLICY))
