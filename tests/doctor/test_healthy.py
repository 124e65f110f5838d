"""Tasks of odd kinds that can be learned get no error, however they are handed over."""

import subprocess
import sys
import textwrap

import gymnasium as gym
import numpy as np
import pytest

import cairn
from cairn.doctor.examine import examine
from cairn.doctor.probes import ends, resets
from cairn.doctor.task_probe import Case, TaskProbe
from cairn.envs.task import Task
from tests.doctor import healthy, odd_spaces
from tests.doctor.healthy import HEALTHY, TMaze, Walk
from tests.doctor.odd_spaces import ODD


def found(make, *probes, **case):
    probe = TaskProbe(make, Case(**{"seconds": 4.0, "steps": 2000, "assumed": True, **case}))
    return list(examine(probe, probes) if probes else examine(probe))


# the warnings that are right: what a user should check, though the task can be learned
WARNED = {
    healthy.Huge: {"reward-scale"},
    healthy.Tiny: {"reward-scale"},
    healthy.Long: {"no-limit"},
    healthy.Detour: {"goals-unreachable"},  # only where there is too little time to find the gap
    healthy.Lock: {"reward-constant", "action-no-effect"},
    healthy.Failing: {"dying-pays"},
    healthy.Turns: {"reset-remembers", "copies-alike"},
    healthy.Unseeded: {"seed-ignored", "unseeded-noise", "copies-share"},
    odd_spaces.OneSided: {"action-unbounded"},
}


@pytest.mark.parametrize("make", [*HEALTHY, *ODD])
def test_a_healthy_task_of_an_odd_kind_gets_no_error(make):
    np.random.seed(0)  # Unseeded draws from it: two of its starts can be alike by chance
    findings = found(make)
    assert [str(f) for f in findings if f.severity == "error"] == []
    assert [str(f) for f in findings if f.code == "not-examined"] == []  # an error of a probe's own
    assert {f.code for f in findings if f.severity == "warning"} <= WARNED.get(make, set())


def test_few_starts_are_no_sign_of_a_seed_that_is_ignored():
    """Two starts, one of them rare: eight resets in a row are alike by chance, and so are two copies."""

    class Rare(TMaze):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.side = 1 if self.np_random.random() < self.share else -1
            return self.obs(), {}

    for share in (0.5, 0.15, 0.03):
        Rare.share = share
        assert found(Rare, resets.variety) == []


def test_a_failing_end_that_is_cheaper_than_a_bad_life_is_a_warning():
    [finding] = found(healthy.Failing, ends.dying_pays)
    assert (finding.code, finding.severity) == ("dying-pays", "warning") and "check" in finding.what


@pytest.fixture(scope="module")
def registered():
    class Mine(Walk):
        pass

    gym.register("doctortest/Mine-v0", Mine)
    yield "doctortest/Mine-v0"
    del gym.registry["doctortest/Mine-v0"]


def test_a_task_that_the_caller_registered(registered):
    for make in (lambda: gym.make(registered), registered, Task(registered)):
        assert [str(f) for f in cairn.diagnose(make, seconds=5.0) if f.severity == "error"] == []


def test_a_task_of_the_script_that_was_started(tmp_path):
    """By its class, by a function, and by an id whose entry point is the script."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import cairn, gymnasium as gym, numpy as np

            class Mine(gym.Env):
                observation_space = gym.spaces.Box(-5, 5, (1,), np.float64)
                action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
                def reset(self, *, seed=None, options=None):
                    super().reset(seed=seed)
                    self.at, self.steps = float(self.np_random.uniform(-1, 1)), 0
                    return np.array([self.at]), {}
                def step(self, action):
                    self.at, self.steps = float(np.clip(self.at + 0.1 * action[0], -5, 5)), self.steps + 1
                    return np.array([self.at]), -abs(self.at), False, self.steps >= 50, {}

            gym.register("Mine-v0", Mine)
            gym.register("Script-v0", "__main__:Mine")
            for what in (Mine, lambda: gym.make("Mine-v0"), "Script-v0"):
                print([f.code for f in cairn.diagnose(what, seconds=5.0) if f.severity == "error"])
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:-1] == ["[]"] * 3, done.stdout + done.stderr


def test_a_worker_process_knows_what_the_caller_registered(registered):
    from cairn.vector.processes import Workers

    envs = Workers([lambda: gym.make(registered)] * 2, workers=1)
    try:
        assert envs.reset([0, 1]).shape == (2, 1)
    finally:
        envs.close()


def test_seconds_are_a_number_above_0():
    for wrong in (0, -1, float("nan"), float("inf"), "5", None, True):
        with pytest.raises(cairn.CairnError, match="seconds above 0"):
            cairn.diagnose("CartPole-v1", seconds=wrong)


def test_a_context_that_stands_still_within_an_episode_divides_by_no_zero():
    class Context(healthy.ContextualBandit):
        def draw(self):
            if self.steps == 0:
                super().draw()
            return self.context.copy()

        def step(self, action):
            self.steps += 1
            return self.draw(), float(action == int(self.context.argmax())), False, self.steps >= 25, {}

    with np.errstate(divide="raise", invalid="raise"):
        findings = found(Context)
    assert [f for f in findings if f.severity != "hint" or f.code == "not-examined"] == []
