"""Packed layouts of the programs' tensors, by name.

A name has the dimensions from the outermost to the innermost, as in oneDNN: an upper-case letter is
a dimension, a number with the letter in lower case a block of it. `NCHW1n16c` is [N / 1, C / 16, H,
W, 1, 16].
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout by name, and its dimensions as the program's tensors describe them.

    With `gaps`, sections of channels are not whole blocks, and have padding between them.
    """

    name: str
    dimensions: str
    gaps: bool = False

    def __str__(self) -> str:
        return self.name


def in_sections(layout: Layout, at: int, *, gaps: bool = False) -> Layout:
    """The layout with a dimension G of sections of channels, of this place: 1 behind a batch."""
    sides = layout.dimensions.split(", ")
    dimensions = ", ".join([*sides[:at], "sections", *sides[at:]])
    return Layout(f"{layout.name[:at]}G{layout.name[at:]}", dimensions, gaps)
