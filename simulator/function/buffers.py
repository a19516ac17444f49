# SPDX-License-Identifier: Apache-2.0
"""The on-chip buffers and the DMA between them and DRAM.

`inp` and `wgt` hold one element per byte whatever its width, `uop` decoded micro-ops, `out` packed
bytes in DRAM's format. Every access is checked first and raises Escape beyond a buffer or DRAM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, PlugInState, Port, StatePort, isa_of, uop_columns
from vdla.hardware.numerics import unpack_elements
from vdla.simulator.support.errors import SimulationError, require_below
from vdla.support.arrays import Array, Bytes
from vdla.support.plain import PLAIN

if not PLAIN:
    from vdla.simulator.function import kernels_tiled
    from vdla.simulator.function.dot_unit import FLIP, GROUP, VNNI, interleave

Row = list[int]  # the columns of an instruction as plain integers


class Buffers:
    """Zeroed buffers of one machine, and its DRAM; `tiled` adds the operands of `kernels_tiled`."""

    def __init__(self, config: Config, dram: Bytes, tiled: bool) -> None:
        if dram.dtype != np.uint8 or dram.ndim != 1 or not dram.flags.c_contiguous:
            raise SimulationError(f"dram: image must be a contiguous uint8 vector, got {dram.dtype}{list(dram.shape)}")
        self.config = config
        self.dram = dram
        self.tiled = tiled
        batch, block_in, block_out = config.batch, config.block_in, config.block_out
        self.inp = np.zeros((config.inp_depth, batch, block_in), np.int8)
        self.wgt = np.zeros((config.wgt_depth, block_out, block_in), np.int8)
        self.scl = np.zeros((config.scl_depth, block_out), np.int64)
        self.uop = np.zeros((config.uop_depth, 5), np.int64)
        self.acc = np.zeros((config.acc_depth, batch * block_out), np.int32)
        self.out = np.zeros((config.out_depth, config.out_entry_bytes), np.uint8)
        self.raw = self.out.reshape(-1).view(np.int32).reshape(config.out_slots, batch * block_out)
        self.states = {state: np.zeros((state.rows, state.elements), _state_dtype(state)) for state in _states(config)}
        self.inp_entries = self.inp.reshape(config.inp_depth, batch * block_in)
        self.inp_vectors = self.inp.reshape(config.inp_vectors, batch * block_out)
        self.wgt_vectors = self.wgt.reshape(config.wgt_vectors, block_out)
        self._targets: tuple[Array, ...] = (
            self.inp,
            self.wgt,
            self.scl,
            self.uop,
            self.acc,
        )  # in the order of Buffer
        nothing: Array = np.zeros(0, np.int32)
        self.offsets = self.wide_inp = self.tiles = nothing
        if tiled:
            self._fill_tiles()

    def _fill_tiles(self) -> None:
        config = self.config
        self.offsets = np.zeros(config.inp_depth * config.batch if VNNI else 0, np.int32)
        self.wide_inp = np.zeros(0 if VNNI else self.inp.shape, np.int16)
        tile = config.block_out * config.block_in // GROUP
        self.tiles = np.full((config.wgt_depth, tile), FLIP, np.uint32).view(np.int32)
        words = (self.inp if VNNI else self.wide_inp).reshape(-1).view(np.int32)
        starts = np.zeros(config.uop_depth + 1 + len(isa_of(config).columns), np.int64)
        self.flat = (words, self.offsets, self.tiles.reshape(-1), self.acc.reshape(-1), starts)

    # --- contents

    def contents(self) -> dict[Buffer, Array]:
        """Copies of the entries of every buffer, `[depth, elements]`."""
        return {buffer: array.reshape(len(array), -1).copy() for buffer, array in self._arrays().items()}

    def fill(self, contents: Mapping[Buffer, Array]) -> None:
        """Replace the entries of every buffer by those that `contents` returned."""
        for buffer, array in self._arrays().items():
            array[...] = contents[buffer].reshape(array.shape)
            if self.tiled:
                self._retile(buffer, 0, len(array), array)

    def _arrays(self) -> dict[Buffer, Array]:
        return dict(zip(Buffer, (*self._targets, self.out), strict=True))

    def port(self, port: Port | None) -> Array:
        """What an operand of a plug-in indexes, `[index, element]`; empty without a port."""
        match port:
            case None:
                return np.zeros((1, 0), np.int8)
            case Port(buffer=Buffer.ACC):
                return self.acc
            case Port(buffer=Buffer.INP, vector=True):
                return self.inp_vectors
            case Port(vector=True):
                return self.wgt_vectors
            case Port(buffer=buffer, entries=entries):
                array = self.inp if buffer is Buffer.INP else self.wgt
                return array.reshape(len(array) // entries, -1)

    def state(self, port: StatePort) -> Array:
        """The rows of a private state, `[row, element]`; flat where a step reads all."""
        rows = self.states[port.state]
        return rows.reshape(-1) if port.whole else rows

    # --- LOAD

    def load(self, row: Row) -> None:
        """Execute a LOAD."""
        buffer, sram, z, y, x, y_before, y_after, x_before, x_after = _load_fields(row)
        rows, columns = y_before + y + y_after, x_before + x + x_after
        count = z * rows * columns
        target = self._targets[buffer]
        require_below(_LAST_ENTRY[buffer], sram + count - 1, len(target))
        area = target[sram : sram + count]
        if rows * columns == y * x:
            area[...] = self._elements(row, buffer).reshape(area.shape)
        else:
            grid = area.reshape(z, rows, columns, -1)
            grid[...] = np.array(row[COL["pad_value"]]).astype(target.dtype)
            if y * x > 0:
                inner = grid[:, y_before : y_before + y, x_before : x_before + x]
                inner[...] = self._elements(row, buffer).reshape(inner.shape)
        if self.tiled:
            self._retile(buffer, sram, count, area)

    def _elements(self, row: Row, buffer: int) -> Array:
        """The data of a LOAD as buffer elements, contiguous in the order z, y, x."""
        config, widen = self.config, row[COL["widen"]]
        data = self._window(row, config.out_entry_bytes if widen else config.entry_bytes[buffer])
        if buffer == _WGT:
            return _signed(data, config.wgt_bits)
        if buffer == _INP or widen:
            return _signed(data, config.inp_bits)
        dense = np.ascontiguousarray(data).reshape(-1)
        if buffer == _UOP:
            return uop_columns(config, dense.reshape(-1, config.uop_entry_bytes))
        return dense.view(np.int64 if buffer == _SCL else np.int32)

    def _retile(self, buffer: int, sram: int, count: int, area: Array) -> None:
        if buffer == _WGT:
            self.tiles[sram : sram + count] = interleave(area).reshape(count, -1)
        elif buffer == _INP and VNNI:
            batch = self.config.batch
            sums = self.offsets[sram * batch : (sram + count) * batch]
            kernels_tiled.sum_entries(area.reshape(count * batch, -1), sums)
        elif buffer == _INP:
            self.wide_inp[sram : sram + count] = area.reshape(count, *self.inp.shape[1:])

    def loaded(self, row: Row) -> list[Array]:
        """Views of what a LOAD writes, as those of `views`."""
        buffer, sram, z, y, x, y_before, y_after, x_before, x_after = _load_fields(row)
        return self.views(buffer, sram, z * (y_before + y + y_after) * (x_before + x + x_after))

    def views(self, buffer: int, first: int, count: int) -> list[Array]:
        """Views of entries of a buffer that is loaded, and of what is derived from them."""
        views, last = [self._targets[buffer][first : first + count]], first + count
        if self.tiled and buffer == _WGT:
            views.append(self.tiles[first:last])
        elif self.tiled and buffer == _INP:
            batch = self.config.batch
            views.append(self.offsets[first * batch : last * batch] if VNNI else self.wide_inp[first:last])
        return views

    def inputs_changed(self, first: int, last: int) -> None:
        """Note that steps of an extension have written entries of the input buffer."""
        if self.tiled:
            self._retile(_INP, first, last + 1 - first, self.inp[first : last + 1])

    # --- STORE

    def store(self, row: Row) -> None:
        """Execute a STORE; where rows overlap in DRAM, the last one wins."""
        z, y, x, _, z_stride, y_stride = _window_fields(row)
        sram = row[COL["sram"]]
        require_below(_LAST_ENTRY[_OUT], sram + z * y * x - 1, len(self.out))
        data = self.out[sram : sram + z * y * x].reshape(z, y, -1)
        window = self.stored(row)
        row_beats = window.shape[2] // self.config.axi_bytes
        if (y == 1 or y_stride >= row_beats) and (z == 1 or z_stride >= (y - 1) * y_stride + row_beats):
            window[...] = data
            return
        for plane in range(z):
            for line in range(y):
                window[plane, line] = data[plane, line]

    def stored(self, row: Row) -> Bytes:
        """A view of the bytes of DRAM that a STORE writes."""
        return self._window(row, self.config.out_entry_bytes)

    def _window(self, row: Row, entry_bytes: int) -> Bytes:
        """A view of the DRAM bytes of a LOAD or STORE, `[z, y, x * entry_bytes]`."""
        z, y, x, begin, z_stride, y_stride = _window_fields(row)
        axi = self.config.axi_bytes
        last = (begin + (z - 1) * z_stride + (y - 1) * y_stride) * axi + x * entry_bytes - 1
        require_below("last byte of dram", last, len(self.dram))
        if z == 1 and y == 1:
            return self.dram[begin * axi : last + 1].reshape(1, 1, -1)
        strides = (z_stride * axi, y_stride * axi, 1)
        return np.ndarray((z, y, x * entry_bytes), np.uint8, self.dram, begin * axi, strides)


def _states(config: Config) -> Iterator[PlugInState]:
    """The private states of a machine, each of which some plug-in writes."""
    yield from dict.fromkeys(state for plug_in in config.extensions for state in plug_in.written_states)


def _state_dtype(state: PlugInState) -> np.dtype[Any]:
    bits = int(state.dtype.removeprefix("u").removeprefix("int"))
    return np.dtype(f"{'u' if state.dtype.startswith('u') else ''}int{max(8, bits)}")


_load_fields = itemgetter(
    *(
        COL[name]
        for name in ("buffer", "sram", "z_size", "y_size", "x_size", "y_before", "y_after", "x_before", "x_after")
    )
)
_window_fields = itemgetter(*(COL[name] for name in ("z_size", "y_size", "x_size", "dram", "z_stride", "y_stride")))
_LAST_ENTRY = tuple(f"last {buffer.name.lower()} entry" for buffer in Buffer)
_INP, _WGT, _SCL, _UOP, _OUT = (int(b) for b in (Buffer.INP, Buffer.WGT, Buffer.SCL, Buffer.UOP, Buffer.OUT))


def _signed(data: Bytes, bits: int) -> NDArray[np.int8]:
    return data.view(np.int8) if bits == 8 else unpack_elements(data, bits)
