"""A mapping for a machine: its packed operands, and the names of its loops."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from functools import cached_property
from math import prod

from vdla.compiler import ir, te
from vdla.compiler.map.computation import Computation, FromOperand
from vdla.compiler.map.errors import MapError
from vdla.compiler.map.mapping import Mapping, intrinsic_extents, require_covered
from vdla.compiler.map.outer_loops import ROW_BLOCKS, OuterLoops
from vdla.compiler.map.packed_operand import PackedOperand, pack_operand
from vdla.compiler.operators.vdla.roles import WINDOW, Role
from vdla.compiler.operators.vdla.schedule import TileAxes
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.hardware.config import Buffer, Config

ROWS = "n"
"""The name of the loop over blocks of rows of results in a packed expression."""

_NO_BATCHES = "batch"
_TILED = ("y", "x")  # the names of rows and columns where no axis is tiled


@dataclass(frozen=True)
class PackedForm:
    """A mapping for a machine; `output` is the plain result of `mapping.computation`."""

    config: Config
    mapping: Mapping
    output: te.Tensor

    def __post_init__(self) -> None:
        require_covered(self.mapping)

    @property
    def computation(self) -> Computation:
        """The plain sums."""
        return self.mapping.computation

    # --- operands

    @cached_property
    def streamed(self) -> dict[str, PackedOperand]:
        """The operands whose windows move, by name."""
        return {name: pack_operand(self.mapping, name) for name in self.computation.streamed}

    @cached_property
    def held(self) -> PackedOperand | None:
        """The operand that is loaded as weights."""
        name = self.computation.held
        if name is None:
            return None
        bits = ir.INTEGER_BITS[self.computation.operands[name].source.dtype]
        own = pack_operand(self.mapping, name)
        vectors = self.config.wgt_entry_bytes * 8 // (prod(own.lanes) * bits)
        return own if vectors == 1 else pack_operand(self.mapping, name, vectors)

    @property
    def operands(self) -> dict[str, PackedOperand]:
        """All operands."""
        held = {} if self.held is None else {str(self.computation.held): self.held}
        return self.streamed | held

    def parameter(self, name: str) -> str:
        """The program's tensor of an operand, called like the plain one where that is read once."""
        source = self.operands[name].source
        alone = sum(operand.source is source for operand in self.operands.values()) == 1
        return packed_parameter(source.name if alone else f"{source.name}_{name}")

    def window(self, name: str) -> Role:
        """The stage of a streamed operand's window."""
        names = self.computation.streamed
        return WINDOW if len(names) == 1 else Role(f"{WINDOW}_{names.index(name)}")

    @cached_property
    def window_buffers(self) -> MappingOf[str, Buffer]:
        """The buffer of each streamed operand's window."""
        found = {}
        for step in self.computation.steps:
            for operand, read in step.reads.items():
                if isinstance(read, FromOperand) and read.name != self.computation.held:
                    found[read.name] = Buffer[step.intrinsic.scopes[operand].upper()]
        return found

    # --- results

    @property
    def raw(self) -> bool:
        """Whether the result is the sums themselves."""
        return self.output.stage is self.computation.stage

    @property
    def epilogue(self) -> Stage:
        """The stage of the result."""
        assert isinstance(self.output.stage, Stage)
        return self.output.stage

    @property
    def scale(self) -> te.Tensor:
        """The plain input of the epilogue."""
        own = [tensor for tensor in self.epilogue.reads if tensor.stage is not self.computation.stage]
        if len(own) != 1:
            got = ", ".join(tensor.name for tensor in own) or "none"
            raise MapError(f"{self.output.name} must read the sums and one input, got {got}")
        return own[0]

    # --- axes

    @property
    def axes(self) -> tuple[str, str, str | None]:
        """The intrinsic's axes: rows of results, lanes of results, terms if it adds several."""
        rows, lanes, *terms = self.mapping.groups
        return rows, lanes, terms[0] if terms else None

    def entry_extent(self, axis: str) -> int:
        """The extent of an axis of the intrinsic."""
        return intrinsic_extents(self.mapping.intrinsic)[axis]

    @cached_property
    def loops(self) -> OuterLoops:
        """The axes around the intrinsic."""
        return OuterLoops(self.mapping)

    @property
    def tile_axes(self) -> TileAxes:
        """The axes of the packed sums by their part in the schedule."""
        rows, cols = self.tiled
        chunk = self.mapping.chunk
        return TileAxes(
            sections=tuple(axis_name(packed_name(axis)) for axis in self.loops.sections),
            batches=tuple(map(axis_name, self.batches)),
            rows=axis_name(rows),
            cols=axis_name(cols),
            chunks="vci" if chunk is None else axis_name(packed_name(chunk)),
        )

    @property
    def batches(self) -> dict[str, int]:
        """The names and extents of the packed loops of results that are not tiled, at least one."""
        extents = self.computation.extents
        rows = {} if self.loops.rows_are_tiled else {ROWS: self.mapping.blocks(self.axes[0])}
        found = rows | {packed_name(axis): extents[axis] for axis in self.loops.batches}
        return found or {_NO_BATCHES: 1}

    @property
    def tiled(self) -> dict[str, int]:
        """The names and extents of the packed rows and columns."""
        found: dict[str, int] = {}
        for default, axis in zip(_TILED, self.loops.tiled, strict=True):
            if axis is None:
                found[default] = 1
            elif axis == ROW_BLOCKS:
                found[ROWS] = self.mapping.blocks(self.axes[0])
            else:
                found[packed_name(axis)] = self.computation.extents[axis]
        return found


def packed_name(axis: str) -> str:
    """The name of an axis in a packed expression, apart from the names of the form itself."""
    return f"{axis.removeprefix('v')}_"


def packed_parameter(name: str) -> str:
    """The name of the program's tensor that holds a plain one."""
    return f"{name}_packed"
