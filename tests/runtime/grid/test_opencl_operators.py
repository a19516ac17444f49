# SPDX-License-Identifier: Apache-2.0
"""Every operator on a device with the default schedule, against the interpreter, in small sizes.

Integers are equal; floats agree within 32 units in the last place of the largest result.
"""

from __future__ import annotations

import inspect
from itertools import cycle

import numpy as np
import pytest
from helpers.run_operator import agree, floats, integers

from vdla.compiler import operators as ops
from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import Coding
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.target import Target

CPU = Target.named("x86-64-avx2")  # whose packed weights the quantised operators take
THREADS = cycle((1, 3, 16, 64))
X, Y = floats((3, 5, 6)), floats((3, 5, 6), seed=1)
POSITIVE = floats((4, 7), low=0.1)
IMAGE, WINDOW = floats((1, 4, 7, 6)), floats((6, 4, 3, 2), seed=1)
CHANNELS = [floats((4,), seed=n, low=0.5) for n in range(4)]
BLOCKS, DEPTHWISE = floats((1, 2, 6, 7, 8)), floats((2, 3, 3, 8), seed=1)
BITS = integers((4, 9), "uint8", low=0, high=2).astype(bool)
INDICES = integers((2, 3), low=-3, high=3)
STEPS = [floats((3, 2, 4), seed=1), floats((20, 4), seed=2), floats((20, 5), seed=3)]
GATED = [STEPS[0], floats((15, 4), seed=2), floats((15, 5), seed=3)]
PLAIN = [STEPS[0], floats((5, 4), seed=2), floats((5, 5), seed=3)]
SCALE = np.random.default_rng(0).uniform(2e-3, 8e-3, 16).astype(np.float32)

UNARY = """
absolute ceil celu cos elu erf exp floor gelu hard_sigmoid hard_swish identity isnan leaky_relu mish negative reciprocal
relu relu6 round selu sigmoid sign silu sin softplus softsign square tanh thresholded_relu softmax log_softmax argmax
argmin flatten mean sum max min l1_norm l2_norm sum_square logsumexp layer_norm rms_norm transpose
"""
BINARY = "add divide equal greater greater_equal less less_equal maximum minimum multiply subtract prelu"

