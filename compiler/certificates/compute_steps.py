# SPDX-License-Identifier: Apache-2.0
"""The iterations of a compute instruction, in the order of the machine: which may run at once.

Most instructions of a program differ in where they begin only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.isa import COL, Emit

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_ANY = 1 << 40  # beyond all indices
_SHAPE_NAMES = (
    "loop0", "loop1", "uop_begin", "uop_end", "acc0", "acc1", "src0", "src1", "wgt0", "wgt1", "scl0", "scl1",
    "init", "emit",
)  # fmt: skip
_SHAPE = itemgetter(*(COL[name] for name in _SHAPE_NAMES))
_BEGINS = itemgetter(*(COL[name] for name in ("acc", "src", "wgt", "scl", "out")))


@dataclass(frozen=True, slots=True)
class ComputeSteps:
    """The indices of iterations, and whether they start or end a sum."""

    acc: _Ints
    src: _Ints
    wgt: _Ints
    scl: _Ints
    out: _Ints
    starts: _Bools
    ends: _Bools

    def moved(self, row: Mapping[str, int]) -> ComputeSteps:
        """With the indices at which an instruction begins added."""
        begins = {name: getattr(self, name) + row[name] for name in ("acc", "src", "wgt", "scl", "out")}
        return replace(self, **begins)

    def only(self, some: slice) -> ComputeSteps:
        """Some of the iterations."""
        return ComputeSteps(*(getattr(self, field.name)[some] for field in fields(self)))

    def rounds(self, *, reads_sums: bool) -> Iterator[Any]:
        """ComputeSteps that may run at once, in order: none uses a sum that another one writes.

        `reads_sums` is whether `src` is of sums.
        """
        if reads_sums and np.isin(self.src, self.acc).any():
            yield from (slice(k, k + 1) for k in range(len(self.acc)))
            return
        order, opens = self._by_sum()
        count = np.arange(len(order))
        turns = np.empty(len(order), np.int64)
        turns[order] = count - np.maximum.accumulate(np.where(opens, count, 0))
        for turn in range(int(turns.max()) + 1):
            yield np.flatnonzero(turns == turn)

    def _by_sum(self) -> tuple[_Ints, _Bools]:
        """An order by sums, and where another sum begins in it."""
        order = np.argsort(self.acc, kind="stable")
        acc = self.acc[order]
        return order, np.r_[True, acc[1:] != acc[:-1]]


@dataclass(frozen=True, slots=True)
class _Part:
    """The iterations of an instruction less where it begins, and their rows in the table of all;
    `least` and `most` are the first and the last indices of acc, src, wgt, scl and out.
    """

    steps: ComputeSteps
    begin: int
    end: int
    least: tuple[int, ...]
    most: tuple[int, ...]


class KnownSteps:
    """ComputeSteps of instructions with the micro-ops of a buffer.

    `table` has all of them as rows of acc, src, wgt, scl, out, starts and ends.
    """

    def __init__(self, uops: _Ints) -> None:
        self._uops = uops
        self.forget()

    def forget(self) -> None:
        """Note that micro-ops have changed."""
        self._known: dict[tuple[int, ...], _Part] = {}
        self.table: _Ints = np.zeros((0, 7), np.int64)

    def of(self, row: Mapping[str, int]) -> ComputeSteps:
        """The iterations of an instruction with these fields."""
        return self._part(list(row.values())).steps.moved(row)

    def queued(self, columns: list[int], depths: tuple[int, ...]) -> tuple[int, ...]:
        """The rows of an instruction in `table`, and where it begins; IndexError where it leaves
        buffers of these depths.
        """
        part, begins = self._part(columns), _BEGINS(columns)
        for begin, least, most, depth in zip(begins, part.least, part.most, depths, strict=True):
            if begin + least < 0 or begin + most >= depth:
                raise IndexError(f"iterations must be below {depth}, got {begin + most}")
        return part.begin, part.end, *begins

    def _part(self, columns: list[int]) -> _Part:
        key = _SHAPE(columns)
        if key not in self._known:
            steps = _from_zero(self._uops, dict(zip(COL, columns, strict=False)))
            rows = np.stack([getattr(steps, one.name) for one in fields(steps)], axis=1).astype(np.int64)
            some, ends = rows[:, :3], rows[steps.ends, 3:5]
            least = [*some.min(axis=0, initial=_ANY).tolist(), *ends.min(axis=0, initial=_ANY).tolist()]
            most = [*some.max(axis=0, initial=-_ANY).tolist(), *ends.max(axis=0, initial=-_ANY).tolist()]
            begin = len(self.table)
            self.table = np.concatenate([self.table, rows])
            self._known[key] = _Part(steps, begin, begin + len(rows), tuple(least), tuple(most))
        return self._known[key]


def _from_zero(uops: _Ints, row: Mapping[str, int]) -> ComputeSteps:
    """The iterations of an instruction whose fields are these but begin at 0."""
    some = uops[row["uop_begin"] : row["uop_end"]]
    i, j, u = (part.reshape(-1) for part in np.indices((row["loop0"], row["loop1"], len(some))))
    offset = i * row["acc0"] + j * row["acc1"] + some[u, 0]
    return ComputeSteps(
        acc=offset,
        src=i * row["src0"] + j * row["src1"] + some[u, 1],
        wgt=i * row["wgt0"] + j * row["wgt1"] + some[u, 2],
        scl=i * row["scl0"] + j * row["scl1"],
        out=offset,
        starts=some[u, 3] * row["init"] != 0,
        ends=(some[u, 4] != 0) & (row["emit"] != Emit.NONE),
    )
