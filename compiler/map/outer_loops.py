"""The loops around the intrinsic of a mapping, by their part in the schedule of tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vdla.compiler.map.mapping import RESULT, Mapping, signatures

ROW_BLOCKS = "row blocks"
"""Among tiled axes: the blocks of the intrinsic's rows of results."""

_TILED = 2  # rows and columns


@dataclass(frozen=True)
class OuterLoops:
    """The axes outside of the intrinsic.

    Of the loops that only windows have, the last two that iterate are tiled as rows and columns.
    """

    mapping: Mapping

    @cached_property
    def _parts(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {"sections": [], "phases": [], "free": [], "taps": []}
        computation = self.mapping.computation
        divided = {
            axis for name in computation.streamed for f in computation.operands[name].forms for axis in f.divided_axes
        }
        for axis, signature in signatures(computation).items():
            if axis in self.mapping.mapped:
                continue
            if RESULT not in signature:
                found["taps"].append(axis)
            elif computation.held not in signature:
                found["free"].append(axis)
            else:
                alone = signature == {RESULT, computation.held}
                found["phases" if alone or axis in divided else "sections"].append(axis)
        return found

    @property
    def sections(self) -> list[str]:
        """Axes in every operand: problems one after the other."""
        return self._parts["sections"]

    @property
    def phases(self) -> list[str]:
        """Axes of weights that are divided where they move a window, or move none: results of one
        position.
        """
        return self._parts["phases"]

    @property
    def taps(self) -> list[str]:
        """Axes of the reduction."""
        return self._parts["taps"]

    @cached_property
    def tiled(self) -> list[str | None]:
        """The axes of rows and of columns, ROW_BLOCKS among them; None where there is none."""
        free, extents = self._parts["free"], self.mapping.computation.extents
        rows = next(iter(self.mapping.groups))
        tiled = not free if self.mapping.fixed else self.mapping.blocks(rows) > 1
        blocks = [ROW_BLOCKS] if tiled else []
        several = blocks + [axis for axis in free if extents[axis] > 1]
        found = several[-_TILED:] if ROW_BLOCKS in several[-_TILED:] else free[-_TILED:]
        return [None] * (_TILED - len(found)) + found

    @property
    def rows_are_tiled(self) -> bool:
        """Whether blocks of rows of results are tiled."""
        return ROW_BLOCKS in self.tiled

    @property
    def batches(self) -> list[str]:
        """Axes of the result that are not tiled."""
        return [axis for axis in self._parts["free"] if axis not in self.tiled]
