# SPDX-License-Identifier: Apache-2.0
"""A mapping for a machine: its packed operands, and the names of its loops."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from functools import cached_property
from math import prod

from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla.intrinsics.stage_intrinsic import stage_intrinsic
from vdla.compiler.map.computation import Computation, FromOperand
from vdla.compiler.map.entries import axis_extents
from vdla.compiler.map.expression_parts import MapError, Table, tables_of
from vdla.compiler.map.mapping import ROW_BLOCKS, Mapping, OuterLoops, require_covered
from vdla.compiler.map.packed_operand import PackedOperand, pack_operand
from vdla.compiler.map.places import MovingValue, moving_values
from vdla.compiler.map.way_out import is_of_stage
from vdla.compiler.operators.vdla.roles import WINDOW, Role
from vdla.compiler.operators.vdla.schedule import TileAxes
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.compiler.tensorize import Intrinsic, IntrinsicError
from vdla.hardware.config import Buffer, Config

_ROWS, _LANES, _CHUNKS, _TILED = "n", "co", "ci", ("y", "x")
"""The names of parts of the schedule: blocks of rows and of lanes of results, chunks, the tiled
axes.
"""


@dataclass(frozen=True)
class PackedForm:
    """A mapping for a machine; `output` is the plain result of `mapping.computation`.

    The program's tensors are called like the plain ones, and `suffix`.
    """

    config: Config
    mapping: Mapping
    output: te.Tensor
    suffix: str = "_packed"

    def __post_init__(self) -> None:
        require_covered(self.mapping)
        moving_values(self.mapping)

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
        operand = pack_operand(self.mapping, name)
        if len(operand.entry) > 1:
            return operand
        vector = prod(operand.lanes) * ir.INTEGER_BITS[operand.source.dtype]
        return pack_operand(self.mapping, name, self.config.wgt_entry_bytes * 8 // vector)

    @property
    def operands(self) -> dict[str, PackedOperand]:
        """All operands."""
        held = {} if self.held is None else {str(self.computation.held): self.held}
        return self.streamed | held

    def parameter(self, name: str) -> str:
        """The program's tensor of an operand, called like the plain one where that is read once."""
        source = self.operands[name].source
        alone = sum(operand.source is source for operand in self.operands.values()) == 1
        return (source.name if alone else f"{source.name}_{name}") + self.suffix

    @property
    def tables(self) -> dict[str, tuple[str, Table]]:
        """The program's tensor of each table, and the table, by the table's name."""
        return {name: (table.source.name + self.suffix, table) for name, table in self.computation.tables.items()}

    def window(self, name: str) -> Role:
        """The stage of a streamed operand's window."""
        names = self.computation.streamed
        return WINDOW if len(names) == 1 else Role(f"{WINDOW}_{names.index(name)}")

    @cached_property
    def window_buffers(self) -> MappingOf[str, Buffer]:
        """The buffer of each streamed operand's window."""
        result = {}
        for step in self.computation.steps:
            for operand, read in step.reads.items():
                if isinstance(read, FromOperand) and read.name != self.computation.held:
                    result[read.name] = Buffer[step.intrinsic.scopes[operand].upper()]
        return result

    def require_whole_entries(self) -> None:
        """MapError where an operand of the input or the weight buffer is a vector that is less than
        an entry, or where padding would be written to the weight buffer.
        """
        for name, operand in self.streamed.items():
            buffer = self.window_buffers[name]
            entry = 8 * self.config.entry_bytes[buffer]
            bits = prod(operand.lanes) * ir.INTEGER_BITS[operand.source.dtype]
            if buffer is not Buffer.ACC and bits % entry:
                kind = "input" if buffer is Buffer.INP else "weight"
                raise MapError(f"vectors of {name} must fill entries of {entry} bits of the {kind} buffer, got {bits}")
            if buffer is Buffer.WGT and operand.chip_conditions():
                raise MapError(f"{name} must be in the input buffer to be padded there, got the weight buffer")

    # --- results

    @property
    def raw(self) -> bool:
        """Whether the result is the sums themselves."""
        return self.output.stage is self.computation.result

    @property
    def epilogue(self) -> Stage:
        """The stage of the result."""
        assert isinstance(self.output.stage, Stage)
        return self.output.stage

    @property
    def scale(self) -> te.Tensor:
        """The plain input of the epilogue."""
        table = None if self.result_table is None else self.result_table[1].source
        read = [tensor for tensor in self.epilogue.reads if tensor is not table]
        scales = [tensor for tensor in read if tensor.stage is not self.computation.result]
        if len(scales) != 1:
            got = ", ".join(tensor.name for tensor in scales) or "none"
            raise MapError(f"{self.output.name} must read the sums and one input, got {got}")
        return scales[0]

    @cached_property
    def stage(self) -> Intrinsic | None:
        """The intrinsic of the machine's stage, if results go through it on their way out."""
        tables = () if self.raw else tables_of(self.epilogue)
        if not tables:
            return stage_intrinsic(self.config) if is_of_stage(self.output, self.config) else None
        if self.config.stage is None:
            rule = f"{self.output.name} looks results up in {', '.join(tables)}, so the machine must have a stage"
            raise MapError(f"{rule} on the way out, got none")
        try:
            result = stage_intrinsic(self.config)
        except IntrinsicError as error:
            raise MapError(str(error)) from None
        if len(tables) != 1 or len(result.tables) != 1:
            got = f"{', '.join(tables)} for {', '.join(sorted(result.tables)) or 'none'}"
            raise MapError(f"{self.output.name} and stage {result.name} must have one table, got {got}")
        return result

    @cached_property
    def result_table(self) -> tuple[str, Table] | None:
        """The program's tensor of the table of the stage, and the table."""
        if self.stage is None or not self.stage.tables:
            return None
        (name,), (operand,) = tables_of(self.epilogue), self.stage.tables
        source = next(tensor for tensor in self.epilogue.reads if tensor.name == name)
        entry = self.stage.behaviour.buffers[operand]
        if source.stage is not None or source.dtype != entry.dtype or prod(source.shape) != prod(entry.dims):
            rule = f"{name} must be an input of {prod(entry.dims)} elements of {entry.dtype}"
            raise MapError(f"{rule}, got {source.dtype}{list(source.shape)}")
        return name + self.suffix, Table(source, entry.dims)

    # --- axes

    @property
    def axes(self) -> tuple[str, str, str | None]:
        """The intrinsic's axes: rows of results, lanes of results, and blocks of terms if there are
        some.
        """
        rows, lanes, *_ = self.mapping.groups
        return rows, lanes, self.mapping.chunks

    @property
    def term_names(self) -> dict[str, str]:
        """The name in the schedule of each axis of terms of an entry."""
        return {axis: f"i{number or ''}" for number, axis in enumerate(self.mapping.terms)}

    @cached_property
    def moving(self) -> dict[str, MovingValue]:
        """The immediates that follow loops."""
        return moving_values(self.mapping)

    def entry_extent(self, axis: str) -> int:
        """The extent of an axis of the intrinsic."""
        return axis_extents(self.mapping.intrinsic)[axis]

    @cached_property
    def loops(self) -> OuterLoops:
        """The axes around the intrinsic."""
        return OuterLoops(self.mapping)

    def name(self, axis: str) -> str:
        """The name of an axis, or of ROW_BLOCKS, in the packed expression: by its part in the
        schedule, or its own, apart from the names of parts.
        """
        if axis in self.loops.tiled:
            return _TILED[self.loops.tiled.index(axis)]
        if axis == ROW_BLOCKS:
            return _ROWS
        return _CHUNKS if axis == self.mapping.chunk else f"{axis.removeprefix('v')}_"

    @cached_property
    def separate(self) -> str | None:
        """The axis of sections that are one block of results and one of terms each: tiles have
        several of them, as if they were blocks of results.
        """
        _, lanes, terms = self.axes
        whole = terms is None or self.mapping.chunk or self.mapping.blocks(lanes) * self.mapping.blocks(terms) > 1
        several = [axis for axis in self.loops.sections if self.computation.extents[axis] > 1]
        return None if whole or not several else several[-1]

    @property
    def tile_axes(self) -> TileAxes:
        """The axes of the packed sums by their part in the schedule."""
        names = {axis: axis_name(self.name(axis)) for axis in self.loops.sections}
        groups = names.pop(self.separate) if self.separate else axis_name(_LANES)
        return TileAxes(sections=tuple(names.values()), groups=groups, batches=tuple(map(axis_name, self.batches)))

    @property
    def batches(self) -> dict[str, int]:
        """The names and extents of the packed loops of results that are not tiled, at least one."""
        axes = {axis: self.computation.extents[axis] for axis in self.loops.batches}
        rows = {} if self.loops.rows_are_tiled else {ROW_BLOCKS: self.mapping.blocks(self.axes[0])}
        return {self.name(axis): extent for axis, extent in (rows | axes).items()} or {_ROWS: 1}

    @property
    def tiled(self) -> dict[str, int]:
        """The names and extents of the packed rows and columns."""
        extents = {**self.computation.extents, ROW_BLOCKS: self.mapping.blocks(self.axes[0])}
        placed = zip(_TILED, self.loops.tiled, strict=True)
        return {name: 1 if axis is None else extents[axis] for name, axis in placed}
