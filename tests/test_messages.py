"""Messages are reviewed: those of the source are listed in messages.txt, and none uses words that were given up."""

from __future__ import annotations

import ast

import pytest

from tests.messages import LIST, listing, messages

# Words of old messages that a reader could not know. What is said instead stands in messages.txt.
GIVEN_UP = (
    "who imitate",
    "draw evenly",
    "goes on by itself",
    "of Gymnasium's",
    "is kept of flat",
    "of long ago",
    "who holds",
    "hears 127",
    "steps are taken",
    "had held its target",
    "is no number of",
    "saw and did",
    "word too many",
    "video by its name",
    "where it was ended",
)


def test_the_list_is_that_of_the_source() -> None:
    assert LIST.read_text(encoding="utf-8") == listing(), "review the messages and run `python -m tests.messages`"


def test_no_message_uses_words_that_were_given_up() -> None:
    text = LIST.read_text(encoding="utf-8")
    assert [words for words in GIVEN_UP if words in text] == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('raise CairnError(f"steps is {x}; it must be at least 1.")', ["steps is {}; it must be at least 1."]),
        ('print("cairn: one " + f"two {y}", file=z)', ["cairn: one two {}"]),
        ('print(wrapped(f"{a} holds no run", "  "))', ["{} holds no run"]),
        ('run.say("a new one is started")', ["a new one is started"]),
        ('raise EnvError(0, "returned a bad reward")', ["returned a bad reward"]),
        ('print(json.dumps(body)); other("not a message of ours")', []),
    ],
)
def test_messages_are_found(code: str, found: list[str]) -> None:
    assert list(messages(ast.parse(code))) == found
