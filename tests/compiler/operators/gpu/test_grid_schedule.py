"""Default schedules of functions for a grid: what is bound, and what a thread does. No device."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.compiler import operators, te
from vdla.compiler.codegen.opencl import emit_opencl
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import matmul, softmax
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.operators.gpu.matmul_schedule import schedule_matmul
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits

LIMITS = GridLimits("a device", threads=256)


def product(*shape_a: int, columns: int = 64, dtype: str = "int32"):
    a = te.placeholder(shape_a, dtype, "a")
    b = te.placeholder((*shape_a[:-2], shape_a[-1], columns), dtype, "b")
    return te.create_function([a, b], [matmul(a, b, name="c")], "f")


def launches(schedule: Schedule):
    return [(launch.groups, launch.threads) for launch in emit_opencl(schedule.fn, LIMITS).launches]


def test_every_stage_is_a_kernel_of_one_thread_an_element():
    x = te.placeholder((10, 20), "float32", "x")
    schedule = grid_schedule(te.create_function([x], [softmax(x)], "f"), threads=32)
    row, element = ((1, 1, 1), (10, 1, 1)), ((7, 1, 1), (32, 1, 1))
    assert launches(schedule) == [row, element, row, element]


def test_one_result_is_the_work_of_one_thread():
    """In two launches: that of the first value, and that of the sum."""
    x, k = te.placeholder((20,), "float32", "x"), te.reduce_axis(20, "k")
    total = te.compute((1,), lambda i: te.sum(x[k], axis=k), "y")
    assert launches(grid_schedule(te.create_function([x], [total], "f"))) == [((1, 1, 1), (1, 1, 1))] * 2


def test_few_results_of_many_terms_are_the_work_of_groups():
    x = te.placeholder((6, 1000), "float32", "x")
    assert launches(grid_schedule(te.create_function([x], [operators.sum(x, (1,))], "f"))) == [((6, 1, 1), (64, 1, 1))]


def test_one_result_of_many_terms_is_the_work_of_a_group():
    x = te.placeholder((30, 40), "float32", "x")
    assert launches(grid_schedule(te.create_function([x], [operators.sum(x)], "f"))) == [((1, 1, 1), (64, 1, 1))]


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "grid"),
    [(128, 32, 192, (3, 2, 1)), (32, 8, 16, (1, 1, 1)), (48, 24, 96, (3, 3, 1))],
)
def test_tiles_of_a_product_divide_its_extents(rows: int, depth: int, columns: int, grid: tuple):
    assert launches(grid_schedule(product(rows, depth, columns=columns))) == [(grid, (16, 16, 1))]


def test_a_tiled_product_equals_numpy():
    fn = product(16, 8, columns=16)
    schedule, rng = grid_schedule(fn), np.random.default_rng(0)
    inputs = {p: rng.integers(-9, 9, fn.buffers[p].dims).astype(np.int32) for p in ("a", "b")}
    np.testing.assert_array_equal(interpret(schedule.fn, inputs)["c"], inputs["a"] @ inputs["b"])


def test_a_batch_is_along_z():
    assert launches(grid_schedule(product(2, 16, 8, columns=16))) == [((1, 1, 2), (16, 16, 1))]


def test_operands_come_as_vectors_through_shared_memory():
    text = emit_opencl(grid_schedule(product(64, 32, dtype="float32")).fn, LIMITS).text
    assert text.count("__local float") == 2
    assert text.count("barrier(") == 2
    assert text.count("vstore4(vload4(0, ") == 3  # tiles of both operands, rows of the result
    assert "vstore4(vload4(0, b + ty * 64 + k_o * 1024 + tx * 4), 0, b_shared + ty * 64 + tx * 4);" in text


def test_extents_without_tiles_keep_the_default():
    fn = product(5, 7, columns=9)
    with pytest.raises(ScheduleError, match=r"^matmul on a grid: rows must be a multiple of 16, got 5$"):
        schedule_matmul(Schedule(fn), "c")
    assert launches(grid_schedule(fn)) == [((1, 1, 1), (45, 1, 1))]


def test_devices_with_few_threads_keep_the_default():
    few = GridLimits("small", threads=64)
    assert launches(grid_schedule(product(64, 32), few)) == [((64, 1, 1), (64, 1, 1))]
