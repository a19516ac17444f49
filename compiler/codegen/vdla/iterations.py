# SPDX-License-Identifier: Apache-2.0
"""Iterations of the loops around a statement, as arrays: one value of each loop per iteration.

Lowering visits all iterations of a statement at once. Iterations that differ only in addresses form
a class, and one of them stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import numbered

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Iterations:
    """`count` iterations in program order; `values` has int64[count] for each loop."""

    count: int
    values: Mapping[str, Ints]

    def nested(self, var: str, extent: int) -> Iterations:
        """The iterations of a loop inside each of these; `extent` of them follow each other."""
        values = {name: np.repeat(column, extent) for name, column in self.values.items()}
        return Iterations(self.count * extent, {**values, var: np.tile(np.arange(extent), self.count)})

    def take(self, chosen: Ints) -> Iterations:
        """The chosen iterations."""
        return Iterations(len(chosen), {name: column[chosen] for name, column in self.values.items()})

    def first(self) -> dict[str, int]:
        """The loop values of the first iteration."""
        return {name: int(column[0]) for name, column in self.values.items()}

    def classes(self, signature: Iterable[Ints]) -> Iterator[Ints]:
        """The iterations whose columns of the signature are equal, class by class.

        Both the classes and the iterations in each are in program order.
        """
        number, count = np.zeros(self.count, np.int64), 1
        for column in signature:
            if len(column) and (column != column[0]).any():
                values, which = numbered(column)
                known, number = numbered(number * len(values) + which)
                count = len(known)
        if count == 1:
            yield from (np.arange(self.count),) if self.count else ()
            return
        order = np.argsort(number, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
        yield from sorted(groups, key=lambda group: int(group[0]))
