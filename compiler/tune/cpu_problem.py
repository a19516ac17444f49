"""What a CPU kernel's schedule cuts up: the extents and sizes of the sums of its operator.

Image rows, columns and vectors of channels; of a matrix product, rows and vectors of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir
from vdla.compiler.analysis import loads, written_buffers
from vdla.compiler.ir import storage_dtype
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nests, nominal_extent
from vdla.compiler.operators.cpu.choices import THREADS, TILE, ScheduleChoice
from vdla.compiler.operators.roles import OPERATOR, PLACED, REPACKED
from vdla.compiler.target import Target

OPERATORS = ("conv2d", "winograd_conv2d", "matmul", "qdense", "blocked_window", "depthwise_conv2d", "blocked_qconv2d")
"""The operators that features tell apart; all others look alike."""


@dataclass(frozen=True, slots=True)
class CpuProblem:
    """The sums of a kernel: `extents` are rows, columns and vectors, `terms` are those of one sum.

    `taps` are the terms of one channel, `operand_bytes` the bytes of the larger operand, `threads`
    are those that the schedule may use, `repacked_bytes` those of images that only change their
    layout. Sizes are 1 or 0 for a kernel without an operator.
    """

    extents: tuple[int, int, int]
    registers: int
    operator: str = ""
    terms: int = 1
    taps: int = 1
    macs: int = 1
    item_bytes: int = 1
    operand_bytes: int = 0
    result_bytes: int = 0
    threads: int = 1
    repacked_bytes: int = 0


def cpu_problem(function: ir.Function, choices: Sequence[ScheduleChoice], target: Target) -> CpuProblem:
    """The problem of the first operator of a function; `choices` are those of its schedule."""
    extents = next((choice.extents for choice in choices if choice.names == TILE), (1, 1, 1))
    nest = next(filter(_has_operator, block_nests(function)), None)
    if nest is None:
        return CpuProblem(extents=extents, registers=target.vector_registers)
    axes = nest.leaf.block.axes
    reduced = [nominal_extent(axis.extent) for axis in axes if axis.kind is ir.AxisKind.REDUCE]
    operands = {load.buffer for load in loads(nest.leaf.block)} - {nest.leaf.name}
    return CpuProblem(
        operator=str(nest.leaf.block.annotations[OPERATOR]),
        extents=extents,
        terms=prod(reduced),
        taps=prod(reduced[1:]),
        macs=prod(nominal_extent(axis.extent) for axis in axes),
        item_bytes=max(_item_bytes(function, name) for name in operands),
        operand_bytes=max(_bytes(function, name) for name in operands),
        result_bytes=_bytes(function, nest.leaf.name),
        registers=target.vector_registers,
        threads=_threads(choices),
        repacked_bytes=sum(_bytes(function, name) for name in _repacked(function)),
    )


def _threads(choices: Sequence[ScheduleChoice]) -> int:
    """The most threads that a choice allows."""
    counts = (
        values[choice.names.index(THREADS)] for choice in choices if THREADS in choice.names for values in choice.legal
    )
    return max(map(int, counts), default=1)


def _repacked(function: ir.Function) -> list[str]:
    """The buffers that stages write which only change a layout."""
    stages = (nest.leaf.block for nest in block_nests(function))
    return [name for stage in stages if stage.annotations.get(OPERATOR) == REPACKED[OPERATOR]
            for name in written_buffers(stage)]  # fmt: skip


def _has_operator(nest: BlockNest) -> bool:
    return nest.leaf.block.annotations.get(OPERATOR) not in (None, PLACED[OPERATOR], REPACKED[OPERATOR])


def _item_bytes(function: ir.Function, name: str) -> int:
    return storage_dtype(function.buffers[name].dtype).itemsize


def _bytes(function: ir.Function, name: str) -> int:
    return _item_bytes(function, name) * prod(nominal_extent(extent) for extent in function.buffers[name].shape)
