"""Watchers of a run: cheap checks of logged values, each of which reports once.

They see episodes as they end and metrics as they are written; they compute nothing per step.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from cairn.core.calls import option
from cairn.core.types import Box, Episode, Spec
from cairn.doctor import settings
from cairn.doctor.finding import Finding, Severity
from cairn.runs.curves import read_remarks
from cairn.runs.watching import Moment

KEPT = 20  # values kept of each metric
HALF_LOG_2PIE = 0.5 * math.log(2 * math.pi * math.e)  # entropy of a normal distribution with σ = 1
COLLAPSED = 0.01  # share of the entropy of a uniform policy, or σ
SATURATED = 0.5  # share of actions beyond their bounds
KL = 0.2  # nats per update; the papers aim at 0.01 to 0.03
BEYOND = 10.0  # times the value that rewards allow
OVERUSED = 2000.0  # mean number of times a transition is sampled
HUGE = 1e4  # a return that a critic needs long to learn at usual learning rates
MISSED = 0.05  # share of subgoals reached
BLIND = 0.05  # share of the returns' variance that a critic explains
DEAD = 0.6  # share of a network's units; in healthy networks up to a quarter are 0 on a whole batch
EARLY, LATE = 0.2, 0.6  # of the run


class Watch:
    """The watchers of one run. Each code is reported once; `reported` are those from before a resume."""

    def __init__(self, cfg: Any, spec: Spec, reported: Iterable[str] = ()) -> None:
        self.cfg, self.spec, self.reported = cfg, spec, set(reported)
        self.gamma = settings.discount(cfg)
        self.past: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))
        self.episodes: deque[Episode] = deque(maxlen=200)
        self.deaths: Counter[int] = Counter()  # lengths of episodes that terminated
        self.longest = self.ended = 0
        self.returns: list[tuple[float, float]] = []  # progress, mean return
        self.rates = (math.inf, -math.inf)  # lowest and highest mean reward per step of any episode
        self.start: float | None = None  # progress at the first log; above 0 in a resumed run

    @property
    def growing(self) -> bool:
        """Whether the mean of the last third of the returns exceeds that of the first by more than their spread."""
        values = [value for _, value in self.returns]
        third = len(values) // 3
        if third < 2:
            return True
        return statistics.mean(values[-third:]) - statistics.mean(values[:third]) > statistics.pstdev(values)

    @property
    def improved(self) -> bool:
        """Whether the mean of the last fifth of the returns exceeds that of the first by more than their spread."""
        values = [value for _, value in self.returns]
        share = max(2, len(values) // 5)
        if len(values) < 2 * share:
            return False
        return statistics.mean(values[-share:]) - statistics.mean(values[:share]) > statistics.pstdev(values)

    def watched(self, now: Moment) -> float:
        """The share of the run that this watcher saw: of a resumed run, the part since the resume."""
        return now.progress if self.start is None or self.start < EARLY / 2 else now.progress - self.start

    def episode(self, episode: Episode, terminated: bool) -> None:
        """Count an episode that ended by termination, or else by truncation."""
        self.episodes.append(episode)
        rate = episode.total / max(episode.length, 1)
        self.rates = min(self.rates[0], rate), max(self.rates[1], rate)
        self.ended += 1
        self.longest = max(self.longest, episode.length)
        if terminated:
            self.deaths[episode.length] += 1

    def check(self, now: Moment) -> list[Finding]:
        """The new findings at this log."""
        if self.start is None:
            self.start = now.progress
        for name, value in now.values.items():
            self.past[name].append(value)
        if "rollout/ep_rew_mean" in now.values:
            self.returns.append((now.progress, now.values["rollout/ep_rew_mean"]))
        findings = []
        for code, watcher in WATCHERS.items():
            if code not in self.reported:
                verdict = watcher(self, now)
                if verdict is not None:
                    self.reported.add(code)
                    findings.append(Finding(code, *verdict))
        return findings


def watching(cfg: Any, spec: Spec, reported: Iterable[str] = ()) -> Watch:
    """The watchers of a new run, or of a resumed one with the codes that were reported before."""
    return Watch(cfg, spec, reported)


def read_findings(folder: Path) -> list[tuple[int, Finding]]:
    """(step, finding) of a run's watchers, from its folder."""
    return [(body.pop("step"), Finding(**body)) for body in read_remarks(folder)[0]]


