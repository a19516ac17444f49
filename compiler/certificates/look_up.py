# SPDX-License-Identifier: Apache-2.0
"""Elements at places that depend on inputs: functions of the place and of the elements that may be
there, counted from the first of them. So an element of a group is the same one whether the group is
an entry or lies within a tensor.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.certificates import field
from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.symbols import (
    Symbols,
    chosen,
    elements_of,
    gathered,
    key,
    known,
    numbers,
    symbols,
    unstructured,
)
from vdla.compiler.ir import Array


def looked_up(elements: Symbols, place: Symbols) -> Symbols:
    """The element of a row of them at each place."""
    exact = gathered(elements, np.where(known(place), place["low"], 0))
    if known(place).all():
        return exact
    first, count = _range_of(place, len(elements))
    content, low, high = _contents(elements, first, count)
    here = elements_of(binary("sub", place, numbers(first), "int64"))
    return chosen(known(place), exact, unstructured(("look-up",), low, high, symbols(content, 0, 1), here))


def _range_of(place: Symbols, size: int) -> tuple[Array, Array]:
    """The first element that may be at each place, and how many may; all of them where most may,
    since bounds can differ though places are the same.
    """
    first, last = (np.clip(place[which], 0, size - 1) for which in ("low", "high"))
    most = 2 * (last - first + 1) > size
    return np.where(most, 0, first), np.where(most, size, last - first + 1)


def _contents(elements: Symbols, first: Array, count: Array) -> tuple[Array, Array, Array]:
    """The elements of each range as an element of the field, and their bounds."""
    ranges, inverse = np.unique(np.stack([first.ravel(), count.ravel()]), axis=1, return_inverse=True)
    values = elements_of(elements)["value"]
    content, low, high = np.zeros(len(ranges[0]), np.uint64), *np.zeros((2, len(ranges[0])), np.int64)
    for size in np.unique(ranges[1]):
        (same,) = np.nonzero(ranges[1] == size)
        these = ranges[0][same, None] + np.arange(size)
        marked = field.hashed(key("element of a table"), np.arange(size), values[these])
        content[same] = field.total(marked, (1,))[:, 0]
        low[same], high[same] = elements["low"][these].min(axis=1), elements["high"][these].max(axis=1)
    at = inverse.reshape(first.shape)
    return content[at], low[at], high[at]
