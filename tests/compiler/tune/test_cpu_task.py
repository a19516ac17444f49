# SPDX-License-Identifier: Apache-2.0
"""Tasks of CPU kernels: forms, spaces, keys, drafts and features; pickled tasks build the same."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler import te
from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.operators import OperatorError, relu
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import TARGETS
from vdla.compiler.tune import CPU_FEATURES, CpuTask, function_task, kernel_task
from vdla.compiler.tune.cpu_forms import FormKey
from vdla.compiler.tune.cpu_task import kernel_key, key_for_threads

CPU = TARGETS["x86-64-avx512"]


def convolution(kernel: int = 3, strides: int = 1) -> Graph:
    weight = np.ones((16, 4, kernel, kernel), np.float32)
    side = (8 - kernel) // strides + 1
    node = Node("Conv", ("x", "w"), ("y",), {"kernel_shape": (kernel, kernel), "strides": (strides, strides)})
    types = {
        "x": TensorType("float32", (1, 4, 8, 8)),
        "w": TensorType("float32", weight.shape),
        "y": TensorType("float32", (1, 16, side, side)),
    }
    return Graph("convolution", ("x",), ("y",), (node,), {"w": weight}, types)


def product(shape: tuple[int, ...]) -> Graph:
    weight = np.ones((4, 24), np.float32)
    types = {name: TensorType("float32", extents) for name, extents in (("x", shape), ("w", weight.shape))}
    types["y"] = TensorType("float32", (*shape[:-1], 24))
    return Graph("product", ("x",), ("y",), (Node("MatMul", ("x", "w"), ("y",)),), {"w": weight}, types)


def task(kernel: int = 3, strides: int = 1) -> CpuTask:
    return kernel_task(convolution(kernel, strides), CPU)


def test_a_convolution_has_the_algorithms_that_apply() -> None:
    algorithms = ("direct", "winograd2", "winograd4")
    assert {key.algorithm for key in task().forms} == set(algorithms)
    assert {key.algorithm for key in task(3, 2).forms} == {"default"}
    assert task().space.knobs[0].values == algorithms


def test_a_convolution_has_layouts_and_blocks_of_its_weight() -> None:
    assert list(task(1).forms) == [FormKey(), FormKey(layout="blocks"), FormKey(lanes=8)]
    shapes = [[array.shape for array in form.constants.values()] for form in task(1).forms.values()]
    assert shapes == [[(1, 4, 1, 1, 16)], [(1, 4, 1, 1, 16)], [(2, 4, 1, 1, 8)]]
    assert [problem.repacked_bytes for problem in task(1)._problems.values()] == [0, 4 * 64 * (4 + 16), 0]
    assert len(task().forms) == 9
    assert all(key.layout == "given" or not key.lanes for key in task().forms)


def test_another_layout_costs_its_repacks() -> None:
    made = task(1)
    points = [made.of_log({**made.default, "tile_depth": 1, **way}) for way in ({}, {"layout": "blocks"}, {"lanes": 8})]
    given, blocks, narrow = made.estimate(np.array([made.space.index(point) for point in points]))
    assert blocks > 1.5 * given
    assert narrow == pytest.approx(given * (1 + 0.02 * 2) / (1 + 0.02))  # one more choice that is not the default
    rows = made.features(np.array([made.space.index(point) for point in points]))
    row = dict(zip(CPU_FEATURES, rows.T.tolist(), strict=True))
    assert row["lanes"] == pytest.approx([0, 0, np.log2(9)])
    assert (row["plain_inside"], row["blocks_inside"]) == ([0, 0, 0], [0, 1, 0])
    assert row["repacked_bytes"] == pytest.approx([0, np.log2(1 + 5120), 0])


def test_points_of_logs_from_before_a_knob_are_those_of_the_default() -> None:
    made = task()
    for index in np.random.default_rng(0).integers(made.space.size, size=40).tolist():
        point = made.space.point(index)
        assert made.of_log(point) == point
        if (point["layout"], point["lanes"]) == ("given", 0):
            old = {name: value for name, value in point.items() if name not in ("layout", "lanes")}
            assert made.of_log(old) == point
    assert task(1).of_log({"tile_depth": 1, "tile_columns": 8, "tile_vectors": 1, "order": "rows"}) == {
        **task(1).default, "tile_depth": 1, "order": "rows", "transposed_columns": 2,
    }  # fmt: skip


@pytest.mark.parametrize("kernel", [1, 3])
def test_the_default_is_first_in_the_draft_and_builds_the_default_schedule(kernel: int) -> None:
    made = task(kernel)
    order = np.argsort(made.estimate(np.arange(made.space.size)), kind="stable")
    assert made.space.point(int(order[0])) == made.default
    plain = default_schedule(next(iter(made.forms.values())).function, CPU).fn
    assert str(made.build(made.default)) == str(plain)


def test_constant_matrices_are_plain_or_packed() -> None:
    made = kernel_task(product((2, 6, 4)), CPU)
    assert list(made.forms) == [FormKey("plain"), FormKey("packed"), FormKey("packed", lanes=32)]
    shapes = [form.constants.values() for form in made.forms.values()]
    assert [[array.shape for array in arrays] for arrays in shapes] == [[(4, 24)], [(2, 4, 16)], [(1, 4, 32)]]
    assert [key.algorithm for key in kernel_task(product((6, 4)), CPU).forms] == ["packed", "plain", "packed"]


def test_only_constant_matrices_are_packed() -> None:
    moving = replace(product((2, 6, 4)), inputs=("x", "w"), constants={})
    assert list(kernel_task(moving, CPU).forms) == [FormKey()]


def test_forms_have_weights_of_their_own() -> None:
    made = task()
    for key, form in made.forms.items():
        point = made.of_log({**made.default, **key._asdict()})
        (weight,) = form.constants.values()
        assert made.form(point) is form
        blocks = {"direct": (2 if key.lanes else 1, 4), "winograd2": (4, 4), "winograd4": (6, 6)}
        assert weight.shape[:2] == blocks[key.algorithm]


def test_each_schedule_is_one_point() -> None:
    made = task(1)
    functions = [str(made.build(point)) for point in made.space.sample(np.random.default_rng(0), 12)]
    assert len(set(functions)) == len(functions)


def test_kernels_without_choices_have_one_point() -> None:
    x = te.placeholder((8, 4), "float32", "x")
    made = function_task(te.create_function([x], [relu(x)], "f"), CPU)
    assert made.space.size == 1
    assert made.default == {"schedule": "default"}
    assert str(made.space) == "space f on x86-64-v4: 1 legal of 1 combinations\n  schedule: default"


def test_pickled_tasks_are_the_same() -> None:
    made = task()
    point = made.space.point(made.space.size - 1)
    copy = pickle.loads(pickle.dumps(made))
    assert (copy.key, str(copy.space)) == (made.key, str(made.space))
    assert str(copy.build(point)) == str(made.build(point))


def test_the_key_depends_on_the_function_and_the_cpu() -> None:
    keys = {task().key, task(1).key, kernel_task(convolution(), TARGETS["x86-64-avx2"]).key}
    assert len(keys) == 3
    other = replace(convolution(), name="other")
    assert kernel_task(other, CPU).key == task().key
    keys = {kernel_key(form.function, CPU) for form in task().forms.values()}
    assert len(keys) == len(task().forms)


def test_a_form_that_a_kernel_does_not_have_is_refused() -> None:
    with pytest.raises(OperatorError) as error:
        task(1).build({**task(1).default, "layout": "plain"})
    known = "default given 0, default blocks 0, default given 8"
    assert str(error.value) == f"tune convolution: form must be one of {known}, got default plain 0"


def test_logs_of_one_thread_are_found_by_the_same_keys_as_ever() -> None:
    assert task(1).key == "c53a228240915789"
    assert kernel_task(convolution(1), CPU, threads=1).key == task(1).key


def test_on_several_threads_the_parallel_loop_and_its_parts_are_knobs() -> None:
    one, two = task(1), kernel_task(convolution(1), CPU, threads=2)
    knobs = {knob.name: knob.values for knob in two.space.knobs}
    assert knobs.keys() - {knob.name for knob in one.space.knobs} == {"parallel", "threads"}
    assert (knobs["parallel"], knobs["threads"]) == (("inner", "middle", "outer"), (0, 1, 2))
    assert two.space.size == 7 * one.space.size  # one thread has no parts
    assert two.default == {**one.default, "parallel": "middle", "threads": 0}
    assert str(two.build(two.default)) == str(one.build(one.default))
    assert two.key != one.key
    assert two.key == key_for_threads(one.key, 2)
    assert pickle.loads(pickle.dumps(two)).key == two.key


def test_the_draft_and_features_know_the_threads() -> None:
    made = kernel_task(convolution(1), CPU, threads=4)
    points = [{**made.default, "tile_depth": 1, "threads": count} for count in (1, 2, 4)]
    indices = np.array([made.space.index(point) for point in points])
    costs = made.estimate(indices)
    assert costs[0] == pytest.approx(2 * costs[1])
    assert costs[1] == pytest.approx(2 * costs[2])
    rows = [dict(zip(CPU_FEATURES, row.tolist(), strict=True)) for row in made.features(indices)]
    assert [row["threads"] for row in rows] == pytest.approx(np.log2([2, 3, 5]))
    assert [(row["outer_parallel"], row["middle_parallel"], row["inner_parallel"]) for row in rows] == [(0, 1, 0)] * 3


def test_features_tell_points_apart() -> None:
    made = task()
    indices = np.arange(made.space.size)
    features = made.features(indices)
    assert features.shape == (made.space.size, len(CPU_FEATURES))
    assert made.feature_names == CPU_FEATURES
    assert np.isfinite(features).all()
    assert len(np.unique(features, axis=0)) == made.space.size


def test_features_of_a_point_by_hand() -> None:
    made = task(1)
    index = made.space.index({**made.default, "tile_depth": 1, "tile_columns": 4, "tile_vectors": 1, "order": "rows"})
    row = dict(zip(CPU_FEATURES, made.features(np.array([index]))[0].tolist(), strict=True))
    assert (row["is_conv2d"], row["is_matmul"]) == (1, 0)
    assert row["sums"] == pytest.approx(np.log2(1 + 4))
    assert row["tiles"] == pytest.approx(np.log2(1 + 16))  # 8 rows of 8 pixels
    assert row["tile_element_bytes"] == pytest.approx(np.log2(1 + 4 * 4 * 4))  # pixels, channels, bytes
    assert row["tile_operand_bytes"] == pytest.approx(np.log2(1 + 16 * 4 * 4))  # lanes, channels, bytes
    assert row["registers"] == pytest.approx(6 / 32)
    assert (row["rows_outside"], row["channels_outside"]) == (1, 0)


def test_a_point_of_another_kernel_is_refused() -> None:
    with pytest.raises(OperatorError, match=r"^schedule: point must have tile_depth, got schedule$"):
        task(1).build({"schedule": "default"})


def test_an_operator_without_an_expression_is_declined() -> None:
    graph = convolution()
    bad = replace(graph, nodes=(replace(graph.nodes[0], op="NonZero", attributes={}),))
    with pytest.raises(DeclinedError):
        kernel_task(bad, CPU).key  # noqa: B018
