"""exp, log, tanh, erf, sin and cos of scalars and vectors: range reduction and a polynomial.

Errors are below 2 units in the last place (sigmoid: 3), and limits are those of IEEE 754. Each
polynomial interpolates the function in its comment at the Chebyshev nodes of the interval. Whether
products and sums are fused is up to the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vdla.compiler.codegen.llvm.types import (
    DOUBLE,
    FLOAT,
    I1,
    I32,
    I64,
    Type,
    Value,
    call_intrinsic,
    constant,
    element_type,
    lane_count,
    splat,
    type_like,
    type_suffix,
)

_LOG2E = 1.4426950408889634
INFINITY = float("inf")
EmitDouble = Callable[[Value, str, Value], Value]  # (builder, function, float64 argument)


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """Constants of the algorithms for float32 or float64."""

    integer: Type
    mantissa: int  # bits
    bias: int
    low: float  # below, exp is 0
    high: float  # above, exp is infinite
    ln2: tuple[float, float]  # its upper bits, whose small multiples are exact, and the rest
    exp: tuple[float, ...]  # (exp(r) - 1 - r) / r**2 for |r| < 0.3466
    log: tuple[float, ...]  # (log((1 + s) / (1 - s)) / s - 2) / s**2 over s**2 < 0.02945
    tanh: tuple[float, ...]  # (tanh(x) / x - 1) / x**2 over x**2 < 0.3026

    @property
    def magic(self) -> float:
        """Adding it rounds to an integer, which is in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa


_SINGLE = FloatFormat(
    integer=I32, mantissa=23, bias=127, low=-104.0, high=89.0, ln2=(0.693115234375, 3.1946184945309415e-05),
    exp=(0.5, 0.16666576998242924, 0.041666554627878084, 0.008363177629994445, 0.0013926181810489343),
    log=(0.6666666655430007, 0.40000122000846017, 0.28550802551295174, 0.23330964090255224),
    tanh=(-0.3333333329495413, 0.13333324185914644, -0.05396469612807382, 0.021818403705021795, -0.008526140801792538,
     0.0025261091923533636),
)  # fmt: skip
_DOUBLE = FloatFormat(
    integer=I64, mantissa=52, bias=1023, low=-746.0, high=710.0, ln2=(0.6931471787393093, 1.8206359985041462e-09),
    exp=(0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.001388888888888375,
         0.00019841269874815834,
     2.480158732554432e-05, 2.7557255406285044e-06, 2.7557273647451135e-07, 2.5105214474751413e-08,
     2.091468516140366e-09),
    log=(0.666666666666667, 0.3999999999989924, 0.2857142862609592, 0.22222211115141333, 0.1818289055685574,
     0.1533167402581507, 0.14617037594292834),
    tanh=(-0.3333333333333333, 0.13333333333332714, -0.05396825396743174, 0.021869488493563034, -0.008863234395418036,
     0.0035921103470955376, -0.0014556615775659148, 0.0005889348072262403, -0.00023463104523463584,
     8.510707920260886e-05, -2.0598556628687155e-05),
)  # fmt: skip
_ERF_SMALL = (
    0.12837916708873873,
    -0.3761263879607106,
    0.11283788884798991,
    -0.026865893702193583,
    0.005222619942729914,
    -0.0008511928407675864,
    0.00011507388875614064,
    -1.0487724853974701e-05,
)  # erf(x) / x - 1 over x**2 < 0.81
_ERF_LARGE = (
    -0.00034958211408343175,
    1.1303884233078163,
    0.6314834944965707,
    0.11049957100171087,
    -0.026736233891883728,
    0.004910779965229004,
    -0.0006433164709901304,
    5.4936169274296224e-05,
    -2.5943393210241757e-06,
    4.4538963877116855e-08,
)  # -log(1 - erf(x)) for 0.9 < x < 4
_SIN = (-0.16666664661830932, 0.008332748176679602, -0.00019587870583506818)  # (sin(r) / r - 1) / r**2, |r| < pi / 4
_COS = (0.04166666465901785, -0.001388830294175406, 2.454792174538544e-05)  # (cos(r) - 1 + r**2 / 2) / r**4
_HALF_PI = (1.5707963109016418, 1.5893254712295857e-08, 6.123233995736766e-17)  # two parts of 26 bits, and the rest
_TANH_SMALL, _ERF_LIMIT_SMALL, _ERF_LIMIT, _SINE_LIMIT = 0.55, 0.9, 4.0, 2.0**25
_SQRT_HALF = {_SINGLE: 0x3F3504F3, _DOUBLE: 0x3FE6A09E667F3BCD}  # its bit pattern


def format_of(value: Value) -> FloatFormat:
    """The constants for the type of `value`."""
    return _SINGLE if element_type(value.type) == FLOAT else _DOUBLE


def multiply_add(builder: Value, a: Value, b: Value, c: Value) -> Value:
    """a * b + c, fused if that is as fast."""
    return call_intrinsic(builder, f"llvm.fmuladd.{type_suffix(a.type)}", a.type, a, b, c)


