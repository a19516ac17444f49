# SPDX-License-Identifier: Apache-2.0
"""Random LOADs and STOREs: every shape, padding, stride and place that the instruction set allows.

Sizes are drawn first, then strides, then places in DRAM and on chip that hold them. Padding-only
loads carry no address. Stored data is loaded back where it fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Load, Store
from vdla.hardware.timing import page_beats
from vdla.verification.programs.random_state import Drawn, RandomState, intervals

STRIDE_HIGH = (1 << 24) - 1
PAD_HIGH = 255
MOST_BEATS = 4096
SHORT = 96
SOURCES = {Buffer.INP: "data", Buffer.WGT: "weight", Buffer.SCL: "scale", Buffer.UOP: "uops", Buffer.ACC: "bias"}
PADDED = (Buffer.INP, Buffer.ACC)


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of the data, and the padding of y and x as (before, after)."""

    z: int
    y: int
    x: int
    y_pad: tuple[int, int] = (0, 0)
    x_pad: tuple[int, int] = (0, 0)

    @property
    def entries(self) -> int:
        """Entries on chip, padding included."""
        return self.z * (self.y + sum(self.y_pad)) * (self.x + sum(self.x_pad))

    @property
    def has_data(self) -> bool:
        """Whether any data is read from DRAM."""
        return self.y > 0 and self.x > 0


def random_load(state: RandomState, buffer: Buffer, most: int = SHORT) -> Drawn | None:
    """A LOAD of up to `most` beats into `buffer`; None if the draw does not fit."""
    widen = int(buffer == Buffer.ACC and state.chance(0.4))
    entry = (Buffer.OUT if widen else buffer, state.config.entry_bytes[Buffer.OUT if widen else buffer])
    beats = entry[1] // state.config.axi_bytes
    depth = state.config.depths[buffer]
    shape = _shape(state, buffer, depth, beats, most)
    if shape.entries > depth or shape.entries < 1:
        return None
    where, tensor = {}, None
    if shape.has_data:
        tensor = _source(state, buffer)
        if tensor in state.stored and state.chance(0.5):
            shape = replace(shape, y=1, x=1)  # only few beats were stored
        placed = _in_dram(state, shape, beats, tensor, reads=True)
        if placed is None:
            return None
        where = placed
    sram = state.below(depth - shape.entries + 1)
    pads = _paddings(state, buffer, shape)
    sizes = {"z_size": shape.z, "y_size": shape.y, "x_size": shape.x}
    return Drawn(Load(buffer, sram, **sizes, widen=widen, **where, **pads), tensor)


