"""The layout of observations with several parts in one row: slices, packing, and example rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cairn.core.types import Array, ObsPart, Spec

BYTES = 4  # bytes of a number in a row of bytes


def width(parts: Sequence[ObsPart], masked: int) -> int:
    """Entries of a row: bytes if one of the parts is an image, else floats."""
    return sum(_size(part, _in_bytes(parts)) for part in parts) + masked


def slices(spec: Spec) -> list[tuple[ObsPart, slice]]:
    """Each part and its slice of a row."""
    found, start = [], 0
    for part in spec.parts:
        stop = start + _size(part, spec.in_bytes)
        found.append((part, slice(start, stop)))
        start = stop
    return found


def pack(parts: Sequence[ObsPart], values: Sequence[Array], mask: Array | None) -> Array:
    """One row from the values of all parts. Raises ValueError for wrong sizes, and for values that are not finite."""
    in_bytes, pieces = _in_bytes(parts), []
    for part, value in zip(parts, values, strict=True):
        flat = np.ascontiguousarray(value).reshape(-1)
        if len(flat) != part.entries:
            raise ValueError(f"{part.name} has shape {np.shape(value)}, not {part.shape}")
        if part.form == "image":
            pieces.append(flat.astype(np.uint8, copy=False))
            continue
        flat = flat.astype(np.float32, copy=False)
        if in_bytes and not np.isfinite(flat).all():
            raise ValueError(f"{part.name} holds a number that is not finite, or too large for float32")
        pieces.append(flat.view(np.uint8) if in_bytes else flat)
    if mask is not None:
        pieces.append(mask.astype(np.uint8 if in_bytes else np.float32))
    return np.concatenate(pieces)


def allowed(spec: Spec, rows: Array) -> Array:
    """[..., masked] bool: the allowed options of the action in rows [..., width]."""
    found: Array = rows[..., spec.obs_shape[0] - spec.masked :] != 0
    return found


def examples(spec: Spec, count: int, draw: np.random.Generator) -> Array:
    """Random rows [count, *obs_shape], with every action allowed."""
    if not spec.parts:
        shape = (count, *spec.obs_shape)
        rows = draw.integers(0, 256, shape) if spec.obs_dtype == "uint8" else draw.normal(size=shape)
        rows = rows.astype(spec.obs_dtype)
        if spec.masked:
            rows[:, -spec.masked :] = 1
        return rows
    mask = np.ones(spec.masked) if spec.masked else None
    return np.stack([pack(spec.parts, [_example(part, draw) for part in spec.parts], mask) for _ in range(count)])


def _example(part: ObsPart, draw: np.random.Generator) -> Array:
    if part.form == "numbers":
        return draw.normal(size=part.shape)
    return draw.integers(0, part.n if part.form == "category" else 256, part.shape)


def _in_bytes(parts: Sequence[ObsPart]) -> bool:
    return any(part.form == "image" for part in parts)


def _size(part: ObsPart, in_bytes: bool) -> int:
    return part.entries * (BYTES if in_bytes and part.form != "image" else 1)
