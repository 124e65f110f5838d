"""Environments that raise, hang, die or return NaN: named, and in workers replaced and counted."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

from cairn.core.errors import EnvError
from cairn.vector.deadline import LOOK_EVERY
from cairn.vector.in_process import Sync
from cairn.vector.processes import Workers
from tests.vector.counting import Counting


def makers(fault, count=3, bad=1):
    return [partial(Counting, i, (5,), "t", fault if i == bad else None) for i in range(count)]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("raise", "environment 1 raised ValueError: the wheel fell off"),
        ("nan", "environment 1 returned an observation"),
    ],
)
def test_sync_names_the_environment(kind, words):
    envs = Sync(makers((kind, 0, 3)))
    envs.reset([1, 2, 3])
    with pytest.raises(EnvError, match=words):
        for _ in range(5):
            envs.step(np.zeros(3, np.int64))


def test_sync_wakes_from_a_hang():
    envs = Sync(makers(("hang", 0, 2)), timeout=0.3)
    envs.reset([1, 2, 3])
    with pytest.raises(EnvError, match=r"environment 1 did not answer within 0\.3 s"):
        for _ in range(5):
            envs.step(np.zeros(3, np.int64))


@pytest.mark.parametrize("kind", ["raise", "nan", "die", "hang"])
def test_a_worker_is_replaced_and_counted(kind):
    # the fault is in episode 1: a fresh process begins at episode 0 and does not meet it again here
    envs = Workers(makers((kind, 1, 2)), workers=3, timeout=1.0)
    try:
        envs.reset([1, 2, 3])
        lost = 0
        for _ in range(9):  # 5 steps of episode 0, then the fault; afterwards episode 0 again
            step = envs.step(np.zeros(3, np.int64))
            lost += int((~step.valid).sum())
            assert step.valid[0] and step.valid[2]
            if not step.valid[1]:
                assert not step.terminated[1] and not step.truncated[1] and step.reward[1] == 0
                assert step.obs[1].tolist() == [1, 0, 0]  # the first observation of a new episode
        assert (envs.restarts, lost) == (1, 1)
    finally:
        envs.close()


def test_failing_again_and_again_stops_with_the_reason():
    envs = Workers(makers(("raise", 0, 1)), workers=3)
    try:
        envs.reset([1, 2, 3])
        with pytest.raises(EnvError, match="environment 1 raised ValueError: the wheel fell off .*restarted 3 times"):
            for _ in range(10):
                envs.step(np.zeros(3, np.int64))
    finally:
        envs.close()


def test_a_task_registered_by_the_users_script_reaches_the_workers(tmp_path):
    import subprocess
    import sys
    from pathlib import Path

    script = tmp_path / "mine.py"  # no `if __name__ == "__main__"`, and a class that only this script knows
    script.write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "class Mine(CartPoleEnv): pass\n"
        "gym.register('mine/Pole-v0', Mine, max_episode_steps=50)\n"
        "from cairn import train\n"
        "out = train('cartpole-ppo', env='mine/Pole-v0', vector='async', steps=2000, eval_episodes=4)\n"
        "print('steps', out.step, 'restarts', out.restarts)\n"
    )
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, str(script)], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "restarts 0" in done.stdout


def test_a_task_that_cannot_be_made_in_a_worker_says_why():
    calls = []

    def fragile():
        import os

        if os.getpid() != parent:
            raise RuntimeError("no licence on this machine")
        calls.append(1)
        return Counting()

    import os

    parent = os.getpid()
    envs = Workers([fragile, fragile], workers=1)
    try:
        with pytest.raises(EnvError, match="no licence on this machine"):
            envs.reset([1, 2])
    finally:
        envs.close()


def test_a_process_that_was_stopped_is_not_a_hang(tmp_path):
    """Ctrl-Z for longer than the time-out: the clock of the environment stood still with everything else."""
    code = (
        "import time, sys\n"
        "from cairn.vector.in_process import Deadline\n"
        "print('in', flush=True)\n"
        "def play():\n"  # a loop that ends the body of a `with` can let the error past it on Python 3.13.0
        "    global gap, last\n"
        "    while time.monotonic() - begun < 3.6:\n"
        "        now = time.monotonic()\n"
        "        gap, last = max(gap, now - last), now\n"
        "begun = last = time.monotonic()\n"
        "gap, verdict = 0.0, 'out'\n"
        "try:\n"
        "    with Deadline(2.0):\n"
        "        play()\n"
        "except Exception as error:\n"
        "    verdict = type(error).__name__\n"
        "print(gap, verdict, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "in\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(3.0)
    process.send_signal(signal.SIGCONT)
    gap, verdict = process.communicate(timeout=20)[0].split()
    if float(gap) < 2.5:
        pytest.skip("the process ran on through SIGSTOP here")
    assert verdict == "out"


@pytest.fixture
def no_timer():
    """Without the timer of pytest's own time-out, as in a run."""
    handler, timer = signal.getsignal(signal.SIGALRM), signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, *timer)


