# SPDX-License-Identifier: Apache-2.0
"""GEMM and VECTOR on the buffers, compiled; any shape and operand width, on any processor.

Iterations run in sequence, in the order of the instruction set. Buffers hold one element per byte
(`inp`, `wgt`), one int32 per sum (`acc`), packed bytes (`out`). Indices are not checked here: the
caller checks `extents` first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa import COL, Emit, Operand, Source, VectorOp
from vdla.simulator.support.jit import Int, entry_point, helper, inline_helper
from vdla.support.arrays import Bytes, Ints
from vdla.support.plain import PLAIN

if PLAIN:
    from vdla.simulator.function.plain_lanes import (
        LANES,
        add16,
        load16,
        max16,
        min16,
        mul16,
        multiply,
        requantise16,
        shift_left16,
        shift_right16,
        splat16,
        store16,
        sub16,
        widen16,
    )
else:
    from vdla.simulator.function.lanes import (
        LANES,
        add16,
        load16,
        max16,
        min16,
        mul16,
        requantise16,
        shift_left16,
        shift_right16,
        splat16,
        store16,
        sub16,
        widen16,
    )

Value = Any  # sixteen lanes
Elements = NDArray[np.int8]
Sums = NDArray[np.int32]

LOOP0, LOOP1, INIT, EMIT = COL["loop0"], COL["loop1"], COL["init"], COL["emit"]
ACC, ACC0, ACC1 = COL["acc"], COL["acc0"], COL["acc1"]
SRC, SRC0, SRC1 = COL["src"], COL["src0"], COL["src1"]
WGT, WGT0, WGT1 = COL["wgt"], COL["wgt0"], COL["wgt1"]
SCL, SCL0, SCL1, OUT = COL["scl"], COL["scl0"], COL["scl1"], COL["out"]
_ZERO, _LOW, _HIGH = COL["zero_point"], COL["clip_lo"], COL["clip_hi"]
_OP, _SOURCE, _OPERAND, _IMM = COL["op"], COL["source"], COL["operand"], COL["imm"]
U_ACC, U_SRC, U_WGT, U_FIRST, U_LAST = range(5)

EMIT_NONE, _EMIT_RAW = int(Emit.NONE), int(Emit.RAW)
_FROM_INP = int(Source.INP)
_BY_SRC, _BY_WGT = int(Operand.SRC), int(Operand.WGT)
_ADD, _SUB, _MUL, _MIN, _MAX, _SHL, _SHR, _CLIP, _MOV, _MAC = (int(op) for op in VectorOp)


@entry_point
def extents(row: Ints, uops: Ints) -> tuple[Int, Int, Int, Int]:
    """The greatest index of acc, src, wgt and scl (all bases and factors are non-negative)."""
    i, j = row[LOOP0] - 1, row[LOOP1] - 1
    acc = src = wgt = 0
    for u in range(len(uops)):
        acc = max(acc, uops[u, U_ACC])
        src = max(src, uops[u, U_SRC])
        wgt = max(wgt, uops[u, U_WGT])
    return (
        acc + row[ACC] + i * row[ACC0] + j * row[ACC1],
        src + row[SRC] + i * row[SRC0] + j * row[SRC1],
        wgt + row[WGT] + i * row[WGT0] + j * row[WGT1],
        row[SCL] + i * row[SCL0] + j * row[SCL1],
    )


@helper
def _requantise(row: Ints, sums: Sums, scales: Ints, out: Bytes, bits: Int) -> None:
    """Requantise an entry of sums into a packed entry; the lanes repeat for each batch row."""
    lanes = len(scales)
    zero, low, high = row[_ZERO], row[_LOW], row[_HIGH]
    if bits < 8:
        for n in range(len(out)):
            out[n] = 0
    for base in range(0, len(sums), lanes):
        for o in range(lanes):
            lane = scales[o]
            value = np.int64(np.int32(sums[base + o] + np.int32(lane))) * ((lane >> 32) & 0xFFFFFF)
            shift = (lane >> 56) & 63
            if shift > 0:  # half to even
                value = (value + (np.int64(1) << (shift - 1)) - 1 + ((value >> shift) & 1)) >> shift
            result = min(max(value + zero, low), high)
            if bits == 8:
                out[base + o] = np.uint8(result)
            else:
                bit = (base + o) * bits
                out[bit // 8] |= np.uint8((result & ((1 << bits) - 1)) << (bit % 8))


@helper
def send(row: Ints, sums: Sums, scales: Ints, index: Int, out: Bytes, raw: Sums, bits: Int) -> None:
    """Write a finished entry of sums to `out` at an index, raw or requantised."""
    if row[EMIT] == _EMIT_RAW:
        for n in range(len(sums)):
            raw[index, n] = sums[n]
    else:
        _requantise(row, sums, scales, out[index], bits)


@inline_helper
def sends_bytes(row: Ints, bits: Int, lanes: Int) -> bool:
    """Whether results are bytes and scales fill vectors: `send_bytes` writes them."""
    return bool(row[EMIT] != EMIT_NONE and row[EMIT] != _EMIT_RAW and bits == 8 and lanes % LANES == 0)


@inline_helper
def send_bytes(
    row: Ints, sums: Sums, at: Int, scales: Ints, scale: Int, out: Bytes, index: Int, width: Int, lanes: Int
) -> None:
    """As `send`, on flat arrays, a vector at a time."""
    for part in range(0, width, LANES):
        entry = load16(sums, at + part)
        place = index * width + part
        requantise16(entry, scales, scale + part % lanes, row[_ZERO], row[_LOW], row[_HIGH], out, place)


@entry_point
def gemm(
    row: Ints, uops: Ints, inp: Elements, wgt: Elements, acc: Sums, scl: Ints, out: Bytes, raw: Sums, bits: Int
) -> None:
    """Execute a GEMM.

    `inp[entry, batch, block_in]`, `wgt[entry, block_out, block_in]`, `acc[entry, batch *
    block_out]`.
    """
    for i in range(row[LOOP0]):
        for j in range(row[LOOP1]):
            off_acc = i * row[ACC0] + j * row[ACC1]
            src = row[SRC] + i * row[SRC0] + j * row[SRC1]
            weight = row[WGT] + i * row[WGT0] + j * row[WGT1]
            scale = scl[row[SCL] + i * row[SCL0] + j * row[SCL1]]
            for u in range(len(uops)):
                a = off_acc + uops[u, U_ACC]
                sums = acc[row[ACC] + a]
                if row[INIT] != 0 and uops[u, U_FIRST] != 0:
                    for n in range(len(sums)):
                        sums[n] = 0
                _MULTIPLY(inp[src + uops[u, U_SRC]], wgt[weight + uops[u, U_WGT]], sums)
                if row[EMIT] != EMIT_NONE and uops[u, U_LAST] != 0:
                    send(row, sums, scale, row[OUT] + a, out, raw, bits)


@helper
def _multiply(inputs: Elements, weights: Elements, sums: Sums) -> None:
    """sums[batch * block_out] += inputs[batch, block_in] . weights[block_out, block_in]^T"""
    block_out = len(weights)
    for b in range(len(inputs)):
        for o in range(block_out):
            total = np.int32(0)
            for k in range(inputs.shape[1]):
                total += np.int32(inputs[b, k]) * np.int32(weights[o, k])
            sums[b * block_out + o] += total


_MULTIPLY = multiply if PLAIN else _multiply


@entry_point
def vector(
    row: Ints, uops: Ints, inp: Elements, wgt: Elements, acc: Sums, scl: Ints, out: Bytes, raw: Sums, bits: Int
) -> None:
    """Execute a VECTOR.

    `inp[vector, batch * block_out]`, `wgt[vector, block_out]`, `acc[entry, batch * block_out]`.
    """
    if wgt.shape[1] % LANES == 0:
        vector_of_lanes(row, uops, inp, wgt, acc, scl, out, raw, bits, np.empty(len(uops) + 1, np.int64))
        return
    x = np.empty(acc.shape[1], np.int32)
    b = np.empty(acc.shape[1], np.int32)
    for i in range(row[LOOP0]):
        for j in range(row[LOOP1]):
            off_acc = i * row[ACC0] + j * row[ACC1]
            src = row[SRC] + i * row[SRC0] + j * row[SRC1]
            weight = row[WGT] + i * row[WGT0] + j * row[WGT1]
            scale = row[SCL] + i * row[SCL0] + j * row[SCL1]
            for u in range(len(uops)):
                a = off_acc + uops[u, U_ACC]
                sums = acc[row[ACC] + a]
                _operands(row, inp, wgt, acc, src + uops[u, U_SRC], weight + uops[u, U_WGT], x, b)
                if row[INIT] != 0 and uops[u, U_FIRST] != 0:
                    _begin(row[_OP], sums, x, b)
                else:
                    _apply(row[_OP], sums, x, b)
                if row[EMIT] != EMIT_NONE and uops[u, U_LAST] != 0:
                    send(row, sums, scl[scale], row[OUT] + a, out, raw, bits)


@helper
def vector_of_lanes(
    row: Ints, uops: Ints, inp: Elements, wgt: Elements, acc: Sums, scl: Ints, out: Bytes, raw: Sums, bits: Int,
    starts: Ints,
) -> None:  # fmt: skip
    """As `vector`, where lanes fill vectors; `starts` is memory for runs."""
    if row[_OP] == _MAC and row[_SOURCE] == _FROM_INP and row[_OPERAND] == _BY_WGT:
        _products16(row, uops, inp, wgt, acc, scl, out, raw, bits, starts)
    else:
        _vector16(row, uops, inp, wgt, acc, scl, out, raw, bits)


@helper
def find_runs(row: Ints, uops: Ints, starts: Ints) -> Int:
    """The number of runs; `starts` gets the first micro-op of each, then the number of micro-ops.

    A run is a sequence of micro-ops that add to one entry, which can be sent after the last one.
    """
    count = 0
    for u in range(len(uops)):
        begins = u == 0 or uops[u, U_ACC] != uops[u - 1, U_ACC]
        begins = begins or (row[INIT] != 0 and uops[u, U_FIRST] != 0)
        if begins or (row[EMIT] != EMIT_NONE and uops[u - 1, U_LAST] != 0):
            starts[count] = u
            count += 1
    starts[count] = len(uops)
    return count


@helper
def _products16(
    row: Ints, uops: Ints, inp: Elements, wgt: Elements, acc: Sums, scl: Ints, out: Bytes, raw: Sums, bits: Int,
    starts: Ints,
) -> None:  # fmt: skip
    """Execute the VECTOR of a depthwise convolution, inputs times weights, on lanes.

    The sums of a run stay in registers, since none of its operands is a sum.
    """
    width, lanes, whole = acc.shape[1], wgt.shape[1], sends_bytes(row, bits, wgt.shape[1])
    xs, ws, sums = inp.reshape(-1), wgt.reshape(-1), acc.reshape(-1)
    scales, bytes_out = scl.reshape(-1), out.reshape(-1)
    runs = find_runs(row, uops, starts)
    for i in range(row[LOOP0]):
        for j in range(row[LOOP1]):
            off_acc = i * row[ACC0] + j * row[ACC1]
            src = row[SRC] + i * row[SRC0] + j * row[SRC1]
            weight = row[WGT] + i * row[WGT0] + j * row[WGT1]
            scale = row[SCL] + i * row[SCL0] + j * row[SCL1]
            for r in range(runs):
                first, end = starts[r], starts[r + 1]
                a = off_acc + uops[first, U_ACC]
                at, begins = row[ACC] + a, row[INIT] != 0 and uops[first, U_FIRST] != 0
                for part in range(0, width, LANES):
                    total = splat16(0) if begins else load16(sums, at * width + part)
                    for u in range(first, end):
                        x = widen16(xs, (src + uops[u, U_SRC]) * width + part)
                        total = add16(total, mul16(x, widen16(ws, (weight + uops[u, U_WGT]) * lanes + part % lanes)))
                    store16(sums, at * width + part, total)
                if row[EMIT] != EMIT_NONE and uops[end - 1, U_LAST] != 0:
                    if whole:
                        send_bytes(row, sums, at * width, scales, scale * lanes, bytes_out, row[OUT] + a, width, lanes)
                    else:
                        send(row, acc[at], scl[scale], row[OUT] + a, out, raw, bits)


@helper
def _vector16(
    row: Ints, uops: Ints, inp: Elements, wgt: Elements, acc: Sums, scl: Ints, out: Bytes, raw: Sums, bits: Int
) -> None:
    """Execute a VECTOR on lanes, whose number is a multiple of LANES."""
    width, lanes, whole = acc.shape[1], wgt.shape[1], sends_bytes(row, bits, wgt.shape[1])
    xs, ws, sums = inp.reshape(-1), wgt.reshape(-1), acc.reshape(-1)
    scales, bytes_out = scl.reshape(-1), out.reshape(-1)
    for i in range(row[LOOP0]):
        for j in range(row[LOOP1]):
            off_acc = i * row[ACC0] + j * row[ACC1]
            src = row[SRC] + i * row[SRC0] + j * row[SRC1]
            weight = row[WGT] + i * row[WGT0] + j * row[WGT1]
            scale = row[SCL] + i * row[SCL0] + j * row[SCL1]
            for u in range(len(uops)):
                a = off_acc + uops[u, U_ACC]
                at, s, w = row[ACC] + a, src + uops[u, U_SRC], weight + uops[u, U_WGT]
                begins = row[INIT] != 0 and uops[u, U_FIRST] != 0
                for part in range(0, width, LANES):
                    x = _source16(row, xs, sums, s * width + part)
                    b = _operand16(row, ws, w * lanes + part % lanes, x)
                    if begins:
                        result = mul16(x, b) if row[_OP] == _MAC else b
                    else:
                        result = _combine16(row[_OP], load16(sums, at * width + part), x, b)
                    store16(sums, at * width + part, result)
                if row[EMIT] != EMIT_NONE and uops[u, U_LAST] != 0:
                    if whole:
                        send_bytes(row, sums, at * width, scales, scale * lanes, bytes_out, row[OUT] + a, width, lanes)
                    else:
                        send(row, acc[at], scl[scale], row[OUT] + a, out, raw, bits)


@inline_helper
def _source16(row: Ints, inp: Elements, acc: Sums, at: Int) -> Value:
    if row[_OPERAND] != _BY_SRC and row[_OP] != _MAC:
        return splat16(0)
    return widen16(inp, at) if row[_SOURCE] == _FROM_INP else load16(acc, at)


@inline_helper
def _operand16(row: Ints, wgt: Elements, at: Int, x: Value) -> Value:
    if row[_OPERAND] == _BY_SRC:
        return x
    return widen16(wgt, at) if row[_OPERAND] == _BY_WGT else splat16(row[_IMM])


@inline_helper
def _combine16(op: Int, a: Value, x: Value, b: Value) -> Value:
    """`_combine` on lanes."""
    if op == _ADD:
        return add16(a, b)
    if op == _SUB:
        return sub16(a, b)
    if op == _MUL:
        return mul16(a, b)
    if op == _MAC:
        return add16(a, mul16(x, b))
    if op == _MIN:
        return min16(a, b)
    if op == _MAX:
        return max16(a, b)
    if op == _SHL:
        return shift_left16(a, b)
    if op == _SHR:
        return shift_right16(a, b)
    if op == _CLIP:
        return min16(max16(a, sub16(splat16(0), b)), b)
    return b


@helper
def _operands(row: Ints, inp: Elements, wgt: Elements, acc: Sums, s: Int, w: Int, x: Sums, b: Sums) -> None:
    reads_source = row[_OPERAND] == _BY_SRC or row[_OP] == _MAC
    lanes = wgt.shape[1]
    for n in range(len(x)):
        if reads_source:
            x[n] = inp[s, n] if row[_SOURCE] == _FROM_INP else acc[s, n]
        if row[_OPERAND] == _BY_SRC:
            b[n] = x[n]
        elif row[_OPERAND] == _BY_WGT:
            b[n] = wgt[w, n % lanes]
        else:
            b[n] = row[_IMM]


@helper
def _begin(op: Int, sums: Sums, x: Sums, b: Sums) -> None:
    for n in range(len(sums)):
        sums[n] = x[n] * b[n] if op == _MAC else b[n]


@helper
def _apply(op: Int, sums: Sums, x: Sums, b: Sums) -> None:
    for n in range(len(sums)):
        sums[n] = _combine(op, sums[n], x[n], b[n])


@helper
def _combine(op: Int, a: Int, x: Int, b: Int) -> Int:
    """One lane in wrapping int32, with 64-bit intermediates where needed."""
    if op == _ADD:
        return np.int32(a + b)
    if op == _SUB:
        return np.int32(a - b)
    if op == _MUL:
        return np.int32(a * b)
    if op == _MAC:
        return np.int32(a + x * b)
    if op == _MIN:
        return min(a, b)
    if op == _MAX:
        return max(a, b)
    if op == _SHL:
        return np.int32(np.int64(a) << np.int64(b & 31))
    if op == _SHR:
        shift = np.int64(b & 31)
        return np.int32((np.int64(a) + ((np.int64(1) << shift) >> 1)) >> shift)
    if op == _CLIP:
        return min(max(a, np.int32(-np.int64(b))), b)
    return b
