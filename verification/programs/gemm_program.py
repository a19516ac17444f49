# SPDX-License-Identifier: Apache-2.0
"""A hand-written matrix product, the program of the `simulator` benchmark.

out[M, N] = requantise(inp[M, K] . wgt[N, K]^T) in tiles of rows and columns over all of K. Every
buffer is double-buffered: while one tile is computed, the next input tile and a part of the next
weight tile are loaded, and the previous result is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Emit, Gemm, Instruction, Load, MicroOp, Store, encode, encode_uops
from vdla.hardware.program import UOPS, Program, ProgramTensor
from vdla.support.errors import Error


class GemmTilingError(Error, ValueError):
    """Sizes that do not fit the buffers or are not multiples of the tiles."""


@dataclass(frozen=True, slots=True)
class GemmTiling:
    """A product of m x n x k elements in tiles of `rows` by `columns` entries.

    All counts below are in entries.
    """

    config: Config
    m: int
    n: int
    k: int
    rows: int
    columns: int

    def __post_init__(self) -> None:
        c = self.config
        self._divides("m", self.m, c.batch * self.rows)
        self._divides("n", self.n, c.block_out * self.columns)
        self._divides("k", self.k, c.block_in)
        if self.row_tiles < 3 and self.tiles > self.row_tiles:
            raise GemmTilingError(f"gemm: tiles along m must be at least 3, got {self.row_tiles}")
        tile = self.rows * self.columns
        for name, need, have in (
            ("inp", 2 * self.rows * self.depth, c.inp_depth),
            ("wgt", 2 * self.columns * self.depth, c.wgt_depth),
            ("acc", 2 * tile, c.acc_depth),
            ("out", 2 * tile, c.out_depth),
            ("scl", self.width, c.scl_depth),
            ("uop", self.depth, c.uop_depth),
        ):
            if need > have:
                raise GemmTilingError(f"gemm: {name} entries must be at most {have}, got {need}")

    @staticmethod
    def _divides(name: str, value: int, tile: int) -> None:
        if value % tile:
            raise GemmTilingError(f"gemm: {name} must be a multiple of {tile}, got {value}")

    @property
    def depth(self) -> int:
        """Entries along k."""
        return self.k // self.config.block_in

    @property
    def width(self) -> int:
        """Entries along n."""
        return self.n // self.config.block_out

    @property
    def row_tiles(self) -> int:
        """Tiles along m."""
        return self.m // (self.config.batch * self.rows)

    @property
    def tiles(self) -> int:
        """Tiles in total, ordered by columns of tiles."""
        return self.row_tiles * (self.width // self.columns)


def gemm_program(tiling: GemmTiling) -> Program:
    """The program; the tensor `scl` has the scales, and results are clipped to the output type."""
    t, c = tiling, tiling.config
    instructions = list(_instructions(t))
    uops = encode_uops(c, [MicroOp(0, i, i, int(i == 0), int(i == t.depth - 1)) for i in range(t.depth)])
    batches = t.m // c.batch
    tensors = (
        _tensor("inp", "input", (batches, t.depth, c.batch, c.block_in), c.inp_dtype, c.inp_bits),
        _tensor("wgt", "input", (t.width, t.depth, c.block_out, c.block_in), c.wgt_dtype, c.wgt_bits),
        _tensor("scl", "input", (t.width, c.block_out), "int64", 64),
        ProgramTensor(
            name=UOPS,
            role="constant",
            shape=uops.shape,
            dtype="uint8",
            layout="uops",
            nbytes=uops.nbytes,
            data=uops.tobytes(),
        ),
        _tensor("out", "output", (batches, t.width, c.batch, c.block_out), c.out_dtype, c.out_bits),
    )
    n = len(instructions)
    tensor_of = np.array([_TENSOR_OF[_target(i)] for i in instructions], np.int32)
    lines = ("GEMM, tile by tile",)
    words = encode(c, instructions)
    return Program(
        config=c,
        name=f"gemm_{t.m}x{t.n}x{t.k}",
        words=words,
        tensors=tensors,
        tensor_of=tensor_of,
        source_lines=lines,
        source_of=np.zeros(n, np.int32),
    )


_TENSOR_OF = {"inp": 0, "wgt": 1, "scl": 2, "uop": 3, "out": 4, "none": -1}


def _target(instruction: Instruction) -> str:
    match instruction:
        case Load(buffer=buffer):
            return buffer.name.lower()
        case Store():
            return "out"
        case _:
            return "none"


def _tensor(name: str, role: str, shape: tuple[int, ...], dtype: str, bits: int) -> ProgramTensor:
    return ProgramTensor(
        name=name, role=role, shape=shape, dtype=dtype, layout="packed", nbytes=int(np.prod(shape)) * bits // 8
    )


def _instructions(t: GemmTiling) -> Iterator[Instruction]:
    yield Load(Buffer.UOP, x_size=t.depth)
    yield Load(Buffer.SCL, x_size=t.width)
    yield Load(Buffer.WGT, x_size=t.columns * t.depth)
    for tile in range(min(2, t.tiles)):
        yield from _loads(t, tile)
    for tile in range(t.tiles):
        yield _product(t, tile)
        yield _store(t, tile)
        if tile + 2 < t.tiles:
            yield from _loads(t, tile + 2)


def _loads(t: GemmTiling, tile: int) -> Iterator[Instruction]:
    """Part of the next column's weights, then an input tile; one token covers both."""
    if tile >= 2:
        yield from _weights(t, tile)
    entries = t.rows * t.depth
    row = tile % t.row_tiles
    beats = t.config.inp_entry_bytes // t.config.axi_bytes
    sram = tile % 2 * entries
    yield Load(Buffer.INP, sram=sram, dram=row * entries * beats, x_size=entries, pop_next=int(tile >= 2), push_next=1)


