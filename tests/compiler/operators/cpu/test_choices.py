# SPDX-License-Identifier: Apache-2.0
"""Choices of CPU schedules: defaults change nothing, any legal answer gives the same results."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from helpers.run_operator import agree, function_of, integers

from vdla.compiler import te
from vdla.compiler.ir import For, LoopKind, walk
from vdla.compiler.operators import (
    OperatorError,
    conv2d,
    conv_transpose,
    dense,
    depthwise_conv2d,
    matmul,
    pack_conv2d,
    pack_dense,
    pack_depthwise_conv2d,
    pack_qconv2d,
    pack_qdense,
    pack_qdepthwise_conv2d,
    pack_winograd,
    qconv2d,
    qdense,
    qdepthwise_conv2d,
    relu,
    winograd_conv2d,
)
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.cpu.choices import Choices, GivenChoices, RecordedChoices
from vdla.compiler.operators.quantised_weights import best_dot_layout
from vdla.compiler.target import host
from vdla.runtime.native import build

HOST = host()


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def blocked_image(channels, side):
    lanes = HOST.lanes(4)
    return floats(1, -(-channels // lanes), side, side, lanes)


def direct():
    return lambda x, w: conv2d(x, w, pads=1), (floats(1, 2, 5, 6), floats(24, 2, 3, 3))


def blocked_direct():
    lanes = HOST.lanes(4)
    layouts = {"layout": f"NCHW{lanes}c", "weight_layout": f"OIHW{lanes}o"}
    weight = pack_conv2d(floats(64, 32, 1, 1), HOST)
    return lambda x, w: relu(conv2d(x, w, **layouts)), (blocked_image(32, 6), weight)


def winograd(tile):
    weight = pack_winograd(floats(24, 2, 3, 3), tile, HOST)
    return lambda x, w: winograd_conv2d(x, w, pads=1, tile=tile, out_channels=24), (floats(1, 2, 5, 5), weight)


def product():
    return lambda a, b: matmul(a, b), (floats(2, 9, 12), floats(2, 12, 40))


def packed_product():
    lanes = HOST.lanes(4)
    layout = f"OI{lanes}o"
    return lambda x, w: dense(x, w, None, 40, layout), (floats(2, 9, 12), pack_dense(floats(40, 12), HOST))


def depthwise():
    return lambda x, w: depthwise_conv2d(x, w, pads=1), (floats(1, 3, 9, 20), floats(3, 1, 3, 3))


def blocked_depthwise():
    lanes = HOST.lanes(4)
    weight = pack_depthwise_conv2d(floats(lanes, 1, 3, 3), lanes)
    return lambda x, w: depthwise_conv2d(x, w, pads=1, layout=f"NCHW{lanes}c"), (blocked_image(lanes, 9), weight)


def transposed():
    return lambda x, w: conv_transpose(x, w, strides=2), (floats(1, 3, 5, 18), floats(3, 8, 2, 2))


def quantised():
    packed = pack_qconv2d(integers((24, 4, 3, 3), "int8"), np.float32(0.01), HOST)
    arrays = (integers((1, 4, 4, 6), "uint8"), packed.weight, packed.bias, packed.scale)
    return lambda *t: qconv2d(*t, HOST, 24, pads=1), arrays


def quantised_blocked():
    lanes = HOST.lanes(4)
    packed = pack_qconv2d(integers((48, 32, 3, 3), "int8"), np.float32(0.01), HOST)
    image = integers((1, -(-32 // lanes), 6, 6, lanes), "uint8")
    return lambda *t: qconv2d(*t, HOST, pads=1, layout=f"NCHW{lanes}c"), (
        image,
        packed.weight,
        packed.bias,
        packed.scale,
    )


def quantised_depthwise():
    packed = pack_qdepthwise_conv2d(integers((6, 1, 3, 3), "int8"), np.float32(0.01), HOST)
    arrays = (integers((1, 6, 9, 17), "uint8"), packed.weight, packed.bias, packed.scale)
    return lambda *t: qdepthwise_conv2d(*t, HOST, 3, pads=1), arrays


def quantised_blocked_depthwise():
    lanes = best_dot_layout(HOST).lanes
    layout = f"NCHW{lanes}c"
    packed = pack_qdepthwise_conv2d(integers((16, 1, 3, 3), "int8"), np.float32(0.01), HOST, layout=layout)
    image = integers((1, -(-16 // lanes), 9, 9, lanes), "uint8")
    arrays = (image, packed.weight, packed.bias, packed.scale)
    return lambda *t: qdepthwise_conv2d(*t, HOST, 3, pads=1, layout=layout), arrays


def quantised_dense():
    packed = pack_qdense(integers((40, 24), "int8"), np.float32(0.01), HOST)
    arrays = (integers((7, 24), "uint8"), packed.weight, packed.bias, packed.scale)
    return lambda *t: qdense(*t, HOST, 40), arrays


KERNELS = {
    "direct": direct,
    "blocked_direct": blocked_direct,
    "winograd4": lambda: winograd(4),
    "product": product,
    "packed_product": packed_product,
    "depthwise": depthwise,
    "blocked_depthwise": blocked_depthwise,
    "transposed": transposed,
    "quantised": quantised,
    "quantised_blocked": quantised_blocked,
    "quantised_depthwise": quantised_depthwise,
    "quantised_blocked_depthwise": quantised_blocked_depthwise,
    "quantised_dense": quantised_dense,
}


def recorded(fn, threads=1):
    found = RecordedChoices(threads)
    default_schedule(fn, HOST, found)
    return found.asked


def any_point(choices, random):
    picks = [(choice, random.choice(choice.legal)) for choice in choices]
    return {name: value for choice, values in picks for name, value in zip(choice.names, values, strict=True)}


@pytest.mark.sampled
@pytest.mark.parametrize("name", KERNELS)
def test_every_legal_answer_gives_a_schedule_and_the_same_results(name):
    operator, arrays = KERNELS[name]()
    fn, _ = function_of(operator, *arrays)
    choices, random = recorded(fn), Random(name)
    assert choices
    expected = build(default_schedule(fn, HOST).fn)(*arrays)
    points = [any_point(choices, random) for _ in range(3)]
    schedules = [default_schedule(fn, HOST, GivenChoices(point)).fn for point in points]
    agree(build(schedules[0])(*arrays), expected, 64)
    assert len(set(map(str, schedules))) > 1


@pytest.mark.parametrize("name", KERNELS)
def test_defaults_are_legal_and_change_nothing(name):
    fn, _ = function_of(*[(made := KERNELS[name]())[0], *made[1]])
    choices = recorded(fn)
    point = {n: v for choice in choices for n, v in zip(choice.names, choice.default, strict=True)}
    assert all(choice.default in choice.legal for choice in choices)
    assert all(len(set(choice.legal)) == len(choice.legal) for choice in choices)
    plain = str(default_schedule(fn, HOST).fn)
    assert str(default_schedule(fn, HOST, GivenChoices(point)).fn) == plain
    assert str(default_schedule(fn, HOST, Choices()).fn) == plain


def names_of(choices):
    return [name for choice in choices for name in choice.names]


_OF_EVERY_DAY = ("blocked_depthwise", "direct", "product", "quantised_dense")


@pytest.mark.parametrize(
    "name", [name if name in _OF_EVERY_DAY else pytest.param(name, marks=pytest.mark.long) for name in KERNELS]
)
def test_schedules_for_threads_have_more_choices_and_the_same_default(name):
    operator, arrays = KERNELS[name]()
    fn, _ = function_of(operator, *arrays)
    one, three = recorded(fn), recorded(fn, 3)
    assert [n for n in names_of(three) if n not in ("parallel", "threads")] == names_of(one)
    point = {n: v for choice in three for n, v in zip(choice.names, choice.default, strict=True)}
    assert str(default_schedule(fn, HOST, GivenChoices(point)).fn) == str(default_schedule(fn, HOST).fn)
    serial = default_schedule(fn, HOST, GivenChoices({**point, "threads": 1})).fn
    assert parallel_count(serial) <= parallel_count(default_schedule(fn, HOST).fn)


def parallel_count(fn):
    return sum(isinstance(s, For) and s.kind is LoopKind.PARALLEL for s in walk(fn.body))


@pytest.mark.parametrize("name", ["direct", pytest.param("blocked_depthwise", marks=pytest.mark.long)])
def test_schedules_for_threads_give_the_same_results(name):
    operator, arrays = KERNELS[name]()
    fn, _ = function_of(operator, *arrays)
    choices, expected = recorded(fn, 3), build(default_schedule(fn, HOST).fn)(*arrays)
    point = {n: v for choice in choices for n, v in zip(choice.names, choice.default, strict=True)}
    loops = next(choice.legal[-2][0] for choice in choices if choice.names == ("parallel", "threads"))
    made = default_schedule(fn, HOST, GivenChoices({**point, "parallel": loops, "threads": 3})).fn
    agree(build(made)(*arrays), expected, 64)
    assert str(made) != str(default_schedule(fn, HOST).fn)


def test_a_loop_is_parallel_in_as_many_parts_as_threads():
    fn, _ = function_of(lambda a, b: matmul(a, b), np.zeros((90, 8), np.float32), np.zeros((8, 64), np.float32))
    point = {n: v for c in recorded(fn, 3) for n, v in zip(c.names, c.default, strict=True)}
    tile = {"tile_depth": 1, "tile_columns": 9, "tile_vectors": 1}
    kinds = [f"parallel({extent})" for extent in (10, 3, 4)]
    changes = (("inner", 0), ("inner", 3), ("outer", 3))
    points = [{**point, **tile, "parallel": loops, "threads": threads} for loops, threads in changes]
    texts = [str(default_schedule(fn, "x86-64-avx512", GivenChoices(each)).fn) for each in points]
    assert [[kind for kind in kinds if kind in text] for text in texts] == [[kinds[0]], [kinds[1]], []]


def test_a_function_without_operators_has_no_choices():
    x = te.placeholder((8, 8), "float32", "x")
    assert recorded(te.create_function([x], [relu(x)], "f")) == []


@pytest.mark.parametrize(
    "changed, text",
    [
        ({"unrolled_steps": 3}, "schedule: unrolled_steps must be one of 1, 2, 4, 8, got 3"),
        (
            {"tile_depth": 5},
            "schedule: tile_depth, tile_columns, tile_vectors must be one of "
            "1x4x1, 1x5x1, 1x6x1, 1x7x1, 1x8x1, 1x9x1, 1x2x2, 1x3x2, ..., got 5x2x2",
        ),
        (None, "schedule: point must have tile_depth, got none"),
    ],
    ids=["value", "tile", "missing"],
)
def test_an_illegal_point_is_refused(changed, text):
    fn, _ = function_of(lambda a, b: matmul(a, b), np.zeros((9, 8), np.float32), np.zeros((8, 40), np.float32))
    point = {"tile_depth": 1, "tile_columns": 2, "tile_vectors": 2, "packed_panels": False, "unrolled_steps": 1}
    with pytest.raises(OperatorError) as error:
        default_schedule(fn, "x86-64-avx512", GivenChoices({} if changed is None else {**point, **changed}))
    assert str(error.value) == text
