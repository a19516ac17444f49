# SPDX-License-Identifier: Apache-2.0
"""The scalar functions on vectors: errors in units in the last place, and limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from helpers.lowered import Compiled, function, store
from helpers.vector_functions import LANES, SPECIAL, run, units

from vdla.compiler import ir
from vdla.compiler.codegen.llvm import CodegenError
from vdla.compiler.ir import SCALAR_FUNCTIONS, storage_dtype

WIDE: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": np.vectorize(math.erf), "sin": np.sin, "cos": np.cos,
}  # fmt: skip
LIMITS = {"exp": (-104, 89), "log": (0, 8), "sqrt": (0, 8), "rsqrt": (0, 8), "tanh": (-10, 10), "sigmoid": (-104, 30),
          "erf": (-5, 5), "sin": (-1e4, 1e4), "cos": (-1e4, 1e4)}  # fmt: skip
EXACT = ("floor", "ceil", "round", "trunc", "abs", "sqrt", "divide", "isnan")


def sample(name: str, dtype: str, count: int = 20000) -> np.ndarray:
    rng = np.random.default_rng(5)
    low, high = LIMITS.get(name, (-100, 100))
    near = np.ldexp(rng.uniform(-1, 1, count), rng.integers(-140, 20, count))
    return np.concatenate([SPECIAL, rng.uniform(low, high, count), near]).astype(dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", ["host", "x86-64"])
@pytest.mark.parametrize("name", WIDE)
def test_float32_errors_are_a_few_units_in_the_last_place(name: str, target: str) -> None:
    x = sample(name, "float32")
    assert units(run(name, "float32", x, target=target), WIDE[name](x.astype(np.float64))) <= 2.5


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", WIDE)
def test_float64_errors_are_a_few_units_in_the_last_place(name: str) -> None:
    x = sample(name, "float64")
    x = np.concatenate([x, x * 6.5])
    exact = WIDE[name](x if name == "erf" else x.astype(np.longdouble))
    assert units(run(name, "float64", x), exact) <= 2.5


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pow_errors_are_at_most_1_5_units_in_the_last_place(dtype: str) -> None:
    x = sample("pow", dtype, 5000)
    y = np.random.default_rng(6).permutation(x) / 8
    grid = np.array([(a, b) for a in [*SPECIAL, 3, -3] for b in [*SPECIAL, 3, -3, 16777216]]).astype(dtype)
    a, b = np.concatenate([np.abs(x), grid[:, 0]]), np.concatenate([y, grid[:, 1]])
    wide = np.float64 if dtype == "float32" else np.longdouble
    assert units(run("pow", dtype, a, b), np.power(a.astype(wide), b.astype(wide))) <= 1.5


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", ["host", "x86-64"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", EXACT)
def test_functions_that_ieee_754_defines_are_exact(name: str, dtype: str, target: str) -> None:
    x = sample("any", "float32", 3000).astype(storage_dtype(dtype))
    args = (x, x[::-1].copy())[: SCALAR_FUNCTIONS[name].arity]
    wide = args if dtype.endswith(("32", "64")) else tuple(arg.astype(np.float32) for arg in args)
    wanted = np.asarray(SCALAR_FUNCTIONS[name].model(*wide))
    found = run(name, dtype, *args, target=target)
    assert np.array_equal(found.astype(np.float64), wanted.astype(found.dtype).astype(np.float64), equal_nan=True)
    number = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(found[number].astype(np.float64)), np.signbit(wanted[number].astype(np.float64)))


@pytest.mark.parametrize("dtype", ["int2", "int4", "int8", "int16", "int32", "int64", "uint8", "uint64"])
def test_integer_abs_wraps(dtype: str) -> None:
    low = {"int2": -2, "int4": -8}.get(dtype, np.iinfo(storage_dtype(dtype)).min)
    x = np.array([low, low + 1, 0, 1], storage_dtype(dtype))
    wanted = [low if low < 0 else 0, abs(int(low) + 1), 0, 1]
    assert run("abs", dtype, x).tolist() == wanted


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "uint64"])
def test_popcount_counts_bits_at_the_width_of_the_dtype(dtype: str) -> None:
    x = np.random.default_rng(2).integers(0, 256, 64 * 8, np.uint8).view(storage_dtype(dtype))
    assert run("popcount", dtype, x).tolist() == [int(v).bit_count() for v in x.view(f"uint{x.itemsize * 8}")]


def test_every_scalar_function_is_implemented() -> None:
    for name, entry in SCALAR_FUNCTIONS.items():
        for dtype in ("float32", "float64", "int32"):  # in an order that no hash decides
            if dtype in entry.dtypes:
                args = [np.ones(LANES, storage_dtype(dtype))] * entry.arity
                assert run(name, dtype, *args).shape == (LANES,)


def test_an_unknown_function_is_refused() -> None:
    fn = function(
        [ir.Buffer("y", (1,), "float32")], store("y", (0,), ir.Call("gamma", (ir.Const(1.0, "float32"),), "float32"))
    )
    with pytest.raises(CodegenError, match=r"call: function must be one of exp, log, .*, trunc, got gamma"):
        Compiled(fn)


@pytest.mark.parametrize("target", ["host", "x86-64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_round_product_rounds_the_product_once(dtype: str, target: str) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.integers(-(2**24), 2**24, 4000), [1, 3, 5, -1, -3, 2**24 - 1]]).astype(dtype)
    scales = np.ldexp(rng.uniform(0.5, 1, 4000), rng.integers(-26, 3, 4000)).astype(np.float32)
    y = np.concatenate([scales, [0.5, 0.5, 0.5, 0.5, 0.5, 1.5]]).astype(dtype)
    low, high = np.full_like(x, -300), np.full_like(x, 2**30)
    least, most = (-300, 2**22) if dtype == "float32" else (-300, 2**30)
    wanted = [min(max(round(Fraction(float(a)) * Fraction(float(b))), least), most) for a, b in zip(x, y, strict=True)]
    assert run("round_product", dtype, x, y, low, high, target=target).tolist() == wanted


@pytest.mark.parametrize("target", ["host", "x86-64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_round_product_of_infinities_and_nan_is_a_limit(dtype: str, target: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 3e38], dtype)
    low, high = np.full_like(x, -100), np.full_like(x, 100)
    assert run("round_product", dtype, x, np.full_like(x, 2), low, high, target=target).tolist() == [
        100,
        -100,
        100,
        100,
    ]