def random_store(state: RandomState, most: int = SHORT) -> Drawn | None:
    """A STORE of up to `most` beats of written results to any place of a writable tensor."""
    run = state.interval(state.written[Buffer.OUT])
    if run is None:
        return None
    beats = state.config.out_entry_bytes // state.config.axi_bytes
    entries = min(run[1] - run[0], max(1, min(most, MOST_BEATS) // beats))
    shape = _line(state, entries) if most > SHORT or state.chance(0.2) else _sizes(state, entries)
    tensor = ("out", "tmp")[state.one((0, 1))]
    where = _in_dram(state, shape, beats, tensor, reads=False)
    if where is None or shape.entries > entries:
        return None
    sram = run[0] + state.below(run[1] - run[0] - shape.entries + 1)
    return Drawn(Store(sram, z_size=shape.z, y_size=shape.y, x_size=shape.x, **where), tensor)


def window_loads(config: Config, rng: np.random.Generator, buffer: Buffer, most: int) -> list[Drawn]:
    """LOADs of up to `most` entries at the ends and (accumulator) the middle of a buffer."""
    depth, size = config.depths[buffer], min(most, config.depths[buffer])
    starts = {0, depth - size}
    if buffer == Buffer.ACC:
        starts.add(max(0, depth // 2 - size // 2))
    return [
        Drawn(Load(buffer, start, x_size=size), SOURCES[buffer]) for start in rng.permutation(sorted(starts)).tolist()
    ]


# --- shapes ---------------------------------------------------------------------------------------


def _shape(state: RandomState, buffer: Buffer, depth: int, beats: int, room: int) -> Shape:
    most = min(depth, max(1, min(room, MOST_BEATS) // beats))
    if room > SHORT:
        return _line(state, most)
    if buffer not in PADDED or state.chance(0.4):
        return _sizes(state, most)
    return _padded(state, depth, most)


def _line(state: RandomState, size: int) -> Shape:
    """A shape that extends in one dimension only."""
    return Shape(1, 1, size) if state.chance(0.5) else Shape(*state.rng.permutation([1, size, 1]).tolist())


def _sizes(state: RandomState, most: int) -> Shape:
    """Data without padding: mostly rows of a few entries, sometimes one row or one entry."""
    if state.chance(0.1):
        return Shape(1, 1, 1)
    z, y = (state.one((1, 1, 2, 3)) for _ in range(2))
    z = min(z, most)
    y = min(y, most // z)
    room = most // (z * y)
    return Shape(z, y, state.one((1, min(2, room), room, int(state.rng.integers(1, room + 1)))))


def _padded(state: RandomState, depth: int, most: int) -> Shape:
    data = _sizes(state, max(1, most // 3))
    y_pad, x_pad = ((state.one((0, 1, 2)), state.one((0, 1, 3))) for _ in range(2))
    kind = state.one((0, 1, 2, 2, 3, 4, 4))
    z = data.z if data.z * 16 <= depth else 1
    if kind == 0:
        return Shape(z, data.y, data.x, x_pad=x_pad)
    if kind == 1:
        return Shape(z, data.y, data.x, y_pad=y_pad)
    if kind == 2:  # padding only: no rows, no columns, or neither
        y, x = [(0, data.x), (data.y, 0), (0, 0)][int(state.rng.integers(3))]
        return Shape(z, y, x, (y_pad[0] + (y == 0), y_pad[1]), (x_pad[0], x_pad[1] + (x == 0)))
    if kind == 3:  # the largest padding that a field can hold
        wide = [(PAD_HIGH, 0), (0, PAD_HIGH)][state.one((0, 1))]
        shapes = (Shape(1, 1, 1, x_pad=wide), Shape(1, 1, 1, y_pad=wide), Shape(1, 1, 0, x_pad=wide))
        fitting = [shape for shape in shapes if shape.entries <= depth]
        return fitting[int(state.rng.integers(len(fitting)))] if fitting else data
    return Shape(z, data.y, data.x, y_pad, x_pad)


def _paddings(state: RandomState, buffer: Buffer, shape: Shape) -> dict[str, int]:
    pads = dict(zip(("y_before", "y_after", "x_before", "x_after"), (*shape.y_pad, *shape.x_pad), strict=True))
    if not any(pads.values()):
        return {}
    half = 1 << ((state.config.inp_bits if buffer == Buffer.INP else 32) - 1)
    values = (-half, half - 1, 0, -1, 1, int(state.rng.integers(-half, half)))
    return {**pads, "pad_value": state.one(values)}


# --- DRAM -----------------------------------------------------------------------------------------


def _source(state: RandomState, buffer: Buffer) -> str:
    loadable = [name for name, mask in state.stored.items() if buffer != Buffer.UOP and mask.any()]
    if loadable and state.chance(0.4):
        return loadable[int(state.rng.integers(len(loadable)))]
    return SOURCES[buffer]


def _in_dram(state: RandomState, shape: Shape, beats: int, tensor: str, reads: bool) -> dict[str, int] | None:
    """`dram` and strides inside the tensor; for a read, inside the beats that were stored."""
    run = (0, state.sizes[tensor])
    if reads and tensor in state.stored:
        interval = state.interval(state.stored[tensor])
        if interval is None:
            return None
        run = interval
    row = shape.x * beats
    unit = beats if tensor == "uops" else 1
    room = run[1] - run[0]
    y_stride = _stride(state, shape.y, row, room, unit)
    plane = (shape.y - 1) * y_stride + row
    z_stride = _stride(state, shape.z, shape.y * row if y_stride == row else plane, room - plane, unit)
    span = plane + (shape.z - 1) * z_stride
    if span > room:
        return None
    start = run[0] + _start(state, room - span, unit)
    if not reads and state.chance(0.4):  # continue where an earlier store ended, so that long runs can be loaded
        ends = [end for _, end in intervals(state.stored[tensor]) if end + span <= room]
        start = state.one(ends) if ends else start
    return {"dram": start, "y_stride": y_stride, "z_stride": z_stride}


def _stride(state: RandomState, count: int, dense: int, room: int, unit: int) -> int:
    """The stride of rows or planes: any for a single one, else dense, apart or overlapping."""
    if count == 1:
        return state.one((0, dense, 1, STRIDE_HIGH)) // unit * unit
    most = max(0, room // count)
    choices = (dense, dense, dense + unit, dense + 3 * unit, 0, unit, most // unit * unit)
    return min(state.one(choices), STRIDE_HIGH)


def _start(state: RandomState, room: int, unit: int) -> int:
    page = page_beats(state.config)
    near = page - 1 - int(state.rng.integers(min(page, 8)))  # a run from here crosses a 4 KiB boundary
    choices = [0, 1, room, room, near, page, int(state.rng.integers(room + 1))]
    return state.one([start for start in choices if start <= room]) // unit * unit
