"""For every probe a broken task that it catches, and its repaired twin, on which it is silent."""

from functools import partial
from time import sleep

import gymnasium as gym
import numpy as np
import pytest

from cairn.doctor.examine import examine
from cairn.doctor.finding import ordered
from cairn.doctor.probes import (
    FIRST,
    PROBES,
    actions,
    api,
    ends,
    goals,
    masks,
    memory,
    motion,
    observations,
    pictures,
    resets,
    rewards,
    time,
    upkeep,
)
from cairn.doctor.task_probe import Case, TaskProbe
from tests.doctor import healthy, odd_spaces, tasks
from tests.doctor.tasks import Arm, Buttons, Corridor, NotesCar, Puck, Runner


def found(make, *probes, **case):
    patient = TaskProbe(make, Case(**{"seconds": 3.0, "steps": 1500, **case}))
    return ordered(examine(patient, probes))


def puck(fault):
    return partial(Puck, fault)


def arm(fault):
    return partial(Arm, fault)


class Seen(gym.ObservationWrapper):
    """A task of Gymnasium of which some entries are shown; none: all."""

    def __init__(self, name="CartPole-v1", entries=()):
        super().__init__(gym.make(name))
        self.entries = list(entries) or slice(None)
        shape = np.zeros(self.env.observation_space.shape)[self.entries].shape
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, shape)

    def observation(self, observation):
        return observation[self.entries]


