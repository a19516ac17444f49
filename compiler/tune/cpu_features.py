# SPDX-License-Identifier: Apache-2.0
"""What a CPU kernel's schedule cuts up, and features and a draft of costs for many points at once.

A feature has the same meaning for all operators and shapes; numbers without a bound are logarithms
to base 2. Knobs that a form of a kernel has no decision for count with their first value, knobs of
other kernels as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.analysis import loads, written_buffers
from vdla.compiler.graph.rules.algorithm import IN_BLOCKS, IN_PLAIN
from vdla.compiler.ir import storage_dtype
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nests, nominal_extent
from vdla.compiler.operators.cpu.choices import INNER, MIDDLE, OUTER, PARALLEL, THREADS, TILE, ScheduleChoice
from vdla.compiler.operators.roles import OPERATOR, PLACED, REPACKED
from vdla.compiler.target import Target
from vdla.compiler.tune.space import Columns

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


Floats = NDArray[np.float64]

_FLAGS = ("prefetch", "packed_panels", "taps_outside", "unrolled_taps")
_SIZES = ("unrolled_steps", "transposed_columns", "band_rows", "channels_at_once", "tile_channels", THREADS, "lanes")
_LAYOUTS = (IN_PLAIN, IN_BLOCKS)
_ORDERS = ("channels", "rows", "pixels")
_PARALLEL = (OUTER, MIDDLE, INNER)
_IN_FLIGHT = 8
_VECTOR_LOAD, _BROADCAST = 0.5, 0.2
_REPACK = 40  # of an element: it is read, shuffled and written to memory that the call asks for

CPU_FEATURES = (
    *(f"is_{name}" for name in OPERATORS),
    "rows", "columns", "vectors",  # extents that are cut up
    "terms", "taps", "macs",
    "item_bytes", "operand_bytes", "result_bytes", "repacked_bytes",
    *TILE,
    "sums",  # of a tile: independent, and each in a register
    "registers",  # the share that sums, a vector for each and an element fill
    "tiles", "padding",  # how many, and computed elements over those of the result
    "stall", "load", "broadcast",  # cycles a multiply-add: too few sums; vectors, elements read
    "tile_operand_bytes",  # that a tile reads in lanes over all of its terms
    "tile_element_bytes",  # and as elements
    "operand_traffic", "element_traffic",  # bytes that all tiles read together
    "body",  # multiply-adds of a step of the innermost loop, all unrolled
    *_FLAGS, *_SIZES,
    *(f"{name}_inside" for name in _LAYOUTS),
    *(f"{name}_outside" for name in _ORDERS),
    *(f"{name}_parallel" for name in _PARALLEL),
)  # fmt: skip


def cpu_features(problem: CpuProblem, columns: Columns) -> NDArray[np.float32]:
    """[point, feature], in the order of CPU_FEATURES."""
    count = len(next(iter(columns.values())))
    known = {**_of_problem(problem), **_of_tiles(problem, columns), **_of_choices(columns)}
    result = np.zeros((count, len(CPU_FEATURES)), np.float32)
    for place, name in enumerate(CPU_FEATURES):
        result[:, place] = known[name]
    return result


def draft_costs(problem: CpuProblem, columns: Columns) -> Floats:
    """Vector multiply-adds with stalls and loads, roughly; only their order matters."""
    tiles = _Tiles(problem, columns)
    crowded = np.maximum(tiles.registers - 1, 0)
    cycles = tiles.stall + tiles.load + tiles.broadcast + crowded
    repacks = _REPACK * problem.repacked_bytes / problem.item_bytes
    return np.asarray((problem.macs * tiles.padding * cycles + repacks) / _at_work(problem, columns), np.float64)


def _at_work(problem: CpuProblem, columns: Columns) -> Floats:
    """How many threads share the work; none stands for all."""
    asked = columns.get(THREADS, np.zeros(len(next(iter(columns.values()))))).astype(np.float64)
    return np.minimum(np.where(asked > 0, asked, problem.threads), problem.threads)


class _Tiles:
    """Register tiles of points, as columns."""

    def __init__(self, problem: CpuProblem, columns: Columns) -> None:
        one = np.ones(len(next(iter(columns.values()))))
        self.sizes = [np.maximum(columns.get(name, one).astype(np.float64), 1) for name in TILE]
        depth, across, vectors = self.sizes
        self.pixels, self.vectors = depth * across, vectors
        self.sums = self.pixels * vectors
        self.registers = (self.sums + vectors + 1) / problem.registers
        parts = [np.ceil(extent / size) for extent, size in zip(problem.extents, self.sizes, strict=True)]
        self.tiles = np.prod(parts, axis=0)
        self.padding = self.tiles * self.sums / float(np.prod(problem.extents))
        self.stall = np.maximum(1, _IN_FLIGHT / self.sums)
        self.load, self.broadcast = _VECTOR_LOAD / self.pixels, _BROADCAST / vectors


def _of_problem(problem: CpuProblem) -> dict[str, float]:
    rows, columns, vectors = problem.extents
    sizes = {"rows": rows, "columns": columns, "vectors": vectors, "terms": problem.terms, "taps": problem.taps}
    sizes |= {"macs": problem.macs, "item_bytes": problem.item_bytes}
    sizes |= {"operand_bytes": problem.operand_bytes, "result_bytes": problem.result_bytes}
    sizes |= {"repacked_bytes": problem.repacked_bytes}
    flags = {f"is_{name}": float(problem.operator == name) for name in OPERATORS}
    return {**flags, **{name: float(np.log2(1 + size)) for name, size in sizes.items()}}


def _of_tiles(problem: CpuProblem, columns: Columns) -> dict[str, Floats]:
    tiles = _Tiles(problem, columns)
    lanes = max(1.0, problem.macs / (float(np.prod(problem.extents)) * problem.terms))
    operand = tiles.vectors * lanes * problem.terms * problem.item_bytes
    element = tiles.pixels * problem.terms * problem.item_bytes
    logs = {
        **dict(zip(TILE, tiles.sizes, strict=True)),
        "sums": tiles.sums, "tiles": tiles.tiles,
        "tile_operand_bytes": operand, "tile_element_bytes": element,
        "operand_traffic": operand * tiles.tiles, "element_traffic": element * tiles.tiles,
        "body": tiles.sums * _steps(problem, columns),
    }  # fmt: skip
    plain = {name: getattr(tiles, name) for name in ("registers", "padding", "stall", "load", "broadcast")}
    return {**{name: np.log2(1 + value) for name, value in logs.items()}, **plain}


def _steps(problem: CpuProblem, columns: Columns) -> Floats:
    """The steps of the reduction that are unrolled."""
    none = np.zeros(len(next(iter(columns.values()))))
    unrolled = np.maximum(columns.get("unrolled_steps", none).astype(np.float64), 1)
    return np.where(columns.get("unrolled_taps", none).astype(bool), unrolled * problem.taps, unrolled)


def _is(columns: Columns, knob: str, value: str) -> Floats | float:
    return (columns[knob] == value).astype(np.float64) if knob in columns else 0.0


def _of_choices(columns: Columns) -> dict[str, Floats | float]:
    result: dict[str, Floats | float] = {}
    for name in _FLAGS:
        result[name] = columns[name].astype(np.float64) if name in columns else 0.0
    for name in _SIZES:
        result[name] = np.log2(1 + columns[name].astype(np.float64)) if name in columns else 0.0
    for name in _ORDERS:
        result[f"{name}_outside"] = _is(columns, "order", name)
    for name in _LAYOUTS:
        result[f"{name}_inside"] = _is(columns, "layout", name)
    for name in _PARALLEL:
        result[f"{name}_parallel"] = _is(columns, PARALLEL, name)
    return result
