"""The old name of `cairn.vector.choose`."""

from cairn.core.deprecated import forwards

__getattr__ = forwards("cairn.vector.make", "cairn.vector.choose")
