"""A mapping for a machine: its packed operands, and the loops around the intrinsic by their part.

Of the axes that only the streamed operand has, the last two are tiled as rows and columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vdla.compiler import te
from vdla.compiler.map.contraction import Contraction
from vdla.compiler.map.errors import MapError
from vdla.compiler.map.mapping import RESULT, Mapping, require_covered, signatures
from vdla.compiler.map.packed_operand import PackedOperand, pack_operand
from vdla.compiler.operators.vdla.schedule import TileAxes
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.hardware.config import Config

_TILED = ("y", "x")  # the names of rows and columns where no axis is tiled


@dataclass(frozen=True)
class PackedForm:
    """A mapping for a machine; `output` is the plain result of `mapping.contraction`."""

    config: Config
    mapping: Mapping
    output: te.Tensor

    def __post_init__(self) -> None:
        require_covered(self.mapping)
        if self.held.access.padding is not None:
            name = self.held.access.tensor.name
            raise MapError(f"{self.mapping.held} must read an input as it is, got {name}, which is computed")

    @property
    def contraction(self) -> Contraction:
        """The plain sums."""
        return self.mapping.contraction

    @cached_property
    def streamed(self) -> PackedOperand:
        """The operand whose window moves."""
        return pack_operand(self.mapping, self.mapping.streamed)

    @cached_property
    def held(self) -> PackedOperand:
        """The other operand."""
        return pack_operand(self.mapping, self.mapping.held)

    # --- results

    @property
    def raw(self) -> bool:
        """Whether the result is the sums themselves."""
        return self.output.stage is self.contraction.stage

    @property
    def epilogue(self) -> Stage:
        """The stage of the result."""
        assert isinstance(self.output.stage, Stage)
        return self.output.stage

    @property
    def scale(self) -> te.Tensor:
        """The plain input of the epilogue, which has an element for each lane of results."""
        own = [tensor for tensor in self.epilogue.reads if tensor.stage is not self.contraction.stage]
        if len(own) != 1:
            got = ", ".join(tensor.name for tensor in own) or "none"
            raise MapError(f"{self.output.name} must read the sums and one input, got {got}")
        return own[0]

    # --- axes

    @property
    def axes(self) -> tuple[str, str, str]:
        """The axes of the intrinsic: rows of results, lanes of results, terms."""
        rows, lanes, terms = self.mapping.groups
        return rows, lanes, terms

    @cached_property
    def _outside(self) -> dict[str, list[str]]:
        """The axes around the intrinsic: sections, those of the streamed operand, taps."""
        found: dict[str, list[str]] = {"sections": [], "free": [], "taps": []}
        for axis, signature in signatures(self.contraction).items():
            if axis in self.mapping.mapped:
                continue
            if RESULT not in signature:
                found["taps"].append(axis)
            else:
                found["sections" if self.mapping.held in signature else "free"].append(axis)
        return found

    @property
    def sections(self) -> list[str]:
        """Axes in every operand: problems one after the other."""
        return self._outside["sections"]

    @property
    def taps(self) -> list[str]:
        """Axes of the reduction outside of the intrinsic."""
        return self._outside["taps"]

    @property
    def batches(self) -> list[str]:
        """Axes of the result that are not tiled."""
        return self._outside["free"][: -len(_TILED)]

    @property
    def tiled(self) -> list[str | None]:
        """The axes of rows and of columns; None where there is none."""
        found = self._outside["free"][-len(_TILED) :]
        return [None] * (len(_TILED) - len(found)) + found

    @property
    def tiled_names(self) -> list[str]:
        """The names of rows and columns in the packed expression."""
        named = zip(self.tiled, _TILED, strict=True)
        return [default if axis is None else packed_name(axis) for axis, default in named]

    @property
    def tile_axes(self) -> TileAxes:
        """The axes of the packed sums by their part in the schedule."""
        rows, cols = self.tiled_names
        return TileAxes(
            sections=tuple(axis_name(packed_name(axis)) for axis in self.sections),
            batches=("vn", *(axis_name(packed_name(axis)) for axis in self.batches)),
            rows=axis_name(rows),
            cols=axis_name(cols),
        )


def packed_name(axis: str) -> str:
    """The name of an axis in a packed expression, apart from the names of the form itself."""
    return f"{axis.removeprefix('v')}_"