def horner(builder: Value, x: Value, coefficients: tuple[float, ...]) -> Value:
    """A polynomial by Horner's scheme; the constant coefficient comes first."""
    result = splat(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = multiply_add(builder, result, x, splat(x, coefficient))
    return result


def absolute(builder: Value, x: Value) -> Value:
    """|x|."""
    return call_intrinsic(builder, f"llvm.fabs.{type_suffix(x.type)}", x.type, x)


def copy_sign(builder: Value, x: Value, sign: Value) -> Value:
    """`x` with the sign of `sign`."""
    return call_intrinsic(builder, f"llvm.copysign.{type_suffix(x.type)}", x.type, x, sign)


def nearest_multiple(builder: Value, x: Value, factor: float) -> tuple[Value, Value]:
    """x * factor rounded to an integer: as a float, and as an integer whose low bits are valid."""
    form = format_of(x)
    kind = type_like(x, form.integer)
    shifted = multiply_add(builder, x, splat(x, factor), splat(x, form.magic))
    bits = builder.sub(builder.bitcast(shifted, kind), builder.bitcast(splat(x, form.magic), kind))
    return builder.fsub(shifted, splat(x, form.magic)), bits


def exp(builder: Value, x: Value) -> Value:
    """exp(n ln 2 + r) = 2**n exp(r); scales in two steps, as 2**n alone may overflow."""
    form = format_of(x)
    x = builder.select(builder.fcmp_ordered(">", x, splat(x, form.high)), splat(x, form.high), x)
    x = builder.select(builder.fcmp_ordered("<", x, splat(x, form.low)), splat(x, form.low), x)
    number, power = nearest_multiple(builder, x, _LOG2E)
    rest = multiply_add(builder, number, splat(x, -form.ln2[0]), x)
    rest = multiply_add(builder, number, splat(x, -form.ln2[1]), rest)
    tail = multiply_add(builder, builder.fmul(rest, rest), horner(builder, rest, form.exp), rest)
    result = builder.fadd(tail, splat(x, 1.0))
    half = builder.ashr(power, splat(power, 1))
    return _scale(builder, _scale(builder, result, half), builder.sub(power, half))


def _scale(builder: Value, x: Value, power: Value) -> Value:
    """x * 2**power; 2**power must be a normal number."""
    form = format_of(x)
    exponent = builder.shl(builder.add(power, splat(power, form.bias)), splat(power, form.mantissa))
    return builder.fmul(x, builder.bitcast(exponent, x.type))


def log(builder: Value, x: Value) -> Value:
    """log(2**k (1 + f)) with f near 0: f - f**2 / 2 + s (f**2 / 2 + R), with s = f / (2 + f)."""
    form = format_of(x)
    mantissa, power, extra = split_exponent(builder, x)
    f = builder.fsub(mantissa, splat(x, 1.0))
    k = builder.fadd(builder.sitofp(power, x.type), extra)
    s = builder.fdiv(f, builder.fadd(f, splat(x, 2.0)))
    z = builder.fmul(s, s)
    square = builder.fmul(builder.fmul(f, f), splat(x, 0.5))
    inner = builder.fadd(square, builder.fmul(z, horner(builder, z, form.log)))
    low = multiply_add(builder, s, inner, builder.fmul(k, splat(x, form.ln2[1])))
    result = multiply_add(builder, k, splat(x, form.ln2[0]), builder.fsub(f, builder.fsub(square, low)))
    return _log_limits(builder, x, result)


def split_exponent(builder: Value, x: Value) -> tuple[Value, Value, Value]:
    """m near 1, an integer k and a number e with x = 2**(k + e) m, for x > 0."""
    form = format_of(x)
    normal, extra = _normalise(builder, x, form)
    kind = type_like(x, form.integer)
    one, half = form.bias << form.mantissa, _SQRT_HALF[form]
    shifted = builder.add(builder.bitcast(normal, kind), constant(kind, one - half))
    power = builder.sub(builder.ashr(shifted, constant(kind, form.mantissa)), constant(kind, form.bias))
    bits = builder.add(builder.and_(shifted, constant(kind, (1 << form.mantissa) - 1)), constant(kind, half))
    return builder.bitcast(bits, x.type), power, extra


def _normalise(builder: Value, x: Value, form: FloatFormat) -> tuple[Value, Value]:
    """A subnormal number scaled to a normal one, and the correction of its exponent."""
    small = builder.fcmp_ordered("<", x, splat(x, 2.0 ** (1 - form.bias)))
    larger = builder.fmul(x, splat(x, 2.0**form.mantissa))
    extra = builder.select(small, splat(x, -float(form.mantissa)), splat(x, 0.0))
    return builder.select(small, larger, x), extra


def _log_limits(builder: Value, x: Value, result: Value) -> Value:
    result = builder.select(builder.fcmp_ordered("==", x, splat(x, 0.0)), splat(x, -INFINITY), result)
    result = builder.select(builder.fcmp_unordered("<", x, splat(x, 0.0)), splat(x, float("nan")), result)
    return builder.select(builder.fcmp_ordered("==", x, splat(x, INFINITY)), x, result)


def tanh(builder: Value, x: Value) -> Value:
    """A polynomial near 0, else 1 - 2 / (exp(2 |x|) + 1)."""
    magnitude, square = absolute(builder, x), builder.fmul(x, x)
    near = multiply_add(builder, builder.fmul(x, square), horner(builder, square, format_of(x).tanh), x)
    power = exp(builder, builder.fadd(magnitude, magnitude))
    quotient = builder.fdiv(splat(x, 2.0), builder.fadd(power, splat(x, 1.0)))
    far = builder.fsub(splat(x, 1.0), quotient)
    is_near = builder.fcmp_ordered("<", magnitude, splat(x, _TANH_SMALL))
    return copy_sign(builder, builder.select(is_near, near, far), x)


def sigmoid(builder: Value, x: Value) -> Value:
    """1 / (1 + exp(-x)), by exp(-|x|): cannot overflow, and small results stay accurate."""
    power = exp(builder, builder.fneg(absolute(builder, x)))
    positive = builder.fcmp_ordered(">=", x, splat(x, 0.0))
    above = builder.select(positive, splat(x, 1.0), power)
    return builder.fdiv(above, builder.fadd(splat(x, 1.0), power))


def erf(builder: Value, x: Value) -> Value:
    """float32: a polynomial near 0, else 1 - exp(-p(|x|))."""
    magnitude, square = absolute(builder, x), builder.fmul(x, x)
    near = multiply_add(builder, x, horner(builder, square, _ERF_SMALL), x)
    limited = builder.select(
        builder.fcmp_ordered(">", magnitude, splat(x, _ERF_LIMIT)), splat(x, _ERF_LIMIT), magnitude
    )
    rest = exp(builder, builder.fneg(horner(builder, limited, _ERF_LARGE)))
    far = builder.fsub(splat(x, 1.0), rest)
    is_near = builder.fcmp_ordered("<", magnitude, splat(x, _ERF_LIMIT_SMALL))
    return copy_sign(builder, builder.select(is_near, near, far), x)


def sin_or_cos(builder: Value, x: Value, name: str, of_large: EmitDouble) -> Value:
    """float32: sin or cos; if a lane is too large for the reduction, in float64 by `of_large`."""
    wide = builder.fpext(x, type_like(x, DOUBLE))
    with builder.if_else(_any_above(builder, x, _SINE_LIMIT), likely=False) as (then, otherwise):
        with then:
            slow = builder.fptrunc(of_large(builder, name, wide), x.type)
            slow_end = builder.block
        with otherwise:
            fast = _sine_by_reduction(builder, x, wide, 0 if name == "sin" else 1)
            fast_end = builder.block
    result = builder.phi(x.type)
    result.add_incoming(slow, slow_end)
    result.add_incoming(fast, fast_end)
    return result


def _any_above(builder: Value, x: Value, limit: float) -> Value:
    """Whether the magnitude of any lane exceeds `limit`."""
    large = builder.fcmp_ordered(">", absolute(builder, x), splat(x, limit))
    if lane_count(x) is None:
        return large
    return call_intrinsic(builder, f"llvm.vector.reduce.or.{type_suffix(large.type)}", I1, large)


def _sine_by_reduction(builder: Value, x: Value, wide: Value, quarters: int) -> Value:
    """sin(x + quarters * pi / 2); the multiple of pi / 2 is subtracted in float64."""
    number, bits = nearest_multiple(builder, wide, 1 / sum(_HALF_PI))
    rest = wide
    for part in _HALF_PI:
        rest = builder.fsub(rest, builder.fmul(number, splat(wide, part)))
    r = builder.fptrunc(rest, x.type)
    square = builder.fmul(r, r)
    sin = multiply_add(builder, builder.fmul(r, square), horner(builder, square, _SIN), r)
    tail = multiply_add(builder, builder.fmul(square, square), horner(builder, square, _COS), splat(x, 1.0))
    cos = multiply_add(builder, square, splat(x, -0.5), tail)
    return by_quadrant(builder, sin, cos, builder.add(bits, splat(bits, quarters)))


def by_quadrant(builder: Value, sin: Value, cos: Value, quadrant: Value) -> Value:
    """The sine of an angle, `quadrant` right angles beyond that of `sin` and `cos`."""
    odd = builder.icmp_signed("!=", builder.and_(quadrant, splat(quadrant, 1)), splat(quadrant, 0))
    negative = builder.icmp_signed("!=", builder.and_(quadrant, splat(quadrant, 2)), splat(quadrant, 0))
    result = builder.select(odd, cos, sin)
    return builder.select(negative, builder.fneg(result), result)
