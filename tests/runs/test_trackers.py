"""Weights & Biases and MLflow beside a run's own logs: a resumed run goes on in theirs, and none stops a training."""

import importlib.util
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cairn
from cairn import CairnError
from cairn.algorithms import A2CConfig
from cairn.cli.main import main
from cairn.core.state import pack
from cairn.recipes.recipe import Recipe
from cairn.runs import trackers
from cairn.runs.callbacks import Callbacks
from cairn.runs.config import read_recipe
from cairn.runs.train import train

BLOCK = 32_768
EVERY = {"log_every": 100, "eval_every": 200, "eval_episodes": 2, "checkpoint_every": 200}
PLAN = Recipe(env="CartPole-v1", agent=A2CConfig(hidden=(8,)), steps=400, name="small", **EVERY)


def stop_at(step: int) -> Callbacks:
    return Callbacks((lambda progress: progress.step < step,))


def written(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Of metrics.csv: the points of each curve."""
    found: dict[str, list[tuple[int, float]]] = {}
    for line in (folder / "metrics.csv").read_text().splitlines()[1:]:
        step, _, name, value = line.split(",")
        found.setdefault(name, []).append((int(step), float(value)))
    return found


def same(theirs: list[tuple[int, float]], ours: list[tuple[int, float]]) -> bool:
    return [s for s, _ in theirs] == [s for s, _ in ours] and [v for _, v in theirs] == pytest.approx(
        [v for _, v in ours], rel=1e-5
    )


# -- what fails


class Fake:
    """A tracker that fails, or hangs, where it is told to."""

    def __init__(self, at: str) -> None:
        self.at, self.id, self.where, self.points, self.ended = at, "abc", "logging to a fake", [], ""
        self.free = threading.Event()
        self.reach("begin")

    def reach(self, what: str) -> None:
        if what == self.at.removeprefix("hang-"):
            if self.at.startswith("hang-"):
                self.free.wait(20)
            raise OSError(28, "No space left on device")

    def scalars(self, step, values):
        self.reach("scalars")
        self.points.append((step, dict(values)))

    def close(self, ended):
        self.reach("close")
        self.ended = ended


@pytest.fixture
def fake(monkeypatch):
    made = []

    def use(at: str):
        def begin(recipe, folder, run):
            return lambda: made.append(Fake(at)) or made[-1]

        monkeypatch.setitem(trackers.BEGIN, "wandb", begin)
        monkeypatch.setattr("cairn.runs.train.check_installed", lambda recipe: None)
        return made

    yield use
    for one in made:
        one.free.set()


@pytest.mark.parametrize("at", ["begin", "scalars", "close"])
def test_one_that_fails_is_left_with_one_sentence(at, fake, tmp_path, capsys):
    fake(at)
    alone = train(PLAN, tmp_path / "alone")
    capsys.readouterr()
    tracked = train(replace(PLAN, log=("wandb",)), tmp_path / "tracked")
    said = capsys.readouterr().err
    assert said.count("Weights & Biases failed (OSError: [Errno 28] No space left on device);") == 1
    assert "training goes on without it" in said
    assert tracked.step == 400 and tracked.saved
    mine, theirs = pack(alone.agent.policy_parts), pack(tracked.agent.policy_parts)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("at", ["hang-scalars", "hang-close"])
def test_one_that_hangs_is_not_waited_for(at, fake, tmp_path, monkeypatch, capsys):
    fake(at)
    monkeypatch.setattr(trackers, "PATIENCE", 0.2)
    assert train(replace(PLAN, log=("wandb",)), tmp_path / "run").step == 400
    assert "did not answer for" in capsys.readouterr().err


@pytest.mark.parametrize(("callbacks", "ended"), [(None, "finished"), (stop_at(200), "stopped")])
def test_it_is_told_everything_and_how_the_run_ended(callbacks, ended, fake, tmp_path):
    (made,) = [fake("nowhere")]
    train(replace(PLAN, log=("wandb",)), tmp_path / "run", callbacks=callbacks)
    points = {}
    for step, values in made[0].points:
        for name, value in values.items():
            points.setdefault(name, []).append((step, value))
    ours = written(tmp_path / "run")
    assert points.keys() == ours.keys() and all(same(points[name], ours[name]) for name in ours)
    assert made[0].ended == ended


def test_a_callback_that_raises_is_a_run_that_failed(fake):
    made = fake("nowhere")
    with pytest.raises(CairnError):
        train(replace(PLAN, log=("wandb",)), callbacks=Callbacks((lambda progress: 1 / 0,)))
    assert made[0].ended == "failed"


def test_a_damaged_note_of_ids_starts_new_ones(tmp_path):
    plan = replace(PLAN, log=("wandb",))
    for text in ("{", "[]", '{"wandb": 3}', '{"wandb": "../x"}'):
        (tmp_path / trackers.TRACKERS).write_text(text)
        assert trackers.Trackers(plan, tmp_path)._ids() == {}


# -- how they are asked for


def test_what_is_not_installed_is_refused_first(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CairnError, match=r"logging to MLflow needs an extra: pip install 'cairn-rl\[mlflow\]'"):
        cairn.train(PLAN, log="mlflow", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(SystemExit) as stopped:
        main(["train", "cartpole-ppo", "--log", "wandb", "--out", str(tmp_path / "run")])
    assert stopped.value.code == 2 and "'cairn-rl[wandb]'" in capsys.readouterr().err


def test_an_unknown_tracker_is_one_sentence(capsys):
    with pytest.raises(CairnError, match="log is 'tensorboard'; it must be one or more of 'wandb', 'mlflow'"):
        cairn.train(PLAN, log="tensorboard")
    with pytest.raises(SystemExit) as stopped:
        main(["train", "cartpole-ppo", "--log", "wandb,comet"])
    assert stopped.value.code == 2 and "--log is comet; it must be one of wandb, mlflow." in capsys.readouterr().err


def test_a_recipe_file_logs_nowhere_unless_it_is_trusted(tmp_path):
    """Its run would be sent to the account that the user is logged in to."""
    from cairn.core.serialise import to_json

    path = tmp_path / "plan.json"
    path.write_text(json.dumps(to_json(replace(PLAN, log=("wandb", "mlflow")))))
    with pytest.raises(CairnError, match="would log the run to wandb and mlflow; if you trust it, say trust=True"):
        read_recipe(path)
    assert read_recipe(path, trust=True).log == ("wandb", "mlflow")


# -- the real ones


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """No setting of the machine's user, and no way to a server."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DIR", "WANDB_PROJECT", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.chdir(tmp_path)
    connect = socket.socket.connect

    def here_only(self, address):
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1", "localhost"), address
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", here_only)


def stopped_and_resumed(name: str, folder: Path) -> dict[str, list[tuple[int, float]]]:
    """A run that is ended at 300 steps and resumed from its checkpoint at 200: steps 201 to 300 are played twice."""
    plan = replace(PLAN, log=(name,))
    with pytest.raises(CairnError):
        train(plan, folder, callbacks=Callbacks((lambda progress: 1 / 0 if progress.step == 300 else None,)))
    last = folder / "checkpoints" / "0000000300"
    last.rename(folder / "lost")  # as if it had been killed there
    train(plan, folder, resume=True)
    return written(folder)


def test_mlflow_holds_the_curves_and_settings_of_a_run_that_was_resumed(alone, tmp_path, capsys):
    mlflow = pytest.importorskip("mlflow")
    ours = stopped_and_resumed("mlflow", tmp_path / "run")
    client = mlflow.MlflowClient()
    (experiment,) = [e for e in client.search_experiments() if e.name == "cairn"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert json.loads((tmp_path / "run" / "trackers.json").read_text()) == {"mlflow": run.info.run_id}
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert run.data.params["agent.kind"] == "A2CConfig" and run.data.params["env"] == "CartPole-v1"
    assert run.data.metrics.keys() == ours.keys()
    for name in ours.keys() - {"time/fps"}:
        told = [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, name)]
        assert same(told, ours[name]), name
    assert f"MLflow: logging to the run {run.info.run_id}" in capsys.readouterr().err


def test_mlflow_logs_to_the_run_that_the_user_began(alone, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_experiment("mine")
    with mlflow.start_run() as run:
        cairn.train(PLAN, log="mlflow", out=tmp_path / "run")
    client = mlflow.MlflowClient()
    assert client.get_metric_history(run.info.run_id, "eval/mean_reward")
    assert client.get_run(run.info.run_id).info.status == "FINISHED"  # by the user's own end of it
    assert client.get_experiment_by_name("cairn") is None


def test_a_store_of_mlflow_that_cannot_be_written_does_not_stop_the_training(alone, tmp_path, monkeypatch, capsys):
    pytest.importorskip("mlflow")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "file" / "mlruns").as_uri())
    assert train(replace(PLAN, log=("mlflow",)), tmp_path / "run").step == 400
    said = capsys.readouterr().err
    assert said.count("MLflow failed (") == 1 and "training goes on without it" in said


