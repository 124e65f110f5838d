"""The `cairn` command: dispatch and exit codes. Commands are imported when called, so that --help needs no torch."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from cairn.cli.usage import USAGE, Command, first_of
from cairn.core.calls import commands
from cairn.core.errors import CairnError, nearest
from cairn.core.terminal import ASCII, columns, wrapped


@commands()
def main(argv: Sequence[str] | None = None) -> None:
    """Run a command. Exits with 0, 1 (a failed run, a task with errors), 2 (a user's mistake), 130 or 143 (signals)."""
    args = list(sys.argv[1:] if argv is None else argv)
    _print_anything()
    if not args or args[0] in ("-h", "--help", "help"):
        print(USAGE)
        raise SystemExit(0 if args else 2)
    if args[0] in ("-V", "--version"):
        from cairn import __version__

        print(f"cairn {__version__}")
        return
    try:
        code = _command(args[0])(args[1:])
    except CairnError as error:
        from cairn.core.untrusted import printable

        say(printable(error))  # the message may quote a file
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:  # the reader of a pipe, such as head, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except OSError as error:
        say(f"{error.filename or 'a file'}: {error.strerror or error}.")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        say("interrupted.")
        raise SystemExit(130) from None
    raise SystemExit(code)


# -- the families of commands; a family is imported when one of its commands is called


def _train() -> Mapping[str, Command]:
    from cairn.cli.train import COMMANDS

    return COMMANDS


def _policies() -> Mapping[str, Command]:
    from cairn.cli.policies import COMMANDS

    return COMMANDS


def _reports() -> Mapping[str, Command]:
    from cairn.cli.reports import COMMANDS

    return COMMANDS


def _results() -> Mapping[str, Command]:
    from cairn.cli.results import COMMANDS

    return COMMANDS


def _doctor() -> Mapping[str, Command]:
    from cairn.cli.doctor import COMMANDS

    return COMMANDS


def _bench() -> Mapping[str, Command]:
    from cairn.cli.bench import COMMANDS

    return COMMANDS


def _native() -> Mapping[str, Command]:
    from cairn.cli.native import COMMANDS

    return COMMANDS


def _search() -> Mapping[str, Command]:
    from cairn.cli.search import COMMANDS

    return COMMANDS


COMMANDS: Mapping[str, Callable[[], Mapping[str, Command]]] = {
    "train": _train,
    "eval": _policies,
    "watch": _policies,
    "report": _reports,
    "list": _results,
    "results": _results,
    "import": _policies,
    "export": _policies,
    "demos": _policies,
    "doctor": _doctor,
    "bench": _bench,
    "native": _native,
    "new-env": _doctor,
    "sweep": _search,
    "tune": _search,
}

# What other tools call a command.
OTHER_NAMES = {"learn": "train", "run": "train", "resume": "train", "evaluate": "eval", "enjoy": "watch"}
OTHER_NAMES |= {"test": "eval", "play": "watch", "video": "watch", "recipes": "list", "ls": "list", "check": "doctor"}
OTHER_NAMES |= {"optimize": "tune", "benchmark": "bench", "record": "demos", "load": "import", "plot": "report"}
OTHER_NAMES |= {"tensorboard": "report", "check-env": "doctor", "check_env": "doctor"}


def _command(name: str) -> Command:
    if name not in COMMANDS:
        found = nearest(OTHER_NAMES.get(name.lower(), name), COMMANDS)
        meant = f" Did you mean {found}? Write {first_of(found)}." if found is not None else ""
        raise CairnError(f"there is no command {name!r}.{meant} `cairn --help` shows them all.")
    return COMMANDS[name]()[name]


# -- printing


def say(sentence: str) -> None:
    """Print an error on standard error; on a terminal, wrapped to its width."""
    line = f"cairn: {sentence}"
    print(wrapped(line, "  ", width=columns(sys.stderr)) if sys.stderr.isatty() else line, file=sys.stderr)


def _print_anything() -> None:
    """Print characters that the terminal's encoding lacks in ASCII, or as ?, instead of failing."""
    codecs.register_error("cairn", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="cairn")


def _in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(ASCII.get(c, "?") for c in error.object[error.start : error.end]), error.end
