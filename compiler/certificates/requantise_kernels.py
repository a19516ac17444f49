# SPDX-License-Identifier: Apache-2.0
"""Requantisation of symbols in compiled code, with parameters that are numbers.

It is `codegen.vdla.intrinsics.requantise.requantisation`, operation by operation, which tests
compare it with.
"""

from __future__ import annotations

from typing import Any

from vdla.compiler.certificates import field_kernels as fk
from vdla.compiler.certificates import symbol_kernels as sk
from vdla.compiler.certificates.jit import Int, entry_point, helper
from vdla.compiler.certificates.symbols import SymbolForm
from vdla.compiler.codegen.vdla.intrinsics.requantise import MULT_BITS, SHIFT_BITS

_PLAIN, _POLYNOMIAL, _HALVES = (int(SymbolForm[name]) for name in ("PLAIN", "POLYNOMIAL", "HALVES"))
_MULT, _SHIFT = (1 << MULT_BITS) - 1, (1 << SHIFT_BITS) - 1
_HALF = (1 << 62) - 1

Array = Any
Symbol = Any


@helper
def bias_of(lane: Symbol) -> Symbol:
    """The low half of a lane, which is covered if all but that is a number."""
    if lane[1] == lane[2]:
        return sk.number(((lane[1] + (1 << 31)) & 0xFFFFFFFF) - (1 << 31))
    upper = (lane[1] >> 32) << 32
    low, high = lane[1] - upper - (1 << 31), lane[2] - upper - (1 << 31)
    form = _POLYNOMIAL if low == sk.LEAST32 and high == sk.MOST32 else _PLAIN
    return fk.subtract(lane[0], fk.from_integer(upper)), low, high, form, lane[4], lane[3] == _HALVES


@helper
def requantised(total: Symbol, bias: Symbol, lane: Int, bounds: Array, kind: Array, wraps: Array) -> Symbol:
    """A sum of int32 with a bias and the parameters in the upper half of `lane`; `bounds` are the
    zero point and both bounds, `kind` the least, the most and the bits of the result, `wraps` the
    keys of int32 and int64.
    """
    mult, shift = (lane >> 32) & _MULT, (lane >> (32 + MULT_BITS)) & _SHIFT
    amount, wrap = sk.number(shift), wraps[1]
    biased = sk.settled(sk.added(total, bias, sk.LEAST32, sk.MOST32, sk.BITS32), sk.LEAST32, sk.MOST32, wraps[0])
    scaled = sk.multiplied(biased, sk.number(mult), sk.LEAST64, sk.MOST64, sk.BITS64)
    odd = sk.shifted(scaled, amount, sk.LEAST64, sk.MOST64, sk.BITS64, wrap)
    odd = sk.masked(odd, sk.number(min(shift, 1)), sk.LEAST64, sk.MOST64, wrap)
    rounded = sk.added(scaled, sk.number(_HALF >> (63 - shift)), sk.LEAST64, sk.MOST64, sk.BITS64)
    rounded = sk.added(rounded, odd, sk.LEAST64, sk.MOST64, sk.BITS64)
    rounded = sk.shifted(rounded, amount, sk.LEAST64, sk.MOST64, sk.BITS64, wrap)
    made = sk.added(rounded, sk.number(bounds[0]), sk.LEAST64, sk.MOST64, sk.BITS64)
    made = sk.larger(made, sk.number(bounds[1]), sk.LEAST64, sk.MOST64, wrap)
    made = sk.smaller(made, sk.number(bounds[2]), sk.LEAST64, sk.MOST64, wrap)
    made = sk.narrowed(made, kind[0], kind[1], kind[2])
    covered = bias[5] and biased[5] and scaled[5] and odd[5] and rounded[5]
    return made[0], made[1], made[2], made[3], made[4], made[5] and covered


@entry_point
def requantise(
    sums: Array, lanes: Array, inner: Int, bounds: Array, kind: Array, wraps: Array, out: Array
) -> bool:  # fmt: skip
    """Sums as results; False where an element is not covered. The lane of element k is
    `k // inner % len(lanes)`.
    """
    for k in range(len(sums)):
        lane = lanes[k // inner % len(lanes)]
        made = requantised(sk.element(sums[k]), bias_of(sk.number(lane)), lane, bounds, kind, wraps)
        if not made[5]:
            return False
        target = out[k]
        target.value, target.low, target.high, target.form, target.norm = made[:5]
    return True


@entry_point
def biases(lanes: Array, out: Array) -> bool:
    """The low halves of lanes; False where one is not covered."""
    for k in range(len(lanes)):
        made, target = bias_of(sk.element(lanes[k])), out[k]
        if not made[5]:
            return False
        target.value, target.low, target.high, target.form, target.norm = made[:5]
    return True
