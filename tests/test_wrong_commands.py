"""Wrong command lines and their answers: one sentence that starts with `cairn: `, exit code 2, and nothing written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cairn.cli.main import main
from cairn.runs.run import Run

ROOT = Path(__file__).parents[1]
CART = str(ROOT / "zoo" / "cartpole-ppo")
TRAIN = ["train", "cartpole-ppo"]
FREE = ["train", "--env", "CartPole-v1", "--agent"]
LONG = "x" * 300


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a file, a folder of somebody else's and a policy file cut short. Mistakes leave it as it is."""
    (tmp_path / "afile").write_text("mine")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "notes.txt").write_text("mine too")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "unregistered.py").write_text("class Boat: pass")
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04 no zip")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python's own, of a module that is imported
    monkeypatch.chdir(tmp_path)
    return tmp_path


# (arguments, a piece of the answer)
WRONG = [
    # commands
    (["trainn"], "there is no command 'trainn'. Did you mean train? Write `cairn train NAME`."),
    (["evaluate", "x"], "there is no command 'evaluate'. Did you mean eval? Write `cairn eval PATH`."),
    (["enjoy", "x"], "Did you mean watch? Write `cairn watch PATH`."),
    (["--verbose"], "there is no command '--verbose'."),
    ([""], "there is no command ''"),
    (["check-env", "x"], "Did you mean doctor? Write `cairn doctor ENV`."),
    (["tensorboard"], "Did you mean report?"),
    (["TRAIN"], "there is no command 'TRAIN'. Did you mean train?"),
    # what is no id
    (["train", "--env", "mine.py", "--agent", "dqn"], "mine.py is a file: write module:id, such as mine:Mine-v0"),
    (
        ["train", "--env", "unregistered:Boat", "--agent", "dqn"],
        'is a class without an id: add gymnasium.register("Boat-v0", Boat) to unregistered, then write'
        " unregistered:Boat-v0.",
    ),
    (["eval", "bad.zip"], "convert it first: cairn import bad.zip --out bad, then name the folder bad."),
    ([*FREE, "dqn", "--learning-rate", "1"], "`cairn train --env CartPole-v1 --agent dqn --help` shows them all."),
    ([*FREE, "dqn", "--agent.clip", "0.2"], "--agent.clip is an option of ppo, and this run trains dqn"),
    # which recipe
    (["train", "ppo"], "there is no recipe 'ppo'. ppo is an algorithm; a recipe of it is cartpole-ppo."),
    (["train", "CartPole-v1"], "CartPole-v1 is a task: write cartpole-dqn, cartpole-ppo, cartpole-a2c, "),
    (["train", "cartpole-v1"], "or --env CartPole-v1 --agent ppo."),
    (["train", "carpole"], "Did you mean one of cartpole-dqn, cartpole-ppo, "),
    (["train", "lunarlander"], "For a task without a recipe, write --env ENV --agent ppo."),
    (["tune", "cartpole-ppo", "--vary", "learning_rate"], "In Cairn it is lr."),
    (["eval", "zoo/bipedal-sacc"], "Did you mean zoo/bipedal-sac?"),
    (["train", "cartpole-pop"], "there is no recipe 'cartpole-pop'. Did you mean cartpole-ppo?"),
    (["train", "cartpole-dqn", "--agent.clip", "0.2"], "--agent.clip is an option of ppo, and cartpole-dqn trains dqn"),
    (["train", ""], "there is no recipe ''"),
    (["train", "--steps", "100"], "or give both --env and --agent; see `cairn list`."),
    (["train", "--seed", "3", "cartpole-ppo"], "name the recipe first: cairn train cartpole-ppo"),
    (["train", "--agent", "ppo"], "give both --env and --agent"),
    (["train", "nowhere.json"], "nowhere.json"),
    (["train", "broken.json"], "broken.json"),
    (["train", "list.json"], "list.json was not written by Cairn."),
    ([*TRAIN, "--agent", "sac"], "the agent of a recipe cannot be replaced"),
    ([*FREE, "PPO"], "there is no agent 'PPO'"),
    ([*FREE, "maskable_ppo"], "PPO reads the action masks of a task by itself."),
    ([*FREE, "qrdqn"], "--agent.quantiles 200"),
    ([*FREE, "imported"], "comes from `cairn import`"),
    ([*FREE], "--agent needs a value."),
    (["train", "/nowhere/run", "--resume"], "there is no run folder /nowhere/run to resume."),
    ([*TRAIN, "--agent.lr", "nan"], "agent.lr is nan"),
    ([*TRAIN, "--name", "mine", "--record", "kept"], "no recipe is called mine"),
    # more than a machine has
    ([*TRAIN, "--threads", "99999999999"], "threads is 99999999999; it must be at most 1024."),
    ([*TRAIN, "--workers", "99999999999"], "workers is 99999999999; it must be at most 1024."),
    ([*TRAIN, "--envs", "99999999999"], "envs is 99999999999; it must be at most 100,000."),
    ([*TRAIN, "--agent.hidden", "1000000000", "1000000000"], "of memory; lower agent.hidden."),
    (["bench", "vector", "CartPole-v1", "--envs", "99999999999"], "it must be at most 100,000."),
    (["eval", CART, "--episodes", "99999999999"], "episodes is 99999999999; it must be at most 1,000,000."),
    # unknown options, and how others call them
    ([*TRAIN, "--n-envs", "4"], "In Cairn it is --envs: write --envs 8."),
    ([*TRAIN, "--lr", "1e-3"], "Did you mean --agent.lr?"),
    ([*TRAIN, "--learning-rate", "1e-3"], "In Cairn it is --agent.lr"),
    ([*TRAIN, "--total-timesteps", "10"], "In Cairn it is --steps"),
    ([*TRAIN, "--total_timesteps=10"], "In Cairn it is --steps"),
    ([*TRAIN, "--gamma", "0.9"], "Did you mean --agent.gamma?"),
    ([*TRAIN, "--n-steps", "10"], "In Cairn it is --agent.horizon"),
    ([*TRAIN, "--verbose", "1"], "Leave it out: progress is always shown."),
    ([*TRAIN, "--output", "x"], "In Cairn it is --out"),
    ([*TRAIN, "--reume"], "Did you mean --resume?"),
    ([*TRAIN, "--trsut"], "Did you mean --trust?"),
    ([*TRAIN, "--record", "a", "--record", "b"], "--record is given twice; give it once."),
    ([*TRAIN, "--resume=maybe"], "--resume is maybe; it is a switch: write --resume, or --resume=false."),
    ([*TRAIN, "--no-trust=true"], "--no-trust takes no value, not true."),
    ([*TRAIN, "--quux", "1"], "there is no option --quux. `cairn train cartpole-ppo --help`"),
    ([*TRAIN, "-v"], "there is no option -v."),
    ([*TRAIN, "--"], "there is no option --."),
    ([*TRAIN, "--no-steps"], "there is no option --no-steps."),
    ([*TRAIN, "--agent.epsilon", "1"], "there is no option --agent.epsilon."),
    ([*TRAIN, f"--{LONG}"], "there is no option --xxx"),
    ([*TRAIN, "--\x1b[31mred"], r"there is no option --\x1b[31mred."),
    # values that are missing, too many or given twice
    ([*TRAIN, "--steps"], "--steps needs a value."),
    ([*TRAIN, "--steps="], "--steps needs a value."),
    ([*TRAIN, "--steps", "--seed", "3"], "--steps needs a value."),
    ([*TRAIN, "--out", "--seed", "3"], "--out needs a value."),
    ([*TRAIN, "--out="], "--out needs a value."),
    ([*TRAIN, "--record"], "--record needs a value."),
    ([*TRAIN, "--agent.hidden"], "--agent.hidden needs a value."),
    ([*TRAIN, "--seed", "1", "--seed", "2"], "--seed is given twice; give it once."),
    ([*TRAIN, "--out", "a", "--out", "b"], "--out is given twice; give it once."),
    ([*TRAIN, "--time-feature", "--no-time-feature"], "--time-feature is given twice"),
    ([*TRAIN, "--steps", "10", "20"], "unexpected argument 20"),
    ([*TRAIN, "pendulum-ppo"], "unexpected argument pendulum-ppo"),
    # numbers
    ([*TRAIN, "--steps", "1.5"], "--steps is 1.5; it must be a whole number."),
    ([*TRAIN, "--steps", "1e400"], "--steps is 1e400; it must be a whole number."),
    ([*TRAIN, "--steps", "3,00"], "--steps is 3,00; it must be a whole number."),
    ([*TRAIN, "--steps", "2G"], "--steps is 2G; it must be a whole number."),
    ([*TRAIN, "--steps", "0x10"], "--steps is 0x10; it must be a whole number."),
    ([*TRAIN, "--steps", "nan"], "--steps is nan; it must be a whole number."),
    ([*TRAIN, "--steps", "9" * 5000], "it must be a whole number."),
    ([*TRAIN, "--steps", "0"], "steps is 0; it must be at least 1."),
    ([*TRAIN, "--steps", "1e30"], "steps is 1"),
    ([*TRAIN, "--seed", "99999999999999999999"], "seed is 99999999999999999999"),
    ([*TRAIN, "--agent.gamma", "0,99"], "--agent.gamma is 0,99; it must be a number: 0.99?"),
    ([*TRAIN, "--agent.gamma", "inf"], "--agent.gamma is inf; it must be a number."),
    ([*TRAIN, "--agent.gamma", "-0.1"], "agent.gamma is -0.1; it must be between 0 and 1."),
    ([*TRAIN, "--target", "high"], "--target is high; it must be a number."),
    ([*TRAIN, "--env-timeout", "-1"], "env_timeout is -1; it must be at least 0."),
    ([*TRAIN, "--target", "9" * 400], "target is 9999999999999...99999999999999; it must be at most"),
    ([*TRAIN, "--target", "-" + "9" * 400], "it must be at least -9223372036854775807"),
    ([*TRAIN, "--steps", "9" * 400], "steps is 9999999999999...99999999999999; it must be at most"),
    ([*TRAIN, "--steps", "9" * 400 + "k"], "it must be a whole number."),
    ([*TRAIN, "--seed", "9" * 400], "it must be at most"),
    ([*TRAIN, "--agent.hidden", "9" * 400], "it must be at most"),
    ([*TRAIN, "--agent.hidden", "1,024"], "write 1024 for one number, (1,24) for 2."),
    ([*TRAIN, "--agent.hidden=10,000"], "write 10000 for one number, (10,0) for 2."),
    ([*TRAIN, "--agent.hidden", "64,x"], "--agent.hidden is x; it must be a whole number."),
    ([*TRAIN, "--agent.hidden", "[64,0]"], "agent.hidden is 0; it must be at least 1."),
    # schedules, words, switches, JSON
    ([*TRAIN, "--agent.lr", "linear(1e-3)"], "--agent.lr is 'linear(1e-3)', which is not a schedule"),
    ([*TRAIN, "--agent.lr", "-1e-3"], "agent.lr is -0.001; it must be at least 0."),
    ([*TRAIN, "--agent.activation", "swish"], "--agent.activation is swish; it must be one of relu, tanh, silu, elu,"),
    ([*TRAIN, "--vector", "subproc"], "--vector is subproc; it must be one of auto, sync, async,"),
    ([*TRAIN, "--metric", "sucess"], "Did you mean success?"),
    ([*TRAIN, "--time-feature=maybe"], "--time-feature is maybe; it is a switch"),
    ([*TRAIN, "--no-time-feature=true"], "--no-time-feature takes no value"),
    ([*TRAIN, "--env-args", "{gravity: 1}"], "--env-args is {gravity: 1}; it must be JSON"),
    ([*TRAIN, "--env-args", "3"], "--env-args is 3; it must be a JSON object"),
    ([*TRAIN, "--env-args", "[" * 100_000], "it must be JSON"),
    ([*TRAIN, "--env-args", '{"gravity": 1}'], "does not take these arguments"),
    # what does not go together
    ([*TRAIN, "--env", "CartPool-v1"], "Did you mean CartPole-v1?"),
    ([*TRAIN, "--env", "Nope-v0"], "there is no environment 'Nope-v0'. Name a registered id, such as CartPole-v1"),
    ([*TRAIN, "--demos", "d.npz"], "are used by bc, dagger, aggrevate and aggrevated only"),
    ([*TRAIN, "--device", "gpu"], "device 'gpu' is not available here; use --device cpu, or auto."),
    ([*TRAIN, "--levels", '{"low": "x"}'], "levels are loaded into hiro only"),
    ([*FREE, "dqn", "--agent.priority", "0.5", "--hindsight", "future"], "set agent.priority to 0"),
    ([*FREE, "hiro", "--agent.low", "cairn"], "there is no agent 'cairn'"),
    # where to write
    ([*TRAIN, "--record", "afile"], "--record is afile, which is a file; name a folder."),
    ([*TRAIN, "--record", "afile/x"], "afile is not a folder; name another path."),
    ([*FREE, "ppo", "--record", "results"], "results are recorded for recipes only"),
    # eval
    (["eval", CART, "--seed", "99999999999999999999"], "seed is 99999999999999999999; it must be between 0 and"),
    (["eval", CART, "--episodes", "all"], "--episodes is all; it must be a whole number."),
    (["eval", CART, CART], "unexpected argument"),
    (["eval", CART, "--device", "cuda:9"], "device 'cuda:9' is not available here"),
    (["eval", CART, "--record", "afile"], "--record is afile, which is a file"),
    (["eval", "--json"], "cairn eval needs PATH"),
    (["eval", "others"], "others"),
    (["eval", "afile"], "afile"),
    (["eval", CART, "--n-eval-episodes", "5"], "In Cairn it is --episodes"),
    # watch, report
    (["watch", CART, "--out", "film.gif"], "film.gif is not a video file"),
    (["watch", CART, "--out", "others"], "others is not a video file"),
    (["watch", CART, "--out", "afile/v.mp4"], "--out is afile/v.mp4, and afile is not a folder"),
    (["watch", CART, "--out", "plan.png"], "a plan needs goals or subgoals"),
    (["watch", CART, "--episodes", "0"], "episodes is 0; it must be at least 1."),
    (["watch"], "cairn watch needs PATH"),
    (["report", "others", "-o", "page.pdf"], "--out is page.pdf; it must end in .html"),
    (["report", "others", "--out", "page"], "--out is page; it must end in .html"),
    (["report", "others", "-o", "afile/p.html"], "--out is afile/p.html, and afile is not a folder"),
    (["report", "-o"], "--out needs a value."),
    (["report", "nowhere"], "there is no run folder nowhere."),
    (["report", "others", "--live", "--port", "99999"], "port is 99999"),
    # list, results, import, export, demos, new-env
    (["list", "cartpole-ppo"], "unexpected argument cartpole-ppo"),
    (["results", "others"], "unexpected argument others"),
    (["results", "--folder", "nowhere"], "nowhere holds no recorded result"),
    (["import", "bad.zip"], "cairn import needs --out"),
    (["import", "bad.zip", "--out", "policy"], "bad.zip"),
    (["import", "nowhere.zip", "--out", "policy"], "nowhere.zip"),
    (["import", "bad.zip", "--out", "others"], "others holds other files than a policy's"),
    (["import", "bad.zip", "--out", "policy", "--env-args", "x"], "--env-args is x; it must be JSON"),
    (["export", CART], "cairn export needs --out"),
    (["export", CART, "--half", "--onnx", "p.onnx"], "--half is for the folder of --out"),
    (["export", CART, "--onnx", "others"], "--onnx is others, which is a folder; name a file."),
    (["export", "nowhere", "--torchscript", "p.pt"], "there is no nowhere"),
    (["export", CART, "--out", "afile"], "--out is afile, which is a file; name a folder."),
    (["export", CART, "--out", "others"], "others holds other files than a policy's"),
    (["export", "nowhere", "--out", "policy"], "there is no nowhere"),
    (["demos", CART], "cairn demos needs --out"),
    (["demos", CART, "--out", "demos.csv"], "it must end in .npz"),
    (["demos", CART, "--out", "afile/d.npz"], "--out is afile/d.npz, and afile is not a folder"),
    (["demos", CART, "--out", "d.npz", "--seed", "-1"], "seed is -1"),
    (["new-env"], "cairn new-env needs NAME"),
    (["new-env", "my-task"], "'my-task' is not a valid module name"),
    (["new-env", "class"], "'class' is a Python keyword"),
    (["new-env", "my_task", "--out", "afile"], "--out is afile, which is a file; name a folder."),
    # doctor, bench
    (["doctor", "CartPole-v1", "Acrobot-v1"], "unexpected argument Acrobot-v1"),
    (
        ["doctor", "Pendulum-v1", "--recipe", "cartpole-ppo"],
        "cartpole-ppo is a recipe for CartPole-v1, not for Pendulum",
    ),
    (["doctor", CART, "--recipe", "cartpole-ppo"], "is a policy, which has its own task; leave out --recipe"),
    (["doctor", "zoo/nowhere"], "there is no zoo/nowhere"),
    (["doctor", CART, "--episodes", "0"], "episodes is 0"),
    (["doctor", "CartPole-v1", "--seconds", "soon"], "--seconds is soon; it must be a number."),
    (["bench"], "say what to measure"),
    (["bench", "speed", "CartPole-v1"], "say what to measure"),
    (["bench", "vector"], "cairn bench needs ENV"),
    (["bench", "vector", "CartPole-v1", "--envs"], "--envs needs a value."),
    (["bench", "vector", "CartPole-v1", "--envs", "4", "x"], "--envs is x; it must be a whole number."),
    # sweep, tune
    (["sweep"], "name a recipe to sweep"),
    (["sweep", "cartpole-ppo", "--agent.gamma", "2"], "agent.gamma is 2; it must be between 0 and 1."),
    (["sweep", "cartpole-ppo", "--seeds", "none"], "--seeds is none; write a number of seeds, 101-108, or"),
    (["sweep", "cartpole-ppo", "--seeds", "0"], "--seeds is 0; it must name 1 to 1,000 seeds, each once."),
    (["sweep", "cartpole-ppo", "--seeds", "7-3"], "--seeds is 7-3; it must name 1 to 1,000 seeds, each once."),
    (["sweep", "cartpole-ppo", "--seeds", "1,1"], "--seeds is 1,1; it must name"),
    (["sweep", "cartpole-ppo", "--on", "mars"], "--on is mars; write ray, or the address of a Ray cluster"),
    (["sweep", "cartpole-ppo", "--seed", "3"], "leave out --seed and --resume"),
    (["sweep", "cartpole-ppo", "--resume"], "leave out --seed and --resume"),
    (["sweep", "cartpole-ppo", "--sedes", "3"], "Did you mean --seeds?"),
    (["sweep", "cartpole-ppo", "--jobs", "1", "--jobs", "2"], "--jobs is given twice; give it once."),
    (["sweep", "cartpole-ppo", "--env", "Nope-v0"], "there is no environment 'Nope-v0'"),
    (["sweep", "cartpole-ppo", "--env", "Pendulum-v1", "--vector", "atari"], "plays Atari games only"),
    (["sweep", "cartpole-dqn", "--env", "Pendulum-v1"], "DQN acts in discrete action spaces only"),
    (["sweep", "cartpole-ppo", "--start", "nowhere"], "there is no nowhere to start from"),
    (["sweep", "cartpole-ppo", "--out", "others"], "others holds other files"),
    (["sweep", "cartpole-ppo", "--out", "afile"], "afile is a file"),
    (["sweep", "cartpole-ppo", "--device", "cuda:9"], "device 'cuda:9' is not available here"),
    (["tune"], "name a recipe to tune"),
    (["tune", "cartpole-ppo", "--vary", ","], "--vary is ,; it must be names"),
    (["tune", "cartpole-ppo", "--vary", "lr,nope"], "agent.nope is not a numeric setting of this agent"),
    (["tune", "cartpole-ppo", "--vary", "entropy_weight"], "agent.entropy_weight is 0"),
    (["tune", "cartpole-ppo", "--trials", "few"], "--trials is few; it must be a whole number."),
    (["tune", "cartpole-ppo", "--out", "others"], "others holds other files"),
    (["tune", "cartpole-ppo", "--agent.lr", "quick"], "--agent.lr is 'quick', which is not a schedule"),
    (["tune", "dagger"], "there is no recipe 'dagger'"),
]


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} | {"folders": sum(
        path.is_dir() for path in folder.rglob("*")
    )}  # fmt: skip