Verdict = tuple[Severity, str, str, str] | None  # severity, what, evidence, remedy


def not_finite(w: Watch, now: Moment) -> Verdict:
    """Report metrics that are NaN or infinite."""
    bad = [name for name, value in now.values.items() if not math.isfinite(value)]
    if not bad:
        return None
    remedy = "Lower agent.lr, clip gradients, scale rewards and observations; go back to a checkpoint before it."
    return "error", "Training has become NaN or infinite.", f"{', '.join(bad)} at step {now.step:,}", remedy


def q_beyond(w: Watch, now: Moment) -> Verdict:
    """Report |Q| far above the largest return, and above the mean reward received for ever."""
    if not w.episodes or w.gamma == 1:
        return None
    totals = [abs(e.total) for e in w.episodes]
    rates = [abs(e.total) / max(e.length, 1) / (1 - w.gamma) for e in w.episodes]
    allowed = max(*totals, *rates, 1e-3) + abs(now.values.get("train/ent_coef", 0.0)) * 10 / (1 - w.gamma)
    for name in ("train/q_mean", "train/actor_loss"):  # an actor's loss is minus its value
        if abs(now.values.get(name, 0.0)) > BEYOND * allowed:
            evidence = f"{name} is {now.values[name]:.4g}, rewards allow some {allowed:.3g}"
            remedy = "Lower agent.lr or agent.updates-per-step, slow the target (agent.tau), use more critics."
            return "warning", "Values are beyond what rewards allow.", evidence, remedy
    return None


def _sigma(entropy: float, dim: int) -> float:
    """The standard deviation of normal actions with this entropy, within printable limits."""
    exponent = entropy / max(dim, 1) - HALF_LOG_2PIE
    return math.exp(min(max(exponent, -100.0), 100.0)) if math.isfinite(exponent) else exponent


def entropy_collapsed(w: Watch, now: Moment) -> Verdict:
    """Report a policy that became deterministic early in the run."""
    entropy = now.values.get("train/entropy")
    if entropy is None or now.progress > 0.5 or now.solved or "train/ent_coef" in now.values:
        return None  # the algorithm controls the entropy
    action = w.spec.action
    if isinstance(action, Box):
        sigma = _sigma(entropy, action.dim)
        low, measure = sigma < COLLAPSED, f"σ = {sigma:.2g}"
    elif action.outputs > sum(action.choices):
        return None  # options and real numbers together: their entropies cannot be told apart
    else:
        share = entropy / sum(math.log(max(n, 2)) for n in action.choices)
        low, measure = share < COLLAPSED, f"{share:.1%} of an even choice"
    if not low:
        return None
    evidence = f"train/entropy is {entropy:.3g}, {measure}, after {now.progress:.0%} of the run"
    remedy = "Raise agent.entropy-weight, or lower agent.lr."
    return "warning", "The policy has stopped exploring.", evidence, remedy


def std_stuck(w: Watch, now: Moment) -> Verdict:
    """Report a learned standard deviation that does not change at all: it is probably clamped."""
    past = w.past["train/entropy"]
    if not isinstance(w.spec.action, Box) or len(past) < 5 or "train/ent_coef" in now.values:
        return None
    if max(past) - min(past) > 1e-6 * max(abs(x) for x in past):
        return None
    sigma = _sigma(past[-1], w.spec.action.dim)
    evidence = f"train/entropy was {past[-1]:.6g} at {len(past)} logs in a row: σ = {sigma:.3g}"
    remedy = "Look for a clamp of log-std that it sits on, or a rate of 0."
    return "error", "The policy's standard deviation does not move.", evidence, remedy


