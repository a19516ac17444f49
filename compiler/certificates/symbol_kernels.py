# SPDX-License-Identifier: Apache-2.0
"""Expressions on symbols in compiled code: what `operations` computes, element by element.

An expression is a list of steps, which run on blocks of elements that stay in cache. The loop stops
at the first element that it does not cover; the caller evaluates such expressions by `operations`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vdla.compiler.certificates import field_kernels as fk
from vdla.compiler.certificates.field import started
from vdla.compiler.certificates.jit import Int, entry_point, helper
from vdla.compiler.certificates.symbols import LARGE, SymbolForm, key

LEAVES = 8
"""The most arrays that an expression reads."""
STEP = ("op", "a", "b", "least", "most", "bits", "wrap")
"""The columns of a step: operands are earlier steps, or a leaf, or a number; `wrap` is a key."""

OPS = ("leaf", "number", "add", "sub", "mul", "shr", "min", "max", "and", "narrow", "widen")
_LEAF, _NUMBER, _ADD, _SUB, _MUL, _SHR, _MIN, _MAX, _AND, _NARROW, _WIDEN = map(np.int64, range(len(OPS)))
_BLOCK = 128  # elements

_PLAIN, _POLYNOMIAL, _HALVES, _CLIPPED = (np.int64(SymbolForm[n]) for n in ("PLAIN", "POLYNOMIAL", "HALVES", "CLIPPED"))
_MINIMUM, _MAXIMUM = np.int64(SymbolForm.MINIMUM), np.int64(SymbolForm.MAXIMUM)
_AT_LEAST, _AT_MOST = np.int64(SymbolForm.AT_LEAST), np.int64(SymbolForm.AT_MOST)
_LARGE, _FAR = float(LARGE), float(1 << 62)
_OF_LARGE, _OF_EXTREME, _OF_MEMBER, _OF_CLIP, _OF_SHIFT, _OF_AND, _OF_MOVE = (
    np.uint64(started(key(*parts)))
    for parts in (("large",), ("extreme",), ("member",), ("clipped",), ("shr",), ("and",), ("shift",))
)
_ONE = np.float32(1)
YES, NO = np.bool_(True), np.bool_(False)
LEAST32, MOST32, BITS32 = np.int64(-(1 << 31)), np.int64((1 << 31) - 1), np.int64(32)
LEAST64, MOST64, BITS64 = np.int64(-(1 << 63)), np.int64((1 << 63) - 1), np.int64(64)
"""Types as operations take them. Numba compiles a helper again for each literal: these are none."""

Array = Any
Symbol = Any  # value, low, high, form, norm, whether it is covered


@helper
def element(one: Any) -> Symbol:  # noqa: ANN401  a record
    """An element of an array of symbols."""
    return one.value, one.low, one.high, np.int64(one.form), one.norm, YES


@helper
def number(value: Int) -> Symbol:
    """A number as a symbol."""
    norm = np.float32(abs(np.float32(value)))
    if norm >= _LARGE:
        return fk.reduced(fk.absorbed(_OF_LARGE, np.uint64(value))), value, value, _PLAIN, _ONE, YES
    return fk.from_integer(value), value, value, _PLAIN, norm, YES


@helper
def settled(x: Symbol, least: Int, most: Int, wrap: Int) -> Symbol:
    """A symbol of a type, wrapped if it may leave it; the key of wrapping is `wrap`, started."""
    value, low, high, form, norm, ok = x
    if form == _POLYNOMIAL:
        return fk.reduced(fk.absorbed(wrap, value)), least, most, _PLAIN, _ONE, ok
    return value, low, high, form, norm, ok and form != _HALVES


@helper
def _element(x: Symbol) -> Symbol:
    """A symbol that is no extreme."""
    value, low, high, form, norm, ok = x
    if form >= _CLIPPED:
        return fk.reduced(fk.absorbed(_OF_EXTREME, value)), low, high, _PLAIN, _ONE, ok
    return value, low, high, form, norm, ok and form != _HALVES


@helper
def _wrapped(value: Int, bits: Int, least: Int) -> Int:
    """An integer modulo the range of a type."""
    if bits == 64:
        return value
    unsigned = value & ((1 << bits) - 1)
    return unsigned - (1 << bits) if least < 0 and unsigned >> (bits - 1) else unsigned


@helper
def fitted(value: Int, low: Int, high: Int, polynomial: Int, norm: Int, least: Int, most: Int) -> Symbol:
    """A result of a ring operation with its bounds before it wraps."""
    if polynomial or low < least or high > most:
        return value, least, most, _POLYNOMIAL, norm, norm < _LARGE
    return value, low, high, _PLAIN, norm, norm < _LARGE


@helper
def _is_number(x: Symbol, value: Int) -> bool:
    return bool(x[1] == value and x[2] == value)


@helper
def _kept(x: Symbol) -> Symbol:
    """A symbol that an operation does not change, unless its coefficients are large."""
    return x[0], x[1], x[2], x[3], x[4], x[5] and x[3] != _HALVES and x[4] < _LARGE


@helper
def sum_of(a: Symbol, b: Symbol, least: Int, most: Int) -> Symbol:
    """The sum of symbols of a type that are not both numbers."""
    if _is_number(b, 0):
        return _kept(a)
    if _is_number(a, 0):
        return _kept(b)
    a, b = _element(a), _element(b)
    ok = a[5] and b[5] and max(abs(float(a[1])), abs(float(a[2]))) + max(abs(float(b[1])), abs(float(b[2]))) < _FAR
    polynomial = a[3] == _POLYNOMIAL or b[3] == _POLYNOMIAL
    made = fitted(fk.add(a[0], b[0]), a[1] + b[1], a[2] + b[2], polynomial, a[4] + b[4], least, most)
    return made[0], made[1], made[2], made[3], made[4], made[5] and ok


@helper
def _difference(a: Symbol, b: Symbol, least: Int, most: Int) -> Symbol:
    if _is_number(b, 0):
        return _kept(a)
    a, b = _element(a), _element(b)
    ok = a[5] and b[5] and max(abs(float(a[1])), abs(float(a[2]))) + max(abs(float(b[1])), abs(float(b[2]))) < _FAR
    polynomial = a[3] == _POLYNOMIAL or b[3] == _POLYNOMIAL
    made = fitted(fk.subtract(a[0], b[0]), a[1] - b[2], a[2] - b[1], polynomial, a[4] + b[4], least, most)
    return made[0], made[1], made[2], made[3], made[4], made[5] and ok


@helper
def product_of(a: Symbol, b: Symbol, least: Int, most: Int) -> Symbol:
    """The product of symbols of a type that are not both numbers."""
    if _is_number(b, 1):
        return _kept(a)
    if _is_number(a, 1):
        return _kept(b)
    a, b = _element(a), _element(b)
    ok = a[5] and b[5] and max(abs(float(a[1])), abs(float(a[2]))) * max(abs(float(b[1])), abs(float(b[2]))) < _FAR
    polynomial = a[3] == _POLYNOMIAL or b[3] == _POLYNOMIAL
    one, two, three, four = a[1] * b[1], a[1] * b[2], a[2] * b[1], a[2] * b[2]
    low, high = min(min(one, two), min(three, four)), max(max(one, two), max(three, four))
    made = fitted(fk.multiply(a[0], b[0]), low, high, polynomial, a[4] * b[4], least, most)
    return made[0], made[1], made[2], made[3], made[4], made[5] and ok


@helper
def _shifted(a: Symbol, b: Symbol, least: Int, most: Int, bits: Int, wrap: Int) -> Symbol:
    """`a >> b`; covered where b is a number inside the width."""
    a = settled(a, least, most, wrap)
    if b[1] != b[2] or b[1] < 0 or b[1] >= bits or not a[5]:
        return a[0], a[1], a[2], a[3], a[4], False
    if b[1] == 0:
        return a
    low, high = max(least, a[1] >> b[1]), min(most, a[2] >> b[1])
    if low == high:
        return number(low)
    return fk.moved(_OF_MOVE, a[0], np.uint64(b[1])), low, high, _PLAIN, _ONE, YES


@helper
def _masked(a: Symbol, b: Symbol, least: Int, most: Int, wrap: Int) -> Symbol:
    """`a & b`."""
    a, b = settled(a, least, most, wrap), settled(b, least, most, wrap)
    value = fk.reduced(fk.absorbed(fk.absorbed(_OF_AND, min(a[0], b[0])), max(a[0], b[0])))
    made = _with_bounds_of_mask(_with_bounds_of_mask((value, least, most, _PLAIN, _ONE, YES), b), a)
    made = _rewritten_mask(_rewritten_mask(made, a, b, least, most, wrap), b, a, least, most, wrap)
    return made[0], made[1], made[2], made[3], made[4], made[5] and a[5] and b[5]


@helper
def _with_bounds_of_mask(made: Symbol, y: Symbol) -> Symbol:
    if y[1] < 0:
        return made
    low, high = max(made[1], 0), min(made[2], y[2])
    return number(low) if low == high else (made[0], low, high, made[3], made[4], YES)


@helper
def _lowest_bit(made: Symbol, x: Symbol, least: Int, most: Int, wrap: Int) -> Symbol:
    """What a shift leaves of a small integer, with the bounds of `made`."""
    half = _shifted(x, number(1), least, most, 8, wrap)
    rest = _difference(x, product_of(half, number(2), least, most), least, most)
    return rest[0], made[1], made[2], _PLAIN, rest[4], half[5] and rest[5]


@helper
def _rewritten_mask(made: Symbol, x: Symbol, y: Symbol, least: Int, most: Int, wrap: Int) -> Symbol:
    if x[0] == y[0]:
        return x
    if y[1] == y[2] and y[1] == 0:
        return y
    if least < 0 and _is_number(y, 1) and x[2] < most >> 1 and x[1] + (most >> 1) >= 0:
        made = _lowest_bit(made, x, least, most, wrap)
    low_bits = y[1] == y[2] and y[1] >= 0 and (y[1] & (y[1] + 1)) == 0
    return x if low_bits and x[1] >= 0 and x[2] <= y[1] else made


# --- minima and maxima ----------------------------------------------------------------------------


@helper
def _tag(form: Int, low: Int, high: Int) -> Int:
    state = fk.absorbed(_OF_CLIP, np.uint64(form))
    state = fk.absorbed(state, np.uint64(low if form & _AT_LEAST else 0))
    return fk.reduced(fk.absorbed(state, np.uint64(high if form & _AT_MOST else 0)))


@helper
def _core(x: Symbol) -> Int:
    if x[3] >= _CLIPPED:
        return fk.subtract(x[0], _tag(x[3], x[1], x[2]))
    return fk.reduced(fk.absorbed(_OF_MEMBER, x[0]))


@helper
def _of_core(core: Int, form: Int, low: Int, high: Int) -> Symbol:
    return fk.add(core, _tag(form, low, high)), low, high, form, _ONE, YES


@helper
def _is_whole(x: Symbol, form: Int, flag: Int) -> bool:
    """Whether all members of an extreme are those of another one of this form."""
    kind, flags = x[3] & 7, x[3] & (_AT_LEAST | _AT_MOST)
    return bool(kind in (form, _CLIPPED) and (flags & ~flag) == 0)


@helper
def _share(x: Symbol, whole: bool) -> Int:
    return _core(x) if whole else fk.reduced(fk.absorbed(_OF_MEMBER, x[0]))


@helper
def _extreme(a: Symbol, b: Symbol, least: Int, most: Int, wrap: Int, minimum: Any) -> Symbol:  # noqa: ANN401  of NumPy
    """The minimum or the maximum."""
    a, b = settled(a, least, most, wrap), settled(b, least, most, wrap)
    ok = a[5] and b[5]
    decided = b[2] <= a[1] if minimum else b[1] >= a[2]
    if decided:
        return b[0], b[1], b[2], b[3], b[4], ok
    if a[0] == b[0]:
        return b[0], b[1], b[2], b[3], b[4], ok
    decided = a[2] <= b[1] if minimum else a[1] >= b[2]
    if decided:
        return a[0], a[1], a[2], a[3], a[4], ok
    if a[1] == a[2]:
        a, b = b, a
    form, flag = (_MINIMUM, _AT_MOST) if minimum else (_MAXIMUM, _AT_LEAST)
    if b[1] == b[2]:
        kind = (a[3] if a[3] >= _CLIPPED else _CLIPPED) | flag
        made = _of_core(_core(a), kind, a[1] if minimum else b[1], b[2] if minimum else a[2])
        return made[0], made[1], made[2], made[3], made[4], ok
    wholes = _is_whole(a, form, flag), _is_whole(b, form, flag)
    flagged = wholes[0] and (a[3] & flag) != 0, wholes[1] and (b[3] & flag) != 0
    nearer = a[2] < b[2] if minimum else a[1] > b[1]
    further = b[2] < a[2] if minimum else b[1] > a[1]
    kept = (flagged[0] and flagged[1]) or (flagged[0] and nearer) or (flagged[1] and further)
    low, high = (min(a[1], b[1]), min(a[2], b[2])) if minimum else (max(a[1], b[1]), max(a[2], b[2]))
    core = fk.add(_share(a, wholes[0]), _share(b, wholes[1]))
    made = _of_core(core, form | flag if kept else form, low, high)
    return made[0], made[1], made[2], made[3], made[4], ok


# --- casts ----------------------------------------------------------------------------------------


@helper
def _as_polynomial(x: Symbol, least: Int, most: Int) -> Symbol:
    x = _element(x)
    return x[0], least, most, _POLYNOMIAL, x[4], x[5]


@helper
def narrowed(x: Symbol, least: Int, most: Int, bits: Int) -> Symbol:
    """A symbol in a type that is at most as wide as its own."""
    if x[3] == _POLYNOMIAL or x[3] == _HALVES:
        return _as_polynomial(x, least, most)
    if x[1] >= least and x[2] <= most:
        return x
    return number(_wrapped(x[1], bits, least)) if x[1] == x[2] else _as_polynomial(x, least, most)


@helper
def _known(a: Symbol, b: Symbol) -> bool:
    return bool(a[1] == a[2] and b[1] == b[2])


@helper
def added(a: Symbol, b: Symbol, least: Int, most: Int, bits: Int) -> Symbol:
    """`a + b`."""
    return number(_wrapped(a[1] + b[1], bits, least)) if _known(a, b) else sum_of(a, b, least, most)


@helper
def _subtracted(a: Symbol, b: Symbol, least: Int, most: Int, bits: Int) -> Symbol:
    return number(_wrapped(a[1] - b[1], bits, least)) if _known(a, b) else _difference(a, b, least, most)


@helper
def multiplied(a: Symbol, b: Symbol, least: Int, most: Int, bits: Int) -> Symbol:
    """`a * b`."""
    return number(_wrapped(a[1] * b[1], bits, least)) if _known(a, b) else product_of(a, b, least, most)


@helper
def smaller(a: Symbol, b: Symbol, least: Int, most: Int, wrap: Int) -> Symbol:
    """The minimum."""
    return number(min(a[1], b[1])) if _known(a, b) else _extreme(a, b, least, most, wrap, YES)


@helper
def larger(a: Symbol, b: Symbol, least: Int, most: Int, wrap: Int) -> Symbol:
    """The maximum."""
    return number(max(a[1], b[1])) if _known(a, b) else _extreme(a, b, least, most, wrap, NO)


@helper
def masked(a: Symbol, b: Symbol, least: Int, most: Int, wrap: Int) -> Symbol:
    """`a & b`."""
    return number(a[1] & b[1]) if _known(a, b) else _masked(a, b, least, most, wrap)


@helper
def shifted(a: Symbol, b: Symbol, least: Int, most: Int, bits: Int, wrap: Int) -> Symbol:
    """`a >> b`."""
    if not _known(a, b):
        return _shifted(a, b, least, most, bits, wrap)
    made = number(a[1] >> min(max(b[1], 0), 63))
    return made[0], made[1], made[2], made[3], made[4], 0 <= b[1] < bits


# --- blocks ---------------------------------------------------------------------------------------


@helper
def binary(op: Int, a: Symbol, b: Symbol, least: Int, most: Int, bits: Int, wrap: Int) -> Symbol:
    """`a op b`."""
    if op == _ADD:
        return added(a, b, least, most, bits)
    if op == _SUB:
        return _subtracted(a, b, least, most, bits)
    if op == _MUL:
        return multiplied(a, b, least, most, bits)
    if op == _MIN:
        return smaller(a, b, least, most, wrap)
    if op == _MAX:
        return larger(a, b, least, most, wrap)
    if op == _AND:
        return masked(a, b, least, most, wrap)
    return shifted(a, b, least, most, bits, wrap)


@helper
def _block(
    op: Int, s: Int, a: Int, b: Int, least: Int, most: Int, bits: Int, wrap: Int, size: Int,
    values: Array, lows: Array, highs: Array, forms: Array, norms: Array,
) -> bool:  # fmt: skip
    """A step on a block; a constant `op` is inlined."""
    every = True
    for k in range(size):
        x = (values[a, k], lows[a, k], highs[a, k], forms[a, k], norms[a, k], YES)
        if op == _NUMBER:
            made = number(least)
        elif op == _NARROW:
            made = narrowed(x, least, most, bits)
        elif op == _WIDEN:
            made = settled(x, least, most, wrap)
        else:
            y = (values[b, k], lows[b, k], highs[b, k], forms[b, k], norms[b, k], YES)
            made = binary(op, x, y, least, most, bits, wrap)
        values[s, k], lows[s, k], highs[s, k], forms[s, k], norms[s, k] = made[:5]
        every = every and made[5]
    return every


def block_of(count: int) -> tuple[Array, ...]:
    """Room for the elements of `count` steps."""
    return tuple(np.empty((count, _BLOCK), dtype) for dtype in (np.uint64, np.int64, np.int64, np.int64, np.float32))


@entry_point
def run(steps: Array, wraps: Array, leaves: Array, maps: Array, map_of: Array, block: Array, out: Array) -> bool:
    """The last step for all elements of `out`; False where an element is not covered.

    `leaves` are flat arrays of symbols, `maps` the places in them that elements read, by leaf;
    `map_of` is -1 where an element reads its own place. `block` is room as of `block_of`.
    """
    count, (values, lows, highs, forms, norms) = len(steps), block
    for begin in range(0, len(out), _BLOCK):
        size = min(_BLOCK, len(out) - begin)
        for s in range(count):
            op, a, b, least, most, bits = steps[s, 0], steps[s, 1], steps[s, 2], steps[s, 3], steps[s, 4], steps[s, 5]
            if op == _LEAF:
                leaf, places, mapped = leaves[a], maps[max(map_of[a], 0)], map_of[a] >= 0
                for k in range(size):
                    one = leaf[places[begin + k] if mapped else begin + k]
                    values[s, k], lows[s, k], highs[s, k] = one.value, one.low, one.high
                    forms[s, k], norms[s, k] = one.form, one.norm
                continue
            if op == _ADD:
                covered = _block(_ADD, s, a, b, least, most, bits, wraps[s], size, values, lows, highs, forms, norms)
            elif op == _MUL:
                covered = _block(_MUL, s, a, b, least, most, bits, wraps[s], size, values, lows, highs, forms, norms)
            elif op == _SHR:
                covered = _block(_SHR, s, a, b, least, most, bits, wraps[s], size, values, lows, highs, forms, norms)
            else:
                covered = _block(op, s, a, b, least, most, bits, wraps[s], size, values, lows, highs, forms, norms)
            if not covered:
                return False
        last = count - 1
        for k in range(size):
            target = out[begin + k]
            target.value, target.low, target.high = values[last, k], lows[last, k], highs[last, k]
            target.form, target.norm = forms[last, k], norms[last, k]
    return True


@entry_point
def fill_numbers(values: Array, out: Array) -> None:
    """Integers as symbols."""
    for k in range(len(values)):
        made, target = number(np.int64(values[k])), out[k]
        target.value, target.low, target.high, target.form, target.norm = made[:5]


@entry_point
def fill_unknowns(started: Int, low: Int, high: Int, out: Array) -> None:
    """Independent inputs, by the key of their array."""
    for k in range(len(out)):
        target = out[k]
        target.value, target.low, target.high = fk.reduced(fk.absorbed(started, np.uint64(k))), low, high
        target.form, target.norm = _PLAIN, _ONE
