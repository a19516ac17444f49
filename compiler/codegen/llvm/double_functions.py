# SPDX-License-Identifier: Apache-2.0
"""erf, sin, cos and pow of float64 where there is no C library: errors below 4 units in the last
place, limits as in IEEE 754.

What one float64 cannot hold is the sum of two, the second below half a unit in the last place of
the first. Polynomials interpolate as in `polynomials.py`.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

from llvmlite import ir as llvm

from vdla.compiler.codegen.llvm import polynomials
from vdla.compiler.codegen.llvm.numbers import Number, Operand, choose, lane_by_lane, where
from vdla.compiler.codegen.llvm.polynomials import INFINITY, QUARTERS, by_quadrant, copy_sign, horner, nearest_multiple
from vdla.compiler.codegen.llvm.types import DOUBLE, I1, I64, POINTER, Value, call_intrinsic

_ERF_SMALL = (
    0.1283791670955126, -0.37612638903183754, 0.112837916709551, -0.026866170645124077, 0.005223977625340751,
    -0.000854832701490715, 0.00012055332519432235, -1.4925633568608262e-05, 1.646169615878246e-06,
    -1.635866756067073e-07, 1.4723494823392752e-08, -1.1652473945294949e-09, 6.495025610302581e-11,
)  # fmt: skip  # erf(x) / x - 1 over x**2 < 0.81
_ERF_LARGE = (
    1.5328244365985515, 2.4302197229548734, 0.8265416933324061, 0.04689605458421316, -0.011323339899733345,
    0.00214399898447949, -0.00020079284786732204, -5.926375610803853e-05, 3.932344471638948e-05,
    -1.2079443240140116e-05, 1.933754778774819e-06, 2.379735528393448e-07, -3.117423281529634e-07,
    1.3827765551285927e-07, -4.345579604272575e-08, 1.080628438068762e-08, -2.1949557500486315e-09,
    3.665911913897856e-10, -5.005651435961648e-11, 5.50618860143167e-12, -4.761667418460498e-13,
    3.116182827306049e-14, -1.44986123273607e-15, 4.270597595019385e-17, -5.982209930030825e-19,
)  # fmt: skip  # -log(1 - erf(x)) in x - 0.875, for 0.875 < x < 6
_ERF_START, _ERF_SWITCH, _ERF_LIMIT = 0.875, 0.9, 6.0
_SIN = (
    -0.16666666666666666, 0.008333333333333331, -0.0001984126984126504, 2.755731921932058e-06,
    -2.505210622599425e-08, 1.6058530596626342e-10, -7.58663688184779e-13,
)  # fmt: skip  # (sin(r) / r - 1) / r**2 for |r| < pi / 4
_COS = (
    0.041666666666666664, -0.0013888888888888887, 2.4801587301584632e-05, -2.755731922139246e-07,
    2.0876755787484188e-09, -1.1470460318119097e-11, 4.74583835819591e-14,
)  # fmt: skip  # (cos(r) - 1 + r**2 / 2) / r**4
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)  # in three parts
_SINE_LIMIT = 2.0**16  # beyond, multiples of the parts of pi / 2 are not exact enough
_TABLE_WORDS, _WORD = 21, 64
_FRACTION, _EXPONENT, _BIAS = 52, 0x7FF, 1023
_LOG = (
    0.4, 0.2857142857142937, 0.22222222221653554, 0.18181818335921093, 0.15384594906091426, 0.13334807761697146,
    0.11706154215029727, 0.11724037104278114,
)  # fmt: skip  # ((log((1 + s) / (1 - s)) / s - 2) / s**2 - 2 / 3) / s**2 over s**2 < 0.02946
_LN2 = (0.6931471805599453, 2.3190468138462996e-17)  # in two parts


def emit_double(name: str, *args: Number) -> Number:
    """The float64 function `name`: one of erf, sin, cos, pow."""
    if name == "erf":
        return _erf(*args)
    return _pow(*args) if name == "pow" else lane_by_lane(partial(_sine, quarters=QUARTERS[name]), *args)


def _erf(x: Number) -> Number:
    """A polynomial near 0, else 1 - exp(-p(|x|))."""
    magnitude, square = abs(x), x * x
    near = _fma(x, horner(square, _ERF_SMALL), x)
    limited = where(magnitude > _ERF_LIMIT, _ERF_LIMIT, magnitude)
    far = 1.0 - polynomials.exp(-horner(limited - _ERF_START, _ERF_LARGE))
    return copy_sign(where(magnitude < _ERF_SWITCH, near, far), x)


# --- sine -----------------------------------------------------------------------------------------


def _sine(x: Number, quarters: int) -> Number:
    """sin(x + quarters * pi / 2) of a scalar."""
    r, quadrant = choose(abs(x) > _SINE_LIMIT, lambda: _reduce_large(x), lambda: _reduce_small(x))
    square = r * r
    sin = _fma(r * square, horner(square, _SIN), r)
    tail = _fma(square * square, horner(square, _COS), 1.0)
    cos = _fma(square, -0.5, tail)
    result = by_quadrant(sin, cos, quadrant + quarters)
    return where(abs(x).equals(INFINITY), float("nan"), result)


def _reduce_small(x: Number) -> list[Number]:
    """x minus its nearest multiple of pi / 2, and the number of that."""
    number, quadrant = nearest_multiple(x, 1 / _HALF_PI[0])
    rest = x
    for part in _HALF_PI:
        rest = _fma(number, -part, rest)
    return [rest, quadrant]


def _reduce_large(x: Number) -> list[Number]:
    """The same of a large number: its mantissa times those 192 bits of 2 / pi that are worth less
    than 4, in fixed point; two bits of it are the quadrant (Payne and Hanek, 1983)."""
    bits = x.convert("bitcast", I64)
    exponent = bits.emit("lshr", _FRACTION) & _EXPONENT
    mantissa = (bits & ((1 << _FRACTION) - 1)) | (1 << _FRACTION)
    top, middle, low = _product(mantissa, exponent - (_BIAS - 10))
    high, rest = top.call("fshl", middle, 2), middle.call("fshl", low, 2)
    sign = high >> (_WORD - 1)  # all ones if the next multiple is nearer
    quadrant = top.emit("lshr", _WORD - 2) - sign
    high, rest = high ^ sign, rest ^ sign
    zeros = Number(x.builder, call_intrinsic(x.builder, "llvm.ctlz.i64", I64, high.value, I1(0)))
    number = high.call("fshl", rest, zeros).convert("uitofp", DOUBLE)
    scale = (zeros.like(_BIAS - _WORD) - zeros) << _FRACTION
    magnitude = number * scale.convert("bitcast", DOUBLE) * _HALF_PI[0]
    negative = bits < 0
    flipped = (sign < 0) ^ negative
    signed = where(flipped, -magnitude, magnitude)
    return [signed, where(negative, -quadrant, quadrant)]


def _product(mantissa: Number, position: Number) -> tuple[Number, Number, Number]:
    """A mantissa times 192 bits of the table that begin at bit `position`, modulo 2**192: three
    words, the highest first."""
    builder, wide = mantissa.builder, llvm.IntType(2 * _WORD)
    first, shift = position.emit("lshr", 6), position & (_WORD - 1)
    table = _two_over_pi(builder.module)
    words = []
    for number in range(4):
        address = builder.gep(table, [(first + number).value], inbounds=True, source_etype=I64)
        words.append(Number(builder, builder.load(address, typ=I64, align=8)))
    top, middle, low = (a.call("fshl", b, shift) for a, b in pairwise(words))
    factor = mantissa.convert("zext", wide)
    of_low = factor * low.convert("zext", wide)
    of_middle = factor * middle.convert("zext", wide) + of_low.emit("lshr", _WORD)
    carried = of_middle.emit("lshr", _WORD).convert("trunc", I64)
    highest = mantissa * top + carried
    return highest, of_middle.convert("trunc", I64), of_low.convert("trunc", I64)


def _two_over_pi(module: Value) -> Value:
    """The address of the bits of 2 / pi in a module: a word of zeros, then the fraction."""
    name = "vdla_two_over_pi"
    array = module.globals.get(name)
    if array is None:
        kind = llvm.ArrayType(I64, _TABLE_WORDS)
        array = llvm.GlobalVariable(module, kind, name)
        array.linkage, array.global_constant = "internal", True
        array.initializer = llvm.Constant(kind, [I64(word) for word in two_over_pi_words()])
    return array.bitcast(POINTER)


@cache
def two_over_pi_words() -> tuple[int, ...]:
    """2 / pi in words of 64 bits, the first before the point; pi by Machin's formula."""
    bits = _WORD * _TABLE_WORDS
    one = 1 << bits

    def arctangent(inverse: int) -> int:
        total, power, divisor = 0, one // inverse, 1
        while power:
            total += power // divisor if divisor % 4 == 1 else -(power // divisor)
            power, divisor = power // inverse**2, divisor + 2
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    quotient = (one << (_WORD * (_TABLE_WORDS - 1) + 1)) // pi
    mask = (1 << _WORD) - 1
    return tuple(quotient >> (_WORD * place) & mask for place in reversed(range(_TABLE_WORDS)))


