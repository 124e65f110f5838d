"""Demonstrations: recorded, written, read back, and refused in one sentence."""

import sys
import types

import numpy as np
import pytest

from cairn.algorithms.imitation.demos import Demos, read, record, write
from cairn.algorithms.imitation.expert import Expert
from cairn.core.errors import CairnError
from cairn.envs.task import Task, say_cut
from cairn.vector.choose import make_vector
from tests.algorithms import test_learns  # noqa: F401  (registers the toys)
from tests.envs import toys  # noqa: F401


def shown(env, expert, episodes=3, envs=2):
    vector = make_vector(Task(env), envs, backend="sync")
    try:
        return record(Expert(expert, vector.spec), vector, range(episodes), env), vector.spec
    finally:
        vector.close()


def test_episodes_are_whole_and_in_order():
    demos, _ = shown("toy/Corridor-v0", lambda obs: 1)
    assert len(demos.episodes) == 3 and demos.steps == 15 and demos.returns == [1.0] * 3
    for episode in demos.episodes:
        assert episode.terminated and episode.obs.argmax(1).tolist() == [0, 1, 2, 3, 4, 5]
        assert episode.action.tolist() == [1] * 5 and episode.reward.tolist() == [0, 0, 0, 0, 1]


def test_an_episode_that_does_not_end_is_cut_and_says_so(capsys):
    say_cut.cache_clear()
    vector = make_vector(Task("CliffWalking-v1"), 2, backend="sync")
    demos = record(Expert(lambda obs: 0, vector.spec), vector, range(3), "CliffWalking-v1", longest=40)
    assert [len(e.reward) for e in demos.episodes] == [40] * 3 and not any(e.terminated for e in demos.episodes)
    assert demos.episodes[0].obs.shape[0] == 41
    assert capsys.readouterr().err.count("truncated after 40 steps") == 1


def test_the_file_holds_what_was_recorded_in_the_environments_units(tmp_path):
    demos, spec = shown("toy/Aim-v0", lambda obs: obs)
    write(tmp_path / "d.npz", demos, spec)
    with np.load(tmp_path / "d.npz", allow_pickle=False) as file:
        assert file["obs"].shape == (12, 1) and file["length"].tolist() == [3, 3, 3]
        np.testing.assert_allclose(file["action"][:3], file["obs"][:3], atol=1e-6)  # the point itself, within ±3
    again = read(tmp_path / "d.npz", spec)
    assert again.task == "toy/Aim-v0"
    for a, b in zip(demos.episodes, again.episodes, strict=True):
        np.testing.assert_allclose(a.action, b.action, atol=1e-6)
        np.testing.assert_array_equal(a.obs, b.obs)
        assert not b.terminated


def test_a_function_sees_goals_as_the_task_shows_them():
    def walk(obs):
        return int(obs["desired_goal"][0] > obs["achieved_goal"][0])

    demos, _ = shown("goaltoy/Line-v0", walk, episodes=4)
    assert all(e.terminated for e in demos.episodes)


@pytest.mark.parametrize(
    ("expert", "words"),
    [
        (lambda obs: 7, "one of 2 actions"),
        (lambda obs: 0.5, "one of 2 actions"),
        (lambda obs: [0, 1], "one of 2 actions"),
    ],
)
def test_a_foolish_expert_is_named(expert, words):
    with pytest.raises(CairnError, match=words):
        shown("toy/Corridor-v0", expert)


def test_an_expert_of_numbers_that_are_not():
    with pytest.raises(CairnError, match="1 finite numbers"):
        shown("toy/Aim-v0", lambda obs: obs * np.nan)


def spoil(path, **changes):
    with np.load(path) as file:
        data = {**{k: file[k] for k in file.files}, **changes}
    np.savez(path, **{k: v for k, v in data.items() if v is not None})


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda p: p.unlink(), "there are no demonstrations"),
        (lambda p: p.write_bytes(b""), "empty, cut short or not a NumPy archive"),
        (lambda p: p.write_bytes(p.read_bytes()[:200]), "empty, cut short or not a NumPy archive"),
        (lambda p: p.write_bytes(b"PK" + bytes(300)), "empty, cut short or not a NumPy archive"),
        (lambda p: spoil(p, reward=None), "it lacks reward"),
        (lambda p: spoil(p, action=np.array([object()])), "empty, cut short or not"),  # a pickle is not read
        (lambda p: spoil(p, length=np.array([5, 5])), "do not have the lengths of its episodes"),
        (lambda p: spoil(p, length=np.array(15)), "do not have the lengths of its episodes"),
        (lambda p: spoil(p, terminated=np.zeros(2, bool)), "without an end"),
        (lambda p: spoil(p, length=np.array([15, 0, 0])), "without a step"),
        (lambda p: spoil(p, obs=np.zeros((18, 4))), "has observations of shape \\(4,\\)"),
        (lambda p: spoil(p, obs=np.full((18, 6), np.nan)), "NaN or infinite"),
        (lambda p: spoil(p, action=np.full(15, 9)), "outside the task"),
        (lambda p: spoil(p, action=np.zeros(15)), "another type"),
    ],
)
def test_a_bad_file_is_one_sentence(harm, words, tmp_path):
    demos, spec = shown("toy/Corridor-v0", lambda obs: 1)
    path = tmp_path / "d.npz"
    write(path, demos, spec)
    harm(path)
    with pytest.raises(CairnError, match=words):
        read(path, spec)


