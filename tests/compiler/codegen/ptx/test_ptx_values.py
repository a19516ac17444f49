# SPDX-License-Identifier: Apache-2.0
"""The LLVM module behind PTX, executed on this CPU thread by thread, against the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from helpers.all_values import ARGUMENTS, all_values
from helpers.gpu_on_cpu import run_on_cpu

from vdla import operators
from vdla.compiler import ir, te
from vdla.compiler.codegen.ptx import emit_ptx
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import DTYPES, is_float, limits, storage_dtype, wrap
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.verification.grid.cooperative import row_sums, stencil, tiled_product, total

LIMITS, WARPS = GridLimits("a device", threads=64), GridLimits("a device", threads=64, warp=32)
SHORT = ("float32", "int4")
SPECIAL = (0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan, 2.0**-24, 60000.0, -60000.0, 3e9, -3e9, 1e19, 127.5)
INEXACT = ("exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "pow", "rsqrt")
ULPS = 8
EPSILONS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
COUNT = 48  # threads, each with an element


def numbers(dtype: str, seed: int) -> np.ndarray:
    """Special numbers and limits of a type, then random ones."""
    random, kind = np.random.default_rng(seed), storage_dtype(dtype)
    if is_float(dtype):
        drawn = np.ldexp(random.uniform(-1, 1, COUNT), random.integers(-14, 15, COUNT))
        with np.errstate(over="ignore"):
            return random.permutation(np.concatenate([SPECIAL, drawn])[:COUNT]).astype(kind)
    bits = random.integers(-(1 << 63), 1 << 63, COUNT, dtype=np.int64)
    if dtype == "bool":
        return (bits & 1).astype(bool)
    low, high = (int(limit) for limit in limits(dtype))
    edges = [v for v in (low, low + 1, -1, 0, 1, 2, 7, 31, 63, high - 1, high) if low <= v <= high]
    return random.permutation(np.concatenate([np.array(edges, kind), wrap(bits, dtype)])[:COUNT])


def check(got: np.ndarray, expected: np.ndarray, name: str) -> None:
    """All bits agree, those of NaN apart; of inexact functions, all but the last ones."""
    assert got.dtype == expected.dtype
    if not is_float(str(got.dtype)):
        np.testing.assert_array_equal(got, expected, err_msg=name)
        return
    unit = EPSILONS[str(got.dtype)]
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    if name.removesuffix("_of") in INEXACT:
        np.testing.assert_allclose(got, expected, rtol=ULPS * unit, atol=ULPS * 2.0**-126, err_msg=name)
        return
    np.testing.assert_array_equal(got, expected, err_msg=name)
    numbers = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]), err_msg=name)


def small_integers(fn: ir.Function, extent: int) -> dict[str, np.ndarray]:
    """Inputs whose sums are exact in every order; a symbolic dimension is `extent`."""
    random, outputs = np.random.default_rng(0), ir.output_names(fn)
    inputs = [fn.buffers[name] for name in fn.params if name not in outputs]
    shapes = {b.name: [size if isinstance(size, int) else extent for size in b.shape] for b in inputs}
    return {b.name: random.integers(-8, 8, shapes[b.name]).astype(storage_dtype(b.dtype)) for b in inputs}


def check_function(fn: ir.Function, scheduled: ir.Function, limits: GridLimits, extent: int = 1) -> None:
    """The kernels of `scheduled` compute what `fn` means."""
    inputs = small_integers(fn, extent)
    expected = interpret(fn, inputs)
    for name, got in run_on_cpu(scheduled, limits, inputs).items():
        np.testing.assert_allclose(got, expected[name], rtol=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "dtype", [dtype if dtype in SHORT else pytest.param(dtype, marks=pytest.mark.long) for dtype in DTYPES]
)
def test_all_values_of_a_type(dtype: str) -> None:
    fn = all_values(dtype, COUNT)
    inputs = {name: numbers(dtype, seed) for seed, name in enumerate(ARGUMENTS)}
    if is_float(dtype):  # of round_product
        inputs |= {name: np.full(COUNT, end).astype(storage_dtype(dtype)) for name, end in (("low", -99), ("high", 90))}
    expected = interpret(fn, inputs)
    for name, got in run_on_cpu(fn, LIMITS, inputs).items():
        check(got, expected[name], name)


@pytest.mark.parametrize("limits_of_device", [LIMITS, WARPS], ids=["blocks", "warps"])
@pytest.mark.parametrize(
    "factory",
    [
        partial(row_sums, 3, 32, 8, tree=True),
        partial(total, 96, 3, 8),
        partial(stencil, 30, 8),
        partial(tiled_product, 8, 8, 2, 4),
    ],
)
def test_threads_that_work_together(factory: Callable[[], Schedule], limits_of_device: GridLimits) -> None:
    s = factory()
    check_function(s.fn, s.fn, limits_of_device)


@pytest.mark.parametrize("dtype", ["float64", *(pytest.param(d, marks=pytest.mark.long) for d in ("int32", "int8"))])
def test_sums_of_a_warp_by_shuffles(dtype: str) -> None:
    x, k = te.placeholder((3, 128), dtype, "x"), te.reduce_axis(128, "k")
    fn = te.create_function([x], [te.compute((3,), lambda i: te.sum(x[i, k], axis=k), "y")], "sums")
    s = Schedule(fn)
    step, part = s.split("k", factor=64)
    s.reorder("i", part, step)
    s.bind("i", "blockIdx.x")
    s.thread_reduce(part, "threadIdx.x")
    assert "shfl.sync.down" in emit_ptx(s.fn, WARPS).text
    check_function(fn, s.fn, WARPS)


def _operator(name: str, *shapes: tuple[int, ...], **options: int) -> ir.Function:
    tensors = [te.placeholder(shape, "float32", f"x{number}") for number, shape in enumerate(shapes)]
    return te.create_function(tensors, [getattr(operators, name)(*tensors, name="y", **options)], name)


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(_operator("conv2d", (1, 3, 5, 5), (4, 3, 3, 3), pads=1), marks=pytest.mark.long),
        _operator("softmax", (3, 20)),
        _operator("dense", (6, 10), (7, 10)),
    ],
    ids=["conv2d", "softmax", "dense"],
)
def test_default_schedules(fn: ir.Function) -> None:
    check_function(fn, grid_schedule(fn, WARPS, threads=16).fn, WARPS)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
@pytest.mark.parametrize("lanes", [4, 16])
def test_vectors(dtype: str, lanes: int) -> None:
    x = te.placeholder((2, 64), dtype, "x")
    if dtype == "bool":
        y = te.compute((64,), lambda i: x[0, i] & x[1, 63 - i], "y")
    else:
        y = te.compute((64,), lambda i: te.select(x[0, i] > x[1, i], x[0, i] * x[1, 63 - i], x[0, 0]), "y")
    s = Schedule(te.create_function([x], [y], "f"))
    thread, lane = s.split("i", factor=lanes)
    s.bind(thread, "threadIdx.x")
    s.vectorize(lane)
    check_function(s.fn, s.fn, LIMITS)


@pytest.mark.parametrize("count", [1, 21])
def test_symbolic_extents(count: int) -> None:
    n = te.var("n")
    x = te.placeholder((n, 3), "float32", "x")
    fn = te.create_function([x], [te.compute((n,), lambda i: x[i, 0] * x[i, 2] + x[i, 1], "y")], "f")
    check_function(fn, grid_schedule(fn, threads=4).fn, LIMITS, count)