def ticking():
    return signal.getsignal(signal.SIGALRM) != signal.SIG_IGN, signal.getitimer(signal.ITIMER_REAL)[1] > 0


@pytest.mark.parametrize("fault", [None, ("raise", 0, 2), ("hang", 0, 2)])
def test_the_alarm_is_kept_between_steps_and_given_back_at_the_end(fault, no_timer):
    """SIGALRM belongs to the whole process: after the vector was closed, or failed, it is as it was before."""
    envs, failed = Sync(makers(fault), timeout=0.5), False
    assert ticking() == (False, False)
    envs.reset([1, 2, 3])
    for _ in range(5):
        try:
            envs.step(np.zeros(3, np.int64))
        except EnvError:
            failed = True
            break
        assert ticking() == (True, True)
    assert failed == (fault is not None)
    assert ticking() == ((False, False) if failed else (True, True))
    envs.close()
    assert ticking() == (False, False)


def test_the_alarm_is_given_back_where_nothing_is_stepped_any_more(no_timer):
    envs = Sync(makers(None), timeout=0.3)
    envs.reset([1, 2, 3])
    assert ticking() == (True, True)
    time.sleep(0.1)
    assert ticking() == (False, False)
    envs.step(np.zeros(3, np.int64))
    assert ticking() == (True, True)
    envs.close()


@pytest.mark.parametrize("with_handler", [True, False])
def test_an_alarm_that_is_set_between_steps_rings(with_handler, no_timer):
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append("before"))
    envs = Sync(makers(None), timeout=60.0)
    envs.reset([1, 2, 3])
    try:
        if with_handler:
            signal.signal(signal.SIGALRM, lambda *_: rung.append("mine"))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        envs.step(np.zeros(3, np.int64))
        time.sleep(0.1)
        assert rung == ["mine" if with_handler else "before"]
    finally:
        envs.close()
        signal.signal(signal.SIGALRM, before)


def test_a_hang_is_noticed_after_someone_used_the_alarm_between_steps(no_timer):
    """A save-and-restore of the handler leaves the timer dead; a look once in a while finds it."""
    envs = Sync(makers(None), timeout=0.4)
    envs.reset([1, 2, 3])
    signal.setitimer(signal.ITIMER_REAL, 0)
    for _ in range(LOOK_EVERY):
        envs.step(np.zeros(3, np.int64))
    envs.batch.envs[1].step = lambda action: time.sleep(5)
    with pytest.raises(EnvError, match="did not answer within 0.4 s"):
        envs.step(np.zeros(3, np.int64))
    envs.close()


def test_a_forked_process_sets_an_alarm_of_its_own(no_timer):
    envs = Sync(makers(None), timeout=0.4)
    envs.reset([1, 2, 3])
    child = os.fork()
    if child == 0:
        try:
            envs.batch.envs[1].step = lambda action: time.sleep(5)
            envs.step(np.zeros(3, np.int64))
        except EnvError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    envs.close()


@pytest.mark.parametrize("fault", [None, ("raise", 0, 2), ("hang", 0, 2)])
def test_the_alarm_of_someone_else_waits_only_while_environments_run(fault):
    """Here pytest's own: between calls, and after a failed one, it is as it was before."""
    during = []

    def alarm():
        return signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1]  # pytest's own has no interval

    before = alarm()
    envs = Sync(makers(fault), timeout=0.5)
    assert alarm() == before
    envs.reset([1, 2, 3])
    assert alarm() == before
    first, step = envs.batch.envs[0], envs.batch.envs[0].step
    first.step = lambda action: (during.append(alarm()), step(action))[1]
    with contextlib.suppress(EnvError):
        for _ in range(5):
            envs.step(np.zeros(3, np.int64))
            assert alarm() == before
    assert alarm() == before
    assert during and all(handler != before[0] and interval > 0 for handler, interval in during)
    envs.close()
    assert alarm() == before


def test_two_vectors_do_not_share_an_alarm():
    """The evaluation's vector is made after the training's; neither's time is the other's."""
    mine = signal.getsignal(signal.SIGALRM)
    envs, others = Sync(makers(None), timeout=0.4), Sync(makers(None), timeout=0.4)
    envs.reset([1, 2, 3])
    others.reset([1, 2, 3])
    slow, step = envs.batch.envs[0], envs.batch.envs[0].step
    slow.step = lambda action: (time.sleep(0.15), step(action))[1]
    for _ in range(6):  # 0.9 s in all, 0.15 each
        envs.step(np.zeros(3, np.int64))
    assert signal.getsignal(signal.SIGALRM) == mine