# probe, code, severity, broken, repaired
CASES = [
    (resets.repeats, "seed-ignored", "warning", puck("global generator"), Puck),
    (resets.repeats, "unseeded-noise", "warning", puck("noise"), Puck),
    (resets.forgets, "reset-remembers", "error", puck("remembers"), Puck),
    (resets.variety, "resets-alike", "error", puck("reseeds when unseeded"), Puck),
    (resets.variety, "resets-alike", "error", puck("reseeds"), Puck),
    (resets.variety, "seeds-alike", "warning", puck("one seed"), Puck),
    (resets.variety, "copies-alike", "warning", puck("seeds itself"), Puck),
    (resets.variety, "one-goal", "warning", arm("one goal"), Arm),
    (resets.shared, "copies-share", "error", puck("shared"), Puck),
    (resets.shared, "copies-share", "warning", tasks.Shared, Puck),
    (observations.finite, "obs-not-finite", "error", puck("nan"), Puck),
    (observations.inside, "obs-outside", "warning", puck("outside"), Puck),
    (observations.informative, "obs-constant", "error", puck("blind"), Puck),
    (observations.informative, "obs-constant", "hint", puck("constant entry"), Puck),
    (observations.informative, "obs-duplicated", "hint", puck("twin entries"), Puck),
    (observations.informative, "obs-part-constant", "warning", tasks.Dark, odd_spaces.Camera),
    (observations.informative, "obs-part-constant", "hint", tasks.Stopped, odd_spaces.Camera),
    (pictures.legible, "picture-range", "error", partial(tasks.Picture, "too bright"), odd_spaces.Bright),
    (pictures.legible, "picture-range", "error", partial(tasks.Picture, "too dark"), odd_spaces.Bright),
    (pictures.legible, "picture-range", "warning", partial(tasks.Picture, "bits"), odd_spaces.Camera),
    (pictures.legible, "picture-layout", "warning", partial(tasks.Picture, "middle"), odd_spaces.Camera),
    (pictures.legible, "picture-layout", "hint", partial(tasks.Picture, "around 0"), odd_spaces.Bright),
    (masks.agree, "mask-forbids-best", "warning", partial(tasks.Vault, "inverted"), tasks.Vault),
    (masks.agree, "mask-contradicts", "error", partial(tasks.Vault, "allows all"), tasks.Vault),
    (masks.agree, "mask-contradicts", "warning", partial(tasks.HalfSeen, walls=2), tasks.HalfSeen),
    (masks.agree, "mask-needless", "hint", tasks.Idle, odd_spaces.Hands),
    (masks.allows, "mask-never-allows", "hint", partial(tasks.Vault, "never"), tasks.Vault),
    (memory.history, "needs-memory", "hint", healthy.TMaze, healthy.ContextualBandit),
    (memory.history, "needs-memory", "hint", healthy.Recall, healthy.Quiz),
    (motion.speed_shown, "speed-hidden", "warning", puck("no speed"), Puck),
    (motion.speed_shown, "speed-hidden", "warning", partial(Seen, "CartPole-v1", (0, 2)), Seen),
    (motion.speed_shown, "speed-hidden", "warning", partial(Seen, "Pendulum-v1", (0, 1)), partial(Seen, "Pendulum-v1")),
    (observations.scale, "obs-scale", "warning", puck("huge entry"), Puck),
    (observations.mutated, "obs-mutated", "warning", puck("same array"), Puck),
    (actions.effect, "action-no-effect", "hint", puck("dead dimension"), Puck),
    (actions.effect, "action-no-effect", "error", puck("deaf"), Puck),
    (actions.effect, "action-no-effect", "hint", partial(Buttons, same=True), Buttons),
    (actions.bounds, "action-unbounded", "warning", puck("no bounds"), Puck),
    (actions.bounds, "action-saturates", "warning", puck("wide bounds"), Puck),
    (rewards.finite, "reward-not-finite", "error", puck("reward nan"), Puck),
    (rewards.seen, "reward-constant", "warning", puck("reward constant"), Puck),
    (rewards.scale, "reward-scale", "warning", puck("reward huge"), Puck),
    (rewards.scale, "reward-scale", "warning", puck("reward tiny"), Puck),
    (ends.dying_pays, "dying-pays", "error", partial(Runner, -1.0, -1.0), partial(Runner, -1.0, -200.0)),
    (ends.dying_pays, "dying-pays", "error", partial(Runner, -1.0, 0.0), partial(Runner, 1.0, 0.0)),
    (ends.dying_pays, "dying-pays", "warning", partial(Runner, -1.0, -1.0, False), partial(Runner, 1.0, 1.0, False)),
    (ends.limit, "limit-terminates", "warning", puck("limit is death"), Puck),
    (ends.limit, "limit-terminates", "warning", puck("limit is both"), Puck),
    (ends.endless, "no-limit", "warning", puck("endless"), lambda: gym.wrappers.TimeLimit(Puck("endless"), 60)),
    (time.horizon, "horizon", "error", partial(Corridor, 600), partial(Corridor, 40)),
    (time.horizon, "horizon", "warning", partial(Corridor, 400), partial(Corridor, 200)),
    (time.control_rate, "control-rate", "warning", puck("too fine"), Puck),
    (goals.rule, "goal-reward", "warning", arm("pays otherwise"), Arm),
    (goals.rule, "goal-reward", "warning", arm("one at a time"), Arm),
    (goals.success, "success-disagrees", "warning", arm("calls it success"), Arm),
    (goals.success, "success-disagrees", "warning", arm("a little wide"), Arm),
    (goals.success, "success-disagrees", "warning", arm("a little narrow"), Arm),
    (goals.success, "success-untold", "hint", arm("silent"), Arm),
    (goals.reachable, "goals-unreachable", "warning", arm("far goals"), Arm),
    (upkeep.speed, "slow", "hint", puck("slow"), Puck),
    (upkeep.speed, "reset-slow", "hint", puck("slow reset"), Puck),
    (upkeep.leaks, "files-leak", "error", puck("files"), Puck),
    (upkeep.leaks, "memory-grows", "warning", puck("memory"), Puck),
]


def test_a_leak_shows_in_a_process_that_has_freed_much():
    """Memory that was freed is used again first, so that the process would not grow."""
    large = [np.ones(300_000) for _ in range(20)]  # from here on blocks of this size lie in the heap
    del large
    freed = [np.ones(25_000) for _ in range(2_000)]
    keep = freed[-1]  # above the others, so that the heap does not shrink
    del freed
    assert [finding.code for finding in found(puck("memory"), upkeep.leaks, seconds=20.0)] == ["memory-grows"]
    assert keep.all()


