# SPDX-License-Identifier: Apache-2.0
"""Fewer runs of the garbage collector while a compiler builds trees, which have no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_OBJECTS = 200_000
"""New objects between two collections, 700 by default."""
_LOCK = Lock()
_THRESHOLDS: list[tuple[int, int, int]] = []
"""Those to restore, one for each context that is open in any thread."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """A context in which the collector runs rarely; the thresholds before it return at the end of
    the last context that is open. A collector that is off, or as rare, stays as it is.
    """
    with _LOCK:
        _THRESHOLDS.append(_THRESHOLDS[0] if _THRESHOLDS else gc.get_threshold())
        if 0 < _THRESHOLDS[0][0] < _OBJECTS:
            gc.set_threshold(_OBJECTS, *_THRESHOLDS[0][1:])
    try:
        yield
    finally:
        with _LOCK:
            before = _THRESHOLDS.pop()
            if not _THRESHOLDS:
                gc.set_threshold(*before)
