# SPDX-License-Identifier: Apache-2.0
"""Functions of the IR that OpenCL C lacks, as small device functions, one for each element type.

A kernel's source holds those that it calls. Their results are those of the interpreter, bit for
bit; no argument causes undefined behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vdla.compiler.codegen.opencl.types import VECTOR_LANES, bits, c_type, is_signed, unsigned
from vdla.compiler.ir import INTEGER_BITS, ROUND_PRODUCT_LIMITS


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """A device function: its name, its source and the device functions that it calls."""

    name: str
    source: str
    calls: tuple[str, ...] = ()


def device_functions() -> dict[str, DeviceFunction]:
    """All device functions by name, each after those that it calls."""
    made = [*_small_floats()]
    for dtype in INTEGER_BITS:
        made += [*_integer_functions(dtype)]
    for dtype in ("float32", "float64"):
        made += [*_float_functions(dtype)]
    return {function.name: function for function in made}


def prelude(used: Iterable[str]) -> str:
    """The source of the functions `used` and of those that they call."""
    known, needed = device_functions(), set(used)
    for name in list(needed):
        needed |= set(known[name].calls)
    return "\n\n".join(function.source for name, function in known.items() if name in needed)


def _integer_functions(dtype: str) -> Iterable[DeviceFunction]:
    """Division, shifts and wrapping of integers; int2 and int4 wrap what `char` computes."""
    kind = c_type(dtype)
    if INTEGER_BITS[dtype] < 8:
        spare = 8 - INTEGER_BITS[dtype]
        lowest, highest = -(1 << (INTEGER_BITS[dtype] - 1)), (1 << (INTEGER_BITS[dtype] - 1)) - 1
        yield DeviceFunction(
            f"wrap_{dtype}",
            f"char wrap_{dtype}(int x) {{\n    return (char)((char)((uint)x << {spare}) >> {spare});\n}}",
        )
        for source, end in (("float", "f"), ("double", "")):
            limited = f"fmin(fmax(x, {lowest}.0{end}), {highest}.0{end})"
            yield DeviceFunction(
                f"{dtype}_of_{source}",
                f"char {dtype}_of_{source}({source} x) {{\n"
                f"    return isnan(x) ? (char)0 : convert_char_rtz({limited});\n}}",
            )
        return
    for source in ("float", "double"):
        yield DeviceFunction(
            f"{kind}_of_{source}",
            f"{kind} {kind}_of_{source}({source} x) {{  // saturates; 0 of NaN\n"
            f"    return isnan(x) ? ({kind})0 : convert_{kind}_sat_rtz(x);\n}}",
        )
    if is_signed(dtype):
        wide = c_type(unsigned(dtype))
        yield DeviceFunction(
            f"floordiv_{kind}",
            f"{kind} floordiv_{kind}({kind} a, {kind} b) {{  // towards minus infinity; 0 if b is 0\n"
            f"    if (b == 0 || b == -1)\n"
            f"        return b == 0 ? 0 : ({kind})(({wide})0 - ({wide})a);\n"
            f"    const {kind} quotient = a / b;\n"
            f"    return quotient - (quotient * b != a && (a < 0) != (b < 0));\n}}",
        )
        yield DeviceFunction(
            f"mod_{kind}",
            f"{kind} mod_{kind}({kind} a, {kind} b) {{  // has the sign of b; 0 if b is 0\n"
            f"    if (b == 0 || b == -1)\n"
            f"        return 0;\n"
            f"    const {kind} rest = a % b;\n"
            f"    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n}}",
        )
    else:
        for name, symbol in (("floordiv", "/"), ("mod", "%")):
            yield DeviceFunction(
                f"{name}_{kind}",
                f"{kind} {name}_{kind}({kind} a, {kind} b) {{  // 0 if b is 0\n"
                f"    return b == 0 ? 0 : a {symbol} b;\n}}",
            )
    yield from _shifts(dtype)


def _shifts(dtype: str) -> Iterable[DeviceFunction]:
    """Shifts by any amount: a negative one, or one of at least the width, shifts all bits out."""
    kind, wide, width = c_type(dtype), c_type(unsigned(dtype)), bits(dtype)
    outside = f"b < 0 || b >= {width}" if is_signed(dtype) else f"b >= {width}"
    yield DeviceFunction(
        f"shl_{kind}",
        f"{kind} shl_{kind}({kind} a, {kind} b) {{\n    return {outside} ? 0 : ({kind})(({wide})a << b);\n}}",
    )
    far = f"a >> ({outside} ? {width - 1} : b)" if is_signed(dtype) else f"{outside} ? 0 : a >> b"
    yield DeviceFunction(f"shr_{kind}", f"{kind} shr_{kind}({kind} a, {kind} b) {{\n    return {far};\n}}")


def _float_functions(dtype: str) -> Iterable[DeviceFunction]:
    """Extrema that keep NaN, and functions that OpenCL C lacks."""
    kind, end = c_type(dtype), "f" if dtype == "float32" else ""
    yield from _extrema(kind, "a {symbol} b || isnan(a) ? a : b")
    for lanes in VECTOR_LANES:
        yield from _extrema(c_type(dtype, lanes), "select(b, a, a {symbol} b || isnan(a))")
    yield DeviceFunction(
        f"sigmoid_{kind}",
        f"{kind} sigmoid_{kind}({kind} x) {{\n"
        f"    const {kind} small = exp(-fabs(x));\n"
        f"    return (x >= 0.0{end} ? 1.0{end} : small) / (1.0{end} + small);\n}}",
    )
    least, most = ROUND_PRODUCT_LIMITS[dtype]
    yield DeviceFunction(
        f"round_product_{kind}",
        f"int round_product_{kind}({kind} x, {kind} y, {kind} low, {kind} high) {{  // ties to even; NaN as high\n"
        f"    const double rounded = rint((double)x * (double)y);\n"
        f"    const double most = fmin((double)high, {float(most)!r}), least = fmax((double)low, {float(least)!r});\n"
        f"    return (int)fmax(isnan(rounded) ? most : fmin(rounded, most), least);\n}}",
    )


def _extrema(kind: str, result: str) -> Iterable[DeviceFunction]:
    """Extrema of `a` and `b` that keep NaN; `result` has the comparison as `symbol`."""
    for name, symbol in (("minimum", "<"), ("maximum", ">")):
        head = f"{kind} {name}_{kind}({kind} a, {kind} b) {{  // NaN if either is"
        yield DeviceFunction(f"{name}_{kind}", f"{head}\n    return {result.format(symbol=symbol)};\n}}")


def _small_floats() -> Iterable[DeviceFunction]:
    """float16 and bfloat16 to float and back, rounded to nearest, ties to even.

    Pointers to half are avoided: compilers take them to point to no integer, and forget a store.
    """
    yield DeviceFunction(
        "float_of_float16",
        "float float_of_float16(ushort x) {\n"
        "    const uint rest = x & 0x7fff;\n"
        "    const float size = rest < 0x400 ? (float)rest * 0x1p-24f\n"
        "        : as_float((rest << 13) + (rest < 0x7c00 ? 0x38000000 : 0x70000000));\n"
        "    return x & 0x8000 ? -size : size;\n}",
    )
    yield DeviceFunction(
        "float16_of_float",
        "ushort float16_of_float(float x) {\n"
        "    const uint rest = as_uint(x) & 0x7fffffff, scaled = rest - 0x38000000;\n"
        "    const uint size = rest > 0x7f800000 ? 0x7e00 : rest >= 0x477ff000 ? 0x7c00\n"
        "        : rest < 0x38800000 ? (uint)rint(fabs(x) * 0x1p24f) : (scaled + (scaled >> 13 & 1) + 0xfff) >> 13;\n"
        "    return (ushort)((as_uint(x) >> 16 & 0x8000) | size);\n}",
    )
    yield DeviceFunction(
        "float_of_bfloat16", "float float_of_bfloat16(ushort x) {\n    return as_float((uint)x << 16);\n}"
    )
    yield DeviceFunction(
        "bfloat16_of_float",
        "ushort bfloat16_of_float(float x) {\n"
        "    const uint all = as_uint(x);\n"
        "    if (isnan(x))\n"
        "        return (ushort)(((all >> 16) & 0x8000) | 0x7fc0);\n"
        "    return (ushort)((all + ((all >> 16) & 1) + 0x7fff) >> 16);\n}",
    )