@pytest.mark.parametrize(("args", "piece"), WRONG, ids=lambda value: str(value)[:60].encode("unicode_escape").decode())
def test_the_answer_is_one_sentence(args, piece, home, capfd, monkeypatch):
    monkeypatch.setattr(Run, "start", lambda *args: pytest.fail("it trains"))
    before = files(home)
    with pytest.raises(SystemExit) as stop:
        main(args)
    said = capfd.readouterr()
    assert piece in said.err, said.err
    assert said.err.startswith("cairn: ") and said.err.count("\n") == 1 and len(said.err) < 400
    assert stop.value.code == 2 and said.out == "" and "Traceback" not in said.err
    assert files(home) == before


def test_there_are_more_than_a_hundred():
    assert len(WRONG) > 130 and len({tuple(args) for args, _ in WRONG}) == len(WRONG)


@pytest.mark.parametrize(
    ("package", "args", "extra"),
    [
        ("envpool", [*TRAIN, "--vector", "envpool"], "envpool"),
        ("envpool", ["sweep", "cartpole-ppo", "--vector", "envpool"], "envpool"),
        ("ray", [*TRAIN, "--vector", "ray"], "ray"),
        ("ray", ["sweep", "cartpole-ppo", "--vector", "ray"], "ray"),
        ("optuna", ["tune", "cartpole-ppo"], "tune"),
        ("imageio_ffmpeg", ["watch", CART], "video"),
        ("matplotlib", ["watch", CART, "--out", "plan.png"], "plot"),
        ("gymnasium_robotics", ["train", "fetch-reach-her"], "robotics"),
    ],
)
def test_a_missing_extra_is_named_before_anything_starts(package, args, extra, home, capfd, monkeypatch):
    import importlib.util

    import gymnasium as gym

    found, before = importlib.util.find_spec, files(home)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == package else found(name, *rest)
    )
    monkeypatch.delitem(gym.registry, "FetchReach-v4", raising=False)
    with pytest.raises(SystemExit) as stop:
        main(args)
    said = capfd.readouterr()
    assert stop.value.code == 2 and f"pip install 'cairn-rl[{extra}]'" in said.err and said.err.count("\n") == 1
    assert files(home) == before


