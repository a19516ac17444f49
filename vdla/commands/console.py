# SPDX-License-Identifier: Apache-2.0
"""The two streams of a command: results on standard output, progress and errors on standard error.

Colours appear on a terminal only, and not where NO_COLOR is set; rich decides both.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import NoReturn, TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

SHOW_AFTER_S = 2.0  # work that is done sooner shows no progress
_NARROW = 80  # characters of a line that tables are made for
PIPE_WIDTH = 200  # characters of a line where no terminal gives its own
PLAIN_EVERY_S = 2.0  # without a terminal: one line at most this often


class _Output(Console):
    """A console whose reader may exit early, which the command line handles."""

    def on_broken_pipe(self) -> NoReturn:
        """Called by rich when a write fails."""
        raise BrokenPipeError


@cache
def output() -> Console:
    """The console of standard output; in a pipe, lines are long enough for whole tables."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return _Output(highlight=False, markup=False, soft_wrap=False, width=PIPE_WIDTH if piped else None)


@cache
def errors() -> Console:
    """The console of standard error."""
    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def column_width(narrow: int) -> int:
    """The width of a column of names: `narrow` in 80 characters, and half of what is beyond."""
    return narrow + max(0, output().width - _NARROW) // 2


def table(title: str, *columns: str) -> Table:
    """An empty table with a left-aligned first column and numbers in the others."""
    result = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for index, column in enumerate(columns):
        result.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    return result


def listing(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table with these rows."""
    result = table(title, *columns)
    for row in rows:
        result.add_row(*row)
    return result


@contextmanager
def progress(title: str) -> Iterator[Callable[[str, int, int], None]]:
    """A callback (what, done, total) that shows progress once the work has taken two seconds.

    A `total` of 0 is one that is not known.
    """
    if not errors().is_terminal:
        yield _PlainProgress(sys.stderr, title)
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
    with _LateProgress(*columns, console=errors(), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda what, done, total: bar.update(
            task, description=f"{title}: {what}", completed=done, total=total or None
        )


class _LateProgress(Progress):
    """A progress display that stays empty until the work has taken SHOW_AFTER_S."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is drawn at each refresh."""
        if all((task.elapsed or 0.0) < SHOW_AFTER_S for task in self.tasks):
            return ()
        return super().get_renderables()


class _PlainProgress:
    """Prints a plain line every PLAIN_EVERY_S, for logs."""

    def __init__(self, stream: TextIO, title: str) -> None:
        self._stream = stream
        self._title = title
        self._last_s = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last_s >= PLAIN_EVERY_S:
            count = f"{done}/{total}" if total else done
            print(f"{self._title}: {what} ({count})", file=self._stream, flush=True)
            self._last_s = now
