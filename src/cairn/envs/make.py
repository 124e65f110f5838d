"""The old name of `cairn.envs.task`."""

from cairn.core.deprecated import forwards

__getattr__ = forwards("cairn.envs.make", "cairn.envs.task")