@pytest.mark.parametrize(
    ("args", "piece"),
    [
        (["train", "cartpole-ppo", "--steps", "many"], "--steps is many; it must be a whole number."),
        (["eval", CART, "--seed", "99999999999999999999"], "it must be between 0 and 2,147,483,647."),
        (["sweep", "cartpole-ppo", "--agent.gamma", "2"], "agent.gamma is 2"),
    ],
)
def test_a_real_process_answers_the_same(args, piece, home):
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run([sys.executable, "-m", "cairn", *args], cwd=home, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith("cairn: ") and piece in done.stderr


def test_a_failing_environment_is_exit_1(home, monkeypatch):
    (home / "sick.py").write_text(
        "import gymnasium as gym\nfrom tests.vector.counting import Counting\n"
        "gym.register('sick/Counting-v0', lambda **k: Counting(0, (5,), 't', ('raise', 0, 3)))\n"
    )
    command = [
        sys.executable,
        "-m",
        "cairn",
        "train",
        "--env",
        "sick:sick/Counting-v0",
        "--agent",
        "a2c",
        "--steps",
        "9",
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(home), str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("cairn: environment 0 raised"), done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_unicode_gets_ascii(home):
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "cairn", "eval", CART, "--episodes", "2"]
    done = subprocess.run(command, cwd=home, env=env, capture_output=True)
    assert done.returncode == 0 and b"CartPole-v1: 500.0 +/- 0.0" in done.stdout, done


@pytest.mark.parametrize(
    ("word", "steps"),
    [
        ("1e6", 10**6),
        ("3,000", 3000),
        ("1_000_000", 10**6),
        ("2M", 2 * 10**6),
        ("1.5k", 1500),
        ("12,345,678", 12345678),
    ],
)
def test_numbers_are_taken_as_they_are_written(word, steps):
    from cairn.cli.options import parse
    from cairn.recipes import find

    base = find("cartpole-ppo")
    assert parse(type(base), ["--steps", word], default=base, prog="cairn train x").steps == steps
    assert parse(type(base), [f"--target={word}"], default=base, prog="cairn train x").target == steps


def test_the_other_kinds_of_values_are_read():
    from cairn.cli.options import parse
    from cairn.recipes import find

    base = find("cartpole-ppo")
    words = ["--agent.hidden", "64,32", "--time_feature", "--agent.lr", "linear(1e-3,0)", "--target", "none"]
    words += ["--env-args={}", "--agent.no-normalise-obs", "--reward-floor", "-1.5", "--name", "x y"]
    found = parse(type(base), words, default=base, prog="cairn train x")
    assert (found.agent.hidden, found.time_feature, found.target) == ((64, 32), True, None)
    assert (str(found.agent.lr), found.agent.normalise_obs) == ("linear(0.001,0.0)", False)
    assert (found.reward_floor, found.name, found.steps) == (-1.5, "x y", base.steps)
    assert parse(type(base), ["--agent.hidden", "[64, 32]"], default=base, prog="cairn train x").agent.hidden == (
        64,
        32,
    )
    assert parse(type(base), ["--agent.hidden", "8", "4"], default=base, prog="cairn train x").agent.hidden == (8, 4)
    for words, hidden in (["256,256"], (256, 256)), (["(1,24)"], (1, 24)), (["1024"], (1024,)), (["1,24"], (1, 24)):
        found = parse(type(base), ["--agent.hidden", *words], default=base, prog="cairn train x")
        assert found.agent.hidden == hidden
    assert not parse(type(base), ["--time-feature", "off"], default=base, prog="cairn train x").time_feature


HELP = [
    "train",
    "eval",
    "watch",
    "report",
    "list",
    "results",
    "import",
    "export",
    "demos",
    "doctor",
    "bench",
    "new-env",
]


@pytest.mark.parametrize(
    "args",
    [[name] for name in (*HELP, "sweep", "tune")]
    + [["train", "cartpole-ppo"], ["sweep", "cartpole-ppo"], ["tune", "cartpole-ppo"], ["bench", "vector"]]
    + [[*FREE, "hiro"], []],
    ids=" ".join,
)
def test_help_is_given(args, capsys):
    for flag in ("--help", "-h"):
        with pytest.raises(SystemExit) as stop:
            main([*args, flag])
        said = capsys.readouterr()
        assert not stop.value.code and "cairn" in said.out and said.err == ""


@pytest.mark.parametrize(
    ("args", "flags"),
    [
        (["train"], ["--out", "--record", "--resume", "--trust", "--env", "--agent"]),
        (["train", "cartpole-ppo"], ["--out", "--record", "--resume", "--trust", "--steps", "--agent.gamma"]),
        (["sweep"], ["--out", "--seeds", "--jobs", "--episodes", "--trust"]),
        (["tune"], ["--out", "--trials", "--jobs", "--vary", "--trust"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_help_shows_the_options_of_the_command_and_of_the_recipe(args, flags, capsys):
    with pytest.raises(SystemExit):
        main([*args, "--help"])
    said = capsys.readouterr().out
    shown = {line.strip("│| ").split()[0].strip(",") for line in said.splitlines() if "--" in line}
    assert set(flags) <= shown
    assert args != ["train"] or ("agents: a2c, " in said and "recipes: cartpole-dqn, " in said)


def test_a_target_stays_with_its_task(home, capsys, monkeypatch):
    from dataclasses import replace

    import cairn.api.functions  # before the patches below, or it would keep one of them
    from cairn.recipes import find
    from cairn.recipes.recipe import on_its_task

    base = find("cartpole-ppo")
    moved, said = on_its_task(replace(base, env="Acrobot-v1"), base, ["env"])
    assert (moved.target, moved.about) == (None, "") and "target of 500 is for CartPole-v1" in said
    assert on_its_task(replace(base, env="Acrobot-v1", target=-80.0), base, ["env", "target"])[0].target == -80.0
    assert on_its_task(base, base, ["seed"]) == (base, "")
    seen = []
    monkeypatch.setattr("cairn.runs.train.train", lambda recipe, *rest, **more: seen.append(recipe) or 1 / 0)
    monkeypatch.setattr("cairn.api.functions.run_recipe", lambda recipe, *rest, **more: seen.append(recipe))
    with pytest.raises(ZeroDivisionError):
        main([*TRAIN, "--env", "Acrobot-v1"])
    assert "on Acrobot-v1 there is none" in capsys.readouterr().err
    cairn.train("cartpole-ppo", env="Acrobot-v1")
    assert [recipe.target for recipe in seen] == [None, None]


def test_a_zoo_entry_or_a_run_is_pointed_at(home, capsys):
    for folder, name in (("zoo/cartpole-ppo", "cartpole-ppo"), ("runs/mine-s0", "mine")):
        (home / folder).mkdir(parents=True)
        with pytest.raises(SystemExit):
            main(["eval", name])
        assert f"there is no {name}; name a run folder" in (said := capsys.readouterr().err)
        assert f"Did you mean {folder}?" in said


def test_a_second_run_names_the_first(home, capsys):
    args = [*FREE, "dqn", "--steps", "10", "--eval-every", "10", "--eval-episodes", "1", "--seed", "1"]
    for told in ("", "cairn: runs/dqn-CartPole-v1-s1 holds a run already; this one is written to runs/"):
        with pytest.raises(SystemExit):
            main(args)
        said = " ".join(capsys.readouterr().err.split())
        assert said.startswith(told) and ("holds a run already" in said) == bool(told)
    assert (home / "runs" / "dqn-CartPole-v1-s1-2").is_dir()


def test_the_environment_of_a_run_cannot_change(home, capsys):
    from cairn import PPO

    PPO("CartPole-v1", hidden=8, horizon=32).learn(32, out="run", eval_episodes=1)
    for words in (["train", "run", "--resume"], ["train", "--resume", "--out", "run"]):
        with pytest.raises(SystemExit) as stop:
            main([*words, "--env", "Pendulum-v1"])
        assert stop.value.code == 2
        assert "is on CartPole-v1, and the environment of a run cannot change" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["demos", "run", "--out", "d.npz", "--episodes", "1"])
    assert "1 episode of CartPole-v1" in capsys.readouterr().out
