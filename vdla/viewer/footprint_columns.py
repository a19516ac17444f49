# SPDX-License-Identifier: Apache-2.0
"""Which entries of which buffer every instruction reads and writes, as columns.

Most instructions of a program differ only in where their footprint begins. So an access is a shape,
which many share, and its first entry; a shape is a buffer, whether it is written, and ranges of
entries relative to the first.
"""

from __future__ import annotations

import numpy as np

from vdla.hardware.config import Buffer
from vdla.hardware.isa import BufferAccess, Where
from vdla.hardware.isa.index_set import end
from vdla.hardware.program import Program
from vdla.simulator.verify.accesses import AccessWalk
from vdla.support.arrays import Ints

BUFFERS = tuple(Buffer)


class FootprintColumns:
    """The accesses of programs, which `add` appends in order."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._shapes: dict[object, int] = {}
        self._forms: list[tuple[int, int, Ints]] = []  # buffer, whether it is written, begins and ends
        self._used: list[int] = []
        self._firsts: list[int] = []
        self.used = [1] * len(BUFFERS)
        """The end of what is used of each buffer, at least 1."""

    def add(self, program: Program) -> None:
        """Append the accesses of all instructions of a verified program."""
        walk = AccessWalk(program)
        for index, row in enumerate(program.columns.tolist()):
            accesses = (access for _, access in walk.visit(index, row) if access.buffer is not None)
            on_chip = [access for access in accesses if _count(access.where)]
            self._counts.append(len(on_chip))
            for access in on_chip:
                self._append(access)

    def columns(self) -> dict[str, Ints]:
        """The number of accesses of each instruction; of each access its shape and first entry; of
        each shape its buffer, whether it writes, its number of ranges; of each range begin and end.
        """
        ranges = [form[2] for form in self._forms]
        return {
            "accesses": np.array(self._counts, np.int64),
            "access_shape": np.array(self._used, np.int64),
            "access_first": np.array(self._firsts, np.int64),
            "shape_buffer": np.array([form[0] for form in self._forms], np.int64),
            "shape_writes": np.array([form[1] for form in self._forms], np.int64),
            "shape_ranges": np.array([len(places) for places in ranges], np.int64),
            "ranges": np.concatenate([np.zeros((0, 2), np.int64), *ranges]).reshape(-1),
        }

    def _append(self, access: BufferAccess) -> None:
        assert access.buffer is not None
        first, relative = _relative(access.where)
        key = (access.buffer, access.writes, relative)
        if key not in self._shapes:
            self._shapes[key] = len(self._shapes)
            self._forms.append((BUFFERS.index(access.buffer), int(access.writes), _ranges(access.where)))
        number = BUFFERS.index(access.buffer)
        self.used[number] = max(self.used[number], end(access.where))
        self._used.append(self._shapes[key])
        self._firsts.append(first)


def _count(where: Where) -> int:
    return where.stop - where.start if isinstance(where, slice) else len(where)


def _relative(where: Where) -> tuple[int, object]:
    """The first entry, and what tells shapes apart."""
    if isinstance(where, slice):
        return int(where.start), int(where.stop - where.start)
    return int(where[0]), (where - where[0]).tobytes()


def _ranges(where: Where) -> Ints:
    """int64[n, 2]: the begins and ends of the ranges of entries, relative to the first."""
    if isinstance(where, slice):
        return np.array([[0, where.stop - where.start]], np.int64)
    breaks = np.flatnonzero(np.diff(where) != 1)
    begins, ends = where[np.append(0, breaks + 1)], where[np.append(breaks, len(where) - 1)] + 1
    ranges: Ints = np.stack([begins, ends], axis=1) - where[0]
    return ranges
