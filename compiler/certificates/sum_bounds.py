# SPDX-License-Identifier: Apache-2.0
"""Bounds of the sums of an expression before they wrap, from the bounds of its operands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from vdla.compiler.ir import Array

_observed: ContextVar[SumBounds | None] = ContextVar("_observed", default=None)


@dataclass(slots=True)
class SumBounds:
    """The least and the greatest value of sums by their type, for all inputs, before they wrap."""

    of_types: dict[str, tuple[int, int]] = field(default_factory=dict)

    def include(self, dtype: str, low: int, high: int) -> None:
        """Note a sum with these bounds."""
        known = self.of_types.get(dtype, (low, high))
        self.of_types[dtype] = min(known[0], low), max(known[1], high)

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Note all sums that are computed meanwhile."""
        token = _observed.set(self)
        try:
            yield
        finally:
            _observed.reset(token)


def observe(dtype: str, low: Array, high: Array) -> None:
    """Note the bounds of results of ring operations, if someone observes."""
    observer = _observed.get()
    if observer is not None and low.size:
        observer.include(dtype, int(low.min()), int(high.max()))
