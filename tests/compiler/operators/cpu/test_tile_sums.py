# SPDX-License-Identifier: Apache-2.0
"""Kernels prefetch the weights of the next tile of channels, unless those of a tile are many."""

import numpy as np
import pytest
from helpers.run_operator import function_of

from vdla.compiler import ir
from vdla.compiler.lowering import lower
from vdla.compiler.operators import conv2d, pack_conv2d, pack_qconv2d, pack_winograd, qconv2d, winograd_conv2d
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import TARGETS

AVX512, AVX2 = TARGETS["x86-64-avx512"], TARGETS["x86-64-avx2"]


def prefetched(operator, *arrays, target=AVX512):
    """The buffers that the kernel of an operator prefetches."""
    fn, _ = function_of(operator, *arrays)
    lowered = lower(default_schedule(fn, target).fn, target)
    return {stmt.buffer for stmt in ir.walk(lowered.body) if isinstance(stmt, ir.Prefetch)}


def floats_kernel(channels, outputs, target=AVX512):
    lanes = target.lanes(4)
    x, weight = (
        np.zeros((1, channels // lanes, 7, 7, lanes), np.float32),
        np.zeros((outputs, channels, 1, 1), "float32"),
    )
    layouts = {"layout": f"NCHW{lanes}c", "weight_layout": f"OIHW{lanes}o"}
    packed = pack_conv2d(weight, target)
    return prefetched(lambda a, w: conv2d(a, w, target=target, **layouts), x, packed, target=target)


@pytest.mark.parametrize(
    "channels, outputs, expected",
    [(160, 320, {"b"}), (64, 64, set()), (4096, 64, set())],
    ids=["many_weights", "few_weights", "a_tile_of_many_weights"],
)
def test_convolutions_prefetch_many_weights_in_small_tiles(channels, outputs, expected):
    assert floats_kernel(channels, outputs) == expected


def test_short_steps_do_not_prefetch():
    assert floats_kernel(160, 320, AVX2) == set()


def test_winograd_convolutions_prefetch():
    x, weight = np.zeros((1, 4, 8, 8, 16), np.float32), np.zeros((64, 64, 3, 3), np.float32)
    packed = pack_winograd(weight, 2, AVX512)
    assert prefetched(lambda a, w: winograd_conv2d(a, w, pads=1, tile=2, layout="NCHW16c"), x, packed) == {"b"}


def test_quantised_convolutions_prefetch_before_their_intrinsic():
    x, weight = np.zeros((1, 20, 7, 7, 16), np.uint8), np.zeros((640, 320, 1, 1), np.int8)
    packed = pack_qconv2d(weight, np.float32(1), AVX512)
    arrays = x, packed.weight, packed.bias, packed.scale
    assert prefetched(lambda *t: qconv2d(*t, AVX512, layout="NCHW16c"), *arrays) == {"b"}
