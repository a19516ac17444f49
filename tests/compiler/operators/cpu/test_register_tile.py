# SPDX-License-Identifier: Apache-2.0
"""Default schedules of products and convolutions become register tiles, for every CPU."""

import re

import numpy as np
import pytest
from helpers.window_sums import model

from vdla.compiler import ir, te
from vdla.compiler.analysis import leaves
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import conv_transpose, depthwise_conv2d, matmul, plan_convolution
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.cpu.register_tile import (
    RegisterTile,
    best_register_tile,
    candidates,
    fits_registers,
    ordered_loops,
    step_costs,
)
from vdla.compiler.target import TARGETS, Target
from vdla.runtime.native import build


def layer(target, weight, **options):
    data = (1, weight[1] * options.get("groups", 1), 14, 14)
    plan = plan_convolution(data, weight, target=target, **options)
    x, w = te.placeholder(data, "float32", "x"), plan.weight("w")
    return te.create_function([x, w], [plan.apply(x, w, name="y")], "layer")


def product(target):
    a, b = te.placeholder((64, 96), "float32", "a"), te.placeholder((96, 128), "float32", "b")
    return te.create_function([a, b], [matmul(a, b)], "product")


def panels_with_tails(target):
    """Matrices whose last panel of columns is not full."""
    a, b = te.placeholder((2, 64, 96), "float32", "a"), te.placeholder((2, 96, 197), "float32", "b")
    return te.create_function([a, b], [matmul(a, b)], "product")


KERNELS = {
    "matmul": product,
    "panels_with_tails": panels_with_tails,
    "direct": lambda target: layer(target, (64, 32, 3, 3), pads=1, algorithm="direct"),
    "pointwise": lambda target: layer(target, (64, 32, 1, 1), strides=2),
    "depthwise": lambda target: layer(target, (32, 1, 3, 3), pads=1, groups=32),
}
FUSED = {
    "x86-64-avx512": r"vfmadd\w+ps",
    "x86-64-avx2": r"vfmadd\w+ps",
    "cortex-a9": r"vm(?:la|ul)\.f32",  # LLVM fuses few multiply-adds for this core
    "aarch64": r"fmla",
}


