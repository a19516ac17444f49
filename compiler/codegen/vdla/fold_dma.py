"""Folding DMA: a nest of entry copies becomes as few LOAD or STORE instructions as their strides and padding allow.

The innermost loops that are dense on the chip become x, y and z; what is left is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vdla.compiler.codegen.vdla.macro_op import MacroOp, Tile
from vdla.compiler.codegen.vdla.nest import Loop, Nest, simplified
from vdla.hardware import isa

Make = Callable[[dict[str, Any]], isa.Instruction]


@dataclass(frozen=True, slots=True)
class Dma:
    """The operands at both ends of a transfer, and the buffer entries and AXI beats of one entry of the tensor."""

    chip: str
    dram: str
    unit: int
    beats: int


@dataclass(frozen=True, slots=True)
class Extent:
    """One dimension of a transfer: padding before, data, padding after; `stride` of the data in DRAM, in entries."""

    before: int = 0
    size: int = 1
    after: int = 0
    stride: int = 0

    @property
    def total(self) -> int:
        """Steps on the chip."""
        return self.before + self.size + self.after

    @property
    def padded(self) -> bool:
        """Whether not all of it is data."""
        return self.before > 0 or self.after > 0


def fold_dma(nest: Nest, dma: Dma, instruction: Make) -> Iterator[MacroOp]:
    """LOAD or STORE instructions for the nest; `instruction` makes one from the folded fields."""
    nest = simplified(nest)
    loops = sorted(nest.loops, key=lambda loop: nest.access[dma.chip].step(loop.var), reverse=True)
    dims, rest = _dimensions(nest, loops, dma)
    if not rest:
        yield _dma_op(nest, dma, dims, instruction)
        return
    for value in range(rest[0].extent):
        yield from fold_dma(nest.fixed(rest[0], value), dma, instruction)


def _dimensions(nest: Nest, loops: list[Loop], dma: Dma) -> tuple[list[Extent], list[Loop]]:
    """x, y and z from the innermost loops outwards, and the loops that do not fit in."""
    dims = [Extent(), Extent(), Extent()]
    dense, level = 1, 0
    for taken, loop in enumerate(reversed(loops)):
        this = _extent(nest, loop, dma)
        if this is None or nest.access[dma.chip].step(loop.var) != dense:
            return dims, loops[: len(loops) - taken]
        while level < len(dims) and not _fits(dims, level, this):
            level += 1
        if level == len(dims):
            return dims, loops[: len(loops) - taken]
        dims[level] = _wider(dims[0], this) if level == 0 else this
        level += level > 0 or this.padded
        dense *= loop.extent
    return dims, []


def _extent(nest: Nest, loop: Loop, dma: Dma) -> Extent | None:
    """A loop as a dimension; None if it steps unevenly or backwards."""
    chip, dram = nest.access[dma.chip], nest.access[dma.dram]
    if chip.irregular(loop.var) or dram.irregular(loop.var) or dram.step(loop.var) < 0:
        return None
    low, end = nest.valid.get(loop.var, (0, loop.extent))
    return Extent(low, end - low, loop.extent - end, dram.step(loop.var))


def _fits(dims: list[Extent], level: int, this: Extent) -> bool:
    """Whether a loop may become dimension `level`; x takes several loops as long as they are contiguous."""
    if level == 0:
        return not dims[0].padded and this.stride == dims[0].size
    return level == 1 or not this.padded


def _wider(x: Extent, outer: Extent) -> Extent:
    """x repeated without a gap by the loop around it."""
    return Extent(outer.before * x.size, outer.size * x.size, outer.after * x.size)


def _dma_op(nest: Nest, dma: Dma, dims: list[Extent], instruction: Make) -> MacroOp:
    x, y, z = dims
    if nest.nowhere:
        y = Extent(y.total, 0, 0)
    chip, dram = nest.access[dma.chip], nest.access[dma.dram]
    empty = x.size == 0 or y.size == 0
    first = dram.base + sum(dram.step(loop.var) * nest.valid.get(loop.var, (0, 0))[0] for loop in nest.loops)
    fields = {
        "dram": 0 if empty else first * dma.beats,
        "x_size": x.size * dma.unit, "x_before": x.before * dma.unit, "x_after": x.after * dma.unit,
        "y_size": y.size, "y_before": y.before, "y_after": y.after, "y_stride": 0 if empty else y.stride * dma.beats,
        "z_size": z.size, "z_stride": 0 if empty else z.stride * dma.beats,
    }  # fmt: skip
    assert isinstance(chip.place, Tile) and isinstance(dram.place, str)
    bases = {"sram": (chip.place, chip.base * dma.unit)}
    return MacroOp(instruction(fields), bases, (), None if empty else dram.place, nest.source)
