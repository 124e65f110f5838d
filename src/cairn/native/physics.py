"""Steps many MuJoCo simulations in threads: by the compiled library, or in Python where there is none.

Both forms call MuJoCo's own functions in the same order, so their results are equal to the bit. The Python form calls
`mj_step` from a pool of threads, which run at the same time because the call releases Python's lock.
"""

from __future__ import annotations

import ctypes
import functools
import math
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from ctypes import POINTER, Structure, c_int32, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import mujoco
import numpy as np

from cairn.core.actions import Array
from cairn.native.library import opened

After = Literal["", "mj_forward", "mj_rnePostConstraint"]


@dataclass(frozen=True)
class Part:
    """Numbers of a simulation: the field `name` of its MjData, flat, or a part of that."""

    name: str
    start: int = 0
    stop: int | None = None

    def of(self, data: Any) -> Array:
        """A view of these numbers."""
        whole: Array = getattr(data, self.name).reshape(-1)
        return whole[self.start : self.stop]


@dataclass(frozen=True)
class Plan:
    """What one step of a task is made of, in this order.

    writes    numbers that every simulation is given, such as its controls
    substeps  calls of mj_step
    zeros     numbers that are set to 0 then
    after     the function of MuJoCo that is called then
    reads     numbers that are read at the end
    sites     sites whose Jacobians are computed at the end
    """

    substeps: int
    reads: Mapping[str, Part]
    writes: Mapping[str, Part] = field(default_factory=lambda: {"ctrl": Part("ctrl")})
    zeros: tuple[Part, ...] = ()
    after: After = ""
    sites: tuple[int, ...] = ()


class Rows:
    """The arrays of N simulations: `given` and `seen` [N, numbers] by name, `jacobians` [N, sites, 2, 3, nv]."""

    def __init__(self, plan: Plan, models: Sequence[Any], datas: Sequence[Any]) -> None:
        self.plan, self.models, self.datas = plan, list(models), list(datas)
        self.given = {name: self._room(part) for name, part in plan.writes.items()}
        self.seen = {name: self._room(part) for name, part in plan.reads.items()}
        self.jacobians: Array = np.zeros((len(self.datas), len(plan.sites), 2, 3, self.models[0].nv))

    def _room(self, part: Part) -> Array:
        return np.zeros((len(self.datas), part.of(self.datas[0]).size))


