# SPDX-License-Identifier: Apache-2.0
"""The compute instructions of a machine on symbols in compiled code, one iteration after another.

Sums have two parts: a symbol, and terms that wait to be added to it. Terms with weights that are
numbers are floats, as in `product_kernels`: the digits of sums, and their bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vdla.compiler.certificates import field_kernels as fk
from vdla.compiler.certificates import symbol_kernels as sk
from vdla.compiler.certificates.jit import Int, entry_point, helper, routine
from vdla.compiler.certificates.lane_products import LANES, add_products
from vdla.compiler.certificates.product_kernels import element_value, of_digits
from vdla.compiler.certificates.symbols import LARGE, SymbolForm
from vdla.hardware.isa import VectorOp

_PLAIN, _POLYNOMIAL, _HALVES, _CLIPPED = (int(SymbolForm[n]) for n in ("PLAIN", "POLYNOMIAL", "HALVES", "CLIPPED"))
_DIGIT, _LOW = np.uint64(31), np.uint64((1 << 31) - 1)
_MOST_LOAD = float(1 << 22)  # magnitudes of weights of a sum whose digits are exact
_ADD, _MUL = np.int64(sk.OPS.index("add")), np.int64(sk.OPS.index("mul"))
NUMBERS, ALIKE, DIFFERENT = 1, 2, 3
"""What is known of the weights of an entry: numbers, unknown with equal bounds, others."""

Array = Any


@helper
def _element(one: Any, least: Int, most: Int, wrap: Int) -> Any:  # noqa: ANN401
    """The value, the bounds and the norm of an element of a type as a factor."""
    if one.form == _POLYNOMIAL:
        return fk.reduced(fk.absorbed(wrap, one.value)), least, most, 1.0
    if one.form >= _CLIPPED:
        return element_value(one.form, one.value), one.low, one.high, 1.0
    return one.value, one.low, one.high, float(one.norm)


@helper
def _copy(target: Array, at: Int, source: Array, start: Int, count: Int, step: Int) -> Int:
    """Copy symbols, or one of them repeatedly if `step` is 0; where the next one belongs."""
    for k in range(count):
        target[at + k] = source[start + k * step]
    return at + count


@entry_point
def load(source: Array, window: Array, padding: Array, target: Array, at: Int) -> None:
    """Copy a window of a flat tensor with padding around it to a flat buffer.

    `window` has the place of its first element, the steps and the counts of planes and lines, the
    elements of a line, and those of padding: lines before and after, elements before and after.
    """
    start, z_step, y_step, planes, lines, line, above, below, before, after = window
    width = before + line + after
    for z in range(planes):
        at = _copy(target, at, padding, 0, above * width, 0)
        for y in range(lines):
            at = _copy(target, at, padding, 0, before, 0)
            at = _copy(target, at, source, start + z * z_step + y * y_step, line, 1)
            at = _copy(target, at, padding, 0, after, 0)
        at = _copy(target, at, padding, 0, below * width, 0)


@entry_point
def load_inputs(
    entries: Array, first: Int, least: Int, most: Int, wrap: Int, digits: Array, bounds: Array, alike: Array,
    norms: Array,
) -> None:  # fmt: skip
    """Prepare entries `[entries, elements]` as first factors; `norms` are the largest of an entry.

    `alike` is 1 where all elements of an entry have the same bounds: the lower, the upper, and the
    lower one again are before it.
    """
    for e in range(len(entries)):
        same, at = True, first + e
        norms[at] = 0.0
        for k in range(entries.shape[1]):
            value, low, high, norm = _element(entries[e, k], least, most, wrap)
            digits[at, 0, k] = float(np.int64(value & _LOW))
            digits[at, 1, k] = float(np.int64(value >> _DIGIT))
            bounds[at, 0, k], bounds[at, 1, k] = low, high
            same = same and low == bounds[at, 0, 0] and high == bounds[at, 1, 0]
            norms[at] = max(norms[at], norm)
        alike[at, 0], alike[at, 1], alike[at, 2] = bounds[at, 0, 0], bounds[at, 1, 0], bounds[at, 0, 0]
        alike[at, 3] = 1.0 if same else 0.0


@entry_point
def load_weights(
    entries: Array, first: Int, least: Int, most: Int, wrap: Int, numbers: Array, sums: Array, values: Array,
    bounds: Array, kinds: Array, norms: Array,
) -> None:  # fmt: skip
    """Prepare entries `[entries, outputs, inputs]` as second factors."""
    outputs, inputs = entries.shape[1], entries.shape[2]
    for e in range(len(entries)):
        at, known, same = first + e, True, True
        norms[at] = 0.0
        for o in range(outputs):
            positive, negative = 0.0, 0.0
            for i in range(inputs):
                value, low, high, norm = _element(entries[e, o, i], least, most, wrap)
                norms[at] = max(norms[at], norm)
                known = known and low == high
                numbers[at, i, o], values[at, i, o] = low, value
                bounds[at, 0, i, o], bounds[at, 1, i, o] = low, high
                same = same and low == bounds[at, 0, 0, 0] and high == bounds[at, 1, 0, 0]
                positive, negative = positive + max(low, 0), negative + min(low, 0)
            sums[at, 0, o], sums[at, 1, o] = positive, negative
        kinds[at] = NUMBERS if known else ALIKE if same else DIFFERENT


# --- sums -----------------------------------------------------------------------------------------


@helper
def _clear(at: Int, digits: Array, values: Array, bounds: Array, loads: Array) -> None:
    for k in range(values.shape[1]):
        digits[at, 0, k], digits[at, 1, k], values[at, k] = 0.0, 0.0, np.uint64(0)
        bounds[at, 0, k], bounds[at, 1, k] = 0.0, 0.0
    loads[at, 0], loads[at, 1], loads[at, 2] = 0.0, 0.0, 0.0


@helper
def _start(at: Int, acc: Array) -> None:
    for k in range(acc.shape[1]):
        target = acc[at, k]
        target.value, target.low, target.high, target.form, target.norm = np.uint64(0), 0, 0, _PLAIN, np.float32(0)


@helper
def _fold(at: Int, digits: Array, values: Array, loads: Array) -> None:
    """Make elements of the digits of a sum, so that more terms are exact."""
    for k in range(values.shape[1]):
        values[at, k] = fk.add(values[at, k], of_digits(digits[at, 0, k], digits[at, 1, k]))
        digits[at, 0, k], digits[at, 1, k] = 0.0, 0.0
    loads[at, 0] = 0.0


@routine
def settle_one(at: Int, acc: Array, digits: Array, values: Array, bounds: Array, loads: Array, large: Array) -> bool:
    """Add the terms that wait to a sum; False, and the terms in `large`, if this is not covered."""
    if loads[at, 2] == 0.0:
        return True
    _fold(at, digits, values, loads)
    norm, covered = np.float32(loads[at, 1]), loads[at, 1] < LARGE
    for k in range(values.shape[1]):
        low, high = np.int64(bounds[at, 0, k]), np.int64(bounds[at, 1, k])
        made = sk.fitted(values[at, k], low, high, sk.NO, norm, sk.LEAST32, sk.MOST32)
        total = sk.added(sk.element(acc[at, k]), made, sk.LEAST32, sk.MOST32, sk.BITS32)
        covered = covered and total[5]
        target = large[0, k]
        target.value, target.low, target.high, target.form, target.norm = made[:5]
        target = large[1, k]
        target.value, target.low, target.high, target.form, target.norm = total[:5]
    if not covered:
        return False
    for k in range(values.shape[1]):
        acc[at, k] = large[1, k]
    _clear(at, digits, values, bounds, loads)
    return True


@entry_point
def settle(begin: Int, acc: Array, digits: Array, values: Array, bounds: Array, loads: Array, large: Array) -> int:
    """Add all terms to their sums, from one of them on; the sum that is not covered, or -1."""
    for at in range(begin, len(acc)):
        if not settle_one(at, acc, digits, values, bounds, loads, large):
            return at
    return -1


@entry_point
def clear(at: Int, digits: Array, values: Array, bounds: Array, loads: Array) -> None:
    """Forget the terms of a sum."""
    _clear(at, digits, values, bounds, loads)


# --- GEMM -----------------------------------------------------------------------------------------


@helper
def _multiply_numbers(at: Int, src: Int, wgt: Int, digits: Array, x: Array, w: Array, batch: Int) -> None:
    """Add the products of the digits of an entry with numbers."""
    lanes, elements, inputs, outputs = digits.shape[2], x.shape[2], w.shape[1], w.shape[2]
    whole = outputs // LANES * LANES
    for b in range(batch):
        low, first = at * 2 * lanes + b * outputs, src * 2 * elements + b * inputs
        for o in range(0, whole, LANES):
            add_products(
                digits, low + o, low + o + lanes, x, first, first + elements, w, wgt * inputs * outputs + o, outputs,
                inputs,
            )  # fmt: skip
        for i in range(inputs if whole < outputs else 0):
            for o in range(whole, outputs):
                digits[at, 0, b * outputs + o] += x[src, 0, b * inputs + i] * w[wgt, i, o]
                digits[at, 1, b * outputs + o] += x[src, 1, b * inputs + i] * w[wgt, i, o]


@helper
def _bound_numbers(
    at: Int, src: Int, wgt: Int, totals: Array, x: Array, alike: Array, w: Array, sums: Array, batch: Int
) -> None:
    """Add the bounds of these products."""
    lanes, inputs, outputs = totals.shape[2], w.shape[1], w.shape[2]
    whole = outputs // LANES * LANES if alike[src, 3] else 0
    for b in range(batch):
        low = at * 2 * lanes + b * outputs
        for o in range(0, whole, LANES):
            add_products(
                totals, low + o, low + o + lanes, alike, src * 4, src * 4 + 1, sums, wgt * 2 * outputs + o, outputs, 2
            )
        for i in range(inputs if whole < outputs else 0):
            least, most = float(x[src, 0, b * inputs + i]), float(x[src, 1, b * inputs + i])
            for o in range(whole, outputs):
                one, two = least * w[wgt, i, o], most * w[wgt, i, o]
                totals[at, 0, b * outputs + o] += min(one, two)
                totals[at, 1, b * outputs + o] += max(one, two)


@helper
def _multiply_unknowns(total: Array, x: Array, w: Array, batch: Int) -> None:
    inputs, outputs = w.shape
    for b in range(batch):
        for i in range(inputs):
            value = np.uint64(np.int64(x[0, b * inputs + i])) | (np.uint64(np.int64(x[1, b * inputs + i])) << _DIGIT)
            for o in range(outputs):
                total[b * outputs + o] = fk.add(total[b * outputs + o], fk.multiply(value, w[i, o]))


@helper
def _bound_unknowns(total: Array, x: Array, w: Array, same: bool, batch: Int) -> None:
    inputs, outputs = w.shape[1], w.shape[2]
    times = float(inputs) if same else 1.0
    for b in range(batch):
        for i in range(1 if same else inputs):
            low, high = float(x[0, b * inputs + i]), float(x[1, b * inputs + i])
            for o in range(outputs):
                one, two, three, four = low * w[0, i, o], low * w[1, i, o], high * w[0, i, o], high * w[1, i, o]
                total[0, b * outputs + o] += times * min(min(one, two), min(three, four))
                total[1, b * outputs + o] += times * max(max(one, two), max(three, four))


@helper
def _add_products(
    at: Int, src: Int, wgt: Int, batch: Int,
    x_digits: Array, x_bounds: Array, x_alike: Array, x_norms: Array,
    w_numbers: Array, w_sums: Array, w_values: Array, w_bounds: Array, w_kinds: Array, w_norms: Array,
    digits: Array, values: Array, bounds: Array, loads: Array,
) -> None:  # fmt: skip
    """Add the products of an entry of inp and one of wgt to the terms of a sum."""
    terms, kind = w_numbers.shape[1], w_kinds[wgt]
    if kind == NUMBERS:
        if loads[at, 0] + terms * w_norms[wgt] > _MOST_LOAD:
            _fold(at, digits, values, loads)
        _multiply_numbers(at, src, wgt, digits, x_digits, w_numbers, batch)
        _bound_numbers(at, src, wgt, bounds, x_bounds, x_alike, w_numbers, w_sums, batch)
        loads[at, 0] += terms * w_norms[wgt]
    else:
        _multiply_unknowns(values[at], x_digits[src], w_values[wgt], batch)
        _bound_unknowns(bounds[at], x_bounds[src], w_bounds[wgt], x_alike[src, 3] != 0.0 and kind == ALIKE, batch)
    loads[at, 1] += terms * w_norms[wgt] * x_norms[src]
    loads[at, 2] = 1.0


@entry_point
def gemm(
    stop: Array, steps: Array, queue: Array, batch: Int,
    x_digits: Array, x_bounds: Array, x_alike: Array, x_norms: Array,
    w_numbers: Array, w_sums: Array, w_values: Array, w_bounds: Array, w_kinds: Array, w_norms: Array,
    acc: Array, digits: Array, values: Array, bounds: Array, loads: Array, large: Array,
    ended: Array, sums: Array,
) -> bool:  # fmt: skip
    """The iterations of GEMMs, of each row of `queue` from the first to the last of `steps`.

    False at a sum that is not covered. `stop` says where: the row, the iteration, and the sums that
    ended so far; from there it goes on, behind the sum, at the next call.

    `steps` are acc, src, wgt, scl, out, starts and ends, to the first five of which the others of a
    row are added. Sums that end are appended to `sums`, with their scl and out in `ended`.
    """
    resumed = stop[1] >= 0
    for q in range(stop[0], len(queue)):
        begin = stop[1] if resumed else queue[q, 0]
        for s in range(begin, queue[q, 1]):
            at = steps[s, 0] + queue[q, 2]
            if not resumed:
                if steps[s, 5]:
                    _clear(at, digits, values, bounds, loads)
                    _start(at, acc)
                _add_products(
                    at, steps[s, 1] + queue[q, 3], steps[s, 2] + queue[q, 4], batch, x_digits, x_bounds, x_alike,
                    x_norms, w_numbers, w_sums, w_values, w_bounds, w_kinds, w_norms, digits, values, bounds, loads,
                )  # fmt: skip
            resumed = False
            if steps[s, 6]:
                if not settle_one(at, acc, digits, values, bounds, loads, large):
                    stop[0], stop[1] = q, s
                    return False
                stop[2] = _end(at, steps[s, 3] + queue[q, 5], steps[s, 4] + queue[q, 6], acc, ended, sums, stop[2])
    return True


@helper
def _end(at: Int, scl: Int, out: Int, acc: Array, ended: Array, sums: Array, count: Int) -> Int:
    """Append a sum that ends."""
    ended[count, 0], ended[count, 1] = scl, out
    for k in range(acc.shape[1]):
        sums[count, k] = acc[at, k]
    return count + 1


# --- VECTOR ---------------------------------------------------------------------------------------

MOV, MAC = -1, -2
"""Operations of `vector` beside those of `symbol_kernels`."""
VECTOR_OPS = {
    VectorOp.MOV: MOV,
    VectorOp.MAC: MAC,
    **{VectorOp[name.upper()]: sk.OPS.index(name) for name in ("add", "sub", "mul", "min", "max")},
}
"""The operations of VECTOR that `vector` covers, by their codes in it."""


@helper
def _add_lanes(
    at: Int, src: Int, wgt: Int, x_digits: Array, x_bounds: Array, w_numbers: Array, digits: Array, bounds: Array
) -> None:
    """Add the products of lanes, of which the weights are numbers."""
    lanes, elements = digits.shape[2], x_digits.shape[2]
    inputs, outputs = w_numbers.shape[1], w_numbers.shape[2]
    for k in range(lanes):
        place, weight = src * lanes + k, wgt * outputs + k % outputs
        entry, e = place // elements, place % elements
        other, w = weight // (inputs * outputs), weight % (inputs * outputs)
        factor = w_numbers[other, w % inputs, w // inputs]
        digits[at, 0, k] += x_digits[entry, 0, e] * factor
        digits[at, 1, k] += x_digits[entry, 1, e] * factor
        one, two = x_bounds[entry, 0, e] * factor, x_bounds[entry, 1, e] * factor
        bounds[at, 0, k] += min(one, two)
        bounds[at, 1, k] += max(one, two)


@entry_point
def multiply_lanes(
    stop: Array, steps: Array, queue: Array,
    x_digits: Array, x_bounds: Array, x_norms: Array, w_numbers: Array, w_norms: Array,
    acc: Array, digits: Array, values: Array, bounds: Array, loads: Array, large: Array,
    ended: Array, sums: Array,
) -> bool:  # fmt: skip
    """The iterations of multiply-accumulates of lanes with weights that are numbers, as `gemm`."""
    resumed, vectors = stop[1] >= 0, w_numbers.shape[1]
    for q in range(stop[0], len(queue)):
        begin = stop[1] if resumed else queue[q, 0]
        for s in range(begin, queue[q, 1]):
            at, src, wgt = steps[s, 0] + queue[q, 2], steps[s, 1] + queue[q, 3], steps[s, 2] + queue[q, 4]
            if not resumed:
                if steps[s, 5]:
                    _clear(at, digits, values, bounds, loads)
                    _start(at, acc)
                norm = w_norms[wgt // vectors]
                if loads[at, 0] + norm > _MOST_LOAD:
                    _fold(at, digits, values, loads)
                _add_lanes(at, src, wgt, x_digits, x_bounds, w_numbers, digits, bounds)
                loads[at, 0] += norm
                loads[at, 1] += norm * x_norms[src * digits.shape[2] // x_digits.shape[2]]
                loads[at, 2] = 1.0
            resumed = False
            if steps[s, 6]:
                if not settle_one(at, acc, digits, values, bounds, loads, large):
                    stop[0], stop[1] = q, s
                    return False
                stop[2] = _end(at, steps[s, 3] + queue[q, 5], steps[s, 4] + queue[q, 6], acc, ended, sums, stop[2])
    return True


@helper
def _operand(one: Any, least: Int, most: Int, wrap: Int) -> Any:  # noqa: ANN401
    """An element of a type as int32."""
    if one.form == _POLYNOMIAL and least > sk.LEAST32:
        return fk.reduced(fk.absorbed(wrap, one.value)), least, most, np.int64(_PLAIN), np.float32(1), sk.YES
    return one.value, one.low, one.high, np.int64(one.form), one.norm, one.form != _HALVES


@entry_point
def vector(
    steps: Array, queue: Array, op: Int, operand: Int, x: Array, b: Array, ranges: Array, wraps: Array, acc: Array,
    ended: Array, sums: Array,
) -> int:  # fmt: skip
    """The iterations of a VECTOR on entries `x`, whose second operand is x if `operand` is 0, else
    entries `b` of lanes; the first one that is not covered, or -1. `queue` is one row as of `gemm`.
    """
    count, lanes = 0, acc.shape[1]
    _, end, acc_at, src_at, wgt_at, scl_at, out_at = queue[0]
    for s in range(queue[0, 0], end):
        at, src = steps[s, 0] + acc_at, steps[s, 1] + src_at
        for k in range(lanes):
            y = sk.number(np.int64(0))
            if operand == 0 or op == MAC:
                y = _operand(x[src, k], ranges[0, 0], ranges[0, 1], wraps[0])
            z = y
            if operand != 0:
                z = _operand(b[steps[s, 2] + wgt_at, k % b.shape[1]], ranges[1, 0], ranges[1, 1], wraps[1])
            if op == MAC:
                z = sk.binary(_MUL, y, z, sk.LEAST32, sk.MOST32, sk.BITS32, wraps[2])
            covered = z[5]
            if not (steps[s, 5] or op == MOV):
                other, of = sk.element(acc[at, k]), _ADD if op == MAC else op
                z = sk.binary(of, other, z, sk.LEAST32, sk.MOST32, sk.BITS32, wraps[2])
            if not (covered and z[5]):
                return s
            target = acc[at, k]
            target.value, target.low, target.high, target.form, target.norm = z[:5]
        if steps[s, 6]:
            count = _end(at, steps[s, 3] + scl_at, steps[s, 4] + out_at, acc, ended, sums, count)
    return -1
