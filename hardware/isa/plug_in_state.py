# SPDX-License-Identifier: Apache-2.0
"""Private state of extensions: rows that only steps of one unit, and its stage, read and write.

No token orders them and no DMA reaches them. At the start of a program they are undefined: a row
must be written before it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class PlugInState:
    """A state of a machine: `rows` rows of elements of one type, flat in C order."""

    unit: str
    name: str
    rows: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def label(self) -> str:
        """The name on its machine, where several units may have a state of one name."""
        return f"{self.unit}.{self.name}"

    @property
    def elements(self) -> int:
        """Elements of a row."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class StatePort:
    """A state that a step uses: the row at an index, or all rows.

    `index` is "acc", "src" or "wgt"; None where the state has one row, or `whole` reads all.
    `operand` is what the behaviour calls the value before the step, None where it is not read; a
    step that `writes` gives the row a new value, which the next step reads.
    """

    state: PlugInState
    index: str | None
    operand: str | None
    whole: bool = False
    writes: bool = False
