# SPDX-License-Identifier: Apache-2.0
"""The rule of vdla.QNormalise: TensorFlow Lite's normalisation of int8 rows, in fixed point.

One over the length of a row is found by five steps of Newton's method on numbers of 31 bits.
"""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler import te
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.operators.reduction import reduce_with
from vdla.hardware.inverse_root import ROOT_OF_HALF, STEPS

_MOST = 29  # bits of a number that has headroom for the steps
_ONE = (1 << 31) - 1
_UNITS = 7  # bits of a fraction in the result
_PAIRS = (8, 4, 2, 1)  # the pairs of bits that a search by halves tries
_Rows = Callable[[str, Callable[..., te.Value]], te.Tensor]


def qnormalise(call: NodeCall) -> te.Tensor:
    """Along the last dimension."""
    x, name, zero = call.tensor(0), call.name(), _const(call.attribute("x_zero_point"))
    if x.dtype != "int8":
        call.decline(f"read int8 elements, got {x.dtype}")

    def centred(*i: te.Value) -> te.Value:
        return te.cast("int64", x[i]) - zero

    squares = te.compute(x.shape, lambda *i: centred(*i) * centred(*i), f"{name}_squares")
    total = reduce_with(te.sum, squares, (len(x.shape) - 1,), True, f"{name}_sum")
    multiplier, shift = _inverse_root(total, name)

    def value(*i: te.Value) -> te.Value:
        row = (*i[:-1], 0)
        up = te.maximum(shift[row], _const(0))
        scaled = _high(centred(*i) << up, multiplier[row])
        result = _divided(scaled, te.maximum(-shift[row], _const(0)))
        return te.cast("int8", te.clip(result, -128, 127))

    return te.compute(x.shape, value, name)


def _inverse_root(total: te.Tensor, name: str) -> tuple[te.Tensor, te.Tensor]:
    """1 / sqrt of sums as multipliers of 31 bits and left shifts that make units of 1/128."""

    def rows(what: str, value: Callable[..., te.Value]) -> te.Tensor:
        return te.compute(total.shape, lambda *i: value(*i), f"{name}_{what}")

    normal, pairs = _normalised(rows, total)
    half = rows("half", lambda *i: _divided(normal[i] >> 1, _const(1)))
    x = rows("estimate0", lambda *i: _const(1 << 28) + _const(0) * total[i])
    for number in range(1, STEPS + 1):
        x = _newton(rows, half, x, number)
    right = rows("right", lambda *i: 11 - pairs[i])

    def multiplier(*i: te.Value) -> te.Value:
        scaled = _high(x[i], _const(ROOT_OF_HALF)) << te.maximum(-right[i], _const(0))
        return te.select(total[i] <= 1, _const(_ONE), scaled)

    def shift(*i: te.Value) -> te.Value:
        return te.select(total[i] <= 1, _const(_UNITS), _UNITS - te.maximum(right[i], _const(0)))

    return rows("multiplier", multiplier), rows("shift", shift)


def _normalised(rows: _Rows, total: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """Sums below 2**31 brought to 28 or 29 bits, and by how many pairs of bits to the left."""
    normal = rows("normal", lambda *i: te.select(total[i] < 1 << _MOST, total[i], total[i] >> 2))
    pairs = rows("pairs", lambda *i: te.select(total[i] < 1 << _MOST, _const(0), _const(-1)))
    for step in _PAIRS:
        normal, pairs = _shifted(rows, normal, pairs, step)
    return normal, pairs


def _shifted(rows: _Rows, normal: te.Tensor, pairs: te.Tensor, step: int) -> tuple[te.Tensor, te.Tensor]:
    """One step of the search: shifts by `step` pairs of bits what stays below 2**29."""

    def amount(*i: te.Value) -> te.Value:
        return te.select(normal[i] < 1 << (_MOST - 2 * step), _const(step), _const(0))

    count = rows(f"count{step}", amount)
    return (
        rows(f"normal{step}", lambda *i: normal[i] << (count[i] * 2)),
        rows(f"pairs{step}", lambda *i: pairs[i] + count[i]),
    )


def _newton(rows: _Rows, half: te.Tensor, x: te.Tensor, number: int) -> te.Tensor:
    """x (3 - v x^2) / 2, numbers of three integer bits."""
    cube = rows(f"cube{number}", lambda *i: _high(_high(x[i], x[i]), x[i]) << 6)
    return rows(f"estimate{number}", lambda *i: (_high(_const(3 << 27), x[i]) - _high(half[i], cube[i])) << 3)


def _const(value: int) -> te.Value:
    return te.const(value, "int64")


def _high(a: te.Value, b: te.Value) -> te.Value:
    """a * b / 2**31, rounded half up."""
    return (a * b + (1 << 30)) >> 31


def _divided(value: te.Value, exponent: te.Value) -> te.Value:
    """A value over 2**exponent, rounded half away from zero."""
    half = (_const(1) << exponent) >> 1
    below_zero = te.select(te.all_of(value < 0, exponent > 0), _const(1), _const(0))
    return (value + half - below_zero) >> exponent