def records(blob: bytes) -> Iterator[bytes]:
    """Of a .wandb file: a head of 7 bytes, then the log format of LevelDB."""
    assert blob[:4] == b":W&B"
    at, parts = 7, b""
    while at + 7 <= len(blob):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", blob, at)
        if at + 7 + size > len(blob):
            return  # still being written
        parts += blob[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield parts
            parts = b""


def history(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What the offline files of a W&B run hold. Of points at the same step the first counts, as on its server."""
    from wandb.proto import wandb_internal_pb2

    def read(path: Path) -> list[wandb_internal_pb2.Record]:
        """All records of a file. W&B writes on after `finish` returns; the last record is the exit."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            told = [wandb_internal_pb2.Record.FromString(data) for data in records(path.read_bytes())]
            if any(record.WhichOneof("record_type") == "exit" for record in told):
                return told
            time.sleep(0.1)
        raise AssertionError(f"{path} has no end")

    found: dict[str, dict[int, float]] = {}
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):  # named after the time they began
        for record in read(path):
            items = {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}
            for name, value in items.items():
                if not name.startswith("_"):
                    found.setdefault(name, {}).setdefault(items["_step"], value)
    return {name: sorted(points.items()) for name, points in found.items()}


def test_wandb_holds_the_curves_of_a_run_that_was_resumed_offline(alone, tmp_path, capsys):
    """One W&B run; offline each part has a file, and W&B goes by the step of a point."""
    pytest.importorskip("wandb")
    hooks = sys.exit, sys.excepthook
    ours, folder = stopped_and_resumed("wandb", tmp_path / "run"), tmp_path / "run"
    assert (sys.exit, sys.excepthook) == hooks
    (name,) = {path.name for path in folder.glob("wandb/offline-run-*/run-*.wandb")}
    run = json.loads((folder / "trackers.json").read_text())["wandb"]
    assert name == f"run-{run}.wandb"
    theirs = history(folder)
    assert theirs.keys() == ours.keys()
    assert all(same(theirs[name], ours[name]) for name in ours.keys() - {"time/fps"})
    assert not list(tmp_path.glob("wandb")) and "Weights & Biases: logging to" in capsys.readouterr().err


def test_wandb_logs_to_the_run_that_the_user_began(alone, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    hooks = sys.exit, sys.excepthook
    with wandb.init(mode="offline", dir=tmp_path, settings=wandb.Settings(silent=True, console="off")) as run:
        run.log({"mine": 1.0})
        cairn.train(PLAN, log=["wandb"], out=tmp_path / "run")
        assert wandb.run is run  # still open
    sys.exit, sys.excepthook = hooks
    theirs = history(tmp_path)
    assert [value for _, value in theirs["cairn/step"]] == [100, 200, 200, 300, 400, 400]
    assert not (tmp_path / "run" / "wandb").exists()


@pytest.mark.parametrize(
    ("environ", "mode"),
    [
        ({}, {"mode": "offline"}),
        ({"WANDB_API_KEY": "x" * 40}, {}),
        ({"WANDB_MODE": "offline"}, {}),
        ({"WANDB_MODE": "online", "WANDB_API_KEY": "x" * 40}, {}),
    ],
)
def test_wandb_is_offline_unless_the_user_logged_in(environ, mode, alone, monkeypatch):
    from cairn.runs.wandb_tracker import _mode

    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert _mode() == mode


def test_wandb_never_asks_for_a_key(alone, tmp_path, monkeypatch, capsys):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "online")
    assert train(replace(PLAN, log=("wandb",)), tmp_path / "run").step == 400
    assert "WANDB_MODE is online, and nobody is logged in; run `wandb login`" in capsys.readouterr().err
    (tmp_path / "no-netrc").write_text("machine api.wandb.ai login user password secret\n")
    from cairn.runs.wandb_tracker import _mode

    assert _mode() == {}
