# SPDX-License-Identifier: Apache-2.0
"""The instructions of a program on symbols in one compiled loop: no Python between them.

The loop stops where something is left to the caller, and goes on behind it. It covers LOADs other
than those of micro-ops, STOREs of requantised results, GEMM, and VECTOR as far as `sum_kernels`
does. An instruction that is left has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vdla.compiler.certificates import sum_kernels
from vdla.compiler.certificates import symbol_kernels as sk
from vdla.compiler.certificates.jit import Int, entry_point, helper, routine, routine_of
from vdla.compiler.certificates.requantise_kernels import bias_of, requantised
from vdla.hardware.isa import COL, Buffer, Emit, Opcode, Operand, Source, VectorOp

DONE, CALLER, LARGE, ENDED, SMALL = range(5)
"""Why the loop stops: the end; an instruction is the caller's; the terms of a sum are, and it goes
on behind them; sums that end are, of an instruction that is done; scratch arrays are too short.
"""
POSITION, ROW, STEP, DONE_SUMS, ENTRY, COUNT, ITERATIONS = range(7)
"""What the state of the loop has: the instruction; its row of a queue, which has one; where in it
to go on, or -1, and the sums that have ended by then; the sum whose terms are left; the sums that
end in it; and its iterations.
"""
LIMITS = (
    "axi_bits", "inp_depth", "wgt_depth", "scl_depth", "acc_depth", "out_depth",
    "inp_size", "wgt_size", "scl_size", "acc_size", "inp_bits", "wgt_bits", "scl_bits", "acc_bits", "out_bits",
    "batch", "outputs", "stores", "elements",
)  # fmt: skip
"""What the loop needs to know of the machine: the depths of buffers, the elements of their entries
and their bits; `stores` is whether it runs STOREs, `elements` whether VECTOR and requantisation.
"""
(
    _AXI_BITS, _INP_DEPTH, _WGT_DEPTH, _SCL_DEPTH, _ACC_DEPTH, _OUT_DEPTH,
    _INP_SIZE, _WGT_SIZE, _SCL_SIZE, _ACC_SIZE, _INP_BITS, _WGT_BITS, _SCL_BITS, _ACC_BITS, _OUT_BITS,
    _BATCH, _OUTPUTS, _STORES, _ELEMENTS,
) = range(len(LIMITS))  # fmt: skip
RANGES = ("inp", "wgt", "out", "int32")
_OUT_RANGE, _INT32 = RANGES.index("out"), RANGES.index("int32")
TENSOR = ("symbols", "begin", "size", "bits", "bytes", "waits")
"""The columns of a tensor: whether it is of symbols, else of numbers of so many `bytes`; its place
among all of these; elements; bits of an element in DRAM; whether results wait to be stored in it.
"""
_SYMBOLS, _FIRST, _SIZE, _BITS, _BYTES, _WAITS = range(len(TENSOR))

_OPCODE, _BUFFER, _SRAM, _DRAM = COL["opcode"], COL["buffer"], COL["sram"], COL["dram"]
_Z, _Y, _X, _Z_STRIDE, _Y_STRIDE = (COL[name] for name in ("z_size", "y_size", "x_size", "z_stride", "y_stride"))
_Y_BEFORE, _Y_AFTER, _X_BEFORE, _X_AFTER = (COL[name] for name in ("y_before", "y_after", "x_before", "x_after"))
_PAD, _WIDEN, _BEGIN, _END = COL["pad_value"], COL["widen"], COL["uop_begin"], COL["uop_end"]
_LOOP0, _LOOP1, _INIT, _EMIT = COL["loop0"], COL["loop1"], COL["init"], COL["emit"]
_OP, _SOURCE, _OPERAND, _IMM = COL["op"], COL["source"], COL["operand"], COL["imm"]
_ACC, _SRC, _WGT, _SCL, _OUT = (COL[name] for name in ("acc", "src", "wgt", "scl", "out"))
_ACC0, _ACC1, _SRC0, _SRC1 = (COL[name] for name in ("acc0", "acc1", "src0", "src1"))
_WGT0, _WGT1, _SCL0, _SCL1 = (COL[name] for name in ("wgt0", "wgt1", "scl0", "scl1"))
_ZERO, _CLIP_LOW, _CLIP_HIGH = COL["zero_point"], COL["clip_lo"], COL["clip_hi"]

_LOAD, _STORE, _GEMM, _VECTOR, _SYNC = (int(Opcode[name]) for name in ("LOAD", "STORE", "GEMM", "VECTOR", "SYNC"))
_INP, _WGT_BUFFER, _SCL_BUFFER, _ACC_BUFFER = (int(Buffer[name]) for name in ("INP", "WGT", "SCL", "ACC"))
_NO_EMIT, _REQUANT = int(Emit.NONE), int(Emit.REQUANT)
_BY_SRC, _BY_WGT, _BY_IMM = int(Operand.SRC), int(Operand.WGT), int(Operand.IMM)
_MAC, _FROM_INP = int(VectorOp.MAC), int(Source.INP)
_NO_OP = 0
_OP_CODES = tuple(sum_kernels.VECTOR_OPS.get(op, _NO_OP) for op in VectorOp)

Array = Any
Arrays = Any  # a tuple of them
Window = tuple[Int, Int, Int]

_gemm: Callable[..., bool] = routine_of(sum_kernels.gemm)
_multiply_lanes: Callable[..., bool] = routine_of(sum_kernels.multiply_lanes)
_vector, _clear = routine_of(sum_kernels.vector), routine_of(sum_kernels.clear)
_load_inputs, _load_weights = routine_of(sum_kernels.load_inputs), routine_of(sum_kernels.load_weights)
_settle = sum_kernels.settle_one


# --- transfers ------------------------------------------------------------------------------------


@helper
def _window(row: Array, tensor: Array, bits: Int, elements: Int, limits: Array) -> tuple[bool, Window]:
    """Whether a transfer moves whole elements of a tensor, which has them; its first place, and the
    steps from plane to plane and from line to line.
    """
    axi = limits[_AXI_BITS]
    begin, z_step, y_step = row[_DRAM] * axi, row[_Z_STRIDE] * axi, row[_Y_STRIDE] * axi
    unit = tensor[_BITS]
    z, y, line = row[_Z], row[_Y], row[_X] * elements
    first, plane, step = begin // unit, z_step // unit, y_step // unit
    if unit != bits or begin % unit or (z > 1 and z_step % unit) or (y > 1 and y_step % unit):
        return False, (first, plane, step)
    z_end, y_end = max(z - 1, 0) * plane, max(y - 1, 0) * step
    least, most = first + min(z_end, 0) + min(y_end, 0), first + max(z_end, 0) + max(y_end, 0) + line
    return bool(z * y * line == 0 or (least >= 0 and most <= tensor[_SIZE])), (first, plane, step)


@helper
def _number(numbers: Array, at: Int, size: Int) -> Int:
    """A number of 1, 2, 4 or 8 bytes, the lowest ones first."""
    if size == 1:
        return np.int64(np.int8(numbers[at]))
    value = np.uint64(0)
    for k in range(size):
        value |= np.uint64(numbers[at + k]) << np.uint64(8 * k)
    shift = np.uint64(64 - 8 * size)
    return np.int64(value << shift) >> np.int64(shift)


@helper
def _set_number(target: Array, value: Int) -> None:
    made = sk.number(value)
    target.value, target.low, target.high, target.form, target.norm = made[:5]


@routine
def _fill(target: Array, at: Int, count: Int, value: Int) -> Int:
    """Numbers in `count` places; where the next symbol belongs."""
    for k in range(count):
        _set_number(target[at + k], value)
    return at + count


@routine
def _copy(target: Array, at: Int, tensor: Array, symbols: Array, numbers: Array, start: Int, count: Int) -> Int:
    """Elements of a tensor from `start` on; where the next symbol belongs."""
    if tensor[_SYMBOLS]:
        for k in range(count):
            target[at + k] = symbols[tensor[_FIRST] + start + k]
    else:
        size = tensor[_BYTES]
        for k in range(count):
            _set_number(target[at + k], _number(numbers, tensor[_FIRST] + (start + k) * size, size))
    return at + count


@routine
def _move(
    row: Array, tensor: Array, window: Window, elements: Int, symbols: Array, numbers: Array, target: Array
) -> None:
    """Fill entries of a buffer with a window of a tensor and padding around it."""
    pad, lines, line = row[_PAD], row[_Y], row[_X] * elements
    before, after = row[_X_BEFORE] * elements, row[_X_AFTER] * elements
    width = before + line + after
    at = row[_SRAM] * elements
    for z in range(row[_Z]):
        at = _fill(target, at, row[_Y_BEFORE] * width, pad)
        for y in range(lines):
            at = _fill(target, at, before, pad)
            start = window[0] + z * window[1] + y * window[2]
            at = _copy(target, at, tensor, symbols, numbers, start, line)
            at = _fill(target, at, after, pad)
        at = _fill(target, at, row[_Y_AFTER] * width, pad)


@routine
def _move_weights(
    row: Array, tensor: Array, window: Window, numbers: Array, factors: Array, sums: Array, kinds: Array, norms: Array,
    stale: Array,
) -> None:  # fmt: skip
    """Fill entries of wgt with numbers, without symbols, which are `stale` from then on."""
    inputs, outputs = factors.shape[1], factors.shape[2]
    at, size = row[_SRAM], tensor[_BYTES]
    for z in range(row[_Z]):
        for y in range(row[_Y]):
            start = tensor[_FIRST] + (window[0] + z * window[1] + y * window[2]) * size
            for _ in range(row[_X]):
                most = 0.0
                for o in range(outputs):
                    positive, negative = 0.0, 0.0
                    for i in range(inputs):
                        value = float(_number(numbers, start, size))
                        factors[at, i, o] = value
                        positive, negative = positive + max(value, 0.0), negative + min(value, 0.0)
                        most = max(most, abs(value))
                        start += size
                    sums[at, 0, o], sums[at, 1, o] = positive, negative
                kinds[at], norms[at], stale[at] = sum_kernels.NUMBERS, most, True
                at += 1


@routine
def _refresh(at: Int, factors: Array, now: Array, stale: Array) -> None:
    """Make symbols of the numbers of an entry of wgt."""
    if stale[at]:
        for o in range(now.shape[1]):
            for i in range(now.shape[2]):
                _set_number(now[at, o, i], np.int64(factors[at, i, o]))
        stale[at] = False


@entry_point
def refresh(factors: Array, now: Array, stale: Array) -> None:
    """Make symbols of the numbers of all entries of wgt."""
    for at in range(len(now)):
        _refresh(at, factors, now, stale)


# --- LOAD and STORE -------------------------------------------------------------------------------


@routine
def _load(
    row: Array, at_tensor: Int, dram: Arrays, limits: Array, ranges: Array, wraps: Array,
    inp: Arrays, wgt: Arrays, sums: Arrays, scl: Array,
) -> Int:  # fmt: skip
    """Run a LOAD."""
    (tensors, symbols, numbers), (now, digits, bounds, alike, norms) = dram, inp
    buffer = row[_BUFFER]
    if buffer not in (_INP, _WGT_BUFFER, _SCL_BUFFER, _ACC_BUFFER):
        return CALLER
    place = 3 if buffer == _ACC_BUFFER else buffer
    elements, bits = limits[_INP_SIZE + place], limits[_INP_BITS + place]
    if buffer == _ACC_BUFFER and row[_WIDEN]:
        bits = limits[_INP_BITS]
    lines, width = row[_Y_BEFORE] + row[_Y] + row[_Y_AFTER], row[_X_BEFORE] + row[_X] + row[_X_AFTER]
    first, count, moved = row[_SRAM], row[_Z] * lines * width, row[_Z] * row[_Y] * row[_X]
    if first < 0 or first + count > limits[_INP_DEPTH + place] or (moved and at_tensor < 0):
        return CALLER
    tensor = tensors[max(at_tensor, 0)]
    inside, window = _window(row, tensor, bits, elements, limits)
    if moved and (tensor[_WAITS] or not inside):
        return CALLER
    if buffer == _INP:
        _move(row, tensor, window, elements, symbols, numbers, now.reshape(-1))
        entries = now[first : first + count].reshape(count, elements)
        _load_inputs(entries, first, ranges[0, 0], ranges[0, 1], wraps[0], digits, bounds, alike, norms)
    elif buffer == _WGT_BUFFER:
        weights, factors, weight_sums, _, _, kinds, weight_norms, stale = wgt
        if moved == count and not tensor[_SYMBOLS]:
            _move_weights(row, tensor, window, numbers, factors, weight_sums, kinds, weight_norms, stale)
        else:
            _move(row, tensor, window, elements, symbols, numbers, weights.reshape(-1))
            stale[first : first + count] = False
            _load_weights(weights[first : first + count], first, ranges[1, 0], ranges[1, 1], wraps[1], *wgt[1:7])
    elif buffer == _SCL_BUFFER:
        _move(row, tensor, window, elements, symbols, numbers, scl.reshape(-1))
    else:
        acc, digits, values, bounds_of_sums, loads, _ = sums
        _move(row, tensor, window, elements, symbols, numbers, acc.reshape(-1))
        for at in range(first, first + count):
            _clear(at, digits, values, bounds_of_sums, loads)
    return DONE


@routine
def _store(row: Array, at_tensor: Int, dram: Arrays, limits: Array, out: Array, is_raw: Array, waiting: Array) -> Int:
    """Run a STORE of results that are there."""
    tensors, symbols, _ = dram
    tensor, first = tensors[at_tensor], row[_SRAM]
    count, lanes, bits = row[_Z] * row[_Y] * row[_X], limits[_ACC_SIZE], limits[_OUT_BITS]
    if not limits[_STORES] or not tensor[_SYMBOLS] or tensor[_WAITS] or first < 0 or first + count > len(out):
        return CALLER
    inside, window = _window(row, tensor, bits, lanes, limits)
    if not inside:
        return CALLER
    for at in range(first, first + count):
        if is_raw[at] or waiting[at] >= 0:
            return CALLER
    source, results = first * lanes, out.reshape(-1)
    for z in range(row[_Z]):
        for y in range(row[_Y]):
            target = tensor[_FIRST] + window[0] + z * window[1] + y * window[2]
            for k in range(row[_X] * lanes):
                symbols[target + k] = results[source + k]
            source += row[_X] * lanes
    return DONE


# --- iterations -----------------------------------------------------------------------------------


@routine
def _fill_steps(row: Array, uops: Array, steps: Array) -> None:
    """The iterations of a compute instruction as `sum_kernels.gemm` has them."""
    count = 0
    for i in range(row[_LOOP0]):
        for j in range(row[_LOOP1]):
            acc, src = i * row[_ACC0] + j * row[_ACC1], i * row[_SRC0] + j * row[_SRC1]
            wgt, scl = i * row[_WGT0] + j * row[_WGT1], i * row[_SCL0] + j * row[_SCL1]
            for u in range(row[_BEGIN], row[_END]):
                steps[count, 0], steps[count, 1], steps[count, 2] = acc + uops[u, 0], src + uops[u, 1], wgt + uops[u, 2]
                steps[count, 3], steps[count, 4] = scl, acc + uops[u, 0]
                steps[count, 5] = uops[u, 3] * row[_INIT] != 0
                steps[count, 6] = uops[u, 4] != 0 and row[_EMIT] != _NO_EMIT
                count += 1


@helper
def _iterations(row: Array) -> Int:
    return row[_LOOP0] * row[_LOOP1] * max(0, row[_END] - row[_BEGIN])


@helper
def _ends(row: Array, uops: Array) -> Int:
    """The sums that end in an instruction."""
    count = 0
    for u in range(row[_BEGIN], row[_END]):
        count += uops[u, 4] != 0
    return count * row[_LOOP0] * row[_LOOP1] if row[_EMIT] != _NO_EMIT else 0


@helper
def _stays(steps: Array, count: Int, column: Int, begin: Int, depth: Int, ended: bool) -> bool:
    """Whether the indices of iterations, or of those that end a sum, are inside a buffer."""
    for s in range(count):
        at = steps[s, column] + begin
        if (steps[s, 6] or not ended) and (at < 0 or at >= depth):
            return False
    return True


@helper
def _reads_source(row: Array) -> bool:
    return bool(row[_OPERAND] == _BY_SRC or row[_OP] == _MAC)


@routine
def _is_covered(row: Array, count: Int, limits: Array, steps: Array) -> bool:
    """Whether the iterations of an instruction stay inside all buffers."""
    if not _stays(steps, count, 0, row[_ACC], limits[_ACC_DEPTH], False):
        return False
    if not _stays(steps, count, 3, row[_SCL], limits[_SCL_DEPTH], True):
        return False
    if not _stays(steps, count, 4, row[_OUT], limits[_OUT_DEPTH], True):
        return False
    lanes = limits[_ACC_SIZE]
    src, wgt = limits[_INP_DEPTH], limits[_WGT_DEPTH]
    if row[_OPCODE] == _VECTOR:
        src = src * limits[_INP_SIZE] // lanes if row[_SOURCE] == _FROM_INP else limits[_ACC_DEPTH]
        wgt = wgt * limits[_WGT_SIZE] // limits[_OUTPUTS]
    reads_source = row[_OPCODE] == _GEMM or _reads_source(row)
    if reads_source and not _stays(steps, count, 1, row[_SRC], src, False):
        return False
    reads_weights = row[_OPCODE] == _GEMM or row[_OPERAND] == _BY_WGT
    return not reads_weights or _stays(steps, count, 2, row[_WGT], wgt, False)


@helper
def _is_of_lanes(row: Array, count: Int, limits: Array, steps: Array, kinds: Array) -> bool:
    """Whether an instruction multiplies and accumulates lanes with weights that are numbers."""
    if row[_OPCODE] != _VECTOR or row[_OP] != _MAC or row[_SOURCE] != _FROM_INP or row[_OPERAND] != _BY_WGT:
        return False
    shares = limits[_WGT_SIZE] // limits[_OUTPUTS]
    known = True
    for s in range(count):
        known = known and kinds[(steps[s, 2] + row[_WGT]) // shares] == sum_kernels.NUMBERS
    return known


# --- compute --------------------------------------------------------------------------------------


@routine
def _combine(
    row: Array, count: Int, limits: Array, ranges: Array, wraps: Array, queue: Array, inp: Array, wgt: Array,
    sums: Arrays, scratch: Arrays, weights: Arrays,
) -> bool:  # fmt: skip
    """A VECTOR on sums without terms that wait; False, and all is as before, if not covered."""
    acc, (steps, ended, results, saved, immediate, _, pair, types, _) = sums[0], scratch
    factors, stale = weights
    op, by_inp, lanes = _OP_CODES[row[_OP]], row[_SOURCE] == _FROM_INP, acc.shape[1]
    if op == _NO_OP:
        return False
    least, most, shares = len(acc), 0, limits[_WGT_SIZE] // limits[_OUTPUTS]
    for s in range(count):
        at = steps[s, 0] + row[_ACC]
        least, most = min(least, at), max(most, at + 1)
        if not _settle(at, *sums):
            return False
        if _reads_source(row) and not by_inp and not _settle(steps[s, 1] + row[_SRC], *sums):
            return False
        if row[_OPERAND] == _BY_WGT:
            _refresh((steps[s, 2] + row[_WGT]) // shares, factors, wgt, stale)
    for at in range(least, most):
        for k in range(lanes):
            saved[at, k] = acc[at, k]
    types[2] = wraps[2]
    for operand in range(2):
        of = operand if operand or by_inp else _INT32
        if operand and row[_OPERAND] == _BY_IMM:
            of = _INT32
        pair[operand, 0], pair[operand, 1] = ranges[of, 0], ranges[of, 1]
        types[operand] = wraps[2] if of == _INT32 else wraps[of]
    second = wgt.reshape(-1, limits[_OUTPUTS])
    if row[_OPERAND] == _BY_IMM:
        _set_number(immediate[0, 0], row[_IMM])
        second, queue[0, 4] = immediate, 0
        for s in range(count):
            steps[s, 2] = 0
    first = inp.reshape(-1, lanes) if by_inp else acc
    if _vector(steps, queue, op, row[_OPERAND], first, second, pair, types, acc, ended, results) < 0:
        return True
    for at in range(least, most):
        for k in range(lanes):
            acc[at, k] = saved[at, k]
    return False


@routine
def _emit(
    row: Array, count: Int, limits: Array, ranges: Array, wraps: Array, ended: Array, sums: Array, results: Arrays,
    clip: Array,
) -> bool:  # fmt: skip
    """Requantise sums that end; False, and all are left, if one of them is not covered."""
    scl, out, is_raw, waiting = results
    if row[_EMIT] != _REQUANT or not limits[_ELEMENTS]:
        return False
    clip[0], clip[1], clip[2] = row[_ZERO], row[_CLIP_LOW], row[_CLIP_HIGH]
    for s in range(count):
        scale, at = ended[s, 0], ended[s, 1]
        for k in range(sums.shape[1]):
            lane = scl[scale, k % limits[_OUTPUTS]]
            bias = bias_of(sk.element(lane))
            if not bias[5]:
                return False
            made = requantised(sk.element(sums[s, k]), bias, lane.low, clip, ranges[_OUT_RANGE], wraps[2:])
            if not made[5]:
                return False
            target = out[at, k]
            target.value, target.low, target.high, target.form, target.norm = made[:5]
        is_raw[at], waiting[at] = False, -1
    return True


@routine
def _compute(
    state: Array, row: Array, limits: Array, ranges: Array, wraps: Array, uops: Array,
    inp: Arrays, wgt: Arrays, sums: Arrays, results: Arrays, scratch: Arrays,
) -> Int:  # fmt: skip
    """Run a GEMM or a VECTOR, or the rest of one."""
    steps, ended, ending, _, _, queue, _, _, clip = scratch
    resumed, count = state[STEP] >= 0, _iterations(row)
    if not resumed:
        if row[_BEGIN] < 0 or row[_END] > len(uops) or (row[_OPCODE] == _VECTOR and not limits[_ELEMENTS]):
            return CALLER
        state[COUNT], state[ITERATIONS] = _ends(row, uops), count
        if count > len(steps) or state[COUNT] > len(ended):
            return SMALL
        _fill_steps(row, uops, steps)
        if not _is_covered(row, count, limits, steps):
            return CALLER
    queue[0, 0], queue[0, 1], queue[0, 2], queue[0, 3] = 0, count, row[_ACC], row[_SRC]
    queue[0, 4], queue[0, 5], queue[0, 6] = row[_WGT], row[_SCL], row[_OUT]
    stop = state[ROW : DONE_SUMS + 1]
    if not resumed:
        state[ROW], state[DONE_SUMS] = 0, 0
    _, w_numbers, _, _, _, w_kinds, w_norms, w_stale = wgt
    complete = True
    if row[_OPCODE] == _GEMM:
        complete = _gemm(stop, steps, queue, limits[_BATCH], *inp[1:], *wgt[1:7], *sums, ended, ending)
    elif _is_of_lanes(row, count, limits, steps, w_kinds):
        _, digits, bounds, _, norms = inp
        complete = _multiply_lanes(stop, steps, queue, digits, bounds, norms, w_numbers, w_norms, *sums, ended, ending)
    elif not _combine(
        row, count, limits, ranges, wraps, queue, inp[0], wgt[0], sums, scratch, (w_numbers, w_stale)
    ):  # fmt: skip
        return CALLER
    if not complete:
        state[ENTRY] = steps[state[STEP], 0] + row[_ACC]
        return LARGE
    state[STEP] = -1
    if state[COUNT] and not _emit(row, state[COUNT], limits, ranges, wraps, ended, ending, results, clip):
        return ENDED
    return DONE


@entry_point
def run(
    state: Array, columns: Array, tensor_of: Array, dram: Arrays,
    limits: Array, ranges: Array, wraps: Array, uops: Array,
    inp: Arrays, wgt: Arrays, sums: Arrays, results: Arrays, scratch: Arrays,
) -> int:  # fmt: skip
    """Run instructions from `state[POSITION]` on; why it stops.

    `dram` has the table of tensors, and the symbols and the numbers of all; `ranges` are those of
    inp, wgt, out and int32 with their bits, `wraps` the keys of inp, wgt, int32 and int64. `inp`
    and `wgt` are entries as symbols and as `sum_kernels` has them, `sums` those of acc. `results`
    are the entries of scl and out, which are raw, and where they wait, or -1. `scratch` has room
    for iterations, for sums that end, for acc, for an immediate, a row of a queue, types of
    operands and their keys, and bounds of results.
    """
    while state[POSITION] < len(columns):
        row, tensor = columns[state[POSITION]], tensor_of[state[POSITION]]
        opcode, why = row[_OPCODE], DONE
        if opcode == _LOAD:
            why = _load(row, tensor, dram, limits, ranges, wraps, inp, wgt, sums, results[0])
        elif opcode == _STORE:
            why = _store(row, tensor, dram, limits, *results[1:])
        elif opcode in (_GEMM, _VECTOR):
            why = _compute(state, row, limits, ranges, wraps, uops, inp, wgt, sums, results, scratch)
        elif opcode != _SYNC:
            why = CALLER
        if why != DONE:
            return int(why)
        state[POSITION] += 1
    return DONE
