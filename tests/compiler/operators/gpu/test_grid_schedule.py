# SPDX-License-Identifier: Apache-2.0
"""Default schedules of functions for a grid: what is bound, and what a thread does. No device."""

from __future__ import annotations

import re

import numpy as np
import pytest

from vdla.compiler import operators, te
from vdla.compiler.codegen.opencl import emit_opencl
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import matmul, softmax
from vdla.compiler.operators.gpu import grid_problems, grid_schedule
from vdla.compiler.operators.gpu.matmul_schedule import MatmulProblem, MatmulTiles
from vdla.compiler.operators.gpu.row_schedule import RowTiles, row_producers, schedule_rows
from vdla.compiler.operators.movement import tiled_transpose
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits

LIMITS = GridLimits("a device", threads=256)


def product(*shape_a: int, columns: int = 64, dtype: str = "int32"):
    a = te.placeholder(shape_a, dtype, "a")
    b = te.placeholder((*shape_a[:-2], shape_a[-1], columns), dtype, "b")
    return te.create_function([a, b], [matmul(a, b, name="c")], "f")


def launches(schedule: Schedule):
    return [(launch.groups, launch.threads) for launch in emit_opencl(schedule.fn, LIMITS).launches]


def function_of(operator, *shapes, dtype: str = "float32"):
    inputs = [te.placeholder(shape, dtype, f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_function(inputs, [operator(*inputs)], "f")


def source_of(operator, *shapes, dtype: str = "float32", limits: GridLimits = LIMITS):
    return emit_opencl(grid_schedule(function_of(operator, *shapes, dtype=dtype), limits).fn, limits)


def shared_bytes(source) -> int:
    sizes = {"float": 4, "char": 1, "int": 4}
    return sum(sizes[kind] * int(n) for kind, n in re.findall(r"__local (\w+) \w+\[(\d+)\]", source.text))


def test_stages_that_no_kernel_can_share_are_launches():
    """The second one reads other rows of the first."""
    x = te.placeholder((10, 20), "float32", "x")
    first = te.compute((10, 20), lambda i, j: te.exp(x[i, j]), "first")
    second = te.compute((10, 20), lambda i, j: first[9 - i, j] + first[i, 19 - j], "second")
    schedule = grid_schedule(te.create_function([x], [second], "f"), threads=32)
    assert launches(schedule) == [((7, 1, 1), (32, 1, 1))] * 2


def test_a_row_is_the_work_of_a_group():
    """One barrier ends each step of a tree over 32 threads, one more shares the exponentials."""
    source = source_of(softmax, (3, 100))
    assert [(launch.groups, launch.threads) for launch in source.launches] == [((3, 1, 1), (32, 1, 1))]
    steps = 31 + 1  # partial results of a tree, and the result
    assert shared_bytes(source) == 4 * (100 + 2 * (32 + steps - 1) + 1)  # one over the sum
    assert "x0_softmax_exp[100]" in source.text


def test_short_rows_are_the_work_of_threads():
    source = source_of(softmax, (300, 10))
    assert [(launch.groups, launch.threads) for launch in source.launches] == [((3, 1, 1), (128, 1, 1))]
    assert "barrier" not in source.text
    assert "float x0_softmax_exp[10];" in source.text


def test_rows_of_several_threads_share_a_group():
    assert launches(grid_schedule(function_of(softmax, (6, 100)))) == [((3, 1, 1), (32, 2, 1))]


def test_rows_beyond_the_shared_memory_are_launches():
    small = GridLimits("small", threads=64, shared_bytes=16 * 1024)
    source = source_of(softmax, (2, 5000), limits=small)
    assert len(source.launches) > 1
    assert shared_bytes(source) <= small.shared_bytes


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        (operators.layer_norm, ((4, 90), (90,), (90,))),
        (operators.batch_norm, ((2, 3, 7, 7), *[(3,)] * 4)),
        pytest.param(lambda *t: operators.group_norm(*t, 2), ((2, 4, 6, 6), (4,), (4,)), marks=pytest.mark.long),
        pytest.param(lambda x: operators.average_pool(x, 3, 2, 1), ((2, 3, 9, 8),), marks=pytest.mark.long),
        pytest.param(operators.log_softmax, ((5, 77),), marks=pytest.mark.long),
    ],
)
def test_stages_that_serve_rows_are_one_launch(operator, shapes: tuple):
    assert len(source_of(operator, *shapes).launches) == 1


def test_row_tiles_must_fit_the_rows():
    schedule = Schedule(function_of(softmax, (7, 100)))
    producers = row_producers(schedule, "x0_softmax")
    assert producers == ["x0_softmax_max", "x0_softmax_exp", "x0_softmax_sum", "x0_softmax_inverse"]
    message = r"^rows of x0_softmax: the rows of a group must divide 7, got 2$"
    with pytest.raises(ScheduleError, match=message):
        schedule_rows(schedule, "x0_softmax", RowTiles(32, 2), producers)


def test_neighbours_are_loaded_as_vectors_where_there_are_many():
    text = source_of(operators.add, (256, 256), (256, 256)).text
    assert "vstore4(vload4(0, x0 + " in text
    assert "vload4" not in source_of(operators.add, (25, 25), (25, 25)).text