def test_no_episode_is_one_sentence(tmp_path):
    _, spec = shown("toy/Corridor-v0", lambda obs: 1)
    empty = {"obs": np.zeros((0, 6)), "action": np.zeros(0, int), "reward": np.zeros(0)}
    np.savez(tmp_path / "d.npz", **empty, length=np.zeros(0, int), terminated=np.zeros(0, bool), task="x")
    with pytest.raises(CairnError, match="holds no episode"):
        read(tmp_path / "d.npz", spec)


class HardLink:
    """As h5py tells of a member that lies in the file itself."""


class SoftLink:
    """As h5py tells of one that does not."""


class Fake(dict):
    """As much of an HDF5 file or group as is asked for."""

    attrs = {"env_spec": "toy"}
    links: dict[str, object] = {}

    def get(self, name, *, getlink):
        return self.links.get(name, HardLink())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def hdf5(value):
    return Fake({k: hdf5(v) for k, v in value.items()}) if type(value) is dict else value


class Elsewhere:
    """An array that h5py has not read yet."""

    def __init__(self, nbytes=8, external=None, is_virtual=False, kind="f"):
        self.nbytes, self.external, self.is_virtual = nbytes, external, is_virtual
        self.dtype = types.SimpleNamespace(kind=kind)

    def __array__(self, *_, **__):
        raise AssertionError("it was read")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ({"actions": Elsewhere(nbytes=2**40)}, "would unpack to far more than its size"),
        ({"actions": Elsewhere(external=[("/etc/passwd", 0, 8)])}, "actions in it lies in another file"),
        ({"observations": Elsewhere(is_virtual=True)}, "observations in it lies in another file"),
        ({"rewards": Elsewhere(kind="O")}, "rewards in it holds no numbers"),
        ({"rewards": None}, "does not have the layout of Minari"),
        ({"terminations": np.zeros(0)}, "does not have the layout of Minari"),
    ],
)
def test_what_an_hdf5_file_declares_is_checked_before_it_is_read(harm, words, monkeypatch, tmp_path):
    _, spec = shown("toy/Corridor-v0", lambda obs: 1)
    group = {"observations": np.zeros((2, 6)), "actions": np.zeros(1, int), "rewards": np.zeros(1)}
    with pytest.raises(CairnError, match=words):
        read(minari(monkeypatch, tmp_path, {"episode_0": {**group, "terminations": np.ones(1), **harm}}), spec)


def test_a_link_in_an_hdf5_file_is_not_followed(monkeypatch, tmp_path):
    _, spec = shown("toy/Corridor-v0", lambda obs: 1)
    monkeypatch.setattr(Fake, "links", {"actions": SoftLink()})
    with pytest.raises(CairnError, match="actions in it is a link to elsewhere"):
        read(minari(monkeypatch, tmp_path, {"episode_0": {"observations": np.zeros((2, 6)), "actions": None}}), spec)


def minari(monkeypatch, tmp_path, groups):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "main_data.hdf5").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "h5py", types.SimpleNamespace(File=lambda path, mode: hdf5(groups)))
    return tmp_path


def test_a_folder_of_minaris(monkeypatch, tmp_path):
    demos, spec = shown("toy/Corridor-v0", lambda obs: 1)
    groups = {
        f"episode_{i}": {
            "observations": e.obs,
            "actions": e.action,
            "rewards": e.reward,
            "terminations": np.arange(len(e.reward)) == len(e.reward) - 1,
        }
        for i, e in enumerate(demos.episodes)
    }
    found = read(minari(monkeypatch, tmp_path, groups), spec)
    assert isinstance(found, Demos) and found.steps == 15 and found.episodes[2].terminated


def test_minaris_goals_are_laid_out_as_ours(monkeypatch, tmp_path):
    demos, spec = shown("goaltoy/Line-v0", lambda obs: 1, episodes=1)
    obs = demos.episodes[0].obs
    seen = {"achieved_goal": obs[:, 1:2], "desired_goal": obs[:, 2:3], "observation": obs[:, 0:1]}
    reward = demos.episodes[0].reward
    group = {"observations": seen, "actions": demos.episodes[0].action, "rewards": reward, "terminations": reward > 1}
    found = read(minari(monkeypatch, tmp_path, {"episode_0": group}), spec)
    np.testing.assert_array_equal(found.episodes[0].obs, obs)


def test_minari_without_its_file_or_package(monkeypatch, tmp_path):
    _, spec = shown("toy/Corridor-v0", lambda obs: 1)
    with pytest.raises(CairnError, match=r"no main_data\.hdf5"):
        read(tmp_path, spec)
    minari(monkeypatch, tmp_path, {"episode_0": {}})
    with pytest.raises(CairnError, match="does not have the layout of Minari"):
        read(tmp_path, spec)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(CairnError, match="pip install h5py"):
        read(tmp_path, spec)