class PhysicsFault(Exception):
    """MuJoCo found an error in the step of one simulation."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index, error)
        self.index, self.error = index, error


class Pool(Protocol):
    """Steps simulations; `start` returns at once and `finish` waits."""

    rows: Rows

    def start(self, which: Array) -> None:
        """Begin a step of the simulations `which` [n] int32; `rows.given` must stay as it is until `finish`."""

    def finish(self) -> None:
        """Wait until the step is done; its results are in `rows`. Raises PhysicsFault."""

    def read(self, i: int) -> None:
        """Read simulation `i` as it is now."""

    def close(self) -> None:
        """End the threads."""


def pool(plan: Plan, models: Sequence[Any], datas: Sequence[Any], threads: int) -> Pool:
    """A pool of the best form that there is here."""
    rows, lib = Rows(plan, models, datas), opened()[0]
    addresses = of_mujoco() if lib is not None else None
    return PythonPool(rows, threads) if addresses is None else CompiledPool(lib, addresses, rows, threads)


class PythonPool:
    """`Pool` in Python."""

    def __init__(self, rows: Rows, threads: int) -> None:
        plan, datas = rows.plan, rows.datas
        self.rows, self.threads = rows, ThreadPoolExecutor(threads)
        self.width, self.running = threads, list[Future[None]]()
        self.after: Any = getattr(mujoco, plan.after) if plan.after else None
        self.writes = [[(part.of(data), rows.given[name]) for name, part in plan.writes.items()] for data in datas]
        self.zeros = [[part.of(data) for part in plan.zeros] for data in datas]
        self.reads = [[(part.of(data), rows.seen[name]) for name, part in plan.reads.items()] for data in datas]

    def start(self, which: Array) -> None:
        size = max(1, math.ceil(len(which) / (4 * self.width)))  # several per thread: some steps take longer
        chunks = [which[k : k + size].tolist() for k in range(0, len(which), size)]
        self.running = [self.threads.submit(self._run, chunk) for chunk in chunks]

    def _run(self, which: list[int]) -> None:
        for i in which:
            try:
                self._step(i)
            except mujoco.FatalError as error:
                raise PhysicsFault(i, error) from error

    def _step(self, i: int) -> None:
        model, data = self.rows.models[i], self.rows.datas[i]
        for place, given in self.writes[i]:
            place[:] = given[i]
        mujoco.mj_step(model, data, self.rows.plan.substeps)
        for place in self.zeros[i]:
            place[:] = 0
        if self.after is not None:
            self.after(model, data)
        self.read(i)

    def finish(self) -> None:
        wait(self.running)
        for one in self.running:
            one.result()

    def read(self, i: int) -> None:
        for place, seen in self.reads[i]:
            seen[i] = place
        for k, site in enumerate(self.rows.plan.sites):
            of_place, of_turn = self.rows.jacobians[i, k]
            mujoco.mj_jacSite(self.rows.models[i], self.rows.datas[i], of_place, of_turn, site)

    def close(self) -> None:
        self.threads.shutdown()


class FieldStruct(Structure):
    """`Field` of physics.cpp."""

    _fields_ = (("at", c_void_p), ("rows", c_void_p), ("width", c_int32))


class ProgramStruct(Structure):
    """`Program` of physics.cpp."""

    _fields_ = (
        *((name, c_int32) for name in ("count", "substeps", "writes", "zeros", "reads", "sites", "speeds")),
        *((name, c_void_p) for name in ("models", "datas", "step", "after", "jacobian")),
        *((name, POINTER(FieldStruct)) for name in ("write", "zero", "read")),
        *((name, c_void_p) for name in ("site", "jacobians")),
    )


class CompiledPool:
    """`Pool` in C++. It holds addresses of what `rows` holds, and both live equally long."""

    def __init__(self, lib: Any, addresses: Mapping[str, int], rows: Rows, threads: int) -> None:
        self.lib, self.rows, plan = lib, rows, rows.plan
        self.kept = list[Any]()  # what only C++ refers to
        self.which: Array = np.zeros(0, np.int32)
        program = ProgramStruct(count=len(rows.datas), substeps=plan.substeps, speeds=rows.models[0].nv)
        program.models = self._pointers(model._address for model in rows.models)
        program.datas = self._pointers(data._address for data in rows.datas)
        program.step, program.jacobian = addresses["mj_step"], addresses["mj_jacSite"]
        program.after = addresses[plan.after] if plan.after else None
        program.writes, program.write = self._fields((part, rows.given[name]) for name, part in plan.writes.items())
        program.reads, program.read = self._fields((part, rows.seen[name]) for name, part in plan.reads.items())
        program.zeros, program.zero = self._fields((part, None) for part in plan.zeros)
        self.kept.append(sites := np.array(plan.sites, np.int32))
        program.sites, program.site, program.jacobians = len(sites), sites.ctypes.data, rows.jacobians.ctypes.data
        self.at = lib.physics_new(ctypes.byref(program), threads, addresses["mju_user_error"])
        self.end = weakref.finalize(self, _free, lib, self.at, rows, self.kept)

    def _pointers(self, addresses: Any) -> int:
        """The address of an array of addresses."""
        self.kept.append(array := np.array(list(addresses), np.uint64))
        return int(array.ctypes.data)

    def _fields(self, parts: Any) -> tuple[int, Any]:
        made = []
        for part, rows in parts:
            views = [part.of(data) for data in self.rows.datas]
            at = self._pointers(view.ctypes.data for view in views)
            made.append(FieldStruct(at, None if rows is None else rows.ctypes.data, views[0].size))
        self.kept.append(array := (FieldStruct * len(made))(*made))
        return len(made), array

    def start(self, which: Array) -> None:
        self.lib.physics_start(self.at, which.ctypes.data, len(which))

    def finish(self) -> None:
        failed = self.lib.physics_finish(self.at)
        if failed >= 0:
            raise PhysicsFault(failed, mujoco.FatalError(self.lib.physics_error(self.at).decode(errors="replace")))

    def read(self, i: int) -> None:
        self.lib.physics_read(self.at, i)

    def close(self) -> None:
        self.end()


def _free(lib: Any, at: int, *_: Any) -> None:
    """End the threads of a pool; they may still read what else is passed."""
    lib.physics_free(at)


@functools.cache
def of_mujoco() -> Mapping[str, int] | None:
    """The addresses of functions in the library of MuJoCo's Python package; None where it is not found."""
    try:
        (path,) = Path(mujoco.__file__).parent.glob("libmujoco.so*")
        lib = ctypes.CDLL(str(path))
        names = ("mj_step", "mj_jacSite", "mj_forward", "mj_rnePostConstraint")
        found = {name: ctypes.cast(getattr(lib, name), c_void_p).value or 0 for name in names}
        return {**found, "mju_user_error": ctypes.addressof(c_void_p.in_dll(lib, "mju_user_error"))}
    except (OSError, ValueError, AttributeError):
        return None
