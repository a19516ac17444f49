# SPDX-License-Identifier: Apache-2.0
"""GEMM on lanes, by the dot product of the processor: the results of `kernels.gemm`, for block_in
% GROUP == 0 and block_out % 16 == 0.

Consecutive micro-ops that add to one entry are a *run*: its sums stay in registers, which changes
no result, since int32 sums wrap and commute. Eight or four positions of the inner loop share the
weights in a register, if no two of them access the same entry in different runs: sums that do not
wait for each other hide the latency of the dot product.
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
    find_runs,
    send,
    send_bytes,
    sends_bytes,
)
from vdla.simulator.function.lanes import LANES, add16, broadcast16, load16, splat16, store16
from vdla.simulator.support.jit import Int, entry_point, helper, inline_helper
from vdla.support.arrays import Bytes, Ints

_POSITIONS = 4
_MOST_POSITIONS = 8 if VNNI else _POSITIONS  # whose sums are in registers
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
def _independent(row: Ints, uops: Ints, starts: Ints, runs: Int, positions: Int) -> bool:
    """Whether so many consecutive positions share weights and can run in lockstep."""
    step = row[ACC1]
    if step == 0 or row[WGT1] != 0 or runs > _MOST_RUNS:
        return False
    for r in range(runs):
        for other in range(r):
            distance = abs(uops[starts[r], U_ACC] - uops[starts[other], U_ACC])
            if distance != 0 and distance < positions * step and distance % step == 0:
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
    runs and a row; `sizes` are batch, chunks, groups and bits.
    """
    if row[LOOP1] == 1 and row[LOOP0] > 1:
        row = _outer_as_inner(row, starts[len(starts) - len(row) :])
    runs = find_runs(row, uops, starts)
    block = _MOST_POSITIONS if sizes[2] == _COMMON_GROUPS else _POSITIONS
    while block > 1 and not _independent(row, uops, starts, runs, block):
        block = block // 2 if block > _POSITIONS else 1
    lanes = sizes[1] * LANES
    width = sizes[0] * lanes
    whole, flat_scl, flat_out = sends_bytes(row, sizes[3], lanes), scl.reshape(-1), out.reshape(-1)
    for i in range(row[LOOP0]):
        for j in range(0, row[LOOP1], block):
            n = min(block, row[LOOP1] - j)
            for r in range(runs):
                u, end = starts[r], starts[r + 1]
                keep = row[INIT] == 0 or uops[u, U_FIRST] == 0
                if n == 1:
                    _run1(row, uops, u, end, i, j, keep, inp, offsets, tiles, acc, sizes)
                elif n > _POSITIONS:
                    _run_block(row, uops, u, end, i, j, n, keep, inp, offsets, tiles, acc, sizes, _COMMON_GROUPS, True)
                elif sizes[2] == _COMMON_GROUPS:
                    _run_block(row, uops, u, end, i, j, n, keep, inp, offsets, tiles, acc, sizes, _COMMON_GROUPS, False)
                else:
                    _run_block(row, uops, u, end, i, j, n, keep, inp, offsets, tiles, acc, sizes, sizes[2], False)
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
def _outer_as_inner(row: Ints, result: Ints) -> Ints:
    """A GEMM whose inner loop has one position, its loops exchanged, in memory that is given."""
    for n in range(len(row)):
        result[n] = row[n]
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
def _run_block(
    row: Ints, uops: Ints, first: Int, end: Int, i: Int, j: Int, n: Int, keep: bool, inp: Sums, offsets: Sums,
    tiles: Sums, acc: Sums, sizes: Ints, groups: Int, wide: bool,
) -> None:  # fmt: skip
    """Execute a run at `n` positions that share weights, at most 8 if `wide` and 4 otherwise; a
    constant `groups` is unrolled, a constant `wide` leaves one of both.

    Beyond `n` the last position is computed again, which costs less than positions one by one.
    """
    batch, chunks = sizes[0], sizes[1]
    last = n - 1
    k2, k3, k4, k5, k6, k7 = min(2, last), min(3, last), min(4, last), min(5, last), min(6, last), last
    wgt = row[WGT] + i * row[WGT0]
    step_acc = row[ACC1] * batch * chunks * LANES
    step_src = row[SRC1] * batch
    a = row[ACC] + i * row[ACC0] + j * row[ACC1] + uops[first, U_ACC]
    src = row[SRC] + i * row[SRC0] + j * row[SRC1]
    zero = splat16(0)
    for b in range(batch):
        for c in range(chunks):
            p0 = ((a * batch + b) * chunks + c) * LANES
            p1, p2, p3 = p0 + step_acc, p0 + k2 * step_acc, p0 + k3 * step_acc
            p4, p5, p6, p7 = p0 + k4 * step_acc, p0 + k5 * step_acc, p0 + k6 * step_acc, p0 + k7 * step_acc
            v0 = v1 = v2 = v3 = v4 = v5 = v6 = v7 = zero
            if keep:
                v0, v1, v2, v3 = load16(acc, p0), load16(acc, p1), load16(acc, p2), load16(acc, p3)
                if wide:
                    v4, v5, v6, v7 = load16(acc, p4), load16(acc, p5), load16(acc, p6), load16(acc, p7)
            o0 = o1 = o2 = o3 = o4 = o5 = o6 = o7 = 0
            for u in range(first, end):
                x0 = (src + uops[u, U_SRC]) * batch + b
                x1, x2, x3 = x0 + step_src, x0 + k2 * step_src, x0 + k3 * step_src
                x4, x5, x6, x7 = x0 + k4 * step_src, x0 + k5 * step_src, x0 + k6 * step_src, x0 + k7 * step_src
                if VNNI:
                    o0 += offsets[x0]
                    o1 += offsets[x1]
                    o2 += offsets[x2]
                    o3 += offsets[x3]
                    if wide:
                        o4 += offsets[x4]
                        o5 += offsets[x5]
                        o6 += offsets[x6]
                        o7 += offsets[x7]
                w = ((wgt + uops[u, U_WGT]) * chunks + c) * groups * LANES
                for g in range(groups):
                    weights = load16(tiles, w + g * LANES)
                    v0 = dot16(v0, weights, broadcast16(inp, x0 * groups + g))
                    v1 = dot16(v1, weights, broadcast16(inp, x1 * groups + g))
                    v2 = dot16(v2, weights, broadcast16(inp, x2 * groups + g))
                    v3 = dot16(v3, weights, broadcast16(inp, x3 * groups + g))
                    if wide:
                        v4 = dot16(v4, weights, broadcast16(inp, x4 * groups + g))
                        v5 = dot16(v5, weights, broadcast16(inp, x5 * groups + g))
                        v6 = dot16(v6, weights, broadcast16(inp, x6 * groups + g))
                        v7 = dot16(v7, weights, broadcast16(inp, x7 * groups + g))
            store16(acc, p0, add16(v0, splat16(-o0)))
            store16(acc, p1, add16(v1, splat16(-o1)))
            store16(acc, p2, add16(v2, splat16(-o2)))
            store16(acc, p3, add16(v3, splat16(-o3)))
            if wide:
                store16(acc, p4, add16(v4, splat16(-o4)))
                store16(acc, p5, add16(v5, splat16(-o5)))
                store16(acc, p6, add16(v6, splat16(-o6)))
                store16(acc, p7, add16(v7, splat16(-o7)))
