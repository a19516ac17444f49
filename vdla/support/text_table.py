# SPDX-License-Identifier: Apache-2.0
"""Tables as text: what commands print, notebooks show and `str` of a study has.

The first `texts` columns are aligned to the left, all others, which are numbers, to the right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vdla.support.html_repr import shown_by


@dataclass(frozen=True, slots=True)
class TextTable:
    """A title, the names of the columns, and cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1

    _repr_html_ = shown_by("studies", "text_table_html")

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        return "\n".join([*([self.title] if self.title else []), *(self._line(cells, widths) for cells in lines)])

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        places = enumerate(zip(cells, widths, strict=True))
        padded = (cell.ljust(width) if place < self.texts else cell.rjust(width) for place, (cell, width) in places)
        return "  ".join(padded).rstrip()


def text_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], texts: int = 1) -> TextTable:
    """A table of any iterables."""
    return TextTable(title, tuple(columns), tuple(tuple(cells) for cells in rows), texts)
