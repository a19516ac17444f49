# SPDX-License-Identifier: Apache-2.0
"""Tables as plain text, where a board has no library for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def plain_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A title, a header, the rows: a left-aligned first column, right-aligned ones behind it."""
    lines = [list(columns), *map(list, rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join([title, *(_line(line, widths) for line in lines)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip()