def actions_saturated(w: Watch, now: Moment) -> Verdict:
    """Report actions at the bounds: of normal actions with deviation σ, 1 - erf(1/σ√2) are beyond ±1."""
    entropy = now.values.get("train/entropy")
    if not isinstance(w.spec.action, Box) or not w.spec.action.bounded or entropy is None:
        return None
    if "train/ent_coef" in now.values or not math.isfinite(entropy):
        return None  # actions are squashed, not clipped
    sigma = _sigma(entropy, w.spec.action.dim)
    beyond = 1 - math.erf(1 / (sigma * math.sqrt(2)))
    if beyond < SATURATED:
        return None
    evidence = f"σ = {sigma:.3g}: {beyond:.0%} of the actions lie at a bound"
    remedy = "Begin with a smaller agent.log-std (0 or less) and lower agent.entropy-weight."
    return "warning", "Actions are saturated: noise decides which bound they are at.", evidence, remedy


def kl_large(w: Watch, now: Moment) -> Verdict:
    """Report policy updates that are too large."""
    past = list(w.past["train/approx_kl"])[-3:]
    if len(past) < 3 or min(past) < KL:
        return None
    evidence = f"train/approx_kl was {', '.join(f'{x:.2g}' for x in past)} at three logs in a row"
    remedy = "Lower agent.lr, agent.epochs or agent.clip, or set agent.target-kl."
    return "warning", "The policy jumps with every update.", evidence, remedy


def critic_blind(w: Watch, now: Moment) -> Verdict:
    """Report a critic that explains none of the returns' variance.

    Uses the median, since the estimate is rough. Not if returns grow anyway, nor if an expert's values replace rewards.
    """
    past = w.past["train/explained_variance"]
    if now.progress < EARLY or len(past) < KEPT or now.solved or settings.learns_from_judgement(w.cfg):
        return None
    median = statistics.median(past)
    if median > BLIND or w.growing:
        return None
    evidence = f"train/explained_variance was {median:.2g} in the median of the last {len(past)} logs"
    remedy = "Raise agent.lr or agent.value-weight, normalise rewards and observations; see if obs tells what is paid."
    return "warning", "The critic explains nothing.", evidence, remedy


def units_dead(w: Watch, now: Moment) -> Verdict:
    """Report networks with mostly dead units.

    Not early in the run, where a batch may hold the same image many times and most units are 0; nor if returns grow.
    """
    past = {name: list(w.past[name])[-3:] for name in now.values if name.endswith("/dead_units")}
    dead = {name: min(shares) for name, shares in past.items() if len(shares) == 3 and min(shares) >= DEAD}
    if not dead or w.watched(now) < EARLY or now.solved or w.improved:
        return None
    name, share = max(dead.items(), key=lambda item: item[1])  # in a hierarchy that of either level
    evidence = f"{name} was {share:.0%} or more at three logs in a row: units that are 0 on the whole batch"
    remedy = "Start anew with a lower agent.lr and scaled inputs and rewards; dqn and sac have agent.layer-norm for it."
    return "warning", "Most units of a network are dead.", evidence, remedy


def no_reward(w: Watch, now: Moment) -> Verdict:
    """Report that all rewards were equal. A resumed run needs as many new episodes as one that starts."""
    if w.watched(now) < EARLY or w.ended < 10 or w.deaths or now.solved or any(e.success for e in w.episodes):
        return None
    low, high = w.rates
    if high - low > 1e-9 * max(1.0, abs(low)):
        return None
    evidence = f"{low:g} a step in each of {w.ended} episodes, {now.progress:.0%} of the run"
    remedy = f"Use {option('hindsight', 'future')} where there are goals; else reward progress, explore more, or"
    remedy += " bring demonstrations."
    return "warning", "No reward has ever been seen that differs from the others.", evidence, remedy


def reward_scale(w: Watch, now: Moment) -> Verdict:
    """Report returns that are too large for a critic."""
    if len(w.episodes) < 5 or settings.normalises_rewards(w.cfg):
        return None
    horizon = 1 / (1 - w.gamma) if w.gamma < 1 else math.inf
    sizes = [abs(e.total) / max(e.length, 1) * min(horizon, e.length) for e in w.episodes]
    size = sum(sizes) / len(sizes)
    if size < HUGE:
        return None
    remedy = f"Divide the reward by about {10 ** round(math.log10(size / 100)):,}, or normalise it."
    return "warning", "Returns are too large for a critic.", f"about {size:.3g} within the discount's horizon", remedy


