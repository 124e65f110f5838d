"""Run folders: nothing of anybody else's is touched, and there is one writer at a time."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import cairn
from cairn import A2C, DQN, PPO, CairnError
from cairn.algorithms import A2CConfig, BCConfig, DAggerConfig
from cairn.cli.main import main
from cairn.recipes.recipe import Recipe
from cairn.runs import lock as locking
from cairn.runs import train as trainer
from cairn.runs.config import MARKER, read_recipe
from cairn.runs.folder import check_name, folder_name, folders_of, in_use, is_run, marked, new_folder
from cairn.runs.lock import LOCK, Lock
from cairn.runs.policy_files import checkpoints
from cairn.runs.run import Run
from cairn.runs.train import train

PLAN = Recipe(env="CartPole-v1", agent=A2CConfig(hidden=(8,)), steps=40, eval_episodes=1, name="small")
LONG = "--env CartPole-v1 --agent a2c --agent.hidden 8 --steps 10000000 --checkpoint-every 200 --eval-episodes 1"


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def refused(capsys, *args: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2
    return capsys.readouterr().err


# -- names


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cartpole-ppo", "cartpole-ppo"),
        ("ppo-vizdoom.gymnasium_wrapper:VizdoomBasic-v1", "ppo-vizdoom.gymnasium_wrapper-VizdoomBasic-v1"),
        ("ppo-ALE/Pong-v5", "ppo-ALE-Pong-v5"),
        ("../../x", "x"),
        ("a\x1b[31m\nb\0", "a-[31m-b-"),
        ('<>:"/\\|?*', "run"),
        ("", "run"),
        (" . ", "run"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("名字 a", "名字 a"),
        ("end.", "end"),
        ("\ud800x", "x"),
    ],
)
def test_a_name_that_is_valid_everywhere(text, name):
    assert folder_name(text) == name
    assert folder_name(name) == name


def test_a_long_name_is_cut_and_stays_its_own():
    a, b = folder_name("名" * 300), folder_name("名" * 301)
    assert a != b and len(a.encode()) < 200 and folder_name("x" * 150) == "x" * 150


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/x", "", "a/b", "a:b", "a\nb", ".", "..", "CON", "x" * 300, "-x", "a "]
)
def test_a_name_that_a_user_gives_is_refused_where_no_folder_could_have_it(name, tmp_path, monkeypatch, capsys):
    with pytest.raises(CairnError, match="cannot be the name of a run"):
        check_name(name)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    said = refused(capsys, "train", "cartpole-ppo", f"--name={name}", "--steps", "64")
    assert ("cannot be the name of a run" if name else "--name needs a value") in said
    assert not [p for p in tmp_path.rglob("*") if p.name not in ("deep", "er")]


def test_folders_are_found_by_the_name_they_were_made_for(tmp_path):
    for name in ("a:b", "a-b-c"):
        new_folder(tmp_path, name, 3).mkdir()
    assert new_folder(tmp_path, "a:b", 3).name == "a-b-s3-2"
    (tmp_path / "a-b-s3-2").mkdir()
    (tmp_path / "a-b-s31").mkdir()
    assert {p.name for p in folders_of(tmp_path, "a:b", 3)} == {"a-b-s3", "a-b-s3-2"}
    assert {p.name for p in folders_of(tmp_path, "a:b")} == {"a-b-s3", "a-b-s3-2", "a-b-s31"}


# -- the marker


def test_what_cairn_did_not_write_is_refused_and_left_alone(tmp_path, capsys):
    for path in ("tb/events", "replay/obs.bin", "monitor.csv", "config.json", "best/policy.json", "checkpoints/1/x"):
        folder = tmp_path / path.replace("/", "-")
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text("{}")
        before = everything(folder)
        for call in (
            lambda folder=folder: train(PLAN, folder),
            lambda folder=folder: train(PLAN, folder, resume=True),
            lambda folder=folder: A2C("CartPole-v1", hidden=(8,)).learn(40, out=folder),
        ):
            with pytest.raises(CairnError, match=r"did not write|no run to resume"):
                call()
        said = refused(capsys, "train", "cartpole-ppo", "--out", str(folder))
        assert "name a new or an empty folder" in said and said.count("\n") == 1
        assert everything(folder) == before


def test_a_run_sets_a_marker_and_is_not_overwritten(tmp_path):
    folder = tmp_path / "a folder" / "名"
    train(PLAN, folder)
    assert marked(folder) and is_run(folder) and json.loads((folder / MARKER).read_text()) == {"format": 1}
    with pytest.raises(CairnError, match="already holds a run; resume it, or name another folder"):
        train(PLAN, folder)
    for path in checkpoints(folder / "checkpoints"):  # as if killed before the first
        [file.unlink() for file in path.iterdir()]
        path.rmdir()
    before = everything(folder)
    with pytest.raises(CairnError, match="already holds a run"):
        train(PLAN, folder)
    assert everything(folder) == before
    assert train(PLAN, folder, resume=True).step == 40


def test_a_marker_of_a_newer_version_is_refused_and_a_damaged_one_mended(tmp_path):
    train(PLAN, tmp_path)
    (tmp_path / MARKER).write_text('{"format": 99}')
    with pytest.raises(CairnError, match="newer Cairn"):
        train(PLAN, tmp_path, resume=True)
    for text in ("", "[1", "\x00\xff"):
        (tmp_path / MARKER).write_text(text)
        assert train(PLAN, tmp_path, resume=True).step == 40
        assert json.loads((tmp_path / MARKER).read_text()) == {"format": 1}


def test_a_run_of_the_first_version_is_known_and_gets_a_marker(tmp_path):
    train(PLAN, tmp_path)
    (tmp_path / MARKER).unlink()
    (tmp_path / LOCK).unlink()
    body = json.loads((tmp_path / "config.json").read_text())
    del body["digest"]
    (tmp_path / "config.json").write_text(json.dumps(body))
    with pytest.raises(CairnError, match="already holds a run"):
        train(PLAN, tmp_path)
    assert not marked(tmp_path)
    assert train(replace(PLAN, steps=80), tmp_path, resume=True).step == 80
    assert marked(tmp_path) and read_recipe(tmp_path).steps == 80


def test_a_run_of_the_first_version_is_known_with_one_damaged_checkpoint(tmp_path):
    train(replace(PLAN, steps=80, checkpoint_every=40), tmp_path)
    (tmp_path / MARKER).unlink()
    (tmp_path / LOCK).unlink()
    body = json.loads((tmp_path / "config.json").read_text())
    del body["digest"]
    (tmp_path / "config.json").write_text(json.dumps(body))
    first, last = checkpoints(tmp_path / "checkpoints")
    for path in (first, last):
        text = (path / "policy.json").read_text()
        (path / "policy.json").write_text("{")
        assert is_run(tmp_path)
        (path / "policy.json").write_text(text)
    (last / "policy.json").write_text("{")
    assert train(replace(PLAN, steps=80, checkpoint_every=40), tmp_path, resume=True).step == 80


def test_a_run_starts_from_an_earlier_run_of_its_name_and_not_from_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train(PLAN, Path("runs/small-s0"))
    Path("runs/small-s0-2").mkdir()  # holds no policy
    train(replace(PLAN, start="small"), Path("runs/small-s0-3"))
    assert "training starts from the policy in runs/small-s0.\n" in capsys.readouterr().err
    with pytest.raises(CairnError, match="this run's own folder|holds no policy"):
        train(replace(PLAN, start="runs/small-s0-4"), Path("runs/small-s0-4"))
    with pytest.raises(CairnError, match="small-s0-2 holds no policy"):
        train(replace(PLAN, start="runs/small-s0-2"), Path("runs/small-s0-5"))


def test_what_an_interrupted_run_left_is_told(tmp_path, monkeypatch, capsys):
    options = ["--env", "CartPole-v1", "--agent", "a2c", "--agent.hidden", "8", "--steps", "200"]
    folder, going, save = tmp_path / "run", Run.going, Run.save

    def told(*args: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["train", *args, "--eval-episodes", "1", "--out", str(folder)])
        assert stop.value.code == 143
        return " ".join(capsys.readouterr().out.split())

    def stopped(at: int):
        def until(run: Run) -> bool:
            if run.step >= at:
                run._interrupt(signal.SIGTERM, None)
            return going(run)

        return until

    monkeypatch.setattr(Run, "going", stopped(0))
    monkeypatch.setattr(Run, "save", lambda *args: None)
    assert f"there is no checkpoint yet; with --resume the run in {folder} starts from step 0." in told(*options)
    monkeypatch.setattr(Run, "save", save)
    monkeypatch.setattr(Run, "going", stopped(50))
    assert f"SIGTERM at step 50: saved in {folder}; continue it with --resume." in told("--resume")
    monkeypatch.setattr(Run, "save", lambda *args: None)
    monkeypatch.setattr(Run, "going", stopped(100))
    said = told("--resume")
    assert f"the last checkpoint is {folder / 'checkpoints' / '0000000050'}, and --resume continues" in said


def test_a_start_that_fails_leaves_no_folder(tmp_path):
    with pytest.raises(CairnError):
        train(replace(PLAN, env="CartPole-v1", start="nowhere"), tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())
    (tmp_path / "kept").mkdir()
    with pytest.raises(CairnError):
        train(replace(PLAN, start="nowhere"), tmp_path / "kept")
    assert not list((tmp_path / "kept").iterdir())


def test_an_out_that_is_no_folder_is_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    for out, words in {"": "name", "file": "is a file", "file/below": "could not be written", "a\0b": "name"}.items():
        with pytest.raises(CairnError, match=words):
            A2C("CartPole-v1", hidden=(8,)).learn(40, out=out)
        with pytest.raises(CairnError, match=words):
            cairn.train("cartpole-ppo", steps=64, out=out)
        if out:
            assert words in refused(capsys, "train", "cartpole-ppo", "--out", out)
    assert refused(capsys, "train", "cartpole-ppo", "--out=")
    for out in (" ", "\t\n "):
        assert "cannot be called" in refused(capsys, "train", "cartpole-ppo", "--steps", "64", "--out", out)
        assert "cannot be called" in refused(capsys, "sweep", "cartpole-ppo", "--out", out)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    with pytest.raises(CairnError, match="could not be written"):
        train(PLAN, tmp_path / ("x" * 300))


def test_an_out_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*args, **more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(CairnError, match=r"run could not be written: Permission denied\."):
        train(PLAN, tmp_path / "run")


# -- one writer


def test_a_second_writer_is_refused_by_name_and_touches_nothing(tmp_path):
    train(PLAN, tmp_path)
    before = {p: everything(tmp_path)[p] for p in everything(tmp_path) if p != LOCK}
    with Lock(tmp_path):
        for resume in (False, True):
            with pytest.raises(CairnError, match=r"already holds|is being written by process \d+ on \S+"):
                train(PLAN, tmp_path, resume=resume)
        assert {p: blob for p, blob in everything(tmp_path).items() if p != LOCK} == before
        found = []
        thread = threading.Thread(target=lambda: found.append(outcome_of(tmp_path)))
        thread.start()
        thread.join()
        assert "is being written by process" in found[0]
        said = subprocess.run([sys.executable, "-c", OTHER, str(tmp_path)], capture_output=True, text=True)
        assert f"is being written by process {os.getpid()} on" in said.stdout
    assert (tmp_path / LOCK).read_bytes() == b""
    assert outcome_of(tmp_path) == "free"


OTHER = """
import sys
from pathlib import Path
from tests.runs.test_folder import outcome_of
print(outcome_of(Path(sys.argv[1])))
"""


def outcome_of(folder: Path) -> str:
    try:
        with Lock(folder):
            return "free"
    except CairnError as error:
        return str(error)


def test_another_folder_is_advised_only_where_that_helps(tmp_path):
    train(PLAN, tmp_path / "run")
    (tmp_path / "new").mkdir()
    with Lock(tmp_path / "run"), Lock(tmp_path / "new"):
        with pytest.raises(CairnError, match=r"; wait for it, or stop it\.$"):
            train(PLAN, tmp_path / "run", resume=True)
        with pytest.raises(CairnError, match=r"; wait for it, stop it, or name another folder\.$"):
            train(PLAN, tmp_path / "new")


@pytest.mark.parametrize("when", ["step", "evaluation"])
def test_a_lost_lock_ends_the_run_before_anything_more_is_written(when, tmp_path, monkeypatch):
    plan = replace(PLAN, steps=10_000, eval_every=100, checkpoint_every=10_000)
    written: list[str] = []

    def lose(run: Run) -> None:
        if not written:
            written.append((tmp_path / "metrics.csv").read_text())
            other = {"host": "far", "pid": 7, "kernel": "another", "token": "x"}
            (tmp_path / LOCK).write_bytes(json.dumps(other).encode().ljust(locking.SIZE))
            run.lock.lost = when == "step"  # as the next beat notices

    advance, scored = Run.advance, trainer.Scorer.__call__

    def stepped(run: Run, *args) -> None:
        advance(run, *args)
        if when == "step" and run.step >= 50:
            lose(run)
        stepped.run = run

    def judged(*args):
        lose(stepped.run)
        return scored(*args)

    monkeypatch.setattr(Run, "advance", stepped)
    if when == "evaluation":
        monkeypatch.setattr(trainer.Scorer, "__call__", judged)
    with pytest.raises(CairnError, match="another process has taken over"):
        train(plan, tmp_path)
    assert stepped.run.step < 120 and not (tmp_path / "best").exists()
    assert (tmp_path / "metrics.csv").read_text() == written[0]


def test_the_lock_is_given_up_whatever_happens(tmp_path):
    for error in (ValueError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error), in_use(tmp_path / "run", resume=False):
            (tmp_path / "run" / "config.json").write_text("{}")
            raise error
        (tmp_path / "run" / "config.json").unlink()
        assert outcome_of(tmp_path / "run") == "free"


def test_a_forked_child_neither_holds_nor_drops_the_lock(tmp_path):
    with Lock(tmp_path):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, outcome_of(tmp_path).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert b"is being written by process" in os.read(reading, 1000)
        said = subprocess.run([sys.executable, "-c", OTHER, str(tmp_path)], capture_output=True, text=True)
        assert "is being written" in said.stdout
        os.close(reading), os.close(writing)


def no_locks(*args) -> None:
    raise OSError(95, "Operation not supported")


@pytest.mark.parametrize("lives", [False, True])
@pytest.mark.parametrize("other", ["machine", "container"])
def test_where_the_lock_is_free_and_its_sign_recent_another_sign_is_waited_for(
    lives, other, tmp_path, monkeypatch, capsys
):
    kernel = locking._kernel().split()[0] + " pid:[1]" if other == "container" else "another"
    held = {"host": "far", "pid": os.getppid(), "started": "1", "kernel": kernel, "token": "x", "heard": 0}
    (tmp_path / LOCK).write_bytes(json.dumps(held).encode().ljust(locking.SIZE))
    recent = time.time() - 5
    os.utime(tmp_path / LOCK, (recent, recent))
    looks, take = [], Lock._take

    def look(lock: Lock) -> bool:
        looks.append((tmp_path / LOCK).stat().st_mtime)
        if lives and len(looks) == 3:
            (tmp_path / LOCK).write_bytes(json.dumps({**held, "heard": 1}).encode().ljust(locking.SIZE))
        return take(lock)

    monkeypatch.setattr(locking, "BEAT", 0.2)
    monkeypatch.setattr(Lock, "_take", look)
    said = outcome_of(tmp_path)
    assert "waiting up to 0 s to see whether that one still runs" in capsys.readouterr().err
    assert "is being written by process" in said if lives else said == "free"
    assert len(looks) >= 3 and looks[1] == pytest.approx(recent, abs=0.01)  # looking is no sign of life
    assert [p.name for p in tmp_path.iterdir()] == [LOCK]


def test_a_holder_on_another_machine_is_respected_while_it_is_heard_of(tmp_path, monkeypatch, capsys):
    held = {"host": "far", "pid": 7, "started": "1", "kernel": "another", "token": "x", "heard": 0}
    (tmp_path / LOCK).write_bytes(json.dumps(held).encode().ljust(locking.SIZE))
    with monkeypatch.context() as m:
        m.setattr(locking.fcntl, "lockf", no_locks)
        with pytest.raises(CairnError, match="is being written by process 7 on far; .* If that one is gone, try again"):
            Lock(tmp_path).__enter__()
    old = time.time() - 2 * locking.STALE
    os.utime(tmp_path / LOCK, (old, old))
    with Lock(tmp_path) as lock:
        assert "was not closed by its last process (far, process 7); this one takes over." in capsys.readouterr().err
        lock.check()
        (tmp_path / LOCK).write_bytes(json.dumps(held).encode().ljust(locking.SIZE))  # the other one wakes up
        with pytest.raises(CairnError, match="another process has taken over"):
            lock.check()
    assert json.loads((tmp_path / LOCK).read_bytes())["token"] == "x"


def test_where_a_file_system_has_no_locks_the_process_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(locking.fcntl, "lockf", no_locks)
    with Lock(tmp_path):
        said = subprocess.run(
            [sys.executable, "-c", "import fcntl\nfcntl.lockf = None\n" + NO_LOCKS, str(tmp_path)],
            capture_output=True,
            text=True,
        )
        assert f"is being written by process {os.getpid()}" in said.stdout, said.stderr
    assert outcome_of(tmp_path) == "free"


NO_LOCKS = (
    """
