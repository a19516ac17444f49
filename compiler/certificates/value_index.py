# SPDX-License-Identifier: Apache-2.0
"""An index of elements of the field: a number for each one, by open addressing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates import field_kernels as fk
from vdla.compiler.certificates.jit import Int, entry_point, helper

_Ints = npt.NDArray[np.int64]
_Elements = npt.NDArray[np.uint64]
_FREE = np.uint64((1 << 64) - 1)  # no element of the field
_FIRST = 1 << 12
Array = Any


class ValueIndex:
    """Numbers by elements of the field."""

    def __init__(self) -> None:
        self._names, self._numbers = _room(_FIRST)
        self._count = 0

    def find(self, values: _Elements) -> _Ints:
        """The numbers of elements, -1 for those that have none."""
        made = np.empty(len(values), np.int64)
        look_up(self._names, self._numbers, np.ascontiguousarray(values), made)
        return made

    def add(self, values: _Elements, numbers: _Ints) -> None:
        """Give elements numbers; the last one counts."""
        while 2 * (self._count + len(values)) > len(self._names):
            names, kept = self._names, self._names != _FREE
            old = self._numbers
            self._names, self._numbers = _room(4 * len(names))
            insert(self._names, self._numbers, names[kept], old[kept])
        self._count += insert(
            self._names, self._numbers, np.ascontiguousarray(values), np.ascontiguousarray(numbers, np.int64)
        )


def _room(size: int) -> tuple[_Elements, _Ints]:
    return np.full(size, _FREE), np.zeros(size, np.int64)


@helper
def _slot(names: Array, value: Int) -> Int:
    """The place of an element, or the free one where it belongs."""
    mask = np.uint64(len(names) - 1)
    at = fk.mixed(value) & mask
    while names[at] != _FREE and names[at] != value:
        at = (at + np.uint64(1)) & mask
    return at


@entry_point
def look_up(names: Array, numbers: Array, values: Array, out: Array) -> None:
    """The numbers of elements, -1 for those that have none; the table has a power of two places."""
    for k in range(len(values)):
        at = _slot(names, values[k])
        out[k] = numbers[at] if names[at] == values[k] else -1


@entry_point
def insert(names: Array, numbers: Array, values: Array, added: Array) -> int:
    """Give elements numbers; how many are new."""
    count = 0
    for k in range(len(values)):
        at = _slot(names, values[k])
        count += names[at] == _FREE
        names[at], numbers[at] = values[k], added[k]
    return count
