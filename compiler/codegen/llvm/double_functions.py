"""erf, sin, cos and pow of float64 where there is no C library: errors below 4 units in the last
place, limits as in IEEE 754.

What one float64 cannot hold is the sum of two, the second below half a unit in the last place of
the first. Polynomials interpolate as in `polynomials.py`.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import NamedTuple

from llvmlite import ir as llvm

from vdla.compiler.codegen.llvm import polynomials
from vdla.compiler.codegen.llvm.polynomials import INFINITY, absolute, by_quadrant, copy_sign, horner, nearest_multiple
from vdla.compiler.codegen.llvm.types import (
    DOUBLE,
    I1,
    I32,
    I64,
    POINTER,
    Value,
    call_intrinsic,
    lane_count,
    poison,
    splat,
    type_suffix,
)

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


def emit_double(builder: Value, name: str, *args: Value) -> Value:
    """The float64 function `name`: one of erf, sin, cos, pow."""
    if name == "erf":
        return _erf(builder, *args)
    return _pow(builder, *args) if name == "pow" else _lane_by_lane(builder, name, *args)


def _lane_by_lane(builder: Value, name: str, x: Value) -> Value:
    """A sine or cosine, of vectors lane by lane."""
    count, quarters = lane_count(x), 0 if name == "sin" else 1
    if count is None:
        return _sine(builder, x, quarters)
    result = poison(x.type)
    for lane in range(count):
        element = _sine(builder, builder.extract_element(x, I32(lane)), quarters)
        result = builder.insert_element(result, element, I32(lane))
    return result


def _erf(builder: Value, x: Value) -> Value:
    """A polynomial near 0, else 1 - exp(-p(|x|))."""
    magnitude, square = absolute(builder, x), builder.fmul(x, x)
    near = _fma(builder, x, horner(builder, square, _ERF_SMALL), x)
    is_large = builder.fcmp_ordered(">", magnitude, splat(x, _ERF_LIMIT))
    limited = builder.select(is_large, splat(x, _ERF_LIMIT), magnitude)
    power = horner(builder, builder.fsub(limited, splat(x, _ERF_START)), _ERF_LARGE)
    far = builder.fsub(splat(x, 1.0), polynomials.exp(builder, builder.fneg(power)))
    is_near = builder.fcmp_ordered("<", magnitude, splat(x, _ERF_SWITCH))
    return copy_sign(builder, builder.select(is_near, near, far), x)


# --- sine -----------------------------------------------------------------------------------------


def _sine(builder: Value, x: Value, quarters: int) -> Value:
    """sin(x + quarters * pi / 2) of a scalar."""
    large = builder.fcmp_ordered(">", absolute(builder, x), splat(x, _SINE_LIMIT))
    with builder.if_else(large, likely=False) as (then, otherwise):
        with then:
            far, far_quadrant = _reduce_large(builder, x)
            far_end = builder.block
        with otherwise:
            near, near_quadrant = _reduce_small(builder, x)
            near_end = builder.block
    r, quadrant = builder.phi(DOUBLE), builder.phi(I64)
    for phi, values in ((r, (far, near)), (quadrant, (far_quadrant, near_quadrant))):
        for value, block in zip(values, (far_end, near_end), strict=True):
            phi.add_incoming(value, block)
    square = builder.fmul(r, r)
    sin = _fma(builder, builder.fmul(r, square), horner(builder, square, _SIN), r)
    tail = _fma(builder, builder.fmul(square, square), horner(builder, square, _COS), splat(r, 1.0))
    cos = _fma(builder, square, splat(r, -0.5), tail)
    result = by_quadrant(builder, sin, cos, builder.add(quadrant, I64(quarters)))
    infinite = builder.fcmp_ordered("==", absolute(builder, x), splat(x, INFINITY))
    return builder.select(infinite, splat(x, float("nan")), result)


def _reduce_small(builder: Value, x: Value) -> tuple[Value, Value]:
    """x minus its nearest multiple of pi / 2, and the number of that."""
    number, quadrant = nearest_multiple(builder, x, 1 / _HALF_PI[0])
    rest = x
    for part in _HALF_PI:
        rest = _fma(builder, number, splat(x, -part), rest)
    return rest, quadrant


def _reduce_large(builder: Value, x: Value) -> tuple[Value, Value]:
    """The same of a large number: its mantissa times those 192 bits of 2 / pi that are worth less
    than 4, in fixed point, of which two bits are the quadrant (Payne and Hanek, 1983)."""
    bits = builder.bitcast(x, I64)
    exponent = builder.and_(builder.lshr(bits, I64(_FRACTION)), I64(_EXPONENT))
    mantissa = builder.or_(builder.and_(bits, I64((1 << _FRACTION) - 1)), I64(1 << _FRACTION))
    top, middle, low = _product(builder, mantissa, builder.sub(exponent, I64(_BIAS - 10)))
    high, rest = _funnel(builder, top, middle, I64(2)), _funnel(builder, middle, low, I64(2))
    sign = builder.ashr(high, I64(_WORD - 1))  # all ones if the next multiple is nearer
    quadrant = builder.sub(builder.lshr(top, I64(_WORD - 2)), sign)
    high, rest = builder.xor(high, sign), builder.xor(rest, sign)
    zeros = call_intrinsic(builder, "llvm.ctlz.i64", I64, high, I1(0))
    number = builder.uitofp(_funnel(builder, high, rest, zeros), DOUBLE)
    scale = builder.shl(builder.sub(I64(_BIAS - _WORD), zeros), I64(_FRACTION))
    magnitude = builder.fmul(builder.fmul(number, builder.bitcast(scale, DOUBLE)), DOUBLE(_HALF_PI[0]))
    negative = builder.icmp_signed("<", bits, I64(0))
    flipped = builder.xor(builder.icmp_signed("<", sign, I64(0)), negative)
    signed = builder.select(flipped, builder.fneg(magnitude), magnitude)
    return signed, builder.select(negative, builder.neg(quadrant), quadrant)


def _product(builder: Value, mantissa: Value, position: Value) -> tuple[Value, Value, Value]:
    """A mantissa times 192 bits of the table that begin at bit `position`, modulo 2**192: three
    words, the highest first."""
    wide = llvm.IntType(2 * _WORD)
    first, shift = builder.lshr(position, I64(6)), builder.and_(position, I64(_WORD - 1))
    table = _two_over_pi(builder.module)
    words = []
    for number in range(4):
        address = builder.gep(table, [builder.add(first, I64(number))], inbounds=True, source_etype=I64)
        words.append(builder.load(address, typ=I64, align=8))
    top, middle, low = (_funnel(builder, a, b, shift) for a, b in pairwise(words))
    factor = builder.zext(mantissa, wide)
    of_low = builder.mul(factor, builder.zext(low, wide))
    of_middle = builder.add(builder.mul(factor, builder.zext(middle, wide)), builder.lshr(of_low, wide(_WORD)))
    carried = builder.trunc(builder.lshr(of_middle, wide(_WORD)), I64)
    highest = builder.add(builder.mul(mantissa, top), carried)
    return highest, builder.trunc(of_middle, I64), builder.trunc(of_low, I64)


def _funnel(builder: Value, high: Value, low: Value, amount: Value) -> Value:
    """The upper word of two, shifted left by less than a word."""
    return call_intrinsic(builder, "llvm.fshl.i64", I64, high, low, amount)


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

    high: Value
    low: Value


def _pow(builder: Value, x: Value, y: Value) -> Value:
    """exp(y log |x|) with the logarithm and the product as sums; the sign is the caller's."""
    base = absolute(builder, x)
    logarithm = _log(builder, base)
    product = builder.fmul(y, logarithm.high)
    rest = _fma(builder, y, logarithm.high, builder.fneg(product))
    rest = _fma(builder, y, logarithm.low, rest)
    power = polynomials.exp(builder, product)
    exact = _fma(builder, power, rest, power)
    plain = polynomials.exp(builder, builder.fmul(y, polynomials.log(builder, base)))
    usual = builder.fcmp_ordered(">", base, splat(x, 0.0))
    for value in (base, absolute(builder, product), power):
        usual = builder.and_(usual, builder.fcmp_ordered("<", value, splat(x, INFINITY)))
    return builder.select(usual, exact, plain)