def none(*args):
    raise OSError(95, "Operation not supported")
fcntl.lockf = none
"""
    + OTHER
)


def test_a_beat_is_heard_and_a_lock_of_nonsense_is_taken(tmp_path, monkeypatch):
    for blob in (b"[", b"\xff" * 600, b'"x"', b"[" * 500):
        (tmp_path / LOCK).write_bytes(blob)
        assert outcome_of(tmp_path) == "free"
    monkeypatch.setattr(locking, "BEAT", 0.01)
    with Lock(tmp_path):
        os.utime(tmp_path / LOCK, (1, 1))
        until = time.time() + 5
        while (tmp_path / LOCK).stat().st_mtime < 2 and time.time() < until:
            time.sleep(0.01)
        assert (tmp_path / LOCK).stat().st_mtime > 2
    (tmp_path / LOCK).unlink()
    os.mkfifo(tmp_path / LOCK)
    assert "is not a file of Cairn" in outcome_of(tmp_path)


@pytest.mark.parametrize("vector", ["sync", "async"])
def test_killed_with_its_workers_alive_the_next_one_takes_over_and_says_so(vector, tmp_path, capsys):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "cairn", "train", *LONG.split(), "--vector", vector, "--out", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        until = time.time() + 60
        while not checkpoints(folder / "checkpoints") and time.time() < until:
            assert process.poll() is None, process.stderr.read().decode()
            time.sleep(0.01)
        said = refused(capsys, "train", str(folder), "--resume")
        assert f"{folder} is being written by process {process.pid} on" in said and said.count("\n") == 1
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
    with Lock(folder):
        assert f"process {process.pid}); this one takes over" in capsys.readouterr().err


# -- resumed from Python and from the command line


def test_python_and_the_command_line_refuse_the_same(tmp_path, capsys):
    run = str(tmp_path / "run")
    small = {"hidden": (8,), "horizon": 32, "batch_size": 32, "epochs": 1}
    PPO("CartPole-v1", **small).learn(64, out=run, eval_episodes=1)
    before = everything(Path(run))
    wrong = {
        "a run of ppo; it cannot be resumed as a2c": lambda: A2C("CartPole-v1").learn(64, out=run, resume=True),
        "a run of ppo; it cannot be resumed as dqn": lambda: DQN("CartPole-v1").learn(64, out=run, resume=True),
        "seed 0; it cannot be resumed with 5": lambda: PPO("CartPole-v1", seed=5, **small).learn(
            64, out=run, resume=True
        ),
        "envs 1; it cannot be resumed with 2": lambda: PPO("CartPole-v1", envs=2, **small).learn(
            64, out=run, resume=True
        ),
        "agent.lr 0.0003; it cannot be resumed with 0.5": lambda: PPO("CartPole-v1", lr=0.5, **small).learn(
            64, out=run, resume=True
        ),
        "not lowered to 32": lambda: PPO("CartPole-v1", **small).learn(32, out=run, resume=True),
        "on CartPole-v1; it cannot be resumed with Pendulum-v1": lambda: cairn.train(
            "sac-pendulum", out=run, resume=True
        ),
        "a run without a folder cannot be resumed": lambda: PPO("CartPole-v1").learn(64, resume=True),
    }
    for words, call in wrong.items():
        with pytest.raises(CairnError, match=words):
            call()
    options = {
        "seed 0; it cannot be resumed with 5": ["--seed", "5"],
        "agent.lr 0.0003; it cannot be resumed with 0.5": ["--agent.lr", "0.5"],
        "not lowered to 32": ["--steps", "32"],
    }
    for words, some in options.items():
        assert words in refused(capsys, "train", run, "--resume", *some)
        assert words in refused(capsys, "train", "--resume", "--out", run, *some)
    assert "cannot be resumed as sac" in refused(
        capsys, "train", "--env", "CartPole-v1", "--agent", "sac", "--resume", "--out", run
    )
    assert "leave one out" in refused(capsys, "train", run, "--resume", "--out", run)
    assert "--resume` continues it" in refused(capsys, "train", run)
    assert "name the run to resume" in refused(capsys, "train", "--resume")
    assert "holds no run to resume" in refused(capsys, "train", "--resume", "--out", str(tmp_path / "none"))
    assert everything(Path(run)) == before
    for args in (["train", run, "--resume"], ["train", "--resume", "--out", run, "--steps", "96"]):
        with pytest.raises(SystemExit) as stop:
            main(args)
        assert stop.value.code == 0
    assert PPO("CartPole-v1", **small).learn(128, out=run, resume=True) is not None
    assert read_recipe(Path(run)).steps == 128 and read_recipe(Path(run)).eval_episodes == 1


def test_another_recipe_by_name_is_refused(tmp_path, capsys):
    cairn.train("cartpole-ppo", steps=64, eval_episodes=1, out=tmp_path)
    with pytest.raises(CairnError, match="holds a run of cartpole-ppo, not of cartpole-dqn"):
        cairn.train("cartpole-dqn", out=tmp_path, resume=True)
    said = refused(capsys, "train", "cartpole-dqn", "--resume", "--out", str(tmp_path))
    assert "holds a run of cartpole-ppo, not of cartpole-dqn" in said
    assert cairn.train("cartpole-ppo", out=tmp_path, resume=True).step == 1024


def test_another_expert_or_other_demonstrations_of_the_same_name_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cloner = BCConfig(hidden=(8,), batch_size=8)
    train(PLAN, Path("runs/small-s0"))
    plan = replace(PLAN, agent=DAggerConfig(cloner), expert="small", name="taught")
    train(plan, Path("by-expert"))
    for seed in (0, 1):
        main_ok("demos", "runs/small-s0", "--out", f"{seed}.npz", "--episodes", "1", "--seed", str(seed))
    Path("0.npz").rename("d.npz")
    shown = replace(PLAN, agent=cloner, demos="d.npz", name="shown")
    train(shown, Path("by-demos"))
    for folder, asked in (("by-expert", plan), ("by-demos", shown)):
        assert train(replace(asked, steps=60), Path(folder), resume=True).step >= 60
    train(replace(PLAN, seed=5), Path("runs/small-s5"))  # now the newest of its name
    Path("1.npz").replace("d.npz")
    for folder, asked, words in (("by-expert", plan, "expert small"), ("by-demos", shown, r"demos d\.npz")):
        before = everything(Path(folder))
        with pytest.raises(CairnError, match=f"{words}, which has changed since the run"):
            train(replace(asked, steps=80), Path(folder), resume=True)
        assert everything(Path(folder)) == before


def main_ok(*args: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 0
