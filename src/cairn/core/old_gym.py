"""Old Gym, the predecessor of Gymnasium: how it is recognised, and the message about it."""

from __future__ import annotations

OLD = (
    "it follows the interface of old Gym; Gymnasium's is reset(seed=, options=) -> (obs, info) and"
    " step(action) -> (obs, reward, terminated, truncated, info): change it, or wrap it with the package shimmy"
    " (GymV21CompatibilityV0, GymV26CompatibilityV0)"
)


def is_old(cls: type) -> bool:
    """Whether a class is, or inherits from, one of the package gym."""
    return any(base.__module__.partition(".")[0] == "gym" for base in cls.__mro__)