def test_a_leak_shows_while_other_memory_is_freed():
    """The process shrinks by more than the task leaks."""

    class Shrinking(Puck):
        def __init__(self, fault):
            super().__init__(fault)
            self.freed = [np.ones(500_000) for _ in range(100)]

        def reset(self, **kwargs):
            if self.freed and len(self.waste) % 20 == 0:
                self.freed.pop()
            return super().reset(**kwargs)

    assert [f.code for f in found(partial(Shrinking, "memory"), upkeep.leaks, seconds=5.0)] == ["memory-grows"]


def test_a_leak_shows_where_each_half_of_the_test_is_held_up():
    """On a loaded machine a pause can take the whole time of a half."""

    class HeldUp(Puck):
        resets = 0

        def reset(self, **kwargs):
            self.resets += 1
            if not self.resets % 12:  # 12 of them leave less than what counts as a leak
                sleep(0.25)
            return super().reset(**kwargs)

    assert [finding.code for finding in found(partial(HeldUp, "memory"), upkeep.leaks, seconds=10.0)] == [
        "memory-grows"
    ]


@pytest.mark.parametrize(("probe", "code", "severity", "broken", "repaired"), CASES)
def test_it_is_caught_and_its_twin_is_not(probe, code, severity, broken, repaired):
    seconds = 20.0 if probe is upkeep.leaks else 3.0  # a loaded machine steps less in its share of them
    [finding] = found(broken, probe, seconds=seconds)
    assert (finding.code, finding.severity) == (code, severity)
    assert finding.what.endswith(".") and finding.evidence and finding.remedy.endswith(".")
    assert found(repaired, probe, seconds=seconds) == []


def test_what_is_told_at_the_limit_and_what_is_meant_are_both_named():
    for fault, told in (("limit is death", "truncated=False"), ("limit is both", "truncated=True")):
        [finding] = found(puck(fault), ends.limit)
        assert "limit of 60 steps" in finding.what and "step 60" in finding.remedy
        assert f"terminated=True, {told}" in finding.evidence.replace(" and", ",")
        assert "expected: terminated=False, truncated=True" in finding.evidence


def test_an_end_by_the_clock_is_no_failure_that_pays():
    """Pendulum's reward is below 0, so that any end pays; here the limit is what ends it."""

    class Clock(gym.Wrapper):
        def reset(self, **kwargs):
            self.steps = 0
            return self.env.reset(**kwargs)

        def step(self, action):
            self.steps += 1
            obs, reward, *_, info = self.env.step(action)
            return obs, reward, self.steps == 60, False, info

    probes = ends.dying_pays, ends.limit
    assert [finding.code for finding in found(lambda: Clock(gym.make("Pendulum-v1")), *probes)] == ["limit-terminates"]


def test_an_agent_with_memory_knows_how_fast_things_move():
    assert found(puck("no speed"), motion.speed_shown, remembers=True) == []


def test_how_wide_success_is_and_how_wide_it_is_paid_are_both_named():
    [wide] = found(arm("a little wide"), goals.success)
    assert "success where" in wide.what and "reached up to 0.0" in wide.evidence
    [narrow] = found(arm("a little narrow"), goals.success)
    assert "no success where" in narrow.what


def test_who_learns_from_hindsight_needs_a_reward_that_follows_from_goals():
    for fault in ("pays otherwise", "one at a time"):
        [finding] = found(arm(fault), goals.rule, hindsight=True)
        assert (finding.code, finding.severity) == ("goal-reward", "error")


def test_a_fence_before_the_goals_is_told_and_one_with_a_gap_is_not():
    [finding] = found(tasks.Field, goals.reachable, seconds=40.0)
    assert (finding.code, finding.severity) == ("goals-unreachable", "warning") and "between" in finding.what
    for mended in (partial(tasks.Field, gap=11), partial(tasks.Field, fence=False)):
        assert found(mended, goals.reachable, seconds=40.0) == []


def test_a_reset_that_only_takes_turns_is_no_error():
    [finding] = found(tasks.Turns, resets.forgets)
    assert (finding.code, finding.severity) == ("reset-remembers", "warning")


def test_a_discount_that_was_assumed_condemns_nobody():
    [finding] = found(partial(Corridor, 600), time.horizon, assumed=True)
    assert finding.severity == "warning" and "γ was assumed" in finding.evidence


