# SPDX-License-Identifier: Apache-2.0
"""Products on tensor cores: tiles that fit, and results of the lane-wise form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.opencl_functions import needs_opencl

import vdla
from vdla.compiler import ir, operators, te
from vdla.compiler.codegen.llvm.intrinsics.mma import RowsOfB
from vdla.compiler.interpret import interpret_kernels
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.operators.gpu.tensor_core_schedule import (
    TensorCoreProblem,
    TensorCoreTiles,
    schedule_tensor_cores,
)
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits

LIMITS = GridLimits("test", warp=32, tensor_cores=True)


def product_of(rows: int, columns: int, terms: int, dtype: str = "float16", *, dense: bool = False) -> Schedule:
    a = te.placeholder((rows, terms), dtype, "a")
    b = te.placeholder((columns, terms) if dense else (terms, columns), dtype, "b")
    c = (operators.dense if dense else operators.matmul)(a, b, name="c")
    return Schedule(te.create_function([a, b], [c], "product"))


def scheduled(s: Schedule, block: str = "c_sum") -> Schedule:
    schedule_tensor_cores(s, block, TensorCoreProblem.of(s, block, LIMITS).default)
    return s


def operands(s: Schedule) -> dict[str, np.ndarray[Any, Any]]:
    chance = np.random.default_rng(0)
    return {name: chance.integers(-4, 4, s.fn.buffers[name].dims).astype(np.float16) for name in "ab"}


def test_threads_with_races_noted_compute_the_product() -> None:
    s = scheduled(product_of(16, 16, 32))
    kernels, arrays = lower_kernels(s.fn, LIMITS), operands(s)
    assert kernels[0].block == (32, 2, 1)
    np.testing.assert_array_equal(interpret_kernels(kernels, arrays)["c"], arrays["a"] @ arrays["b"])


@needs_opencl
@pytest.mark.long
@pytest.mark.parametrize(("shape", "dense"), [((16, 48, 48), True), ((32, 32, 64), False)])
def test_a_device_without_tensor_cores_runs_the_schedule(shape: tuple[int, int, int], dense: bool) -> None:
    s = scheduled(product_of(*shape, dense=dense))
    arrays = operands(s)
    wanted = arrays["a"] @ (arrays["b"].T if dense else arrays["b"])
    np.testing.assert_array_equal(vdla.compile(s, "opencl")(**arrays), wanted)


def test_a_large_product_has_one_barrier_and_large_fetches() -> None:
    s = scheduled(product_of(1024, 1024, 1024))
    (kernel,) = lower_kernels(s.fn, LIMITS)
    assert (kernel.grid, kernel.block) == ((8, 8, 1), (32, 4, 2))
    steps = [stmt for stmt in ir.walk(kernel.body) if isinstance(stmt, ir.IntrinsicCall)]
    barriers = [stmt for stmt in ir.walk(kernel.body) if isinstance(stmt, ir.Barrier)]
    assert (len(steps), len(barriers)) == (32, 1)
    vectors = [stmt.extent for stmt in ir.walk(kernel.body) if is_fetch(stmt)]
    assert vectors == [8, 8]
    assert kernel.shared_bytes == TensorCoreTiles(128, 128, 32, 64, 32).shared_bytes("float16", RowsOfB.TERMS)


def is_fetch(stmt: ir.Stmt) -> bool:
    """Whether a statement is a vector of stores to shared memory."""
    vector = isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.VECTORIZE
    return vector and isinstance(stmt.body, ir.Store) and stmt.body.buffer.endswith("_shared")


@pytest.mark.parametrize(
    ("s", "limits", "tiles"),
    [
        (product_of(128, 128, 64), LIMITS, TensorCoreTiles(128, 128, 32, 64, 32)),
        (product_of(128, 192, 16), LIMITS, TensorCoreTiles(128, 64, 16, 32, 32)),
        (product_of(128, 128, 64), GridLimits("few", threads=128), TensorCoreTiles(64, 64, 32, 32, 32)),
        (product_of(128, 128, 64), GridLimits("small", shared_bytes=4096), TensorCoreTiles(16, 16, 16, 16, 8)),
    ],
)
def test_default_tiles_divide_the_product_and_fit(s: Schedule, limits: GridLimits, tiles: TensorCoreTiles) -> None:
    assert TensorCoreProblem.of(s, "c_sum", limits).default == tiles


def test_what_tensor_cores_cannot_compute_is_refused() -> None:
    with pytest.raises(ScheduleError) as error:
        scheduled(product_of(24, 32, 32))
    rule = "rows and columns must be multiples of 16, terms of 16"
    assert str(error.value) == f"tensor cores for c_sum: {rule}, got 24, 32 and 32"
    with pytest.raises(ScheduleError) as error:
        scheduled(product_of(16, 16, 16, "float32"), "c")
    known = "float16 summed in float32, bfloat16 summed in float32, int8 summed in int32"
    assert str(error.value) == f"tensor cores for c: operands must be {known}, got float32 summed in float32"
    s = product_of(32, 32, 32)
    with pytest.raises(ScheduleError) as error:
        schedule_tensor_cores(s, "c_sum", TensorCoreTiles(32, 32, 24, 16, 16))
    assert str(error.value) == "tensor cores for c_sum: depth must be a multiple of 16 that divides 32, got 24"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("shape", "dense"),
    [
        ((32, 32, 32), False),
        *(
            pytest.param(shape, dense, marks=pytest.mark.long)
            for shape in ((128, 128, 64), (128, 64, 32), (32, 32, 32))
            for dense in (False, True)
        ),
    ],
)
def test_padded_rows_share_no_bank(shape: tuple[int, int, int], dense: bool) -> None:
    found = vdla.bank_conflicts(scheduled(product_of(*shape, dense=dense)))
    assert {access.bytes for access in found} == {16}
    assert [access.conflicts for access in found] == [0] * len(found)


def test_products_use_tensor_cores_where_a_device_has_them() -> None:
    for dtype, limits, steps in (("float16", LIMITS, 2), ("float32", LIMITS, 0), ("float16", GridLimits("none"), 0)):
        (kernel,) = lower_kernels(grid_schedule(product_of(32, 32, 16, dtype).fn, limits).fn, limits)
        found = sum(isinstance(stmt, ir.IntrinsicCall) for stmt in ir.walk(kernel.body))
        assert (found, "a_shared" in kernel.buffers) == (steps, True)


def own_product(*, dense: bool) -> ir.Function:
    """Two products of int8 matrices, summed in int32 and clipped, as a user writes them."""
    a = te.placeholder((2, 16, 64), "int8", "a")
    b = te.placeholder((2, 32, 64) if dense else (2, 64, 32), "int8", "b")
    k = te.reduce_axis(64, "k")

    def total(n: te.Value, i: te.Value, j: te.Value) -> te.Value:
        right = b[n, j, k] if dense else b[n, k, j]
        return te.sum(te.cast("int32", a[n, i, k]) * te.cast("int32", right), axis=k)

    sums = te.compute((2, 16, 32), total, "sums")
    return te.create_function([a, b], [te.compute(sums.shape, lambda *i: te.maximum(sums[i], 0), "c")], "own")


@pytest.mark.parametrize("dense", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_product_of_no_operator_uses_tensor_cores(dense: bool) -> None:
    fn = own_product(dense=dense)
    kernels = lower_kernels(grid_schedule(fn, LIMITS).fn, LIMITS)
    steps = [stmt for stmt in ir.walk(kernels[0].body) if isinstance(stmt, ir.IntrinsicCall)]
    assert {repr(step.match) for step in steps} == {"mma_int8_nk" if dense else "mma_int8"}
    chance = np.random.default_rng(0)
    arrays = {name: chance.integers(-128, 128, fn.buffers[name].dims).astype(np.int8) for name in "ab"}
    left, right = (arrays[name].astype(np.int32) for name in "ab")
    wanted = np.maximum(left @ (right.transpose(0, 2, 1) if dense else right), 0)
    np.testing.assert_array_equal(interpret_kernels(kernels, arrays)["c"], wanted)


def test_a_sum_with_other_axes_is_no_product() -> None:
    x = te.placeholder((16, 20), "float16", "x")
    w = te.placeholder((16, 5), "float16", "w")
    k, t = te.reduce_axis(16, "k"), te.reduce_axis(5, "t")
    terms = te.compute(
        (16, 16),
        lambda i, j: te.sum(te.cast("float32", x[k, j + t]) * te.cast("float32", w[i, t]), axis=[k, t]),
        "y",
    )
    fn = te.create_function([x, w], [terms], "windows")
    with pytest.raises(ScheduleError, match=r"^tensor cores for y: its axes must be rows, columns and terms, got "):
        scheduled(Schedule(fn), "y")
    (kernel,) = lower_kernels(grid_schedule(fn, LIMITS).fn, LIMITS)
    assert not any(isinstance(stmt, ir.IntrinsicCall) for stmt in ir.walk(kernel.body))


@pytest.mark.long
def test_tiles_given_for_a_block_say_how_it_is_scheduled() -> None:
    tiles = TensorCoreTiles(16, 16, 16, 16, 8)
    s = grid_schedule(product_of(32, 32, 32).fn, LIMITS, tiles={"c_sum": tiles})
    assert lower_kernels(s.fn, LIMITS)[0].block == (32, tiles.warps[1], 1)
