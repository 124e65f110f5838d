"""Converts words of the command line to values of the option's type; a mistake becomes one sentence."""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from cairn.core.checks import MOST
from cairn.core.errors import CairnError, closest
from cairn.core.schedules import Schedule
from cairn.core.schedules import parse as parse_schedule

SHOWN = 60  # characters of a wrong value in a message
NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)", re.IGNORECASE)
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
GROUPED_ROW = re.compile(r"[1-9](,\d{3})+|[1-9]\d{0,2}(,\d{3})*,0\d\d(,\d{3})*")  # 1,024 and 16,000; not 256,256
SUFFIXED = re.compile(r"([+-]?[\d._]+)([kKmM])")
SUFFIXES = {"k": 1_000, "m": 1_000_000}
WORDS = {int: "a whole number", float: "a number", str: "a text", Path: "a path", bool: "true or false"}


def is_flag(word: str) -> bool:
    """Whether a word is an option and not a negative number."""
    return len(word) > 1 and word.startswith("-") and not NEGATIVE.match(word)


def shortened(word: str) -> str:
    """A word for a message: on one line, with escape codes written out, and cut where it is long."""
    shown = repr(word)[1:-1]
    return shown if len(shown) <= SHOWN else shown[:SHOWN] + "..."


def without_notes(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A hint without annotations, and these: Annotated[int, Range(1)] -> int, (Range(1),)."""
    if get_origin(hint) is not Annotated:
        return hint, ()
    bare, notes = without_notes(hint.__origin__)
    return bare, (*notes, *hint.__metadata__)


def kinds(hint: Any) -> list[Any]:
    """The types that a hint admits; unions and annotations are expanded."""
    hint = without_notes(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        return [kind for arg in get_args(hint) for kind in kinds(arg)]
    return [hint]


def value_of(flag: str, words: Sequence[str], hint: Any) -> Any:
    """The value of these words. Raises CairnError where they have none."""
    admitted = kinds(hint)
    if hint is bool:
        return _switch(flag, words)
    if type(None) in admitted and [word.lower() for word in words] in (["none"], ["null"]):
        return None
    for kind in admitted:
        if get_origin(kind) is tuple:
            return _row(flag, words, get_args(kind)[0])
    if len(words) != 1 or not words[0]:
        raise CairnError(f"{flag} needs a value.")
    return _single(flag, words[0], admitted)


def _switch(flag: str, words: Sequence[str]) -> bool:
    if not words or words[0].lower() in ("true", "yes", "on", "1"):
        return True
    if words[0].lower() in ("false", "no", "off", "0"):
        return False
    raise CairnError(f"{flag} is {shortened(words[0])}; it is a switch: write {flag}, or {flag}=false.")


def _row(flag: str, words: Sequence[str], kind: Any) -> tuple[Any, ...]:
    """'64 32', '64,32' and '[64, 32]' -> (64, 32). Paths may contain commas, so each word is one path."""
    if flag.startswith("-") and not words:
        raise CairnError(f"{flag} needs a value.")
    if len(words) == 1 and GROUPED_ROW.fullmatch(words[0]):
        whole, row = words[0].replace(",", ""), [str(int(part)) for part in words[0].split(",")]
        readings = f"write {whole} for one number, ({','.join(row)}) for {len(row)}"
        raise CairnError(f"{flag} is {words[0]}, which can be read in two ways; {readings}.")
    items = [part for word in words for part in word.strip("[]()").split(",") if part.strip()]
    if kind is Path:
        items = list(words)
    return tuple(value_of(flag, [item.strip()], kind) for item in items)


def _single(flag: str, word: str, admitted: Sequence[Any]) -> Any:
    choices = [choice for kind in admitted if get_origin(kind) is Literal for choice in get_args(kind)]
    for kind in admitted:
        if kind is Schedule:
            return parse_schedule(word, flag)
        if get_origin(kind) is dict or kind is dict:
            return _dictionary(flag, word)
        if kind is int or kind is float:
            number = _number(word)
            if number is not None and (kind is float or number == int(number)):
                return kind(number) if abs(number) <= MOST else number  # `validated` reports what is too large
        if kind is str or kind is Path:
            return kind(word)
    if word in choices:
        return word
    if choices:
        wanted = f"one of {', '.join(map(str, choices))}"
        raise CairnError(f"{flag} is {shortened(word)}; it must be {wanted}.{closest(word, map(str, choices))}")
    wanted = " or ".join(WORDS[kind] for kind in admitted if kind in WORDS)
    point = f": {word.replace(',', '.')}?" if float in admitted and re.fullmatch(r"-?\d+,\d+", word) else "."
    raise CairnError(f"{flag} is {shortened(word)}; it must be {wanted}{point}")


def _number(word: str) -> int | float | None:
    """The number in '3000', '3,000', '3_000', '3e3', '3k' or '1.5M'; None if it is not a finite number."""
    if GROUPED.fullmatch(word):
        word = word.replace(",", "")
    suffixed = SUFFIXED.fullmatch(word)
    try:
        if suffixed:
            return _finite(round(float(suffixed[1]) * SUFFIXES[suffixed[2].lower()], 6))
        return int(word) if re.fullmatch(r"[+-]?[\d_]+", word) else _finite(float(word))
    except ValueError:  # also for integers of thousands of digits
        return None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _dictionary(flag: str, word: str) -> dict[str, Any]:
    try:
        found = json.loads(word)
    except (ValueError, RecursionError):
        raise CairnError(f"""{flag} is {shortened(word)}; it must be JSON, such as '{{"name": 1}}'.""") from None
    if not isinstance(found, dict):
        raise CairnError(f"""{flag} is {shortened(word)}; it must be a JSON object, such as '{{"name": 1}}'.""")
    return found
