# SPDX-License-Identifier: Apache-2.0
"""Progress of work in steps, reported as it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TypeVar

Item = TypeVar("Item")

# progress(what, done, total): called before each step, and at the end with done == total.
Progress = Callable[[str, int, int], None]


ReportStep = Callable[[str], None]
"""Called with the name of the next step."""


def silent(what: str, done: int, total: int) -> None:
    """A progress callback that shows nothing."""


def steps(progress: Progress, items: Sequence[Item]) -> Iterator[Item]:
    """The items, each a step that has the item's `name` or text."""
    for number, item in enumerate(items):
        progress(str(getattr(item, "name", item)), number, len(items))
        yield item
    progress("done", len(items), len(items))


def numbered(progress: Progress, total: int) -> ReportStep:
    """Tells the names of `total` steps one after another, and "done" behind them."""
    number = count()
    return lambda what: progress(what, next(number), total)
