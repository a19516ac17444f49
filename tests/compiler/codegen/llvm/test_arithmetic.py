# SPDX-License-Identifier: Apache-2.0
"""Operators and conversions of every dtype, scalar and vector, against the interpreter."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from helpers.lowered import HOST, Compiled, add, assembly, function, load, mul, store, vector

from vdla.compiler import ir
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import DTYPES, is_float, is_integer, limits, storage_dtype, wrap
from vdla.compiler.target import Target

LOOP, LANE = ir.Var("i"), ir.Var("l")
FLOAT_OPS = ("add", "sub", "mul", "min", "max", *ir.COMPARE_OPS)
BOOL_OPS = ("and", "or", "xor", "eq", "ne")


def operators_of(dtype: str) -> tuple[str, ...]:
    return BOOL_OPS if dtype == "bool" else FLOAT_OPS if is_float(dtype) else ir.BINARY_OPS


def edges(dtype: str) -> list[float]:
    if dtype == "bool":
        return [0, 1]
    if is_float(dtype):
        tiny, huge = 2.0**-24, 60000.0
        return [
            0.0,
            -0.0,
            1.0,
            -1.5,
            2.5,
            np.inf,
            -np.inf,
            np.nan,
            tiny,
            -tiny / 4,
            huge,
            -huge,
            3e9,
            -3e9,
            1e19,
            127.5,
        ]
    low, high = (int(limit) for limit in limits(dtype))
    return sorted({v for v in (low, low + 1, -1, 0, 1, 2, 3, 7, 8, 31, 63, high - 1, high) if low <= v <= high})


def values(dtype: str, count: int, rng: np.random.Generator) -> np.ndarray:
    if is_float(dtype):
        return np.ldexp(rng.uniform(-1, 1, count), rng.integers(-14, 15, count)).astype(storage_dtype(dtype))
    bits = rng.integers(-(1 << 63), 1 << 63, count, dtype=np.int64)
    return (bits & 1).astype(bool) if dtype == "bool" else wrap(bits, dtype)


def pairs(dtype: str, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    special = list(product(edges(dtype), repeat=2))
    count = len(special) + 200
    count += -count % lanes
    sides = []
    for side in (0, 1):
        with np.errstate(over="ignore"):
            kind = np.float64 if is_float(dtype) else object
            column = np.array([pair[side] for pair in special], kind).astype(storage_dtype(dtype))
        sides.append(np.concatenate([column, values(dtype, count - len(column), rng)]))
    return sides[0], sides[1]


def over(count: int, lanes: int, *stores: ir.Stmt) -> ir.Stmt:
    """The stores at all elements, as a scalar or a vector loop."""
    return ir.For("i", count // lanes, ir.seq(*(s if lanes == 1 else vector("l", lanes, s) for s in stores)))


def at(lanes: int) -> ir.Expr:
    return LOOP if lanes == 1 else add(mul(LOOP, lanes), LANE)


def compare(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """Checks that arrays are equal bit for bit; all NaNs are equal."""
    if found.dtype.kind not in "biu":
        both = np.isnan(found) & np.isnan(wanted)
        found, wanted = np.where(both, 0, found), np.where(both, 0, wanted)
    if "min" in what or "max" in what:
        found, wanted = found + 0, wanted + 0  # either zero may be returned
    same = np.ascontiguousarray(found).view(np.uint8) == np.ascontiguousarray(wanted).view(np.uint8)
    bad = np.flatnonzero(~same.reshape(found.size, -1).all(axis=1))
    assert not bad.size, f"{what}: element {bad[0]} must be {wanted[bad[0]]}, got {found[bad[0]]}"


def check(fn: ir.Function, arrays: dict[str, np.ndarray], target: Target = HOST) -> None:
    outputs = {
        n: np.zeros(fn.buffers[n].dims, storage_dtype(fn.buffers[n].dtype)) for n in fn.params if n not in arrays
    }
    assert Compiled(fn, target=target)(*(arrays[n] if n in arrays else outputs[n] for n in fn.params)) == 0
    wanted = interpret(fn, arrays)
    for name, found in outputs.items():
        compare(found, wanted[name], f"{fn.buffers[name].dtype} {name}")


@pytest.mark.parametrize("lanes", [1, 7])
@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_agree_with_the_interpreter(dtype: str, lanes: int) -> None:
    a, b = pairs(dtype, lanes)
    ops = operators_of(dtype)
    inputs = [ir.Buffer(name, (a.size,), dtype) for name in ("a", "b")]
    outputs = [ir.Buffer(f"y_{op}", (a.size,), "bool" if op in ir.COMPARE_OPS else dtype) for op in ops]
    place = at(lanes)
    stores = [
        store(out.name, (place,), ir.Binary(op, load("a", place), load("b", place)))
        for out, op in zip(outputs, ops, strict=True)
    ]
    fn = function([*inputs, *outputs], over(a.size, lanes, *stores))
    check(fn, {"a": a, "b": b})


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_agree_with_the_interpreter(dtype: str, lanes: int) -> None:
    a, _ = pairs(dtype, lanes)
    outputs = [ir.Buffer(f"to_{other}", (a.size,), other) for other in DTYPES]
    place = at(lanes)
    stores = [store(out.name, (place,), ir.Cast(out.dtype, load("a", place))) for out in outputs]
    fn = function([ir.Buffer("a", (a.size,), dtype), *outputs], over(a.size, lanes, *stores))
    check(fn, {"a": a})


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if is_integer(dtype)])
def test_division_by_a_constant_rounds_down(dtype: str) -> None:
    low, high = limits(dtype)
    a, _ = pairs(dtype, 8)
    ops = {
        f"y_{op}_{n}": ir.Binary(op, load("a", at(8)), ir.Const(divisor, dtype))
        for op in ("floordiv", "mod")
        for n, divisor in enumerate((1, 3, 4, 7, 64, -3))
        if low <= divisor <= high
    }
    outputs = [ir.Buffer(name, (a.size,), dtype) for name in ops]
    stores = [store(name, (at(8),), value) for name, value in ops.items()]
    check(function([ir.Buffer("a", (a.size,), dtype), *outputs], over(a.size, 8, *stores)), {"a": a})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_software_conversions_of_16_bit_floats_agree_with_hardware(dtype: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(storage_dtype(dtype))
    x = values("float32", 1 << 16, np.random.default_rng(3)) * np.float32(2) ** np.float32(-8)
    params = [ir.Buffer("a", every.shape, dtype), ir.Buffer("x", x.shape, "float32")]
    params += [ir.Buffer("wide", every.shape, "float32"), ir.Buffer("narrow", x.shape, dtype)]
    stores = store("wide", (at(8),), ir.Cast("float32", load("a", at(8)))), narrowed(dtype)
    wide, narrow = np.empty(every.shape, np.float32), np.empty(x.shape, storage_dtype(dtype))
    fn = function(params, over(x.size, 8, *stores))
    assert Compiled(fn, target=Target.named("x86-64"))(every, x, wide, narrow) == 0
    with np.errstate(invalid="ignore"):
        compare(wide, every.astype(np.float32), "wide")
        compare(narrow, x.astype(storage_dtype(dtype)), "narrow")


def narrowed(dtype: str) -> ir.Store:
    return store("narrow", (at(8),), ir.Cast(dtype, load("x", at(8))))


CALLS = re.compile(r"^\s*(?:call[lq]?|bl|b|jmp)\s+([A-Za-z_]\w*)", re.MULTILINE)
COMPILERS_OWN = re.compile(r"memcpy|memset|__aeabi_\w+")  # in the runtime library of every C compiler
ROUNDINGS = ("floor", "ceil", "round", "trunc", "exp", "log", "tanh", "sigmoid")


@pytest.mark.parametrize("target", ["x86-64", "cortex-a9", "aarch64"])
@pytest.mark.parametrize("dtype", ["int4", "int32", "float16", "bfloat16", "float32", "float64"])
def test_operators_call_no_library_function(dtype: str, target: str) -> None:
    values = [
        ir.Binary(op, load("a", at(4)), load("b", at(4))) for op in operators_of(dtype) if op not in ir.COMPARE_OPS
    ]
    values += [ir.Call(name, (load("a", at(4)),), dtype) for name in ROUNDINGS if is_float(dtype)]
    outputs = [ir.Buffer(f"y{n}", (64,), dtype) for n in range(len(values))]
    stores = [store(out.name, (at(4),), value) for out, value in zip(outputs, values, strict=True)]
    params = [ir.Buffer(name, (64,), dtype) for name in ("a", "b")]
    text = assembly(function([*params, *outputs], over(64, 4, *stores)), Target.named(target))
    assert [name for name in CALLS.findall(text) if not COMPILERS_OWN.fullmatch(name)] == []