CASES = {
    **{
        name: (getattr(ops, name), X)
        for name in UNARY.split()
    },
    **{name: (getattr(ops, name), POSITIVE) for name in ("log", "sqrt", "log_sum", "prod")},
    **{
        name: (getattr(ops, name), X, Y)
        for name in BINARY.split()
    },
    **{name: (getattr(ops, name), BITS, ~BITS[::-1]) for name in ("logical_and", "logical_or", "logical_xor")},
    "logical_not": (ops.logical_not, BITS),
    "power": (ops.power, POSITIVE, floats((7,), seed=1)),
    "remainder": (ops.remainder, integers((4, 9)), integers((9,), seed=1)),
    "where": (ops.where, X > 0, X, Y),
    "elementwise": (lambda x: ops.elementwise(x, lambda v: v * v + 1.0, "e"), X),
    "cast": (lambda x: ops.cast(x, "int8"), 100 * X),
    "clip": (lambda x: ops.clip(x, -1.0, 2.0), X),
    "average_pool": (lambda x: ops.average_pool(x, 3, 2, 1), IMAGE),
    "max_pool": (lambda x: ops.max_pool(x, (3, 2), 2, 1), IMAGE),
    "max_pool_indices": (lambda x: ops.max_pool_indices(x, 2, 2), IMAGE),
    "lp_pool": (lambda x: ops.lp_pool(x, 2), IMAGE),
    "global_average_pool": (ops.global_average_pool, IMAGE),
    "global_max_pool": (ops.global_max_pool, IMAGE),
    "global_lp_pool": (ops.global_lp_pool, IMAGE),
    "batch_norm": (ops.batch_norm, IMAGE, *CHANNELS),
    "instance_norm": (ops.instance_norm, IMAGE, *CHANNELS[:2]),
    "group_norm": (lambda *t: ops.group_norm(*t, 2), IMAGE, *CHANNELS[:2]),
    "conv2d": (lambda x, w: ops.conv2d(x, w, None, (2, 1), 1), IMAGE, WINDOW),
    "conv_transpose": (lambda x, w: ops.conv_transpose(x, w, None, 2), IMAGE, floats((4, 3, 3, 3))),
    "convolution": (lambda x, w: ops.convolution(x, w, None, 2), floats((1, 4, 9)), floats((6, 4, 3))),
    "depthwise_conv2d": (lambda x, w: ops.depthwise_conv2d(x, w, None, 1, 1), IMAGE, floats((4, 1, 3, 3))),
    "winograd_conv2d": (
        lambda x, w: ops.winograd_conv2d(x, w, None, 1, 8), floats((1, 3, 6, 6)),
        ops.pack_winograd(floats((8, 3, 3, 3)), 4, CPU),
    ),
    "dense": (ops.dense, floats((5, 7)), floats((9, 7), seed=1), floats((9,), seed=2)),
    "matmul": (ops.matmul, floats((2, 16, 24)), floats((24, 32), seed=1)),
    "to_blocked": (lambda x: ops.to_blocked(x, 8), IMAGE),
    "from_blocked": (lambda x: ops.from_blocked(x, 11), BLOCKS),
    "average_pool_in_blocks": (lambda x: ops.average_pool(x, 3, 2, 1, layout="NCHW8c"), BLOCKS),
    "max_pool_in_blocks": (lambda x: ops.max_pool(x, 3, 2, 1, layout="NCHW8c"), BLOCKS),
    "global_average_pool_in_blocks": (lambda x: ops.global_average_pool(x, "NCHW8c", 11), BLOCKS),
    "depthwise_conv2d_in_blocks": (
        lambda x, w: ops.depthwise_conv2d(x, w, None, 1, 1, layout="NCHW8c"), BLOCKS, DEPTHWISE,
    ),
    "qglobal_average_pool": (
        lambda x: ops.qglobal_average_pool(x, "NCHW8c", 11, 0.04, 5, 9, "int8"),
        integers((1, 2, 4, 4, 8), "uint8", low=0, high=255),
    ),
    "broadcast_to": (lambda x: ops.broadcast_to(x, (4, 3, 5, 6)), X),
    "combine_elements": (lambda x, y: ops.combine_elements("f", lambda a, b: a * b, [x, y], "combined"), X, Y),
    "concat": (lambda x, y: ops.concat([x, y], 1), X, Y),
    "split": (lambda x: tuple(ops.split(x, 2, num_outputs=2)), X),
    "slice": (lambda x: ops.slice(x, [5, 1], [0, 3], [2, 1], [-2, 1]), X),
    "pad": (lambda x: ops.pad(x, (1, 0, 2, 0, 1, 1), mode="reflect"), X),
    "tile": (lambda x: ops.tile(x, (1, 2, 2)), X),
    "reshape": (lambda x: ops.reshape(x, (6, 15)), X),
    "squeeze": (ops.squeeze, floats((1, 4, 1))),
    "unsqueeze": (lambda x: ops.unsqueeze(x, (0, 2)), X),
    "depth_to_space": (lambda x: ops.depth_to_space(x, 2), IMAGE),
    "space_to_depth": (lambda x: ops.space_to_depth(x, 2), floats((1, 2, 4, 6))),
    "gather": (ops.gather, X, INDICES),
    "gather_elements": (ops.gather_elements, floats((3, 4)), INDICES),
    "gather_nd": (ops.gather_nd, floats((3, 4, 2)), integers((2, 2), low=0, high=3)),
    "one_hot": (lambda i: ops.one_hot(i, 4, 2, -1), INDICES),
    "resize_linear": (lambda x: ops.resize_linear(x, sizes=(1, 4, 11, 9)), IMAGE),
    "resize_nearest": (lambda x: ops.resize_nearest(x, sizes=(1, 4, 11, 4)), IMAGE),
    "lstm": (ops.lstm, *STEPS),
    "gru": (ops.gru, *GATED),
    "rnn": (ops.rnn, *PLAIN),
    "qadd": (
        lambda a, b: ops.qadd(a, b, (3, 5), 0.01, 3, 7, 100, "int8"),
        *(integers((2, 9), "uint8", n, 0, 255) for n in (0, 1)),
    ),
}  # fmt: skip


