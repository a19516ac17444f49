# SPDX-License-Identifier: Apache-2.0
"""GEMM on lanes, by the dot product of the processor: the results of `kernels.gemm`, for block_in
% GROUP == 0 and block_out % 16 == 0.

Consecutive micro-ops that add to one entry are a *run*: its sums stay in registers, which changes
no result, since int32 sums wrap and commute. Four positions of the inner loop share the weights in
a register, if no two of them access the same entry in different runs.
"""

from __future__ import annotations

import numpy as np

from vdla.simulator.function.dot_unit import GROUP, VNNI, dot16
from vdla.simulator.function.kernels import (
    ACC,
    ACC0,
    ACC1,
    EMIT,
    EMIT_NONE,
    INIT,
    LOOP0,
    LOOP1,
    OUT,
    SCL,
    SCL0,
    SCL1,
    SRC,
    SRC0,
    SRC1,
    U_ACC,
    U_FIRST,
    U_LAST,
    U_SRC,
    U_WGT,
    WGT,
    WGT0,
    WGT1,
    Elements,
    Sums,
    runs_of,
    send,
    send_bytes,
    sends_bytes,
)
from vdla.simulator.function.lanes import LANES, add16, broadcast16, load16, splat16, store16
from vdla.simulator.support.jit import Int, entry_point, helper, inline_helper
from vdla.support.arrays import Bytes, Ints

_POSITIONS = 4
_COMMON_GROUPS = 16 // GROUP  # block_in of 16
_MOST_RUNS = 64  # independence is checked for every pair of runs


def supports(block_in: Int, block_out: Int) -> bool:
    """Whether entries are multiples of what a lane and a vector hold."""
    return bool(block_in % GROUP == 0 and block_out % LANES == 0)


@entry_point
def sum_entries(inputs: Elements, sums: Sums) -> None:
    """sums[n] = 128 times the sum of inputs[n, :]."""
    for n in range(len(inputs)):
        total = np.int32(0)
        for k in range(inputs.shape[1]):
            total += np.int32(inputs[n, k])
        sums[n] = total << 7


@helper
def _independent(row: Ints, uops: Ints, runs: Ints) -> bool:
    """Whether _POSITIONS consecutive positions share weights and can run in lockstep."""
    step = row[ACC1]
    if step == 0 or row[WGT1] != 0 or len(runs) - 1 > _MOST_RUNS:
        return False
    for r in range(len(runs) - 1):
        for other in range(r):
            distance = abs(uops[runs[r], U_ACC] - uops[runs[other], U_ACC])
            if distance != 0 and distance < _POSITIONS * step and distance % step == 0:
                return False
    return True


@entry_point
def gemm(
    row: Ints,
    uops: Ints,
    inp: Sums,
    offsets: Sums,
    tiles: Sums,
    acc: Sums,
    starts: Ints,
    sizes: Ints,
    scl: Ints,
    out: Bytes,
    raw: Sums,
) -> None:
    """Execute a GEMM on flat int32 views.

    `offsets` are the sums of `sum_entries`, if weights have 128 added; `starts` is memory for the
    runs; `sizes` are batch, chunks, groups and bits.
    """
    if row[LOOP1] == 1 and row[LOOP0] > 1:
        row = _outer_as_inner(row)
    runs = runs_of(row, uops, starts)
    block = _POSITIONS if _independent(row, uops, runs) else 1
    lanes = sizes[1] * LANES
    width = sizes[0] * lanes
    whole, flat_scl, flat_out = sends_bytes(row, sizes[3], lanes), scl.reshape(-1), out.reshape(-1)
    for i in range(row[LOOP0]):
        for j in range(0, row[LOOP1], block):
            n = min(block, row[LOOP1] - j)
            for r in range(len(runs) - 1):
                u, end = runs[r], runs[r + 1]
                keep = row[INIT] == 0 or uops[u, U_FIRST] == 0
                if n == 1:
                    _run1(row, uops, u, end, i, j, keep, inp, offsets, tiles, acc, sizes)
                elif sizes[2] == _COMMON_GROUPS:
                    _run4(row, uops, u, end, i, j, n, keep, inp, offsets, tiles, acc, sizes, _COMMON_GROUPS)
                else:
                    _run4(row, uops, u, end, i, j, n, keep, inp, offsets, tiles, acc, sizes, sizes[2])
                if row[EMIT] != EMIT_NONE and uops[end - 1, U_LAST] != 0:
                    for k in range(j, j + n):
                        off = i * row[ACC0] + k * row[ACC1] + uops[u, U_ACC]
                        scale = row[SCL] + i * row[SCL0] + k * row[SCL1]
                        first = (row[ACC] + off) * width
                        if whole:
                            send_bytes(row, acc, first, flat_scl, scale * lanes, flat_out, row[OUT] + off, width, lanes)
                        else:
                            send(row, acc[first : first + width], scl[scale], row[OUT] + off, out, raw, sizes[3])


