"""HIRO: a hierarchy of two agents, the replay they learn from, and their loop."""

from cairn.algorithms.hiro.agent import HIRO
from cairn.algorithms.hiro.config import HIROConfig
from cairn.algorithms.hiro.loop import hierarchy, learners, make_segments

__all__ = ["HIRO", "HIROConfig", "hierarchy", "learners", "make_segments"]
