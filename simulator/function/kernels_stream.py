# SPDX-License-Identifier: Apache-2.0
"""Instructions of 8-bit elements in one compiled loop: no Python between them.

The loop stops at the first instruction that it does not cover, or that leaves a buffer or DRAM; the
caller executes that one, with its checks and errors. It covers GEMM and VECTOR, LOADs to inp, wgt
and scl, and STOREs, where `kernels_tiled` applies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import COL, Buffer, Opcode, Operand, Source, StagedEmit, VectorOp
from vdla.simulator.function import kernels, kernels_tiled
from vdla.simulator.function.dot_unit import GROUP, VNNI, interleave_block
from vdla.simulator.function.kernels import ACC, EMIT, EMIT_NONE, OUT, Elements, Sums, vector_of_lanes
from vdla.simulator.function.lanes import LANES, copy_bytes, widen_bytes
from vdla.simulator.support.jit import Int, borrowing_entry_point, helper, helper_of, inline_helper
from vdla.support.arrays import Bytes, Ints

Wide = NDArray[np.int16]

LIMITS = (
    "axi_bytes", "inp_bytes", "wgt_bytes", "scl_bytes", "out_bytes", "inp_depth", "wgt_depth", "scl_depth",
    "uop_depth", "acc_depth", "out_depth", "out_slots", "inp_vectors", "wgt_vectors", "block_in", "block_out",
)  # fmt: skip
"""What the loop needs to know of the machine, in order."""

(
    _AXI, _INP_BYTES, _WGT_BYTES, _SCL_BYTES, _OUT_BYTES, _INP_DEPTH, _WGT_DEPTH, _SCL_DEPTH,
    _UOP_DEPTH, _ACC_DEPTH, _OUT_DEPTH, _OUT_SLOTS, _INP_VECTORS, _WGT_VECTORS, _BLOCK_IN, _BLOCK_OUT,
) = range(len(LIMITS))  # fmt: skip

_OPCODE, _BUFFER, _SRAM, _DRAM = COL["opcode"], COL["buffer"], COL["sram"], COL["dram"]
_Z, _Y, _X, _Z_STRIDE, _Y_STRIDE = (COL[name] for name in ("z_size", "y_size", "x_size", "z_stride", "y_stride"))
_Y_BEFORE, _Y_AFTER, _X_BEFORE, _X_AFTER = (COL[name] for name in ("y_before", "y_after", "x_before", "x_after"))
_PAD, _WIDEN, _BEGIN, _END = COL["pad_value"], COL["widen"], COL["uop_begin"], COL["uop_end"]
_OP, _SOURCE, _OPERAND = COL["op"], COL["source"], COL["operand"]

_LOAD, _STORE, _GEMM, _VECTOR, _SYNC = (int(Opcode[name]) for name in ("LOAD", "STORE", "GEMM", "VECTOR", "SYNC"))
_INP, _WGT, _SCL = int(Buffer.INP), int(Buffer.WGT), int(Buffer.SCL)
_RAW, _STAGE = int(StagedEmit.RAW), int(StagedEmit.STAGE)
_MAC, _FROM_INP = int(VectorOp.MAC), int(Source.INP)
_BY_SRC, _BY_WGT = int(Operand.SRC), int(Operand.WGT)
_COMMON_LANES = 16  # block_in
_FLIP = np.int32(-0x7F7F7F80)  # as an int32, dot_unit.FLIP of VNNI

_extents, _gemm = helper_of(kernels.extents), helper_of(kernels_tiled.gemm)


@helper
def _outside_dram(row: Ints, entry_bytes: Int, limits: Ints, dram: Bytes) -> bool:
    first = row[_DRAM] + (row[_Z] - 1) * row[_Z_STRIDE] + (row[_Y] - 1) * row[_Y_STRIDE]
    return bool(first * limits[_AXI] + row[_X] * entry_bytes > len(dram))


@helper
def _fill(target: Bytes, at: Int, count: Int, value: Int) -> None:
    for n in range(count):
        target[at + n] = value


@helper
def _load_entries(row: Ints, entry_bytes: Int, limits: Ints, dram: Bytes, target: Bytes) -> None:
    """Fill entries of `entry_bytes` with rows of DRAM and padding."""
    value = row[_PAD] & 255
    width = row[_X_BEFORE] + row[_X] + row[_X_AFTER]
    at = row[_SRAM] * entry_bytes
    for z in range(row[_Z]):
        _fill(target, at, row[_Y_BEFORE] * width * entry_bytes, value)
        at += row[_Y_BEFORE] * width * entry_bytes
        for y in range(row[_Y]):
            start = (row[_DRAM] + z * row[_Z_STRIDE] + y * row[_Y_STRIDE]) * limits[_AXI]
            _fill(target, at, row[_X_BEFORE] * entry_bytes, value)
            at += row[_X_BEFORE] * entry_bytes
            copy_bytes(target, at, dram, start, row[_X] * entry_bytes)
            at += row[_X] * entry_bytes
            _fill(target, at, row[_X_AFTER] * entry_bytes, value)
            at += row[_X_AFTER] * entry_bytes
        _fill(target, at, row[_Y_AFTER] * width * entry_bytes, value)
        at += row[_Y_AFTER] * width * entry_bytes


@helper
def _interleave(weights: Bytes, tiles: Sums, first: Int, count: Int, limits: Ints) -> None:
    """The weights of entries as `dot_unit.interleave` orders them."""
    block_in, chunks = limits[_BLOCK_IN], limits[_BLOCK_OUT] // LANES
    groups = block_in // GROUP
    for part in range(first * chunks, (first + count) * chunks):
        source, place = part * LANES * block_in, part * LANES * groups
        if block_in == _COMMON_LANES:
            interleave_block(weights, source, tiles, place)
            continue
        for g in range(groups):
            for o in range(LANES):
                tiles[place + g * LANES + o] = _group(weights, source + o * block_in + g * GROUP)


@inline_helper
def _group(weights: Bytes, at: Int) -> Int:
    """GROUP weights as a lane of the dot product has them."""
    if VNNI:
        word = np.int32(weights[at]) | np.int32(weights[at + 1]) << 8
        return (word | np.int32(weights[at + 2]) << 16 | np.int32(weights[at + 3]) << 24) ^ _FLIP
    return (np.int32(np.int8(weights[at])) & 0xFFFF) | np.int32(np.int8(weights[at + 1])) << 16


@helper
def _widen(inp: Elements, wide_inp: Wide, first: Int, count: Int) -> None:
    """Elements as the 16-bit numbers that the dot product multiplies in pairs."""
    whole = first + count // LANES * LANES
    for n in range(first, whole, LANES):
        widen_bytes(wide_inp, inp, n)
    for n in range(whole, first + count):
        wide_inp[n] = inp[n]


@inline_helper
def _sum_entries(inp: Elements, offsets: Sums, first: Int, count: Int, lanes: Int) -> None:
    """128 times the sums of entries; constant `lanes` are unrolled."""
    for n in range(first, first + count):
        total = np.int32(0)
        for k in range(lanes):
            total += np.int32(inp[n * lanes + k])
        offsets[n] = total << 7


@helper
def _load(
    row: Ints, limits: Ints, dram: Bytes, inp: Elements, inp8: Bytes, wide_inp: Wide, offsets: Sums, wgt8: Bytes,
    tiles: Sums, scl8: Bytes,
) -> bool:  # fmt: skip
    """Execute a LOAD; False if it is not covered or leaves its buffer or DRAM."""
    buffer = row[_BUFFER]
    if row[_WIDEN] != 0 or (buffer != _INP and buffer != _WGT and buffer != _SCL):
        return False
    entry_bytes = limits[_INP_BYTES + buffer - _INP]
    depth = limits[_INP_DEPTH + buffer - _INP]
    rows, columns = row[_Y_BEFORE] + row[_Y] + row[_Y_AFTER], row[_X_BEFORE] + row[_X] + row[_X_AFTER]
    first, count = row[_SRAM], row[_Z] * rows * columns
    if first + count > depth or (row[_Y] * row[_X] > 0 and _outside_dram(row, entry_bytes, limits, dram)):
        return False
    if buffer == _INP:
        _load_entries(row, entry_bytes, limits, dram, inp8)
        entry_blocks = entry_bytes // limits[_BLOCK_IN]
        if not VNNI:
            _widen(inp, wide_inp, first * entry_bytes, count * entry_bytes)
        elif limits[_BLOCK_IN] == _COMMON_LANES:
            _sum_entries(inp, offsets, first * entry_blocks, count * entry_blocks, _COMMON_LANES)
        else:
            _sum_entries(inp, offsets, first * entry_blocks, count * entry_blocks, limits[_BLOCK_IN])
    elif buffer == _WGT:
        _load_entries(row, entry_bytes, limits, dram, wgt8)
        _interleave(wgt8, tiles, first, count, limits)
    else:
        _load_entries(row, entry_bytes, limits, dram, scl8)
    return True


@helper
def _store(row: Ints, limits: Ints, dram: Bytes, out8: Bytes) -> bool:
    """Execute a STORE; False if it leaves its buffer or DRAM."""
    entry_bytes = limits[_OUT_BYTES]
    if row[_SRAM] + row[_Z] * row[_Y] * row[_X] > limits[_OUT_DEPTH] or _outside_dram(row, entry_bytes, limits, dram):
        return False
    at = row[_SRAM] * entry_bytes
    for z in range(row[_Z]):
        for y in range(row[_Y]):
            start = (row[_DRAM] + z * row[_Z_STRIDE] + y * row[_Y_STRIDE]) * limits[_AXI]
            copy_bytes(dram, start, out8, at, row[_X] * entry_bytes)
            at += row[_X] * entry_bytes
    return True


@helper
def _inside(row: Ints, limits: Ints, uops: Ints) -> bool:
    """Whether a GEMM or VECTOR is covered, and all its indices lie in their buffers."""
    if row[EMIT] == _STAGE:
        return False
    acc, src, wgt, scl = _extents(row, uops)
    if acc >= limits[_ACC_DEPTH] or scl >= limits[_SCL_DEPTH]:
        return False
    slots = limits[_OUT_SLOTS] if row[EMIT] == _RAW else limits[_OUT_DEPTH]
    if row[EMIT] != EMIT_NONE and acc - row[ACC] + row[OUT] >= slots:
        return False
    if row[_OPCODE] == _GEMM:
        return bool(src < limits[_INP_DEPTH] and wgt < limits[_WGT_DEPTH])
    reads_source = row[_OPERAND] == _BY_SRC or row[_OP] == _MAC
    if reads_source and src >= (limits[_INP_VECTORS] if row[_SOURCE] == _FROM_INP else limits[_ACC_DEPTH]):
        return False
    return bool(row[_OPERAND] != _BY_WGT or wgt < limits[_WGT_VECTORS])


@borrowing_entry_point
def run(
    columns: Ints,
    order: Ints,
    position: Int,
    limits: Ints,
    sizes: Ints,
    dram: Bytes,
    inp: Elements,
    inp8: Bytes,
    inp_words: Sums,
    wide_inp: Wide,
    inp_vectors: Elements,
    offsets: Sums,
    wgt8: Bytes,
    wgt_vectors: Elements,
    tiles: Sums,
    scl: Ints,
    scl8: Bytes,
    uop: Ints,
    acc: Sums,
    flat_acc: Sums,
    starts: Ints,
    out: Bytes,
    out8: Bytes,
    raw: Sums,
) -> Int:
    """Execute instructions `order[position:]`; the position of the first that is left."""
    for at in range(position, len(order)):
        row = columns[order[at]]
        opcode = row[_OPCODE]
        if opcode == _LOAD:
            if not _load(row, limits, dram, inp, inp8, wide_inp, offsets, wgt8, tiles, scl8):
                return at
        elif opcode == _STORE:
            if not _store(row, limits, dram, out8):
                return at
        elif opcode in (_GEMM, _VECTOR):
            if row[_END] > limits[_UOP_DEPTH]:
                return at
            uops = uop[row[_BEGIN] : row[_END]]
            if not _inside(row, limits, uops):
                return at
            if opcode == _GEMM:
                _gemm(row, uops, inp_words, offsets, tiles, flat_acc, starts, sizes, scl, out, raw)
            else:
                vector_of_lanes(row, uops, inp_vectors, wgt_vectors, acc, scl, out, raw, sizes[3], starts)
        elif opcode != _SYNC:
            return at
    return len(order)
