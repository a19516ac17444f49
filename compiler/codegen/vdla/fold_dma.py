# SPDX-License-Identifier: Apache-2.0
"""Folding of DMA: a nest of copies becomes as few LOAD or STORE instructions as possible.

The innermost loops that are dense on the chip become the dimensions x, y and z; the others repeat
the instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.nest import Loop, TensorizedNest, simplify_loops
from vdla.hardware import isa

_Make = Callable[[dict[str, Any]], isa.Instruction]


@dataclass(frozen=True, slots=True)
class DmaFields:
    """The operands on the chip and in DRAM, and the size of a tensor's entry.

    `unit` is in buffer entries, `beats` in AXI beats.
    """

    chip: str
    dram: str
    unit: int
    beats: int


@dataclass(frozen=True, slots=True)
class _Extent:
    """One dimension of a transfer: padding, data, padding, and the stride in DRAM, in entries."""

    before: int = 0
    size: int = 1
    after: int = 0
    stride: int = 0

    @property
    def total(self) -> int:
        """Extent on the chip."""
        return self.before + self.size + self.after

    @property
    def padded(self) -> bool:
        """Whether there is padding."""
        return self.before > 0 or self.after > 0


def fold_dma(nest: TensorizedNest, dma: DmaFields, instruction: _Make) -> Iterator[MacroOp]:
    """The nest as LOAD or STORE instructions; `instruction` makes one from the folded fields."""
    nest = simplify_loops(nest)
    loops = sorted(nest.loops, key=lambda loop: nest.access[dma.chip].step(loop.var), reverse=True)
    dims, rest = _dimensions(nest, loops, dma)
    if not rest:
        yield _dma_op(nest, dma, dims, instruction)
        return
    for value in range(rest[0].extent):
        yield from fold_dma(nest.fix(rest[0], value), dma, instruction)


def _dimensions(nest: TensorizedNest, loops: list[Loop], dma: DmaFields) -> tuple[list[_Extent], list[Loop]]:
    """x, y and z from the innermost loops outwards, and the remaining loops."""
    dims = [_Extent(), _Extent(), _Extent()]
    dense, level = 1, 0
    for dimension, loop in enumerate(reversed(loops)):
        this = _extent(nest, loop, dma)
        if this is None or nest.access[dma.chip].step(loop.var) != dense:
            return dims, loops[: len(loops) - dimension]
        while level < len(dims) and not _fits(dims, level, this):
            level += 1
        if level == len(dims):
            return dims, loops[: len(loops) - dimension]
        dims[level] = _wider(dims[0], this) if level == 0 else this
        level += level > 0 or this.padded
        dense *= loop.extent
    return dims, []


def _extent(nest: TensorizedNest, loop: Loop, dma: DmaFields) -> _Extent | None:
    """The loop as a dimension, None if it is irregular or goes backwards in DRAM."""
    chip, dram = nest.access[dma.chip], nest.access[dma.dram]
    if chip.irregular(loop.var) or dram.irregular(loop.var) or dram.step(loop.var) < 0:
        return None
    low, end = nest.valid.get(loop.var, (0, loop.extent))
    return _Extent(low, end - low, loop.extent - end, dram.step(loop.var))


def _fits(dims: list[_Extent], level: int, this: _Extent) -> bool:
    """Whether the loop may become dimension `level`; x takes several contiguous loops."""
    if level == 0:
        return not dims[0].padded and this.stride == dims[0].size
    return level == 1 or not this.padded


def _wider(x: _Extent, outer: _Extent) -> _Extent:
    """x extended by a contiguous loop around it."""
    return _Extent(outer.before * x.size, outer.size * x.size, outer.after * x.size)


def _dma_op(nest: TensorizedNest, dma: DmaFields, dims: list[_Extent], instruction: _Make) -> MacroOp:
    x, y, z = dims
    if nest.all_padding:
        y = _Extent(y.total, 0, 0)
    chip, dram = nest.access[dma.chip], nest.access[dma.dram]
    empty = x.size == 0 or y.size == 0
    first = dram.base + sum(dram.step(loop.var) * nest.valid.get(loop.var, (0, 0))[0] for loop in nest.loops)
    fields = {
        "dram": 0 if empty else first * dma.beats,
        "x_size": x.size * dma.unit, "x_before": x.before * dma.unit, "x_after": x.after * dma.unit,
        "y_size": y.size, "y_before": y.before, "y_after": y.after, "y_stride": 0 if empty else y.stride * dma.beats,
        "z_size": z.size, "z_stride": 0 if empty else z.stride * dma.beats,
    }  # fmt: skip
    assert isinstance(chip.place, BufferTile) and isinstance(dram.place, str)
    bases = {"sram": (chip.place, chip.base * dma.unit)}
    return MacroOp(instruction(fields), bases, (), None if empty else dram.place, nest.source)
