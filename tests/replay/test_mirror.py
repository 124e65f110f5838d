"""Batches from the copy of a ring on a device are those of the ring itself. The device is the CPU here."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from cairn.algorithms import off_policy
from cairn.algorithms.hiro import loop
from cairn.algorithms.hiro.segments import Segments
from cairn.core.goals import Distance, Within
from cairn.core.types import Discrete, Spec, Step
from cairn.replay.mirror import FINALS, Mirror
from cairn.replay.ring import Ring
from tests.replay.test_hindsight import Near, hindsight, play
from tests.test_digests import RECIPES, digest


def both(make):
    """A replay, and an equal one with a copy from which it reads."""
    plain, copied = make(), make()
    ring = getattr(copied, "ring", copied)
    ring.mirror = Mirror(ring, "cpu")
    return plain, copied


def must_be_equal(plain, copied, batch=64):
    for _ in range(3):
        one, two = plain.sample(batch), copied.sample(batch)
        for field in fields(one):
            a, b = getattr(one, field.name), getattr(two, field.name)
            assert a.dtype == b.dtype and torch.equal(a, b), field.name


def steps(count, envs, seed, *, fillers):
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(envs, 3)).astype(np.float32)
    for _ in range(count):
        valid = rng.random(envs) > (0.2 if fillers else 0)
        ends, cuts = (rng.random(envs) < 0.2) & valid, (rng.random(envs) < 0.2) & valid
        after = rng.normal(size=(envs, 3)).astype(np.float32)
        step = Step(after, after, rng.normal(size=envs).astype(np.float32), ends, cuts & ~ends, valid)
        yield obs, rng.integers(0, 3, envs), step
        obs = np.where((step.terminated | step.truncated)[:, None], rng.normal(size=(envs, 3)), after)
        obs = obs.astype(np.float32)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("fillers", [False, True])
def test_a_ring_that_wraps_around_is_copied_as_it_grows(n, fillers):
    """Between batches lie one step, several, more than the ring holds, a cut, and more ends than there is room for."""
    spec = Spec((3,), "float32", Discrete(3))

    def make():
        return Ring(40, 2, spec, generator=torch.Generator().manual_seed(0), gamma=0.9, n=n)

    plain, copied = both(make)
    copied.mirror.final = copied.mirror.final[:2]  # it has to grow
    pauses = [5, 6, 7, 12, 20, 90, 91, 130]
    for k, (obs, action, step) in enumerate(steps(140, 2, 1, fillers=fillers)):
        for ring in (plain, copied):
            ring.add(obs, action, step)
            if k == 11:
                ring.cut()
        if k in pauses:
            must_be_equal(plain, copied)
    assert plain.rows > 3 * plain.size and plain.total < FINALS


@pytest.mark.parametrize("strategy", ["future", "final", "episode", "random"])
@pytest.mark.parametrize(
    "rule", [Within(1.0, ends=True, cost=True), Within(1.0), Distance(cost=True), Near(True, True)]
)
@pytest.mark.parametrize("n", [1, 2])
def test_goals_are_relabelled_on_the_device(strategy, rule, n):
    """`Near` takes arrays only: it is asked on the CPU."""

    def made():
        replay = hindsight(30, 2, rule=Near(rule.cost, getattr(rule, "ends", False)), n=n, strategy=strategy)
        play(replay, 70, np.random.default_rng(3))
        replay.rule = rule
        return replay

    must_be_equal(*both(made))


def test_nothing_of_a_batch_is_read_from_the_cpu(monkeypatch):
    """The rule and the rows: only numbers of cells cross."""
    plain, copied = both(lambda: hindsight(30, 2, rule=Within(1.0, ends=True)))
    for replay in (plain, copied):
        play(replay, 50, np.random.default_rng(3))
    copied.ring.mirror.send()
    for name in ("obs", "final", "reward", "terminated"):
        copied.ring.arrays[name][:] = 1
    copied.ring.mirror.rows = copied.ring.rows + 1
    monkeypatch.setattr(Mirror, "send", lambda self: None)
    must_be_equal(plain, copied)


@pytest.mark.parametrize("name", ["dqn-her", "sac", "dqn-prioritised"])
def test_a_run_learns_the_same_with_a_copy(name, tmp_path, monkeypatch):
    plain = digest(RECIPES[name], tmp_path / "plain")
    made = []

    def with_a_copy(*args, device, **more):
        ring = Ring(*args, **more)
        ring.mirror = Mirror(ring, "cpu")
        made.append(ring)
        return ring

    monkeypatch.setattr(off_policy, "Ring", with_a_copy)
    with_a_copy.bytes_each = Ring.bytes_each
    assert digest(RECIPES[name], tmp_path / "copied") == plain and made


def test_a_hierarchy_learns_the_same_with_a_copy(tmp_path, monkeypatch):
    plain = digest(RECIPES["hiro-td3"], tmp_path / "plain")

    def with_a_copy(*args, device, **more):
        segments = Segments(*args, **more)
        segments.mirror = Mirror(segments.ring, "cpu", {"target": segments.target})
        return segments

    monkeypatch.setattr(loop, "Segments", with_a_copy)
    assert digest(RECIPES["hiro-td3"], tmp_path / "copied") == plain


def test_a_ring_that_is_loaded_is_copied_anew(tmp_path):
    """Rows after the checkpoint were sent, and are written again with other steps."""
    spec = Spec((3,), "float32", Discrete(3))

    def make():
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        random = torch.Generator().manual_seed(0)
        return Ring(40, 2, spec, generator=random, gamma=0.9, slack=40, folder=folder)

    plain, copied = both(make)
    for ring in (plain, copied):
        for k, step in enumerate(steps(60, 2, 1, fillers=False)):
            ring.add(*step)
            if k == 30:
                ring.cut()
                saved = ring.save()
    must_be_equal(plain, copied)
    for ring in (plain, copied):
        ring.storage.missing.clear()
        ring.load(saved)
        for step in steps(25, 2, 2, fillers=False):
            ring.add(*step)
    must_be_equal(plain, copied)