def limit_terminates(w: Watch, now: Moment) -> Verdict:
    """Report terminations that always come at the longest length: a time limit. Ends do not matter for γ = 0."""
    times = w.deaths[w.longest]
    if w.gamma == 0 or times < 5 or w.longest < 10 or times < 0.25 * w.ended:
        return None
    if w.episodes and all(e.success for e in w.episodes if e.length == w.longest):
        return None
    evidence = (
        f"terminated=True, truncated=False after exactly {w.longest} steps in {times} of {w.ended} episodes, and no"
        " episode was longer; expected: terminated=False, truncated=True"
    )
    remedy = f"Return truncated=True at step {w.longest}: a value that ends at the limit is too low everywhere."
    what = f"The time limit of {w.longest} steps is reported as a termination; it should be a truncation."
    return "warning", what, evidence, remedy


def replay_overused(w: Watch, now: Moment) -> Verdict:
    """Report a replay whose transitions are sampled too often."""
    batch = settings.replay_batch_size(w.cfg)
    if batch is None or now.step < 1000:
        return None
    times = now.updates * batch / now.step
    if times < OVERUSED:
        return None
    evidence = f"each transition is learned from {times:,.0f} times in the mean"
    remedy = "Lower agent.updates-per-step or agent.batch-size: what is overfitted is not what the task pays."
    return "warning", "The replay is overused.", evidence, remedy


def plateau(w: Watch, now: Moment) -> Verdict:
    """Report that the last 40 % of the run were not better than the best log before."""
    if now.progress < LATE or now.solved or len(w.returns) < 20:
        return None
    before = [r for at, r in w.returns if at <= now.progress - 0.4]
    since = [r for at, r in w.returns if at > now.progress - 0.4]
    if len(before) < 5 or len(since) < 5 or max(since) > max(before) + 1e-9:
        return None
    evidence = f"best mean return {max(before):.4g} before, {max(since):.4g} in the last 40 % of the run's steps so far"
    remedy = (
        "Stop here, or change what limits it: agent.entropy-weight or agent.epsilon, agent.hidden, agent.gamma; or an"
        " observation that leaves something out, such as a speed (agent.memory)."
    )
    return "hint", "The return no longer grows.", evidence, remedy


def subgoals_missed(w: Watch, now: Moment) -> Verdict:
    """Report a hierarchy whose subgoals are hardly ever reached."""
    past = w.past["hiro/subgoal_reached"]
    if now.progress < EARLY or len(past) < 3 or max(past) > MISSED:
        return None
    evidence = f"hiro/subgoal_reached was {max(past):.0%} at the most in the last {len(past)} logs"
    remedy = "Ask for less: a smaller agent.subgoal-range, a longer agent.every; use agent.low-hindsight."
    return "warning", "Subgoals are not reached.", evidence, remedy


def expert_inconsistent(w: Watch, now: Moment) -> Verdict:
    """Report that an untrained policy seems better than the expert: Q* and V* do not match."""
    advantage, q = w.past["imitation/advantage"], w.past["imitation/q"]
    if len(advantage) < 3 or now.progress > EARLY:
        return None
    mean, size = sum(advantage) / len(advantage), sum(map(abs, q)) / max(len(q), 1)
    if mean <= 0.1 * max(size, 1e-6):
        return None
    evidence = f"Q* - V* is {mean:.3g} in the mean at the start, where Q* is {size:.3g}"
    remedy = "Take both from one source (agent.values), for the same task and discount."
    return "warning", "The expert's values are inconsistent.", evidence, remedy


WATCHERS: dict[str, Callable[[Watch, Moment], Verdict]] = {
    "run-not-finite": not_finite,
    "q-beyond-rewards": q_beyond,
    "std-stuck": std_stuck,
    "actions-saturated": actions_saturated,
    "entropy-collapsed": entropy_collapsed,
    "kl-large": kl_large,
    "critic-blind": critic_blind,
    "units-dead": units_dead,
    "no-reward": no_reward,
    "reward-scale": reward_scale,
    "limit-terminates": limit_terminates,
    "replay-overused": replay_overused,
    "plateau": plateau,
    "subgoals-missed": subgoals_missed,
    "expert-inconsistent": expert_inconsistent,
}