def _weights(t: GemmTiling, tile: int) -> Iterator[Instruction]:
    """The share of the next column's weights that is loaded with this tile.

    The half they go to was last read by the product before this column, which has ended when the
    load of the column's tile 1 starts. So shares begin with tile 2.
    """
    column, row = divmod(tile, t.row_tiles)
    if row < 2 or (column + 1) * t.row_tiles >= t.tiles:
        return
    entries = t.columns * t.depth
    shares = t.row_tiles - 2
    begin, end = entries * (row - 2) // shares, entries * (row - 1) // shares
    beats = t.config.wgt_entry_bytes // t.config.axi_bytes
    if begin < end:
        yield Load(
            Buffer.WGT,
            sram=(column + 1) % 2 * entries + begin,
            dram=((column + 1) * entries + begin) * beats,
            x_size=end - begin,
        )


def _product(t: GemmTiling, tile: int) -> Instruction:
    column, half = tile // t.row_tiles, tile % 2
    top = 1 << (t.config.out_bits - 1)
    return Gemm(
        uop_begin=0,
        uop_end=t.depth,
        loop0=t.columns,
        loop1=t.rows,
        init=1,
        emit=Emit.REQUANT,
        acc=half * t.rows * t.columns,
        src=half * t.rows * t.depth,
        wgt=column % 2 * t.columns * t.depth,
        out=half * t.rows * t.columns,
        scl=column * t.columns,
        acc0=1,
        acc1=t.columns,
        src1=t.depth,
        wgt0=t.depth,
        scl0=1,
        clip_lo=-top,
        clip_hi=top - 1,
        pop_prev=1,
        pop_next=int(tile >= 2),
        push_prev=int(tile + 2 < t.tiles),
        push_next=1,
    )


def _store(t: GemmTiling, tile: int) -> Instruction:
    column, row = divmod(tile, t.row_tiles)
    beats = t.config.out_entry_bytes // t.config.axi_bytes
    return Store(
        sram=tile % 2 * t.rows * t.columns,
        dram=(row * t.rows * t.width + column * t.columns) * beats,
        y_size=t.rows,
        x_size=t.columns,
        y_stride=t.width * beats,
        pop_prev=1,
        push_prev=int(tile + 2 < t.tiles),
    )
