"""`cairn native`: builds the native core, and says whether it is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cairn.cli.options import parse
from cairn.cli.usage import Command
from cairn.core.terminal import wrapped


@dataclass(frozen=True)
class NativeArgs:
    """Say whether the native core is there, which trains small networks on a CPU faster; or build it."""

    build: bool = False  # compile it, with the C++ compiler of this machine


def command_native(args: list[str]) -> int:
    """Build the core or say what became of it; returns the exit code: 1 if there is none."""
    options = parse(NativeArgs, args, prog="cairn native")
    from cairn.native.library import build, library

    if options.build:
        print(wrapped(f"built {build()}.", "  "))
    found, why = library()
    if found is None:
        print(wrapped(f"there is no native core: {why}. `cairn native --build` builds it.", "  "))
        return 1
    used = "where networks are plain and on the CPU (--native off trains without it), and by --vector mujoco"
    print(wrapped(f"the native core is used {used}.", "  "))
    return 0


COMMANDS: Mapping[str, Command] = {"native": command_native}
