"""Schedules without checks, for trials: of many schedules, the winner is built again with them.

A primitive gives the same function with and without them, or raises: a check changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_skipped: ContextVar[bool] = ContextVar("_skipped", default=False)


@contextmanager
def unchecked() -> Iterator[None]:
    """A context in which primitives do not check the flow of data, nor what other primitives need
    to stay true.

    For schedules that are known to be legal, as those of a template: an illegal one computes
    something else.
    """
    token = _skipped.set(True)
    try:
        yield
    finally:
        _skipped.reset(token)


def is_unchecked() -> bool:
    """Whether checks are skipped here."""
    return _skipped.get()