@pytest.mark.parametrize(
    ("target", "columns", "kernel", "stride", "is_padded"),
    [
        ("x86-64-avx512", 14, 5, 1, False),
        ("x86-64-avx512", 28, 3, 1, False),
        ("x86-64-avx512", 28, 5, 1, True),  # many taps at the edges of two vectors
        ("x86-64-avx512", 17, 3, 1, True),  # the second vector is shorter
        ("x86-64-avx512", 14, 3, 2, True),  # columns in phases
        ("x86-64-avx512", 1, 3, 1, True),
        ("x86-64-avx2", 8, 3, 1, True),  # no masks
        ("aarch64", 4, 3, 1, True),
    ],
)
def test_masked_loads_replace_the_padded_image(target, columns, kernel, stride, is_padded):
    x, w = te.placeholder((1, 4, 6, columns), "float32", "x"), te.placeholder((4, 1, kernel, kernel), "float32", "w")
    fn = te.create_function([x, w], [depthwise_conv2d(x, w, None, stride, kernel // 2, name="y")], "layer")
    scheduled = default_schedule(fn, target).fn
    assert ("y_pad" in scheduled.buffers) == is_padded
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.integers(-5, 5, t.shape).astype(np.float32) for t in (x, w)}
    expected = model(arrays["x"], arrays["w"], stride, kernel // 2, groups=4)
    np.testing.assert_array_equal(interpret(scheduled, arrays)["y"], expected)


def blocks(text):
    """The basic blocks of assembly text."""
    return re.split(r"\n[.\w]+:|\n\s(?:j\w+|b\w{2}|b\.\w+|cbn?z)\s", text)


@pytest.mark.sampled
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", FUSED)
def test_the_innermost_code_is_multiply_adds_in_registers(name, target):
    fn = KERNELS[name](target)
    text = compile_native(default_schedule(fn, target).fn, target).assembly
    assert not re.search(r"gather|scatter", text)
    busiest = max(blocks(text), key=lambda block: len(re.findall(FUSED[target], block)))
    products = len(re.findall(FUSED[target], busiest))
    assert products >= 6
    spills = re.findall(r"\((?:%rsp|%rbp)\)|\[sp|\[r11", busiest)
    assert len(spills) <= products // 3


def transposed(_):
    x, w = te.placeholder((1, 32, 14, 14), "float32", "x"), te.placeholder((32, 16, 3, 3), "float32", "w")
    return te.create_function([x, w], [conv_transpose(x, w, None, 2, name="y")], "transposed")


SHARED = KERNELS | {
    "conv_transpose": transposed,
    "winograd": lambda target: layer(target, (64, 32, 3, 3), pads=1, algorithm="winograd2"),
}


@pytest.mark.parametrize("name", SHARED)
def test_the_sums_run_in_parallel(name):
    scheduled = default_schedule(SHARED[name]("x86-64-avx512"), "x86-64-avx512").fn
    sums = {"winograd": "y_product"}.get(name, "a_matmul" if name in ("matmul", "panels_with_tails") else "y_sum")
    (kinds,) = ([loop.kind for loop in leaf.loops] for leaf in leaves(scheduled) if leaf.name == sums)
    assert kinds.count(ir.LoopKind.PARALLEL) == 1


@pytest.mark.parametrize("algorithm", ["direct", "winograd2", "depthwise"])
def test_the_batch_may_be_a_symbol(algorithm):
    groups = 32 if algorithm == "depthwise" else 1
    plan = plan_convolution((1, 32, 9, 9), (32, 32 // groups, 3, 3), pads=1, groups=groups, algorithm=algorithm)
    x, w = te.placeholder((te.var("n"), 32, 9, 9), "float32", "x"), plan.weight("w")
    fn = te.create_function([x, w], [plan.apply(x, w, name="y")], "layer")
    scheduled = default_schedule(fn).fn
    kinds = {loop.kind for loop in ir.walk(scheduled.body) if isinstance(loop, ir.For)}
    assert {ir.LoopKind.PARALLEL, ir.LoopKind.UNROLL, ir.LoopKind.VECTORIZE} <= kinds
    rng = np.random.default_rng(0)
    weight = rng.integers(-3, 4, plan.weight_shape).astype(np.float32)
    kernel = build(scheduled)
    for batch in (1, 3):
        data = rng.integers(-3, 4, (batch, 32, 9, 9)).astype(np.float32)
        got = kernel(data, plan.pack(weight))
        np.testing.assert_allclose(got, model(data, weight, 1, 1, groups=groups), atol=1e-3)


@pytest.mark.parametrize("name", TARGETS)
def test_tiles_fit_the_registers(name):
    target = Target.named(name)
    for extents in ((56, 56, 16), (7, 7, 64), (1, 1, 10), (3, 3, 1), (1, 1024, 64)):
        for is_integer in (False, True):
            tile = best_register_tile(target, extents, is_integer=is_integer)
            assert tile in set(candidates(target, extents, is_integer))
            assert fits_registers(target, tile, step_costs(target, is_integer))
            assert tile.rows * tile.vectors + min(tile.rows, tile.vectors) < target.vector_registers


def test_tiles_of_short_steps_have_few_broadcasts():
    target = Target.named("x86-64-avx2")
    assert best_register_tile(target, (14, 14, 32)) == RegisterTile(3, 4)
    assert best_register_tile(target, (14, 14, 32), is_integer=True) == RegisterTile(5, 2)  # a product is a register
    assert best_register_tile(target, (1, 1, 10)) == RegisterTile(1, 10)
    rows = "row", "column"
    assert ordered_loops(target, RegisterTile(3, 4), rows, "vector") == ("vector", "row", "column")
    assert ordered_loops(target, RegisterTile(5, 2), rows, "vector") == ("row", "column", "vector")


def test_tiles_that_divide_the_image_are_preferred():
    target = Target.named("x86-64-avx512")
    assert best_register_tile(target, (14, 14, 16)) == RegisterTile(7, 2)
    assert best_register_tile(target, (1, 1024, 64), lambda tile: tile.rows <= 4).rows == 4
    assert best_register_tile(target, (4, 4, 1)) == RegisterTile(16, 1, 4)
