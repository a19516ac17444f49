# SPDX-License-Identifier: Apache-2.0
"""Operators, conversions and functions of every dtype on a device, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.opencl_functions import element, on_threads, row_store

from vdla.compiler import ir
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import DTYPES, SCALAR_FUNCTIONS, is_float, limits, storage_dtype, wrap

pytestmark = pytest.mark.long  # the device's compiler takes seconds
RANDOM = 100
FLOAT_OPS = ("add", "sub", "mul", "min", "max", *ir.COMPARE_OPS)
BOOL_OPS = ("and", "or", "xor", "eq", "ne")
EXACT = ("floor", "ceil", "round", "trunc", "abs", "sqrt", "divide", "isnan", "popcount", "round_product")
ULPS = 8  # of the inexact functions, in float32 and float64
NUMBERS = [0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan, 2.0**-24, 60000.0, -60000.0, 3e9, -3e9, 1e19, 127.5]


def operators_of(dtype: str) -> tuple[str, ...]:
    return BOOL_OPS if dtype == "bool" else FLOAT_OPS if is_float(dtype) else ir.BINARY_OPS


def edges(dtype: str) -> list[float] | np.ndarray:
    if dtype == "bool":
        return [0, 1]
    if is_float(dtype):
        return NUMBERS
    low, high = (int(limit) for limit in limits(dtype))
    found = {v for v in (low, low + 1, -1, 0, 1, 2, 7, 8, 31, 63, high - 1, high) if low <= v <= high}
    return np.array(sorted(found), storage_dtype(dtype))


def pairs(dtype: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edges, then random numbers."""
    rng = np.random.default_rng(3)
    kind = storage_dtype(dtype)
    with np.errstate(over="ignore"):  # 3e9 in float16
        own = np.array(edges(dtype)).astype(kind)
    x, y = (grid.ravel() for grid in np.meshgrid(own, own))
    sides = []
    for side in (x, y):
        if is_float(dtype):
            drawn = np.ldexp(rng.uniform(-1, 1, count), rng.integers(-14, 15, count)).astype(kind)
        else:
            bits = rng.integers(-(1 << 63), 1 << 63, count, dtype=np.int64)
            drawn = (bits & 1).astype(bool) if dtype == "bool" else wrap(bits, dtype)
        sides.append(np.concatenate([side, drawn])[:count])
    return sides[0], sides[1]


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Checks that all bits agree, those of NaN apart."""
    assert got.dtype == expected.dtype
    if got.dtype.kind == "f" or got.dtype.name == "bfloat16":
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(expected[~np.isnan(expected)]))
    np.testing.assert_array_equal(got, expected)


def compared(build_grid, params: list[ir.Buffer], stores: list[ir.Stmt], count: int, inputs: dict[str, np.ndarray]):
    """The results of the device and of the interpreter, by name."""
    fn = on_threads(params, count, *stores)
    with np.errstate(all="ignore"):
        expected = interpret(fn, inputs)
    names = [p.name for p in params if p.name not in inputs]
    results = build_grid(fn)(**inputs)
    return {n: (r, expected[n]) for n, r in zip(names, results if len(names) > 1 else (results,), strict=True)}


def test_operators(build_grid):
    count = max(len(edges(dtype)) ** 2 for dtype in DTYPES) + RANDOM
    params, stores, inputs = [], [], {}
    for dtype in DTYPES:
        sides = f"a_{dtype}", f"b_{dtype}"
        inputs |= dict(zip(sides, pairs(dtype, count), strict=True))
        params += [ir.Buffer(side, (count,), dtype) for side in sides]
        rows = {"r": [], "c": []}
        for op in operators_of(dtype):
            compares = op in ir.COMPARE_OPS or dtype == "bool"
            rows["c" if compares else "r"].append(ir.Binary(op, *(element(side) for side in sides)))
        for name, values in rows.items():
            if values:
                params.append(ir.Buffer(f"{name}_{dtype}", (len(values), count), "bool" if name == "c" else dtype))
                stores += [row_store(f"{name}_{dtype}", row, value) for row, value in enumerate(values)]
    for got, expected in compared(build_grid, params, stores, count, inputs).values():
        same(got, expected)


def test_constant_operands(build_grid):
    count, params, stores, inputs = RANDOM, [], [], {}
    for dtype in (d for d in DTYPES if d in ir.INTEGER_BITS):
        inputs[f"a_{dtype}"] = pairs(dtype, count)[0]
        values = [
            ir.Binary(op, element(f"a_{dtype}"), ir.Const(number, dtype))
            for op in ("floordiv", "mod", "shl", "shr", "add", "mul", "min")
            for number in (0, 1, -2, 4, 5, 7)
            if limits(dtype)[0] <= number <= limits(dtype)[1]
        ]
        params += [ir.Buffer(f"a_{dtype}", (count,), dtype), ir.Buffer(f"r_{dtype}", (len(values), count), dtype)]
        stores += [row_store(f"r_{dtype}", row, value) for row, value in enumerate(values)]
    for got, expected in compared(build_grid, params, stores, count, inputs).values():
        same(got, expected)


def test_conversions(build_grid):
    count = max(len(edges(dtype)) ** 2 for dtype in DTYPES) + RANDOM
    params, stores, inputs = [], [], {}
    for dtype in DTYPES:
        inputs[f"a_{dtype}"] = pairs(dtype, count)[0]
        params += [ir.Buffer(f"a_{dtype}", (count,), dtype), ir.Buffer(f"r_{dtype}", (len(DTYPES), count), dtype)]
        stores += [
            row_store(f"r_{dtype}", row, ir.Cast(dtype, element(f"a_{source}"))) for row, source in enumerate(DTYPES)
        ]
    for got, expected in compared(build_grid, params, stores, count, inputs).values():
        same(got, expected)


def test_functions(build_grid):
    count, params, stores, inputs, checks = 2 * RANDOM, [], [], {}, []
    for dtype in DTYPES:
        found = [f for f in SCALAR_FUNCTIONS.values() if dtype in f.dtypes]
        groups = {"r": [f for f in found if f.result is None]}
        groups |= {f.name: [f] for f in found if f.result is not None}
        if not found:
            continue
        names = [f"{side}_{dtype}" for side in "abcd"]
        a, b = pairs(dtype, count)
        ends = [np.full(count, end).astype(storage_dtype(dtype)) for end in (-100, 90)] if is_float(dtype) else []
        inputs |= dict(zip(names, (a, b, *ends), strict=False))
        params += [ir.Buffer(name, (count,), dtype) for name in names[: 2 + len(ends)]]
        for group, functions in groups.items():
            if functions:
                result = functions[0].result or dtype
                params.append(ir.Buffer(f"{group}_{dtype}", (len(functions), count), result))
                checks.append((f"{group}_{dtype}", dtype, functions))
            for row, function in enumerate(functions):
                args = tuple(element(name) for name in names[: function.arity])
                stores.append(row_store(f"{group}_{dtype}", row, ir.Call(function.name, args, result)))
    results = compared(build_grid, params, stores, count, inputs)
    for name, dtype, functions in checks:
        for row, function in enumerate(functions):
            got, expected = (side[row] for side in results[name])
            if function.name in EXACT:
                same(got, expected)
            else:
                eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}[dtype]
                wide = [side.astype(np.float64) for side in (got, expected)]
                np.testing.assert_allclose(*wide, rtol=ULPS * eps, atol=ULPS * 2.0**-126, err_msg=function.name)
