"""The words of the command line: what works, and one sentence with exit code 2 for each mistake."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cairn.cli.main import main
from cairn.runs.locate import find_source

HIRO = ["train", "--env", "Pendulum-v1", "--agent", "hiro"]
ZOO = Path(__file__).parents[1] / "zoo"
CARTPOLE = ["train", "--env", "CartPole-v1", "--agent"]
QUICK = ["--steps", "600", "--eval-every", "300", "--eval-episodes", "2", "--checkpoint-every", "300"]


def cairn(*args, code=0, capsys=None):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in args])
    said = capsys.readouterr()
    assert (stop.value.code or 0) == code, said.err
    return said


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["trian"], "Did you mean train?"),
        (["train"], "name a recipe"),
        (["train", "cartpole-pop"], "Did you mean cartpole-ppo?"),
        (["train", "cartpole-ppo", "--agent.gama", "0.9"], "Did you mean --agent.gamma?"),
        (["train", "cartpole-ppo", "--agent.gamma", "1.2"], "agent.gamma is 1.2; it must be between 0 and 1."),
        (["train", "cartpole-ppo", "--steps", "-5"], "steps is -5; it must be at least 1."),
        (["train", "cartpole-ppo", "--steps", "many"], "--steps"),
        (["train", "cartpole-ppo", "--agent.lr", "fast"], "not a schedule"),
        (["train", "cartpole-ppo", "--device", "cuda:77"], "device 'cuda:77' is not available"),
        (["train", "cartpole-ppo", "--device", "toaster"], "device 'toaster' is not available"),
        (["train", "cartpole-ppo", "--resume"], "no run of cartpole-ppo to resume"),
        (["train", "cartpole-ppo", "--out"], "--out needs a value"),
        (["train", "--env", "CartPole-v1"], "write cairn train --env CartPole-v1 --agent ppo, or another agent"),
        (["train", "--env", "CartPole-v1", "--agent", "pop"], "Did you mean ppo?"),
        (["train", "--env", "CartPool-v1", "--agent", "ppo"], "Did you mean CartPole-v1?"),
        (["train", "--env", "CartPole-v1", "--agent", "sac"], "SAC acts in continuous action spaces only"),
        (["train", "--env", "Pendulum-v1", "--agent", "dqn"], "DQN acts in discrete action spaces only"),
        (["train", "--env", "CartPole-v1", "--agent", "ppo", "--env-args", '{"gravity": 1}'], "does not take these"),
        (["train", "--env", "CartPole-v1", "--agent", "ppo", "--env-args", "[1]"], "a JSON object"),
        (["train", "cartpole-ppo", "--vector", "asink"], "--vector"),
        (["train", "--env", "CartPole-v1", "--agent", "dqn", "--hindsight", "future"], "CartPole-v1 has none"),
        (["train", "cartpole-ppo", "--hindsight", "future"], "hindsight needs an agent with a replay buffer"),
        (["train", "bitflip-dqn-her", "--hindsight", "past"], "--hindsight"),
        (["train", "bitflip-dqn-her", "--env-args", '{"n": 0}'], "n is 0; there must be at least one bit"),
        (["train", "--env", "CartPole-v1", "--agent", "dqn", "--agent.relative-goals"], "needs a task with goals"),
        ([*HIRO], "agent.subgoal is not set"),
        ([*HIRO, "--agent.subgoal", "2", "9"], "0 <= FROM < TO <= 3"),
        ([*HIRO, "--agent.subgoal", "0", "2", "--agent.subgoal-range", "1"], "agent.subgoal_range has 1 numbers"),
        ([*HIRO, "--agent.subgoal", "0", "1", "--agent.every", "0"], "agent.every is 0; it must be at least 1."),
        ([*HIRO, "--agent.subgoal", "0", "1", "--agent.low", "dqn"], "agent.low must be a sac or td3"),
        ([*HIRO, "--agent.low", "ppo"], "agent.low cannot be ppo"),
        ([*HIRO, "--agent.low.gama", "1"], "Did you mean --agent.low.gamma?"),
        ([*HIRO, "--agent.subgoal", "0", "1", "--levels", '{"low": "nowhere"}'], "there is no nowhere to start"),
        ([*HIRO, "--agent.subgoal", "0", "1", "--agent.high-hindsight", "0.5"], "Pendulum-v1 has none"),
        ([*HIRO, "--hindsight", "future"], "hindsight is set per level"),
        ([*CARTPOLE, "dagger"], "dagger learns from an expert: name one with --expert"),
        ([*CARTPOLE, "dagger", "--demos", "d.npz"], "there are no demonstrations at d.npz"),
        ([*CARTPOLE, "bc", "--expert", "nowhere"], "there is no nowhere to learn from"),
        ([*CARTPOLE, "bc", "--agent.batch-size", "0"], "agent.batch_size is 0; it must be at least 1."),
        (
            [*CARTPOLE, "aggrevated", "--agent.learner", "sac"],
            "it can be ppo or reinforce",
        ),
        ([*CARTPOLE, "aggrevated", "--agent.learner.gama", "1"], "Did you mean --agent.learner.gamma?"),
        ([*CARTPOLE, "aggrevated", "--agent.mixing", "never"], "--agent.mixing"),
        (["train", "cartpole-ppo", "--start", "nowhere"], "there is no nowhere to start from"),
        (["train", "cartpole-ppo", "--start", f"{ZOO}/cartpole-dqn"], "holds a dqn policy; ppo cannot start from it"),
        (["train", "cartpole-ppo", "--start", f"{ZOO}/bipedal-ppo"], "has other observations or actions"),
        (
            ["train", "cartpole-dqn", "--start", f"{ZOO}/cartpole-dqn", "--agent.layer-norm"],
            "to start from it, add --agent.no-layer-norm.",
        ),
        (
            ["train", "cartpole-dqn", "--start", f"{ZOO}/cartpole-dqn", "--agent.hidden", "8"],
            "add --agent.hidden 128 128.",
        ),
        (
            ["train", "cartpole-ppo", "--expert", "zoo/cartpole-dqn"],
            "are used by bc, dagger, aggrevate and aggrevated only",
        ),
        (["demos", "nowhere", "--out", "d.npz"], "there is no nowhere"),
        (["demos", "nowhere", "--out", "d.txt"], "it must end in .npz"),
        (["train", "--env", "FetchReach-v3", "--agent", "sac"], "FetchReach-v3 is broken"),
        (["eval"], "PATH"),
        (["eval", "nowhere"], "there is no nowhere"),
        (["eval", "."], "holds no policy"),
        (["eval", ".", "--episodes", "0"], "episodes is 0; it must be at least 1."),
        (["eval", ".", "--episodez", "5"], "Did you mean --episodes?"),
        (["watch", "nowhere"], "there is no nowhere"),
        (["doctor"], "or a recipe with --recipe."),
        (["doctor", "--recipe", "cartpole-pop"], "Did you mean cartpole-ppo?"),
        (["doctor", "CartPole-v1", "--seconds", "0"], "seconds is 0; it must be greater than 0."),
        (["bench", "vector", "CartPole-v7"], "there is no environment 'CartPole-v7'"),
        (["bench", "vector", "CartPole-v1", "--envs", "0"], "envs is 0; it must be at least 1."),
        ([*CARTPOLE, "dqn", "--vector", "atari"], "plays Atari games only"),
        (["train", "--env", "cairn/BitFlip-v0", "--agent", "dqn", "--vector", "envpool"], "EnvPool has no task"),
        (["train", "--env", "CartPole-v1", "--agent", "dqn", "--vector", "mujoco"], "does not know CartPole-v1; use"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_2(args, words, home, capsys):
    said = cairn(*args, code=2, capsys=capsys)
    assert words in said.err and said.out == ""
    assert len(said.err.strip().splitlines()) == 1 and said.err.startswith("cairn: ")
    assert list(home.iterdir()) == []  # refused before anything started


def test_train_eval_watch_resume(home, capsys):
    said = cairn("train", "cartpole-ppo", "--seed", 3, *QUICK, "--agent.horizon", 50, capsys=capsys)
    run = home / "runs" / "cartpole-ppo-s3"
    assert "runs/cartpole-ppo-s3" in said.out and "target 500: NOT reached" in said.out
    assert said.err == ""  # quiet where there is no terminal
    for name in ("config.json", "metrics.csv", "monitor.csv", "evaluations.npz", "best", "checkpoints", "tb"):
        assert (run / name).exists(), name

    said = cairn("eval", run, "--episodes", 3, "--json", capsys=capsys)
    body = json.loads(said.out)
    assert {"mean", "std", "success", "episodes", "steps"} <= body.keys() and body["episodes"] == 3
    again = json.loads(cairn("eval", run, "--episodes", 3, "--json", capsys=capsys).out)
    assert again == body  # the same seeds, the same figure
    checkpoint = sorted((run / "checkpoints").iterdir())[-1]
    assert "CartPole-v1" in cairn("eval", checkpoint, "--episodes", 1, capsys=capsys).out

    cairn("eval", run, "--episodes", 2, "--record", home / "results", capsys=capsys)
    record = json.loads((home / "results" / "cartpole-ppo-s3.json").read_text())
    assert record["recipe"] == "cartpole-ppo" and record["seed"] == 3 and record["episodes"] == 2
    assert len(record["config"]) == 12 and "cores of" in record["hardware"]

    said = cairn("train", "cartpole-ppo", "--seed", 3, "--resume", "--steps", 1200, capsys=capsys)
    assert int(sorted((run / "checkpoints").iterdir())[-1].name) >= 1200
    said = cairn("train", "cartpole-ppo", "--seed", 3, "--resume", "--agent.gamma", 0.5, code=2, capsys=capsys)
    assert "agent.gamma 0.98; it cannot be resumed with 0.5" in said.err
    said = cairn("train", "cartpole-ppo", "--out", run, *QUICK, code=2, capsys=capsys)
    assert "already holds a run" in said.err
    kept = ("--record", home / "kept")
    said = cairn("train", "cartpole-ppo", "--seed", 3, *QUICK, *kept, "--result-episodes", 2, capsys=capsys)
    assert (home / "runs" / "cartpole-ppo-s3-2").exists()  # a second run never overwrites the first
    assert "recorded in" in said.out and (home / "kept" / "cartpole-ppo-s3.json").exists()
    assert "cartpole-ppo" in cairn("results", "--folder", home / "kept", capsys=capsys).out
    assert "holds no recorded result" in cairn("results", "--folder", home, code=2, capsys=capsys).err
    said = cairn("train", "--env", "CartPole-v1", "--agent", "ppo", *QUICK, *kept, code=2, capsys=capsys)
    assert "results are recorded for recipes only" in said.err


def test_any_gymnasium_id_without_a_recipe(home, capsys):
    args = ("train", "--env", "Acrobot-v1", "--agent", "dqn", *QUICK, "--time-limit", 50, "--envs", 2)
    cairn(*args, "--agent.hidden", 16, "--agent.epsilon", "linear(1,0.1,0.5)", capsys=capsys)
    assert "Acrobot-v1" in cairn("eval", home / "runs" / "dqn-Acrobot-v1-s0", "--episodes", 1, capsys=capsys).out


def test_an_expert_is_recorded_and_learned_from(home, capsys):
    cairn(*CARTPOLE, "dqn", *QUICK, "--agent.hidden", 16, "--out", "expert", capsys=capsys)
    said = cairn("demos", "expert", "--out", "kept/d.npz", "--episodes", 3, capsys=capsys)
    assert "kept/d.npz: 3 episodes of CartPole-v1" in said.out
    cairn(*CARTPOLE, "bc", *QUICK, "--demos", "kept/d.npz", "--out", "clone", capsys=capsys)
    cairn(*CARTPOLE, "dagger", *QUICK, "--expert", "expert", "--envs", 4, capsys=capsys)
    args = ("--agent.learner", "ppo", "--agent.learner.epochs", 2, "--expert", "expert", "--envs", 4)
    cairn(*CARTPOLE, "aggrevated", *QUICK, *args, capsys=capsys)
    for run in ("clone", "runs/dagger-CartPole-v1-s0", "runs/aggrevated-CartPole-v1-s0"):
        assert "CartPole-v1" in cairn("eval", run, "--episodes", 1, capsys=capsys).out
    names = {line.split(",")[2] for line in Path("runs/dagger-CartPole-v1-s0/metrics.csv").read_text().splitlines()[1:]}
    assert {"imitation/alpha", "imitation/queries"} <= names

    said = cairn("train", "--env", "Pendulum-v1", "--agent", "dagger", "--expert", "expert", code=2, capsys=capsys)
    assert "expert is a policy for CartPole-v1, not for Pendulum-v1" in said.err
    Path("kept/d.npz").write_bytes(b"")
    said = cairn(*CARTPOLE, "bc", "--demos", "kept/d.npz", code=2, capsys=capsys)
    assert "kept/d.npz cannot be read: it is empty" in said.err and len(said.err.splitlines()) == 1


def test_an_expert_is_named_by_its_zoo_entry_or_by_the_newest_run_of_its_recipe(home, capsys):
    def clone(expert, code=0):
        args = (*CARTPOLE, "bc", "--steps", 40, "--eval-every", 40, "--eval-episodes", 1, "--expert", expert)
        return cairn(*args, code=code, capsys=capsys).err

    policy = (*CARTPOLE, "dqn", *QUICK, "--agent.hidden", 16, "--out")
    cairn(*policy, "zoo/steady", capsys=capsys)
    clone("zoo/steady")
    clone("steady")
    assert "or run `cairn train weak` first." in (said := clone("weak", code=2))
    assert "there is no weak to learn from (looked in the current folder," in said
    cairn(*policy, "runs/weak-s3", capsys=capsys)
    clone("weak")

    runs = ["weak-s0", "weak-s3-2", "weak-er-s1"]
    for age, name in enumerate(runs):
        shutil.copytree(home / "zoo" / "steady" / "best", home / "runs" / name)
        os.utime(home / "runs" / name, (2e9 + age, 2e9 + age))  # each newer than those before
    (home / "runs" / "weak-s9").mkdir()  # the newest, and no policy in it
    os.utime(home / "runs" / "weak-s9", (3e9, 3e9))
    assert find_source("weak", "learn from") == Path("runs/weak-s3-2")  # weak-er is another recipe
    assert find_source("weak-er", "learn from") == Path("runs/weak-er-s1")
    shutil.copytree(home / "zoo" / "steady" / "best", home / "zoo" / "weak")
    assert find_source("weak", "learn from") == Path("zoo/weak")  # what is kept goes before what was tried
    assert find_source("runs/weak-s0", "learn from") == Path("runs/weak-s0")


def test_a_lifted_limit_does_not_make_scoring_endless(home, capsys):
    args = ("--time-limit", 0, "--agent.hidden", 16, "--agent.learning-starts", 50, "--steps", 300, "--out", "run")
    cairn("train", "--env", "Pendulum-v1", "--agent", "td3", *args, "--eval-episodes", 1, capsys=capsys)
    assert json.loads(cairn("eval", "run", "--episodes", 2, "--json", capsys=capsys).out)["steps"] == 400


def test_watch_writes_a_video(home, capsys):
    cairn("train", "--env", "CartPole-v1", "--agent", "a2c", *QUICK, "--out", "run", capsys=capsys)
    said = cairn("watch", "run", "--out", "film/v.mp4", capsys=capsys)
    assert (home / "film" / "v.mp4").stat().st_size > 1000 and "CartPole-v1" in said.out
    assert "is not a video file" in cairn("watch", "run", "--out", "film/v", code=2, capsys=capsys).err
    said = cairn("watch", "run", "--out", "run/config.json/v.mp4", code=2, capsys=capsys)
    assert "Traceback" not in said.err


def test_bench_measures_every_backend_and_names_the_fastest(home, capsys):
    text = cairn("bench", "vector", "CartPole-v1", "--envs", "1", "2", "--seconds", "0.02", capsys=capsys).out
    assert "sync" in text and "async" in text and "fastest: --vector" in text
    found = cairn("bench", "vector", "CartPole-v1", "--envs", "1", "--seconds", "0.02", "--json", capsys=capsys).out
    assert json.loads(found)["fastest"] == {"vector": "sync", "envs": 1}


def test_the_peers_are_compared_from_a_checkout_only(home, capfd, monkeypatch):
    from cairn.cli import bench

    assert "--libraries" in cairn("bench", "peers", "--help", capsys=capfd).out
    assert "unrecognized arguments: --libary" in cairn("bench", "peers", "--libary", "sb3", code=2, capsys=capfd).err
    monkeypatch.setattr(bench, "ROOT", home / "lib")
    assert "run it in a checkout" in cairn("bench", "peers", code=2, capsys=capfd).err


def test_the_peers_are_installed_after_a_yes_only(tmp_path, capsys, monkeypatch):
    from benchmarks.peers import __main__ as peers

    installed = []
    monkeypatch.setattr(peers, "HOME", peers.ROOT / "no-such-folder")
    monkeypatch.setattr(peers, "install", lambda name: installed.append(name))
    monkeypatch.setattr(peers, "measure", lambda *args: pytest.fail("nothing is to be measured"))

    def ask(answer, *more):
        monkeypatch.setattr(sys, "argv", ["peers", "--libraries", "sb3", *more])
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"isatty": lambda self: answer is not None})())
        monkeypatch.setattr("builtins.input", lambda question: answer)
        with pytest.raises((SystemExit, pytest.fail.Exception)) as stop:
            peers.main()
        return getattr(stop.value, "code", None), capsys.readouterr().err

    code, said = ask(None)
    assert code == 2 and said.startswith("cairn: this would install stable-baselines3") and "--yes" in said
    assert ask("n")[0] == 2 and ask("")[0] == 2 and installed == []
    ask("y"), ask(None, "--yes")
    assert installed == ["sb3", "sb3"]


def test_list_shows_every_recipe(home, capsys):
    from cairn.recipes import RECIPES

    rows = json.loads(cairn("list", "--json", capsys=capsys).out)
    assert [r["recipe"] for r in rows] == list(RECIPES)
    assert {"task", "agent", "target", "best"} <= rows[0].keys()
    assert all(name in cairn("list", capsys=capsys).out for name in RECIPES)
    (home / "results").mkdir()
    (home / "results" / "cartpole-ppo-s1.json").write_text("{}")
    assert "not a recorded result" in cairn("list", code=2, capsys=capsys).err


def test_sigint_saves_and_says_so(home):
    import signal
    import time

    args = [sys.executable, "-m", "cairn", "train", "sac-pendulum", "--out", "run"]
    process = subprocess.Popen(args, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (home / "run" / "monitor.csv").exists():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "saved in run; continue it with --resume" in out, (out, err)
    assert "Traceback" not in err


def test_an_environment_that_fails_names_itself_the_step_and_the_checkpoint(home, monkeypatch):
    (home / "sick.py").write_text(
        "import gymnasium as gym\nfrom pathlib import Path\nfrom tests.vector.counting import Counting\n"
        "def make(**k):\n"
        "    saved = any(Path('run/checkpoints').glob('0*'))\n"  # it is made anew there, because it remembers
        "    return Counting(0, (5,), 't', ('raise', 10, 3) if saved else None)\n"
        "gym.register('sick/Counting-v0', make)\n"
    )
    root = Path(__file__).parent.parent
    env = {**os.environ, "PYTHONPATH": f"{home}:{root}"}
    args = [sys.executable, "-m", "cairn", "train", "--env", "sick:sick/Counting-v0", "--agent", "a2c", *QUICK]
    done = subprocess.run([*args, "--out", "run"], cwd=home, env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "environment 0 raised ValueError: the wheel fell off, at step" in done.stderr
    assert "the last checkpoint is run/checkpoints/" in done.stderr


def test_sb3_tools_read_a_run(home, capsys):
    """monitor.csv and evaluations.npz have SB3's columns and keys."""
    cairn("train", "cartpole-ppo", *QUICK, "--out", "run", "--agent.horizon", 50, capsys=capsys)
    lines = (home / "run" / "monitor.csv").read_text().splitlines()
    assert json.loads(lines[0][1:])["env_id"] == "CartPole-v1" and lines[1] == "r,l,t"
    assert all(len([float(x) for x in line.split(",")]) == 3 for line in lines[2:])
    with np.load(home / "run" / "evaluations.npz") as data:
        assert data["results"].shape == data["ep_lengths"].shape == (len(data["timesteps"]), 2)
    names = {line.split(",")[2] for line in (home / "run" / "metrics.csv").read_text().splitlines()[1:]}
    assert {"rollout/ep_rew_mean", "time/fps", "eval/mean_reward", "train/approx_kl"} <= names
