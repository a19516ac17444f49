# SPDX-License-Identifier: Apache-2.0
"""Spaces of tiles on grids: all points fit, build and lower; drafts agree with lowered kernels."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from vdla.compiler import ir, operators, te
from vdla.compiler.interpret import interpret_kernels
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.operators.gpu import grid_problems, grid_schedule
from vdla.compiler.operators.gpu.matmul_schedule import MatmulTiles
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits
from vdla.compiler.tune import TuneError
from vdla.compiler.tune.grid import GRID_FEATURES, GridTask, grid_task, kernel_work, modelled_cost
from vdla.compiler.tune.grid.drafts import draft_work

DEVICE = GridLimits("device", threads=256, shared_bytes=8 * 1024)


def function(operator: Callable[..., te.Tensor], *shapes: tuple[int, ...], **options: int) -> ir.Function:
    inputs = [te.placeholder(shape, "float32", f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_function(inputs, [operator(*inputs, **options)], "f")


def total() -> ir.Function:
    x, k = te.placeholder((2, 2048), "float32", "x"), te.reduce_axis(2048, "k")
    return te.create_function([x], [te.compute((2,), lambda i: te.sum(x[i, k], axis=k), "y")], "f")


FUNCTIONS = {
    "matmul": function(operators.matmul, (48, 40), (40, 64)),
    "conv2d": function(operators.conv2d, (1, 8, 10, 10), (16, 8, 3, 3), pads=1),
    "depthwise_conv2d": function(operators.depthwise_conv2d, (1, 8, 12, 12), (8, 1, 3, 3), pads=1),
    "rows": function(operators.softmax, (12, 200)),
    "reduction": total(),
    "elements": function(operators.relu, (40, 64)),
}


SLOW = ("conv2d", "depthwise_conv2d", "rows")
CASES = [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW)) for name in FUNCTIONS]


@pytest.fixture(scope="module", params=CASES)
def task(request: pytest.FixtureRequest) -> GridTask:
    return grid_task(FUNCTIONS[request.param], DEVICE, request.param)


def test_the_form_is_that_of_the_block_that_does_most(task: GridTask) -> None:
    assert task.problem.operator == task.name
    assert task.space.is_legal(task.default)
    assert task.space.size > 1


def test_points_lower_to_kernels_that_fit_the_device(task: GridTask) -> None:
    for index in np.random.default_rng(0).choice(task.space.size, 2):
        point = task.space.point(int(index))
        kernels = lower_kernels(task.build(point), DEVICE)
        launch = max(map(kernel_work, kernels), key=lambda work: work.operations * work.groups)
        draft = draft_work(task.problem, task.tiles(point))
        assert draft.threads == launch.threads
        assert launch.shared_bytes <= DEVICE.shared_bytes
        cost = modelled_cost(task.build(point), DEVICE)
        assert 1 / 8 < cost / task.estimate(np.array([index]))[0] < 8


def test_the_default_point_is_the_default_schedule(task: GridTask) -> None:
    default = grid_schedule(task.function, DEVICE).fn
    assert str(task.build(task.default)) == str(default)
    tiles = {block: problem.default for block, problem in grid_problems(task.function, DEVICE).items()}
    assert str(grid_schedule(task.function, DEVICE, tiles=tiles).fn) == str(default)


def test_features_are_finite_and_named(task: GridTask) -> None:
    found = task.features(np.arange(min(task.space.size, 20)))
    assert found.shape[1] == len(GRID_FEATURES) == len(task.feature_names)
    assert np.isfinite(found).all()
    assert np.unique(found, axis=0).shape[0] > 1


def test_drafts_of_products_count_groups_and_shared_memory_exactly() -> None:
    task = grid_task(FUNCTIONS["matmul"], DEVICE)
    (kernel,) = lower_kernels(task.build(task.default), DEVICE)
    exact, draft = kernel_work(kernel), draft_work(task.problem, task.tiles(task.default))
    assert (draft.groups, draft.shared_bytes) == (exact.groups, exact.shared_bytes)
    assert (draft.waits, draft.barriers) == (exact.waits, exact.barriers)


TENSOR_CORES = GridLimits("tensor cores", warp=32, tensor_cores=True)


@pytest.mark.parametrize(
    ("operator", "terms"),
    [(operators.matmul, "float16"), pytest.param(operators.dense, "bfloat16", marks=pytest.mark.long)],
)
def test_drafts_for_tensor_cores_are_what_the_kernel_does(
    operator: Callable[[te.Tensor, te.Tensor], te.Tensor], terms: str
) -> None:
    x, w = (te.placeholder((128, 128), terms, name) for name in "xw")
    task = grid_task(te.create_function([x, w], [operator(x, w)], "f"), TENSOR_CORES)
    assert task.problem.operator == "tensor_cores"
    points = np.random.default_rng(0).choice(task.space.size, 2)
    for point in (task.default, *(task.space.point(int(index)) for index in points)):
        (kernel,) = lower_kernels(task.build(point), TENSOR_CORES)
        exact, draft = kernel_work(kernel), draft_work(task.problem, task.tiles(point))
        assert replace(draft, operations=exact.operations) == exact
        assert draft.operations == pytest.approx(exact.operations, rel=0.05)


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_random_tiles_for_tensor_cores_compute_the_product(seed: int) -> None:
    chance = np.random.default_rng(seed)
    rows, columns, terms = (16 * int(n) for n in chance.integers(1, 5, 3))
    operator = (operators.matmul, operators.dense)[seed % 2]
    x = te.placeholder((2, rows, terms), "float16", "x")
    shape = (columns, terms) if operator is operators.dense else (terms, columns)
    w, bias = te.placeholder(shape, "float16", "w"), te.placeholder((columns,), "float16", "bias")
    task = grid_task(te.create_function([x, w, bias], [operator(x, w, bias, name="y")], "f"), TENSOR_CORES)
    point = task.space.point(int(chance.integers(task.space.size)))
    arrays = {
        name: chance.integers(-3, 4, task.function.buffers[name].dims).astype(np.float16) for name in ("x", "w", "bias")
    }
    right = arrays["w"].T if operator is operators.dense else arrays["w"]
    found = interpret_kernels(lower_kernels(task.build(point), TENSOR_CORES), arrays)["y"]
    np.testing.assert_array_equal(found, arrays["x"] @ right + arrays["bias"], err_msg=str(point))


def test_a_smaller_device_has_a_smaller_space() -> None:
    small = GridLimits("device", threads=64, shared_bytes=2 * 1024)
    fewer, more = (grid_task(FUNCTIONS["matmul"], limits) for limits in (small, DEVICE))
    assert fewer.space.size < more.space.size
    assert fewer.key != more.key
    for point in fewer.space.points():
        tiles = fewer.tiles(point)
        assert prod(tiles.threads.values()) <= 64
        assert tiles.shared_bytes(4) <= 2 * 1024


def test_a_key_is_of_the_function_the_device_and_the_kind_of_costs() -> None:
    first = grid_task(FUNCTIONS["elements"], DEVICE)
    assert first.key == pickle.loads(pickle.dumps(first)).key == grid_task(FUNCTIONS["elements"], DEVICE, "n").key
    assert first.key != grid_task(FUNCTIONS["elements"], DEVICE, costs="modelled").key
    assert first.key != grid_task(FUNCTIONS["rows"], DEVICE).key
    with pytest.raises(TuneError, match=r"^tune f: costs must be measured or modelled, got 'guessed'$"):
        grid_task(FUNCTIONS["rows"], DEVICE, costs="guessed")


def test_what_cannot_be_chosen_is_refused() -> None:
    x = te.placeholder((1,), "float32", "x")
    single = te.create_function([x], [te.compute((1,), lambda i: x[i] + 1.0, "y")], "single")
    with pytest.raises(TuneError, match=r"^tune single: a block must have tiles to choose on a grid, got none$"):
        _ = grid_task(single, DEVICE).space
    task = grid_task(FUNCTIONS["elements"], DEVICE)
    with pytest.raises(TuneError, match=r"^space f on device: threads must be one of 32, 64, 128, 256, got 512$"):
        task.build({"threads": 512, "lanes": 1})


def test_given_tiles_must_be_taken() -> None:
    tiles = MatmulTiles(16, 16, 8, 1, 1, 1)
    with pytest.raises(ScheduleError, match=r"^grid schedule of x0_relu: tiles must be legal, got MatmulTiles"):
        grid_schedule(FUNCTIONS["elements"], DEVICE, tiles={"x0_relu": tiles})
    assert isinstance(grid_schedule(FUNCTIONS["matmul"], DEVICE, tiles={"x0_matmul": tiles}), Schedule)
