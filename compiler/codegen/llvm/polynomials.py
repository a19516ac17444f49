# SPDX-License-Identifier: Apache-2.0
"""exp, log, tanh, erf, sin and cos of scalars and vectors: range reduction and a polynomial.

Errors are below 2 units in the last place (sigmoid and tanh: 3), and limits are those of IEEE 754.
Each polynomial interpolates the function in its comment at the Chebyshev nodes of the interval.
Whether products and sums are fused is up to the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vdla.compiler.codegen.llvm.numbers import Number, Operand, choose, where
from vdla.compiler.codegen.llvm.types import DOUBLE, FLOAT, I32, I64, Type, element_type

_LOG2E = 1.4426950408889634
INFINITY = float("inf")
Scale = Callable[[Number, Number], Number]  # of x and an integral n: x * 2**n
EmitDouble = Callable[[str, Number], Number]  # (function, float64 argument)


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

    @property
    def magic(self) -> float:
        """Adding it rounds to an integer, which is in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa


_SINGLE = FloatFormat(
    integer=I32, mantissa=23, bias=127, low=-104.0, high=89.0, ln2=(0.693115234375, 3.1946184945309415e-05),
    exp=(0.5, 0.16666576998242924, 0.041666554627878084, 0.008363177629994445, 0.0013926181810489343),
    log=(0.6666666655430007, 0.40000122000846017, 0.28550802551295174, 0.23330964090255224),
)  # fmt: skip
_DOUBLE = FloatFormat(
    integer=I64, mantissa=52, bias=1023, low=-746.0, high=710.0, ln2=(0.6931471787393093, 1.8206359985041462e-09),
    exp=(0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.001388888888888375,
         0.00019841269874815834,
     2.480158732554432e-05, 2.7557255406285044e-06, 2.7557273647451135e-07, 2.5105214474751413e-08,
     2.091468516140366e-09),
    log=(0.666666666666667, 0.3999999999989924, 0.2857142862609592, 0.22222211115141333, 0.1818289055685574,
     0.1533167402581507, 0.14617037594292834),
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
QUARTERS = {"sin": 0, "cos": 1}  # of a turn that are added to the angle
_TANH_LIMIT, _ERF_LIMIT_SMALL, _ERF_LIMIT, _SINE_LIMIT = 20.0, 0.9, 4.0, 2.0**25
_SQRT_HALF = {_SINGLE: 0x3F3504F3, _DOUBLE: 0x3FE6A09E667F3BCD}  # its bit pattern


def format_of(value: Number) -> FloatFormat:
    """The constants for the type of `value`."""
    return _SINGLE if element_type(value.kind) == FLOAT else _DOUBLE


def multiply_add(a: Number, b: Operand, c: Operand) -> Number:
    """a * b + c, fused if that is as fast."""
    return a.call("fmuladd", b, c)


def horner(x: Number, coefficients: tuple[float, ...]) -> Number:
    """A polynomial by Horner's scheme; the constant coefficient comes first."""
    result = x.like(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = multiply_add(result, x, coefficient)
    return result


def copy_sign(x: Number, sign: Number) -> Number:
    """`x` with the sign of `sign`."""
    return x.call("copysign", sign)


def nearest_multiple(x: Number, factor: float) -> tuple[Number, Number]:
    """x * factor rounded to an integer: as a float, and as an integer whose low bits are valid."""
    form = format_of(x)
    shifted = multiply_add(x, factor, form.magic)
    bits = shifted.convert("bitcast", form.integer) - x.like(form.magic).convert("bitcast", form.integer)
    return shifted - form.magic, bits


def exp(x: Number, scale: Scale | None = None) -> Number:
    """exp(n ln 2 + r) = 2**n exp(r); `scale` multiplies by 2**n as one instruction, where there is
    one. Otherwise two steps do, as 2**n alone may overflow.
    """
    form = format_of(x)
    x = where(x > form.high, form.high, x)
    x = where(x < form.low, form.low, x)
    small, number, power = _exp_parts(x)
    if scale is not None:
        return scale(small + 1.0, number)
    half = power >> 1
    return _scale(_scale(small + 1.0, half), power - half)


def exp_of_negative(x: Number) -> Number:
    """exp(x) for x <= 0, where 2**n may be too small: it is scaled up, then the result down."""
    form = format_of(x)
    small, _, power = _exp_parts(where(x < form.low, form.low, x))
    return _scale(small + 1.0, power + form.bias // 2) * 2.0 ** -(form.bias // 2)


def exp_of_moderate(x: Number) -> Number:
    """exp(x) where 2**n and the result are normal numbers."""
    small, _, power = _exp_parts(x)
    return _scale(small + 1.0, power)


def _exp_parts(x: Number) -> tuple[Number, Number, Number]:
    """exp(r) - 1, and n as a float and an integer, for x = n ln 2 + r with |r| < ln 2 / 2."""
    form = format_of(x)
    number, power = nearest_multiple(x, _LOG2E)
    rest = multiply_add(number, -form.ln2[0], x)
    rest = multiply_add(number, -form.ln2[1], rest)
    return multiply_add(rest * rest, horner(rest, form.exp), rest), number, power


def _scale(x: Number, power: Number) -> Number:
    """x * 2**power; 2**power must be a normal number."""
    form = format_of(x)
    return x * ((power + form.bias) << form.mantissa).convert("bitcast", element_type(x.kind))


def log(x: Number) -> Number:
    """log(2**k (1 + f)) with f near 0: f - f**2 / 2 + s (f**2 / 2 + R), with s = f / (2 + f)."""
    form = format_of(x)
    mantissa, power, extra = split_exponent(x)
    f = mantissa - 1.0
    k = power.convert("sitofp", element_type(x.kind)) + extra
    s = f / (f + 2.0)
    z = s * s
    square = f * f * 0.5
    inner = square + z * horner(z, form.log)
    low = multiply_add(s, inner, k * form.ln2[1])
    result = multiply_add(k, form.ln2[0], f - (square - low))
    result = where(x.equals(0.0), -INFINITY, result)
    result = where(x.compare("fcmp_unordered", "<", 0.0), float("nan"), result)
    return where(x.equals(INFINITY), x, result)


def split_exponent(x: Number) -> tuple[Number, Number, Number]:
    """m near 1, an integer k and a number e with x = 2**(k + e) m, for x > 0."""
    form = format_of(x)
    small = x < 2.0 ** (1 - form.bias)
    larger = x * 2.0**form.mantissa
    extra = where(small, x.like(-float(form.mantissa)), 0.0)
    normal = where(small, larger, x)  # a subnormal number is scaled
    one, half = form.bias << form.mantissa, _SQRT_HALF[form]
    shifted = normal.convert("bitcast", form.integer) + (one - half)
    power = (shifted >> form.mantissa) - form.bias
    bits = (shifted & ((1 << form.mantissa) - 1)) + half
    return bits.convert("bitcast", element_type(x.kind)), power, extra


def tanh(x: Number) -> Number:
    """(e - 1) / (e + 1), e = exp(2 |x|) = 2**n (1 + p), without cancellation in e - 1."""
    magnitude = abs(x)
    double = where(magnitude > _TANH_LIMIT, 2 * _TANH_LIMIT, magnitude + magnitude)
    small, _, power = _exp_parts(double)
    scale = _scale(x.like(1.0), power)
    above = multiply_add(small, scale, scale - 1.0)
    return copy_sign(above / (above + 2.0), x)


def sigmoid(x: Number) -> Number:
    """1 / (1 + exp(-x)), by exp(-|x|): cannot overflow, and small results stay accurate."""
    power = exp_of_negative(-abs(x))
    return where(x >= 0.0, 1.0, power) / (x.like(1.0) + power)


def erf(x: Number) -> Number:
    """float32: a polynomial near 0, else 1 - exp(-p(|x|))."""
    magnitude, square = abs(x), x * x
    near = multiply_add(x, horner(square, _ERF_SMALL), x)
    limited = where(magnitude > _ERF_LIMIT, _ERF_LIMIT, magnitude)
    far = 1.0 - exp_of_moderate(-horner(limited, _ERF_LARGE))
    return copy_sign(where(magnitude < _ERF_LIMIT_SMALL, near, far), x)


def sin_or_cos(x: Number, name: str, of_large: EmitDouble) -> Number:
    """float32: sin or cos; if a lane is too large for the reduction, in float64 by `of_large`."""
    wide = x.convert("fpext", DOUBLE)
    (result,) = choose(
        (abs(x) > _SINE_LIMIT).any_lane(),
        lambda: [of_large(name, wide).convert("fptrunc", FLOAT)],
        lambda: [_sine_by_reduction(wide, QUARTERS[name])],
    )
    return result


def _sine_by_reduction(wide: Number, quarters: int) -> Number:
    """sin(x + quarters * pi / 2); the multiple of pi / 2 is subtracted in float64."""
    number, bits = nearest_multiple(wide, 1 / sum(_HALF_PI))
    rest = wide
    for part in _HALF_PI:
        rest = rest - number * part
    r = rest.convert("fptrunc", FLOAT)
    square = r * r
    sin = multiply_add(r * square, horner(square, _SIN), r)
    tail = multiply_add(square * square, horner(square, _COS), 1.0)
    cos = multiply_add(square, -0.5, tail)
    return by_quadrant(sin, cos, bits + quarters)


def by_quadrant(sin: Number, cos: Number, quadrant: Number) -> Number:
    """The sine of an angle, `quadrant` right angles beyond that of `sin` and `cos`."""
    odd, negative = ((quadrant & bit).differs(0) for bit in (1, 2))
    result = where(odd, cos, sin)
    return where(negative, -result, result)
