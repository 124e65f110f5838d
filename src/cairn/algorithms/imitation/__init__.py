"""Imitation learning: BC, DAgger, AggreVaTe and AggreVaTeD, their loops and their training data."""

from cairn.algorithms.imitation.aggrevate import AggreVaTe, AggreVaTeConfig
from cairn.algorithms.imitation.aggrevated import AggreVaTeD, AggreVaTeDConfig
from cairn.algorithms.imitation.bc import BC, BCConfig
from cairn.algorithms.imitation.dagger import DAgger, DAggerConfig
from cairn.algorithms.imitation.lesson import Prepare, from_expert, from_expert_or_demos, with_values
from cairn.algorithms.imitation.loop import NO_SAMPLERS, aggrevate, aggrevated, clone, examples, judgements

__all__ = [
    "BC",
    "NO_SAMPLERS",
    "AggreVaTe",
    "AggreVaTeConfig",
    "AggreVaTeD",
    "AggreVaTeDConfig",
    "BCConfig",
    "DAgger",
    "DAggerConfig",
    "Prepare",
    "aggrevate",
    "aggrevated",
    "clone",
    "examples",
    "from_expert",
    "from_expert_or_demos",
    "judgements",
    "with_values",
]
