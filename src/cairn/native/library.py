"""Finds, loads and compiles the library of `core.cpp` and `physics.cpp`."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

from cairn.core.errors import CairnError
from cairn.native.flags import FLAGS, SOURCES, macro, source_hash

MOST = 8  # layers of a network; core.cpp has the same number
BUILT = "_core.so"  # what `cairn native --build` makes; setup.py adds Python's version to the name
COMPILERS = ("c++", "g++", "clang++")
OPENMP = ("GOMP_parallel", "omp_get_thread_num", "omp_get_max_threads")  # what shares work among torch's threads
FOLDER = SOURCES[0].parent
LIMIT = 300  # seconds that the compiler may take


class NetStruct(Structure):
    """`Net` of core.cpp."""

    _fields_ = (
        ("layers", c_int32),
        ("hidden", c_int32),
        ("tanh", c_int32),
        ("width", c_int32 * (MOST + 1)),
        ("weight", c_void_p * MOST),
        ("bias", c_void_p * MOST),
        ("weight_grad", c_void_p * MOST),
        ("bias_grad", c_void_p * MOST),
        ("y", c_void_p * MOST),
        ("scratch", c_void_p * 2),
    )


_NET, _P, _INT, _LONG, _REAL = POINTER(NetStruct), c_void_p, c_int, c_int64, c_double
SIGNATURES: dict[str, list[Any]] = {
    "bind": [_P, _P, _P, _P],
    "forward": [_NET, _P, _INT, _INT],
    "backward": [_NET, _P, _INT, _P, _INT, _INT, _P, _INT, _P],
    "adam": [_P, _P, _P, _P, _P, _LONG, _REAL, _REAL, _REAL],
    "lerp": [_P, _P, _LONG, _REAL],
    "toss": [_NET, _P, _INT, _INT, _P, _P],
    "physics_free": [_P],
    "physics_start": [_P, _P, _INT],
    "physics_read": [_P, _INT],
    "td": [_P, _P, _P, *[_P, _LONG] * 4, POINTER(c_float), _INT, _INT, _P, _P, _P],
}


def places() -> list[Path]:
    """Where a library may be."""
    return sorted(FOLDER.glob("_core*.so"))


@functools.cache
def opened() -> tuple[ctypes.CDLL | None, str]:
    """The library, and why there is none: a clause such as "it was not built"."""
    why = "it was not built"
    for path in places():
        try:
            found = ctypes.CDLL(str(path))
            found.source_hash.restype = c_char_p
            if found.source_hash().decode() != source_hash():
                why = "it was built from another version of Cairn"
                continue
            for name, types in SIGNATURES.items():
                function = getattr(found, name)
                function.argtypes, function.restype = types, None
            found.physics_new.argtypes, found.physics_new.restype = [_P, _INT, _P], _P
            found.physics_finish.argtypes, found.physics_finish.restype = [_P], _INT
            found.physics_error.argtypes, found.physics_error.restype = [_P], c_char_p
        except (OSError, AttributeError) as error:
            why = f"{path.name} cannot be loaded ({error})"
            continue
        return found, ""
    return None, why


@functools.cache
def library() -> tuple[ctypes.CDLL | None, str]:
    """The library with a matrix product, which networks need, and why there is none."""
    found, why = opened()
    if found is None:
        return None, why
    product, *threads = (of_torch(name) for name in ("sgemm_", *OPENMP))
    if product is None:
        return None, "torch has no sgemm on this machine that other libraries can call"
    found.bind(product, *(threads if all(threads) else [None] * len(threads)))
    return found, why


def forget() -> None:
    """Look for the library again when it is next asked for."""
    opened.cache_clear()
    library.cache_clear()


def of_torch(name: str) -> int | None:
    """The address of a function of the libraries inside torch, such as a product of BLAS; None if it is hidden."""
    import torch  # the environments' part of the library is used without it

    try:
        inside = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return ctypes.cast(getattr(inside, name), c_void_p).value
    except (OSError, AttributeError):
        return None


def build(folder: Path = FOLDER) -> Path:
    """Compile the library into a folder. Raises CairnError where that is not possible."""
    asked = os.environ.get("CXX", "")
    compiler = next((found for name in (asked, *COMPILERS) if name and (found := shutil.which(name))), None)
    if compiler is None:
        raise CairnError(
            f"there is no C++ compiler on the PATH ({', '.join(COMPILERS)}); install one, such as Debian's package g++."
        )
    name, value = macro()
    target = folder / BUILT
    try:
        with tempfile.TemporaryDirectory(dir=folder) as work:
            made = Path(work) / BUILT
            sources = [str(source) for source in SOURCES]
            command = [compiler, *FLAGS, f"-D{name}={value}", "-shared", *sources, "-o", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
            if done.returncode != 0:
                said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
                raise CairnError(f"{compiler} could not compile {FOLDER}/*.cpp: {said}")
            made.replace(target)  # a process that has the old one open keeps it
    except (OSError, subprocess.SubprocessError) as error:
        raise CairnError(f"the native core could not be built in {folder}: {error}.") from error
    forget()
    return target
