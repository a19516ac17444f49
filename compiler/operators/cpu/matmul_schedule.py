"""The CPU schedule of a matrix product: a register tile of rows by vectors, over a panel of columns that is packed.

A panel is as many columns as a tile has, all of K deep; packed, it is read in the order of memory, from the
second-level cache. It pays where enough rows read it.
"""

from __future__ import annotations

from math import prod

from vdla.compiler.analysis.access import loads
from vdla.compiler.operators.cpu.nest import Nest, nest_named, size_of
from vdla.compiler.operators.cpu.producers_consumers import reader_of
from vdla.compiler.operators.cpu.stages import PARALLEL_POINTS
from vdla.compiler.operators.cpu.tile import Tile, lanes_along, register_tile
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target

ALIASING_BYTES = 4096  # rows at this distance share a set of the first-level cache ...
WAYS = 8  # ... which holds this many lines
PANEL_BYTES = 1 << 19  # half of a second-level cache
REUSES = 4  # tiles of rows from which on packing pays
DEEP = 4  # steps along K that are written out
PARALLEL_PANELS = 8  # panels from which on they are the parallel loop


def schedule_matmul(schedule: Schedule, block: str, target: Target) -> None:
    """Tile the stage that reads the sums, and compute them inside of its tiles."""
    nest = nest_named(schedule.fn, block)
    *batch, rows, columns, depth = (size_of(axis.extent) for axis in nest.leaf.block.axes)
    lanes = lanes_along(columns, target, nest.element_bytes)
    tile = tile_of(target, nest, (rows, columns, depth), lanes)
    panel = panel_of(nest) if rows >= REUSES * tile.rows and columns > tile.vectors * lanes else None
    reader = reader_of(schedule, block, (2 + len(batch),))
    place, panels = tiled_reader(schedule, reader, tile, lanes, len(batch))
    schedule.compute_at(block, place)
    tile_sums(schedule, block, place, lanes)
    if panel is not None:
        pack_panel(schedule, block, panel, panels, lanes)
    if rows * columns * depth >= PARALLEL_POINTS:
        across = -(-columns // (tile.vectors * lanes)) * prod(batch)
        schedule.parallel(panels if across >= PARALLEL_PANELS else place)


def tile_of(target: Target, nest: Nest, extents: tuple[int, int, int], lanes: int) -> Tile:
    """The register tile: not too many rows at a bad distance, no panel that is too large for its cache."""
    rows, columns, depth = extents
    row_bytes = depth * nest.element_bytes
    most_rows = WAYS if row_bytes % ALIASING_BYTES == 0 else rows
    most_vectors = max(1, PANEL_BYTES // (row_bytes * lanes))
    vectors = -(-columns // lanes)
    return register_tile(target, (1, rows, vectors), lambda t: t.rows <= most_rows and t.vectors <= most_vectors)


def tiled_reader(schedule: Schedule, reader: str, tile: Tile, lanes: int, batch: int) -> tuple[str, str]:
    """Cut the reader into tiles; the loop inside which a tile is, and the one inside which a panel is."""
    loops = schedule.loops(reader)
    outer, row, column = loops[:batch], loops[batch], loops[batch + 1]
    row_outer, row_inner = schedule.split(row, factor=tile.rows)
    panel, inner = schedule.split(column, factor=tile.vectors * lanes)
    vector, lane = schedule.split(inner, factor=lanes)
    schedule.reorder(*outer, panel, row_outer, row_inner, vector, lane)
    schedule.unroll(row_inner)
    schedule.unroll(vector)
    schedule.vectorize(lane)
    panels = schedule.fuse(*outer, panel) if outer else panel
    return row_outer, panels


def tile_sums(schedule: Schedule, block: str, place: str, lanes: int) -> None:
    """The loops of a tile: K outside, rows and vectors written out, lanes innermost."""
    loops = schedule.loops(block)
    *batch, row, column, k = loops[loops.index(place) + 1 :]
    vector, lane = schedule.split(column, factor=lanes)
    outer, inner = schedule.split(k, factor=DEEP)
    schedule.reorder(*batch, outer, inner, row, vector, lane)
    for loop in (inner, row, vector):
        schedule.unroll(loop)
    schedule.vectorize(lane)


def panel_of(nest: Nest) -> str | None:
    """The operand whose elements lie along the columns, one behind the other."""
    column = nest.leaf.loops[-2].var
    streams = [load.buffer for load in loads(nest.leaf.block) if nest.stride(load, column) == 1]
    own = {
        load.buffer for load in loads(nest.leaf.block) if nest.stride(load, nest.leaf.loops[-3].var) not in (0, None)
    }
    return next((name for name in streams if name not in own), None)


def pack_panel(schedule: Schedule, block: str, operand: str, panels: str, lanes: int) -> None:
    """Copy the columns of a panel next to each other before the rows read them."""
    copy = schedule.cache_read(block, operand, "heap")
    schedule.compute_at(copy, panels)
    _, lane = schedule.split(schedule.loops(copy)[-1], factor=lanes)
    schedule.vectorize(lane)
