"""Every code block of README.md and the guide runs as it is printed; long ones are shortened (tests/guide.py)."""

import inspect
import re
import runpy
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from cairn.algorithms.registry import ALGORITHMS
from cairn.cli.main import COMMANDS
from cairn.core.sb3_names import RENAMED, WITHOUT
from tests.guide import Reader, blocks, shorter_command, shorter_python

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if not p.name.endswith(".zh.md"))]
NAMED = [str(page.relative_to(ROOT)) for page in PAGES]
WITH_BLOCKS = [name for name in NAMED if all(one.kind for one in blocks(name, (ROOT / name).read_text()))]


def published(algorithm, env, path):
    """An agent as Stable-Baselines3 saves it, with the statistics of its VecNormalize; of no training to speak of."""
    import gymnasium as gym
    import stable_baselines3
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    envs = VecNormalize(DummyVecEnv([lambda: gym.make(env)]))
    model = getattr(stable_baselines3, algorithm)("MlpPolicy", envs, n_steps=16, batch_size=16, n_epochs=1)
    model.learn(16).save(path.with_suffix(""))
    envs.save(path.with_name(f"{path.stem}.vecnormalize.pkl"))


# What a page needs and a reader has.
FILES = {
    "BipedalWalker-v3.zip": lambda path: published("PPO", "BipedalWalker-v3", path),
    "ppo-CartPole-v1.zip": lambda path: published("PPO", "CartPole-v1", path),
}


@pytest.fixture(scope="module")
def bin(tmp_path_factory):
    """A folder with a `cairn` command, for lines that a shell has to read."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "cairn"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cairn "$@"\n')
    script.chmod(0o755)
    return folder


@pytest.mark.parametrize("name", WITH_BLOCKS, ids=[f"docs:{name}" for name in WITH_BLOCKS])
def test_the_blocks_of_a_page_run(name, bin, tmp_path, monkeypatch):
    """One process runs them all: only together do they show that a page can be followed from top to bottom."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    reader = Reader(tmp_path, bin, FILES)
    for block in blocks(name, (ROOT / name).read_text()):
        reader.follow(block)
    for module in set(sys.modules) - before:
        if str(getattr(sys.modules[module], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[module]  # another page may have a file of this name


def page(tmp_path, text):
    """The blocks of a page, and a reader of it."""
    return list(blocks("page.md", text)), Reader(tmp_path, tmp_path, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# T\n\n```python\nx = 1\nraise ValueError(x)\n```\n", "page.md, line 4: ValueError: 1"),
        ("```bash\ncairn list\ncairn lst\n```\n", "page.md, line 3: cairn lst\nexit code 2, not 0"),
        ("```console\n$ cairn --version\ncairn 9\n```\n", "page.md, line 2: cairn --version\nprints\ncairn "),
        ('```diff title="a.py"\n-x\n+y\n```\n', "page.md, line 2: FileNotFoundError"),
    ],
    ids=["python", "bash", "console", "diff"],
)
def test_a_block_that_fails_names_page_and_line(text, words, tmp_path):
    (block,), reader = page(tmp_path, text)
    with pytest.raises(AssertionError) as failed:
        reader.follow(block)
    assert words in str(failed.value)


def test_marks_shorten_what_takes_long():
    marks = {"steps": "64", "episodes": "2", "seconds": "3"}
    assert shorter_command("cairn train a --steps 1e6", marks) == "cairn train a --steps 64 --eval-episodes 1"
    assert shorter_command("cairn train a", marks) == "cairn train a --steps 64 --eval-episodes 1"
    given = {"with": "--envs=2,--agent.epochs=1"}
    assert (
        shorter_command("cairn train a --envs 16 --seed 1", given) == "cairn train a --seed 1 --envs 2 --agent.epochs 1"
    )
    assert shorter_command("cairn eval zoo/a --json", marks) == "cairn eval zoo/a --json --episodes 2"
    short = "timeout -s KILL 3 cairn doctor A --episodes 2 --seconds 3"
    assert shorter_command("timeout -s KILL 25 cairn doctor A", marks) == short
    assert shorter_python("m.learn(10_000, eval_episodes=9)", marks) == "m.learn(64, eval_episodes=2)"
    with pytest.raises(ValueError, match="line 3: unknown"):
        list(blocks("page.md", "<!-- test: speed=3 -->\n```bash\n```\n"))


def test_every_keyword_of_sb3_is_answered():
    """By another name in the table of docs/from-sb3.md, or by a setting of the same name."""
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    told = (ROOT / "docs" / "from-sb3.md").read_text()
    same = set(re.findall(r"`(\w+)`", re.search(r"^`batch_size`.*$", told, re.M)[0]))
    table = runpy.run_path(str(ROOT / "docs" / "generated.py"))["keywords"]()
    answers = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.M))
    assert set(answers) == {*RENAMED, *WITHOUT} and all(len(words) > 3 for words in answers.values())
    for name in ("A2C", "DQN", "PPO", "SAC", "TD3"):
        theirs = getattr(stable_baselines3, name)
        asked = {*inspect.signature(theirs.__init__).parameters, *inspect.signature(theirs.learn).parameters}
        assert asked - {"self"} <= {*answers, *same}, name
    ours = {one.name for entry in ALGORITHMS.values() for one in fields(entry.config)} | {"seed", "device", "env"}
    assert same <= ours


def test_the_command_line_reference_has_every_option():
    made = runpy.run_path(str(ROOT / "docs" / "generated.py"))
    assert set(made["COMMANDS"]) == set(COMMANDS)
    assert "| `--hindsight-k` | integer | `4` |" in made["run_options"]()
    assert "`--agent.log-std`" in made["agent_options"]() and "`--agent.low` is an algorithm" in made["agent_options"]()
