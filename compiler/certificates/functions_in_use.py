# SPDX-License-Identifier: Apache-2.0
"""What knows which symbols are functions of one small integer, for the operations on symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from vdla.compiler.certificates.symbols import Symbols

Operation = Callable[..., Symbols]
"""An operation on arrays of symbols, which may be numbers."""
Exact = Callable[..., Any]
"""A ring operation on integers that do not wrap."""


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A `value` of the integer `of` for which two functions of it are `first` and `second`."""

    of: Symbols
    value: int
    first: int
    second: int


class Functions(Protocol):
    """The functions of small integers, as `SmallFunctions` has them."""

    def applied(
        self, operation: Operation, operands: Sequence[Symbols], dtypes: Sequence[str], exact: Exact | None = None
    ) -> Symbols:
        """The result of an operation."""

    def counterexample(self, a: Symbols, b: Symbols) -> Counterexample | None:
        """Where two functions differ."""


_used: ContextVar[Functions | None] = ContextVar("_used", default=None)


def small_functions() -> Functions | None:
    """Those in use, if any."""
    return _used.get()


@contextmanager
def using(functions: Functions | None) -> Iterator[None]:
    """A context in which all operations know these functions, or none."""
    token = _used.set(functions)
    try:
        yield
    finally:
        _used.reset(token)