def test_every_probe_is_in_the_table():
    elsewhere = {*FIRST}
    assert set(PROBES) - elsewhere == {case[0] for case in CASES}


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (tasks.OldGym, "reset-api"),
        (tasks.NoSeed, "reset-api"),
        (tasks.FourValues, "step-api"),
        (tasks.WrongShape, "obs-shape"),
        (tasks.NoSpace, "spaces"),
    ],
)
def test_a_task_that_breaks_the_contract_is_examined_no_further(broken, code):
    [finding] = found(broken, *PROBES)
    assert (finding.code, finding.severity) == (code, "error")
    assert found(Puck) == []  # the contract is kept


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([1, 1, 1], "an action_mask of 3 entries where its action space has 5 options"),
        ([0] * 5, "an action_mask that allows no action"),
        ([0.5] * 5, "an action_mask with entries that are neither 0 nor 1"),
        (None, "an action_mask with entries that are neither 0 nor 1"),
    ],
)
def test_a_mask_that_is_none_is_told_whoever_makes_the_task(mask, words):
    class Wrong(odd_spaces.Walls):
        def action_masks(self):
            return mask

    for probes in (PROBES, [actions.effect]):
        [finding] = found(Wrong, *probes)
        assert (finding.code, finding.severity) == ("mask-wrong", "error") and words in finding.evidence


def test_what_a_part_of_a_byte_row_holds_is_checked():
    class NotANumber(odd_spaces.Camera):
        def shown(self):
            return {**super().shown(), "x": np.array([np.nan], np.float32)}

    findings = found(NotANumber, *PROBES)
    assert {f.code for f in findings} == {"obs-shape"} and "x holds a number that is not finite" in findings[0].evidence


def test_a_part_that_leaves_its_space_is_named():
    class Outside(odd_spaces.Camera):
        def shown(self):
            return {**super().shown(), "x": np.array([100 * self.at[0]], np.float32)}

    [finding] = found(Outside, observations.inside)
    assert finding.code == "obs-outside" and "entry 0 of 'x' came to 300 where -3 to 3 is declared" in finding.evidence


def test_who_has_memory_is_not_told_to_use_it():
    assert found(healthy.TMaze, memory.history, remembers=True) == []


def test_a_version_known_to_be_broken_is_named():
    class Old(Puck):
        spec = gym.envs.registration.EnvSpec("FetchReach-v3")

    [finding] = found(Old, *PROBES)
    assert finding.code == "known-broken" and "FetchReach-v4" in finding.evidence
    Old.spec = gym.envs.registration.EnvSpec("FetchReach-v4")
    assert list(api.version(TaskProbe(Old))) == []


@pytest.mark.parametrize("make", [Puck, Buttons, Arm, partial(Runner, 1.0, 0.0), partial(NotesCar, mended=True)])
def test_a_healthy_task_gets_neither_errors_nor_warnings(make):
    findings = found(make, *PROBES, gamma=0.98, seconds=6.0)
    assert [f for f in findings if f.severity != "hint"] == []


def test_goals_too_far_for_the_time_limit_are_told_by_arithmetic():
    [finding] = found(lambda: gym.wrappers.TimeLimit(Arm(), 1), goals.reachable)
    assert (finding.code, finding.severity) == ("goals-unreachable", "error") and "limit of 1 steps" in finding.evidence
    assert found(lambda: gym.wrappers.TimeLimit(Arm(), 50), goals.reachable) == []


def test_the_notes_race_car_is_known_by_its_causes():
    findings = found(NotesCar, *PROBES, gamma=0.98, hindsight=True, seconds=8.0)
    assert [f.code for f in findings[:3]] == ["dying-pays", "resets-alike", "horizon"]
    assert all(f.severity == "error" for f in findings[:3])
    assert "worth -50" in findings[0].evidence


def test_an_arm_whose_reset_forgets_its_pose_is_known_by_that():
    findings = found(arm("forgets the pose"), *PROBES, gamma=0.95, hindsight=True, seconds=6.0)
    assert findings[0].code == "reset-remembers" and findings[0].severity == "error"