def test_one_result_is_the_work_of_one_thread():
    """In two launches: that of the first value, and that of the sum."""
    x, k = te.placeholder((20,), "float32", "x"), te.reduce_axis(20, "k")
    total = te.compute((1,), lambda i: te.sum(x[k], axis=k), "y")
    assert launches(grid_schedule(te.create_function([x], [total], "f"))) == [((1, 1, 1), (1, 1, 1))] * 2


def test_few_results_of_many_terms_are_the_work_of_groups():
    x = te.placeholder((6, 1000), "float32", "x")
    assert launches(grid_schedule(te.create_function([x], [operators.sum(x, (1,))], "f"))) == [((6, 1, 1), (64, 1, 1))]


def test_one_result_of_very_many_terms_is_the_work_of_several_groups():
    grids = launches(grid_schedule(function_of(operators.sum, (256, 1000))))
    assert grids == [((25, 1, 1), (64, 1, 1)), ((1, 1, 1), (25, 1, 1))]


def test_one_result_of_many_terms_is_the_work_of_a_group():
    x = te.placeholder((30, 40), "float32", "x")
    assert launches(grid_schedule(te.create_function([x], [operators.sum(x)], "f"))) == [((1, 1, 1), (64, 1, 1))]


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "grid", "threads"),
    [
        (128, 32, 192, (3, 2, 1), (16, 16, 1)),
        (32, 8, 16, (1, 1, 1), (8, 8, 1)),
        (48, 24, 96, (3, 1, 1), (8, 16, 1)),
        (100, 24, 72, (3, 2, 1), (8, 16, 1)),
    ],
)
def test_tiles_of_a_product_are_large_and_leave_little_outside(
    rows: int, depth: int, columns: int, grid: tuple, threads: tuple
):
    schedule = grid_schedule(product(rows, depth, columns=columns))
    assert launches(schedule) == [(grid, threads)]
    assert grid_problems(product(rows, depth, columns=columns), GridLimits(""))["c"].default.thread_rows == 4


def test_a_tiled_product_equals_numpy():
    fn = product(16, 8, columns=16)
    schedule, rng = grid_schedule(fn), np.random.default_rng(0)
    inputs = {p: rng.integers(-9, 9, fn.buffers[p].dims).astype(np.int32) for p in ("a", "b")}
    np.testing.assert_array_equal(interpret(schedule.fn, inputs)["c"], inputs["a"] @ inputs["b"])


def test_a_batch_is_along_z():
    assert launches(grid_schedule(product(2, 16, 8, columns=16))) == [((1, 1, 2), (8, 8, 1))]


def test_operands_come_as_vectors_through_shared_memory():
    text = emit_opencl(grid_schedule(product(64, 32, dtype="float32")).fn, LIMITS).text
    assert text.count("__local float") == 2
    assert text.count("barrier(") == 2
    assert text.count("vstore4(vload4(0, ") == 3  # tiles of both operands, rows of the result
    assert "vstore4(vload4(0, b + ty * 64 + k_o * 1024 + tx * 4), 0, b_shared + ty * 64 + tx * 4);" in text


def test_shared_tiles_are_as_large_as_what_threads_fetch():
    """Of 256 threads, 64 fetch a tile of 16 x 16 as vectors of four."""
    schedule = grid_schedule(product(16, 16, dtype="float32"), tiles={"c": MatmulTiles(16, 16, 16, 1, 1)})
    assert shared_bytes(emit_opencl(schedule.fn, LIMITS)) == 2 * 16 * 16 * 4


def test_tiles_may_leave_the_matrices():
    """Threads skip what is outside, around which the barriers stay."""
    source = emit_opencl(grid_schedule(product(30, 37, columns=50)).fn, LIMITS)
    assert [(launch.groups, launch.threads) for launch in source.launches] == [((1, 1, 1), (16, 8, 1))]
    assert source.text.count("\n    barrier(") == 1  # of one step


def test_a_product_of_few_rows_is_a_few_sums():
    fn = product(3, 7, columns=9)
    with pytest.raises(ScheduleError, match=r"^matmul on a grid: a product must have 4 rows, got 3 x 9$"):
        assert MatmulProblem.of(Schedule(fn), "c", LIMITS).default
    assert launches(grid_schedule(fn)) == [((1, 1, 1), (27, 1, 1))]


def test_devices_with_few_threads_get_smaller_groups():
    few = GridLimits("small", threads=64)
    assert launches(grid_schedule(product(64, 32), few)) == [((2, 2, 1), (8, 8, 1))]


def test_steps_fit_the_shared_memory():
    small = GridLimits("small", shared_bytes=4096)
    assert MatmulProblem.of(Schedule(product(64, 64, dtype="float32")), "c", small).default.depth == 8


def test_a_bias_is_added_to_the_sums_in_registers():
    source = source_of(operators.dense, (20, 24), (36, 24), (36,))
    assert len(source.launches) == 1


def test_tiles_are_given_by_the_name_of_a_block():
    tiles = MatmulTiles(32, 64, 8, 2, 8)
    schedule = grid_schedule(product(64, 32), LIMITS, tiles={"c": tiles})
    assert launches(schedule) == [((1, 2, 1), (8, 16, 1))]


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 1, 0), (1, 2, 0)])
def test_a_transposition_needs_no_groups_for_lanes(perm):
    x = te.placeholder((9, 16, 24), "float32", "x")
    schedule = grid_schedule(te.create_function([x], [tiled_transpose(x, perm, "y")], "f"))
    assert len(launches(schedule)) == 1
