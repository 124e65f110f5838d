"""The old name of `cairn.algorithms`."""

from cairn.core.deprecated import forwards

__getattr__ = forwards("cairn.agents", "cairn.algorithms")
