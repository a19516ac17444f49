"""Checks of addressed macro-ops: every access must lie inside the operation's tiles and tensor.

The footprints come from the instruction set and are exact to the entry and the beat. One operation
at a time, to say what is wrong; `form_touches` finds out for all of a form whether something is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vdla.compiler.codegen.vdla.dependences import Touch
from vdla.compiler.codegen.vdla.macro_op import BufferTile, BuildError, MacroOp, op_name
from vdla.compiler.codegen.vdla.uops import KernelOffsets
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import BufferAccess, Load, Row, Store, Where, footprint
from vdla.hardware.program import ProgramTensor


class MacroOpChecker:
    """Checks the operations of a program, with tiles at `addresses`, and collects touches."""

    def __init__(
        self,
        config: Config,
        ops: Sequence[MacroOp],
        addresses: Mapping[BufferTile, int],
        tensors: Sequence[ProgramTensor],
    ) -> None:
        self.config = config
        self.addresses = addresses
        self.beats = {tensor.name: tensor.nbytes // config.axi_bytes for tensor in tensors}
        self.shared = shared_tensors(ops)
        self.footprints = footprint.Footprints(config)
        self.kernels = KernelOffsets(config)

    def touches(self, index: int, op: MacroOp, row: Row, lines: Sequence[str] = ()) -> tuple[Touch, ...]:
        """The touches of operation `index`; `row` has the columns of its instruction.

        Raises:
            BuildError: an access outside of a tile or of the tensor.
        """
        where = op_name(index, op, lines)
        kernel = self.kernels.of(op.uops)
        for excess in self.footprints.excess(row, kernel):
            raise BuildError(f"{where}: {excess}")
        on_chip = [a for a in self.footprints.accesses(row, kernel) if a.buffer != Buffer.UOP]
        for access in on_chip:
            self._check_inside(where, op, access)
        held = (Touch(a.state, a.where, a.writes) for a in self.footprints.state_accesses(row, kernel))
        return (*(Touch(a.buffer, a.where, a.writes) for a in on_chip), *held, *self._in_dram(where, op, row))

    def _check_inside(self, where: str, op: MacroOp, access: BufferAccess) -> None:
        tile = op.bases[access.field][0] if access.field in op.bases else None
        if tile is None or tile.buffer != access.buffer:
            wanted, got = Buffer(access.buffer or 0).name, tile and tile.buffer.name
            raise BuildError(f"{where}: {access.field} must name a tile of {wanted}, got {got}")
        low = self.addresses[tile]
        first, end = bounds(access.where, low)
        if first < low or end > low + tile.entries:
            rule = f"{access.field} in tile {tile} must touch 0 to {tile.entries - 1}"
            raise BuildError(f"{where}: {rule}, got {first - low} to {end - 1 - low}")

    def _in_dram(self, where: str, op: MacroOp, row: Row) -> Iterator[Touch]:
        if op.tensor is None:
            return
        excess = self.footprints.dram_excess(row, self.beats[op.tensor], op.tensor)
        if excess is not None:
            raise BuildError(f"{where}: {excess}")
        if op.tensor in self.shared:
            yield Touch(("dram", op.tensor), self.footprints.beats(row), isinstance(op.instruction, Store))


def shared_tensors(ops: Sequence[MacroOp]) -> set[str]:
    """The tensors that are both loaded and stored; only they cause dependences through DRAM."""
    loaded = {op.tensor for op in ops if isinstance(op.instruction, Load)}
    stored = {op.tensor for op in ops if isinstance(op.instruction, Store)}
    return {name for name in loaded & stored if name is not None}


def bounds(where: Where, default: int) -> tuple[int, int]:
    """The first of the sorted entries and one past the last; `default` twice if there are none."""
    if isinstance(where, slice):
        return (int(where.start), int(where.stop)) if where.start < where.stop else (default, default)
    return (int(where[0]), int(where[-1]) + 1) if len(where) else (default, default)