def quantised(name: str):
    """A quantised operator and its arrays, packed for a CPU."""
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 255, (1, 8, 5, 6), np.uint8)
    weight, bias = rng.integers(-128, 127, (16, 8, 3, 3), np.int8), rng.integers(-500, 500, 16, np.int32)
    layout = "NCHW8c" if name.endswith("in blocks") else "NCHW"
    match name:
        case "bitserial_dense":
            packed = ops.pack_bitserial_dense(rng.integers(-2, 2, (16, 33), np.int8), 2, Coding.SIGNED, CPU)
            x = rng.integers(0, 4, (3, 33), np.uint8)
            return lambda a, w: ops.bitserial_dense(a, w, CPU, 2, Coding.SIGNED, 16), x, packed
        case "qdense":
            packed = ops.pack_qdense(weight[:, :, 0, 0], SCALE, CPU, bias, 7, "uint8")
            operator = lambda *t: ops.qdense(*t, CPU, 16, 12, largest_sum=packed.largest_sum)  # noqa: E731
            return operator, pixels[0, :, :, 0].T.copy(), packed.weight, packed.bias, packed.scale
        case "qconv2d" | "qconv2d_in_blocks":
            operator, packed = ops.qconv2d, ops.pack_qconv2d(weight, SCALE, CPU, bias, 7, "uint8")
            extra = {"out_channels": 16, "layout": layout}
        case _:
            operator, extra = ops.qdepthwise_conv2d, {"kernel_shape": (3, 3), "layout": layout}
            taps = (weight[:8, :1], SCALE[:8], CPU, bias[:8], 7, "uint8")
            packed = ops.pack_qdepthwise_conv2d(*taps, layout=layout)
    options = {"x_zero_point": 7, "y_zero_point": 12, "pads": 1, "largest_sum": packed.largest_sum, **extra}
    image = pixels if layout == "NCHW" else np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)[:, None])
    return lambda *t: operator(*t, CPU, **options), image, packed.weight, packed.bias, packed.scale


QUANTISED = (
    "bitserial_dense",
    "qdense",
    "qconv2d",
    "qdepthwise_conv2d",
    "qconv2d_in_blocks",
    "qdepthwise_conv2d_in_blocks",
)
HOST = ("plan_convolution", "same_pads", "simplest_ratio", *(name for name in ops.__all__ if name.startswith("pack_")))
SHORT = ["softmax", "argmax", "conv2d", "matmul", "where", "gather"]
BATCH = 16  # operators in one program: building one takes longer than a kernel


def batches():
    """All operators, many in one program; a few run in the short suite too."""
    found = [*CASES, *QUANTISED]
    parts = [found[at : at + BATCH] for at in range(0, len(found), BATCH)]
    some = pytest.param(SHORT, id="some", marks=pytest.mark.short)
    return [some, *(pytest.param(part, id=part[0], marks=[pytest.mark.long, pytest.mark.sampled]) for part in parts)]


@pytest.mark.parametrize("names", batches())
def test_operators_on_the_device(names: list[str], build_grid):
    tensors, arrays, outputs = [], {}, []
    for name in names:
        operator, *given = quantised(name) if name in QUANTISED else CASES[name]
        own = {f"{name}_{n}": array for n, array in enumerate(given)}
        inputs = [te.placeholder(array.shape, str(array.dtype), key) for key, array in own.items()]
        result = operator(*inputs)
        outputs += result if isinstance(result, tuple) else [result]
        tensors += inputs
        arrays |= own
    fn = te.create_function(tensors, outputs, "f")
    expected = interpret(fn, arrays)
    got = build_grid(grid_schedule(fn, threads=next(THREADS)).fn)(*map(np.ascontiguousarray, arrays.values()))
    for one, output in zip(got, outputs, strict=True):
        agree(one, expected[output.name], ulps=32)


def test_every_operator_has_a_case():
    names = {n for n in ops.__all__ if inspect.isfunction(getattr(ops, n)) and n not in HOST}
    assert {name.removesuffix("_in_blocks") for name in (*CASES, *QUANTISED)} == names