@helper
def _outer_as_inner(row: Ints) -> Ints:
    """A GEMM whose inner loop has one position, with its loops exchanged."""
    result = row.copy()
    result[LOOP0], result[LOOP1] = row[LOOP1], row[LOOP0]
    result[ACC1], result[SRC1], result[WGT1], result[SCL1] = row[ACC0], row[SRC0], row[WGT0], row[SCL0]
    return result


@helper
def _run1(
    row: Ints, uops: Ints, first: Int, end: Int, i: Int, j: Int, keep: bool, inp: Sums, offsets: Sums, tiles: Sums,
    acc: Sums, sizes: Ints,
) -> None:  # fmt: skip
    """Execute a run at one position, with two independent sums."""
    batch, chunks, groups = sizes[0], sizes[1], sizes[2]
    a = row[ACC] + i * row[ACC0] + j * row[ACC1] + uops[first, U_ACC]
    src = row[SRC] + i * row[SRC0] + j * row[SRC1]
    wgt = row[WGT] + i * row[WGT0] + j * row[WGT1]
    for b in range(batch):
        for c in range(chunks):
            place = ((a * batch + b) * chunks + c) * LANES
            even = load16(acc, place) if keep else splat16(0)
            odd = splat16(0)
            offset = 0
            for u in range(first, end):
                x = (src + uops[u, U_SRC]) * batch + b
                w = ((wgt + uops[u, U_WGT]) * chunks + c) * groups * LANES
                if VNNI:
                    offset += offsets[x]
                for g in range(0, groups - 1, 2):
                    even = dot16(even, load16(tiles, w + g * LANES), broadcast16(inp, x * groups + g))
                    odd = dot16(odd, load16(tiles, w + g * LANES + LANES), broadcast16(inp, x * groups + g + 1))
                if groups % 2 == 1:
                    last = groups - 1
                    even = dot16(even, load16(tiles, w + last * LANES), broadcast16(inp, x * groups + last))
            store16(acc, place, add16(add16(even, odd), splat16(-offset)))


@inline_helper
def _run4(
    row: Ints, uops: Ints, first: Int, end: Int, i: Int, j: Int, n: Int, keep: bool, inp: Sums, offsets: Sums,
    tiles: Sums, acc: Sums, sizes: Ints, groups: Int,
) -> None:  # fmt: skip
    """Execute a run at `n` positions that share weights; a constant `groups` is unrolled.

    Beyond `n` the last position is computed again, which costs less than positions one by one.
    """
    batch, chunks = sizes[0], sizes[1]
    third, last = min(2, n - 1), min(3, n - 1)
    wgt = row[WGT] + i * row[WGT0]
    step_acc = row[ACC1] * batch * chunks * LANES
    step_src = row[SRC1] * batch
    a = row[ACC] + i * row[ACC0] + j * row[ACC1] + uops[first, U_ACC]
    src = row[SRC] + i * row[SRC0] + j * row[SRC1]
    for b in range(batch):
        for c in range(chunks):
            p0 = ((a * batch + b) * chunks + c) * LANES
            p1, p2, p3 = p0 + step_acc, p0 + third * step_acc, p0 + last * step_acc
            v0 = load16(acc, p0) if keep else splat16(0)
            v1 = load16(acc, p1) if keep else splat16(0)
            v2 = load16(acc, p2) if keep else splat16(0)
            v3 = load16(acc, p3) if keep else splat16(0)
            o0 = o1 = o2 = o3 = 0
            for u in range(first, end):
                x0 = (src + uops[u, U_SRC]) * batch + b
                x1, x2, x3 = x0 + step_src, x0 + third * step_src, x0 + last * step_src
                if VNNI:
                    o0 += offsets[x0]
                    o1 += offsets[x1]
                    o2 += offsets[x2]
                    o3 += offsets[x3]
                w = ((wgt + uops[u, U_WGT]) * chunks + c) * groups * LANES
                for g in range(groups):
                    weights = load16(tiles, w + g * LANES)
                    v0 = dot16(v0, weights, broadcast16(inp, x0 * groups + g))
                    v1 = dot16(v1, weights, broadcast16(inp, x1 * groups + g))
                    v2 = dot16(v2, weights, broadcast16(inp, x2 * groups + g))
                    v3 = dot16(v3, weights, broadcast16(inp, x3 * groups + g))
            store16(acc, p0, add16(v0, splat16(-o0)))
            store16(acc, p1, add16(v1, splat16(-o1)))
            store16(acc, p2, add16(v2, splat16(-o2)))
            store16(acc, p3, add16(v3, splat16(-o3)))