# --- powers ---------------------------------------------------------------------------------------


class _Sum(NamedTuple):
    """An unevaluated sum of two numbers, the second much smaller."""

    high: Number
    low: Number


def _pow(x: Number, y: Number) -> Number:
    """exp(y log |x|) with the logarithm and the product as sums; the sign is the caller's."""
    base = abs(x)
    logarithm = _log(base)
    product = y * logarithm.high
    rest = _fma(y, logarithm.high, -product)
    rest = _fma(y, logarithm.low, rest)
    power = polynomials.exp(product)
    exact = _fma(power, rest, power)
    plain = polynomials.exp(y * polynomials.log(base))
    usual = base > 0.0
    for value in (base, abs(product), power):
        usual = usual & (value < INFINITY)
    return where(usual, exact, plain)


def _log(x: Number) -> _Sum:
    """log(2**k m) = k log 2 + 2 s + 2 s**3 / 3 + ..., with s = (m - 1) / (m + 1), of x > 0."""
    mantissa, power, extra = polynomials.split_exponent(x)
    k = power.convert("sitofp", DOUBLE) + extra
    f, above = mantissa - 1.0, mantissa + 1.0
    below = mantissa - (above - 1.0)
    high = f / above
    rest = _fma(-high, above, f)
    rest = _fma(-high, below, rest)
    s = _Sum(high, rest / above)
    square = _times(s, s)
    cube = _times(_times(square, s), _Sum(x.like(2 / 3), x.like(3.700743415417188e-17)))
    series = horner(square.high, _LOG)
    fifth = square.high * square.high * s.high * series
    double = _Sum(s.high + s.high, s.low + s.low)
    small = _plus(double, _Sum(cube.high, cube.low + fifth))
    product = k * _LN2[0]
    remainder = _fma(k, _LN2[0], -product)
    return _plus(_Sum(product, _fma(k, _LN2[1], remainder)), small)


def _times(a: _Sum, b: _Sum) -> _Sum:
    """a * b."""
    high = a.high * b.high
    low = _fma(a.high, b.high, -high)
    low = _fma(a.high, b.low, low)
    return _Sum(high, _fma(a.low, b.high, low))


def _plus(a: _Sum, b: _Sum) -> _Sum:
    """a + b, of any magnitudes."""
    high = a.high + b.high
    part = high - a.high
    error = (a.high - (high - part)) + (b.high - part)
    low = error + (a.low + b.low)
    total = high + low
    return _Sum(total, low - (total - high))


def _fma(a: Number, b: Operand, c: Operand) -> Number:
    """a * b + c, rounded once."""
    return a.call("fma", b, c)
