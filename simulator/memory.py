"""The on-chip buffers and the DMA that fills and empties them.

`inp` and `wgt` hold one element a byte whatever its width, `uop` decoded micro-ops, `out` packed bytes as they go to DRAM. Nothing is read or
written outside of a buffer or of DRAM: SimulationError comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, uop_columns
from vdla.hardware.numerics import unpack_elements
from vdla.simulator import kernels_vnni
from vdla.simulator.errors import SimulationError, require_below

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


class Memory:
    """The buffers of one machine, all zero, and the DRAM it is attached to. `tiled` keeps what the VNNI kernel reads besides."""

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
        self.inp_vectors = self.inp.reshape(config.inp_vectors, batch * block_out)
        self.wgt_vectors = self.wgt.reshape(config.wgt_vectors, block_out)
        self._fill_tiles()

    def _fill_tiles(self) -> None:
        depth = (self.config.wgt_depth, self.config.block_out, self.config.block_in)
        self.offsets = np.zeros(self.config.inp_depth * self.config.batch if self.tiled else 0, np.int32)
        tiles = np.full((depth[0], depth[1] * depth[2] // 4) if self.tiled else (0, 1), 0x80808080, np.uint32)
        self.tiles = tiles.view(np.int32)

    # --- LOAD

    def load(self, row: Ints, where: str) -> None:
        """Do a LOAD."""
        f = {name: int(row[COL[name]]) for name in LOAD_FIELDS}
        rows = f["y_before"] + f["y_size"] + f["y_after"]
        columns = f["x_before"] + f["x_size"] + f["x_after"]
        target = self._target(Buffer(f["buffer"]))
        count = f["z_size"] * rows * columns
        require_below(where, f"last {Buffer(f['buffer']).name.lower()} entry", f["sram"] + count - 1, len(target))
        area = target[f["sram"] : f["sram"] + count]
        grid = area.reshape(f["z_size"], rows, columns, -1)
        if rows * columns != f["y_size"] * f["x_size"]:
            grid[...] = np.array(f["pad_value"]).astype(target.dtype)
        if f["y_size"] * f["x_size"] > 0:
            inner = grid[:, f["y_before"] : f["y_before"] + f["y_size"], f["x_before"] : f["x_before"] + f["x_size"]]
            inner[...] = self._elements(f, row, where).reshape(inner.shape)
        if self.tiled:
            self._retile(f, count, area)

    def _target(self, buffer: Buffer) -> NDArray[Any]:
        by_buffer = {
            Buffer.INP: self.inp,
            Buffer.WGT: self.wgt,
            Buffer.SCL: self.scl,
            Buffer.UOP: self.uop,
            Buffer.ACC: self.acc,
        }
        return by_buffer[buffer]

    def _elements(self, f: dict[str, int], row: Ints, where: str) -> NDArray[Any]:
        """The data of a LOAD as elements of its buffer, dense in the order z, y, x."""
        buffer, config = Buffer(f["buffer"]), self.config
        entry = config.out_entry_bytes if f["widen"] else config.entry_bytes[buffer]
        data = self._window(row, entry, where)
        if buffer == Buffer.WGT:
            return _signed(data, config.wgt_bits)
        if buffer == Buffer.INP or f["widen"]:
            return _signed(data, config.inp_bits)
        dense = np.ascontiguousarray(data).reshape(-1)
        if buffer == Buffer.UOP:
            return uop_columns(config, dense.reshape(-1, entry))
        return dense.view(np.int64 if buffer == Buffer.SCL else np.int32)

    def _retile(self, f: dict[str, int], count: int, area: NDArray[Any]) -> None:
        if f["buffer"] == Buffer.WGT:
            self.tiles[f["sram"] : f["sram"] + count] = kernels_vnni.interleave(area).reshape(count, -1)
        elif f["buffer"] == Buffer.INP:
            batch = self.config.batch
            sums = self.offsets[f["sram"] * batch : (f["sram"] + count) * batch]
            kernels_vnni.sum_entries(area.reshape(count * batch, -1), sums)

    # --- STORE

    def store(self, row: Ints, where: str) -> None:
        """Do a STORE; where its rows overlap, the last one written stays."""
        z, y, x = (int(row[COL[name]]) for name in ("z_size", "y_size", "x_size"))
        sram = int(row[COL["sram"]])
        require_below(where, "last out entry", sram + z * y * x - 1, len(self.out))
        data = self.out[sram : sram + z * y * x].reshape(z, y, -1)
        window = self._window(row, self.config.out_entry_bytes, where)
        for plane in range(z):
            for line in range(y):
                window[plane, line] = data[plane, line]

    def _window(self, row: Ints, entry_bytes: int, where: str) -> Bytes:
        """The bytes of DRAM that a LOAD or STORE moves, `[z, y, x * entry_bytes]`."""
        z, y, x, begin, z_stride, y_stride = (int(row[COL[name]]) for name in WINDOW_FIELDS)
        axi = self.config.axi_bytes
        last = (begin + (z - 1) * z_stride + (y - 1) * y_stride) * axi + x * entry_bytes - 1
        require_below(where, "last byte of dram", last, len(self.dram))
        strides = (z_stride * axi, y_stride * axi, 1)
        return as_strided(self.dram[begin * axi :], (z, y, x * entry_bytes), strides)


LOAD_FIELDS = (
    "buffer", "widen", "sram", "z_size", "y_size", "x_size", "y_before", "y_after", "x_before", "x_after", "pad_value",
)  # fmt: skip
WINDOW_FIELDS = ("z_size", "y_size", "x_size", "dram", "z_stride", "y_stride")


def _signed(data: Bytes, bits: int) -> NDArray[np.int8]:
    return data.view(np.int8) if bits == 8 else unpack_elements(data, bits)
