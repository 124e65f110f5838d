import pytest

from cairn.core.checks import validated
from cairn.core.errors import CairnError
from cairn.core.schedules import constant, exponential, linear, parse


@pytest.mark.parametrize(
    ("schedule", "share", "value"),
    [
        (constant(3e-4), 0.7, 3e-4),
        (linear(1.0, 0.0), 0.25, 0.75),
        (linear(1.0, 0.1, 0.5), 0.25, 0.55),
        (linear(1.0, 0.1, 0.5), 0.9, 0.1),
        (exponential(1.0, 0.01), 0.5, 0.1),
    ],
)
def test_values(schedule, share, value):
    assert schedule(share) == pytest.approx(value)


@pytest.mark.parametrize(
    "schedule", [constant(3e-4), linear(1.0, 0.05, 0.2), exponential(1.0, 0.05), linear(1.23456789e-4, 0, 1 / 3)]
)
def test_a_schedule_reads_what_it_prints(schedule):
    assert parse(str(schedule)) == schedule


@pytest.mark.parametrize("text", ["", "fast", "linear(1)", "linear(1,0,2)", "exponential(1,0)", "__import__('os')"])
def test_nonsense_is_refused_in_one_sentence(text):
    with pytest.raises(CairnError):
        parse(text)


def test_ranges_are_enforced_and_named():
    from cairn.algorithms import PPOConfig, SACConfig

    for cfg, word in [
        (SACConfig(gamma=1.2), "agent.gamma is 1.2"),
        (SACConfig(batch_size=0), "agent.batch_size"),
        (SACConfig(hidden=(64, 0)), "agent.hidden"),
        (PPOConfig(lr=linear(-1.0, 0.0)), "agent.lr"),
        (PPOConfig(target_kl=-1.0), "agent.target_kl"),
        (SACConfig(gamma=float("nan")), "agent.gamma"),
    ]:
        with pytest.raises(CairnError, match=word):
            validated(cfg, "agent.")