def _log(builder: Value, x: Value) -> _Sum:
    """log(2**k m) = k log 2 + 2 s + 2 s**3 / 3 + ..., with s = (m - 1) / (m + 1), of x > 0."""
    mantissa, power, extra = polynomials.split_exponent(builder, x)
    k = builder.fadd(builder.sitofp(power, x.type), extra)
    one = splat(x, 1.0)
    f, above = builder.fsub(mantissa, one), builder.fadd(mantissa, one)
    below = builder.fsub(mantissa, builder.fsub(above, one))
    high = builder.fdiv(f, above)
    rest = _fma(builder, builder.fneg(high), above, f)
    rest = _fma(builder, builder.fneg(high), below, rest)
    s = _Sum(high, builder.fdiv(rest, above))
    square = _times(builder, s, s)
    cube = _times(builder, _times(builder, square, s), _Sum(splat(x, 2 / 3), splat(x, 3.700743415417188e-17)))
    series = horner(builder, square.high, _LOG)
    fifth = builder.fmul(builder.fmul(builder.fmul(square.high, square.high), s.high), series)
    double = _Sum(builder.fadd(s.high, s.high), builder.fadd(s.low, s.low))
    small = _plus(builder, double, _Sum(cube.high, builder.fadd(cube.low, fifth)))
    product = builder.fmul(k, splat(x, _LN2[0]))
    remainder = _fma(builder, k, splat(x, _LN2[0]), builder.fneg(product))
    return _plus(builder, _Sum(product, _fma(builder, k, splat(x, _LN2[1]), remainder)), small)


def _times(builder: Value, a: _Sum, b: _Sum) -> _Sum:
    """a * b."""
    high = builder.fmul(a.high, b.high)
    low = _fma(builder, a.high, b.high, builder.fneg(high))
    low = _fma(builder, a.high, b.low, low)
    return _Sum(high, _fma(builder, a.low, b.high, low))


def _plus(builder: Value, a: _Sum, b: _Sum) -> _Sum:
    """a + b, of any magnitudes."""
    high = builder.fadd(a.high, b.high)
    part = builder.fsub(high, a.high)
    error = builder.fadd(builder.fsub(a.high, builder.fsub(high, part)), builder.fsub(b.high, part))
    low = builder.fadd(error, builder.fadd(a.low, b.low))
    total = builder.fadd(high, low)
    return _Sum(total, builder.fsub(low, builder.fsub(total, high)))


def _fma(builder: Value, a: Value, b: Value, c: Value) -> Value:
    """a * b + c, rounded once."""
    return call_intrinsic(builder, f"llvm.fma.{type_suffix(a.type)}", a.type, a, b, c)
