# SPDX-License-Identifier: Apache-2.0
"""Bounds of sums that a program computes in another way than the operator, which have wider ones.

Equal elements of the field are the same polynomial, so that bounds that hold for one of two plain
integers hold for the other. A pixel less its zero point, times a factor, has narrower bounds than
the product of the pixel and that of the zero point, each for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from vdla.compiler.certificates.symbols import SymbolForm, Symbols
from vdla.compiler.certificates.value_index import ValueIndex

_used: ContextVar[KnownBounds | None] = ContextVar("_used", default=None)


class KnownBounds:
    """The bounds of sums by their elements of the field."""

    def __init__(self) -> None:
        self._index = ValueIndex()
        self._low, self._high = np.zeros((2, 0), np.int64)

    def note(self, sums: Symbols) -> None:
        """Keep the bounds of those that are integers without wrapping."""
        plain = sums[sums["form"] == SymbolForm.PLAIN]
        self._index.add(plain["value"], len(self._low) + np.arange(len(plain)))
        self._low, self._high = np.append(self._low, plain["low"]), np.append(self._high, plain["high"])

    def narrowed(self, sums: Symbols) -> Symbols:
        """The sums, with the bounds that are known of them too."""
        number = self._index.find(sums["value"].reshape(-1)).reshape(sums.shape)
        same = (number >= 0) & (sums["form"] == SymbolForm.PLAIN)
        if not same.any():
            return sums
        made = sums.copy()
        made["low"][same] = np.maximum(sums["low"][same], self._low[number[same]])
        made["high"][same] = np.minimum(sums["high"][same], self._high[number[same]])
        return made


def known_bounds() -> KnownBounds | None:
    """Those in use, if any."""
    return _used.get()


@contextmanager
def using_bounds() -> Iterator[None]:
    """A context in which bounds of sums of operators are kept for those of their program."""
    token = _used.set(KnownBounds())
    try:
        yield
    finally:
        _used.reset(token)
