"""Features of the points of a CPU kernel, and a draft of their costs, for many points at once.

A feature has the same meaning for all operators and shapes; numbers without a bound are logarithms
to base 2. Knobs that a form of a kernel has no decision for count with their first value, knobs of
other kernels as 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.rules.algorithm import IN_BLOCKS, IN_PLAIN
from vdla.compiler.operators.cpu.choices import PARALLEL, THREADS, TILE
from vdla.compiler.operators.cpu.threads import INNER, MIDDLE, OUTER
from vdla.compiler.tune.cpu_problem import OPERATORS, CpuProblem
from vdla.compiler.tune.space import Columns

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
    found = np.zeros((count, len(CPU_FEATURES)), np.float32)
    for place, name in enumerate(CPU_FEATURES):
        found[:, place] = known[name]
    return found


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
    found: dict[str, Floats | float] = {}
    for name in _FLAGS:
        found[name] = columns[name].astype(np.float64) if name in columns else 0.0
    for name in _SIZES:
        found[name] = np.log2(1 + columns[name].astype(np.float64)) if name in columns else 0.0
    for name in _ORDERS:
        found[f"{name}_outside"] = _is(columns, "order", name)
    for name in _LAYOUTS:
        found[f"{name}_inside"] = _is(columns, "layout", name)
    for name in _PARALLEL:
        found[f"{name}_parallel"] = _is(columns, PARALLEL, name)
    return found
