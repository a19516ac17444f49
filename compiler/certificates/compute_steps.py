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
_SHAPE_NAMES = (
    "loop0", "loop1", "uop_begin", "uop_end", "acc0", "acc1", "src0", "src1", "wgt0", "wgt1", "scl0", "scl1",
    "init", "emit",
)  # fmt: skip
_SHAPE = itemgetter(*(COL[name] for name in _SHAPE_NAMES))


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

    def only(self, some: slice | _Ints) -> ComputeSteps:
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


class KnownSteps:
    """ComputeSteps of instructions with the micro-ops of a buffer."""

    def __init__(self, uops: _Ints) -> None:
        self._uops = uops
        self.forget()

    def forget(self) -> None:
        """Note that micro-ops have changed."""
        self._known: dict[tuple[int, ...], ComputeSteps] = {}

    def of(self, row: Mapping[str, int]) -> ComputeSteps:
        """The iterations of an instruction with these fields."""
        key = _SHAPE(list(row.values()))
        if key not in self._known:
            self._known[key] = _from_zero(self._uops, row)
        return self._known[key].moved(row)


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
