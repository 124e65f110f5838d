"""Sweeps and searches whose trainings are tasks of a Ray cluster."""

import json
import threading
import time

import pytest

pytest.importorskip("ray")

from cairn.core.errors import CairnError
from cairn.search import places
from cairn.search.places import Finished, OnRay, place, run
from cairn.search.sweep import sweep

LONG = ["--steps", "16000", "--target", "none", "--eval-every", "8000", "--eval-episodes", "1"]
LONG += ["--checkpoint-every", "2000"]


@pytest.fixture(scope="module")
def cluster():
    import ray
    from ray.cluster_utils import Cluster

    ray.shutdown()  # whatever other tests have left
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 100 * 2**20})
    for _ in range(2):
        made.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_sweep_through_ray_survives_the_loss_of_a_node(cluster, tmp_path, capfd):
    """A training that was under way there goes on elsewhere, from its checkpoint; each seed is scored once."""

    def remove_one() -> None:
        begun = [tmp_path / f"s{seed}" / "checkpoints" for seed in (101, 102)]
        while not all(folder.is_dir() and any(folder.iterdir()) for folder in begun):
            time.sleep(0.1)
        cluster.remove_node(next(iter(node for node in cluster.list_all_nodes() if node is not cluster.head_node)))

    thread = threading.Thread(target=remove_one, daemon=True)
    thread.start()
    size = {"jobs": 1, "trials": 2, "cpus": 1, "gpus": 0}
    found = sweep(
        "cartpole-ppo", LONG, [101, 102], tmp_path, place=lambda: place(cluster.address, tmp_path, **size), episodes=2
    )
    thread.join()
    assert [(trial.seed, trial.fault) for trial in found] == [(101, ""), (102, "")]
    assert all(trial.steps >= 16_000 for trial in found)
    assert all(json.loads((trial.folder / "score.json").read_text())["episodes"] == 2 for trial in found)
    said = capfd.readouterr().err
    assert said.count("lost its node") == 1 and "it is continued on another" in said


def test_more_than_a_ray_cluster_has_is_refused(cluster, tmp_path):
    with pytest.raises(CairnError, match=r"needs 64 CPUs, and the cluster has \d+; lower"):
        OnRay(cluster.address, tmp_path, jobs=1, cpus=64)
    with pytest.raises(CairnError, match=r"needs 1 GPUs, and the cluster has 0"):
        OnRay(cluster.address, tmp_path, jobs=1, gpus=1)


def test_another_version_on_a_ray_node_and_a_folder_it_does_not_see(monkeypatch, tmp_path):
    other = places._on_node((), None, 1, str(tmp_path), str(tmp_path), "0.0.1")
    assert other.code == 2 and "this machine 0.0.1; install one version on all" in other.err
    unseen = places._on_node((), None, 1, str(tmp_path), str(tmp_path / "no"), places._version())
    assert unseen.code == 2 and "does not see" in unseen.err and "all nodes share" in unseen.err


def test_another_version_of_ray_is_told_with_both_versions(monkeypatch, tmp_path):
    import ray

    def refused(**asked):
        cluster = "Version mismatch: The cluster was started with:\n    Ray: 2.9.0\n    Python: 3.10.1\n"
        raise RuntimeError(
            f"{cluster}This process on node 10.0.0.7 was started with:\n    Ray: 2.40.0\n    Python: 3.11.7\n"
        )

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refused)
    with pytest.raises(CairnError, match=r"'auto': Version .* Ray: 2\.9\.0 .* Ray: 2\.40\.0 Python: 3\.11\.7$"):
        OnRay("auto", tmp_path, jobs=1)


class Unlucky:
    """A place that loses each of its commands."""

    jobs = 1

    def start(self, words, log=None):
        return self

    def poll(self, seconds):
        return Finished(1, lost="NodeDiedError")

    def stop(self):
        raise AssertionError("it does not run")


def test_what_is_lost_again_and_again_on_ray_has_failed(capsys):
    ended = run(Unlucky(), lambda: ["train"], "seed 3")
    assert ended.code and "seed 3 lost its node 4 times; the last reason was NodeDiedError." in ended.err
    assert capsys.readouterr().err.count("it is continued on another") == 3


@pytest.mark.parametrize("on", ["rays", "here"])
def test_a_wrong_name_of_a_ray_cluster(on, tmp_path):
    with pytest.raises(CairnError, match=rf"on is {on}; write ray, or the address"):
        place(on, tmp_path, jobs=1, trials=1, cpus=1, gpus=0)
