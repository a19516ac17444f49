"""Progress of work in steps, told as it happens."""

from __future__ import annotations

from collections.abc import Callable

# progress(what, done, total): called before each step, and at the end with done == total.
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """A progress callback that shows nothing."""
