# SPDX-License-Identifier: Apache-2.0
"""Operators with their schedules on a device, against the interpreter: extents that no tile
divides, batches, strides, dilation, padding, groups, and devices with few threads.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.opencl_functions import needs_opencl
from helpers.run_operator import agree, floats, function_of, integers

from vdla.compiler import operators as ops
from vdla.compiler.interpret import interpret
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.operators.gpu.conv2d_schedule import Conv2dTiles
from vdla.compiler.target import GridLimits
from vdla.runtime.grid.opencl_devices import build_opencl

pytestmark = pytest.mark.usefixtures("plain_opencl")

DEVICES = {"default": GridLimits("default"), "small": GridLimits("small", threads=64, shared_bytes=16 * 1024)}


def check(build_grid, operator, *arrays, limits: GridLimits = DEVICES["default"], launches: int = 1) -> None:
    """Equal integers, floats within 32 units in the last place, in so many launches."""
    fn, (output,) = function_of(operator, *arrays)
    kernel = build_grid(grid_schedule(fn, limits).fn)
    expected = interpret(fn, dict(zip("abcdefgh", arrays, strict=False)))[output.name]
    agree(kernel(*arrays), expected, ulps=32)
    assert len(kernel.source.launches) == launches
    assert all(np.prod(launch.threads) <= limits.threads for launch in kernel.source.launches)


def conv(**options):
    return lambda x, w, *bias: ops.conv2d(x, w, *(bias or [None]), **options)


IMAGE = floats((2, 5, 11, 13))
CONVOLUTIONS = {
    "strides": (conv(strides=(2, 1), pads=1, dilations=(1, 2)), IMAGE, floats((7, 5, 3, 3), seed=1)),
    "bias": (conv(pads=(0, 1, 2, 1)), IMAGE, floats((9, 5, 3, 2), seed=1), floats((9,), seed=2)),
    "groups": (conv(groups=2, pads=1), integers((1, 6, 9, 8)), integers((10, 3, 3, 3), seed=1)),
    "int8": (conv(pads=1), integers((2, 6, 9, 9), "int8"), integers((20, 6, 3, 3), "int8", seed=1)),
    "half": (conv(strides=2), floats((1, 4, 9, 9), "float16"), floats((6, 4, 3, 3), "float16", seed=1)),
    "pointwise": (conv(strides=2), IMAGE, floats((33, 5, 1, 1), seed=1)),
    "depthwise": (
        lambda x, w: ops.depthwise_conv2d(x, w, None, 2, 1), floats((2, 3, 11, 9)), floats((6, 1, 3, 3), seed=1)
    ),
    "depthwise dilated": (
        lambda x, w: ops.depthwise_conv2d(x, w, None, 1, 2, 2), integers((2, 5, 7, 10)), integers((5, 1, 3, 3), seed=1)
    ),
}  # fmt: skip
PRODUCTS = {
    "odd": (ops.matmul, integers((2, 19, 37)), integers((2, 37, 21), seed=1)),
    "bias": (ops.dense, floats((20, 31)), floats((35, 31), seed=1), floats((35,), seed=2)),
    "int8": (ops.dense, integers((18, 70), "int8"), integers((50, 70), "int8", seed=1)),
}
ROWS = {
    "softmax": (ops.softmax, floats((5, 77))),
    "axis": (lambda x: ops.softmax(x, 1), floats((2, 7, 5, 6))),
    "one row": (ops.softmax, floats((130,))),
    "layer_norm": (ops.layer_norm, floats((6, 45)), floats((45,), seed=1), floats((45,), seed=2)),
    "rms_norm": (ops.rms_norm, floats((3, 5, 70)), floats((70,), seed=1)),
    "group_norm": (lambda *t: ops.group_norm(*t, 2), floats((2, 6, 5, 5)), floats((6,)), floats((6,), seed=2)),
    "batch_norm": (
        ops.batch_norm, floats((2, 3, 7, 7)), *(floats((3,), seed=n) for n in range(3)), floats((3,), low=1)
    ),
    "average_pool": (lambda x: ops.average_pool(x, 3, 2, 1), floats((2, 3, 9, 8))),
    "max_pool": (lambda x: ops.max_pool(x, (3, 2), 2, 1), floats((2, 3, 9, 8))),
}  # fmt: skip


def cases(**groups):
    """One case of each group is of the short suite."""
    found = []
    for group, named in groups.items():
        for position, (name, case) in enumerate(named.items()):
            marks = [pytest.mark.long, pytest.mark.sampled] if position else []
            found.append(pytest.param(*case[:1], case[1:], id=f"{group} {name}", marks=marks))
    return found


@pytest.mark.sampled
@pytest.mark.parametrize(("operator", "arrays"), cases(convolution=CONVOLUTIONS, product=PRODUCTS, rows=ROWS))
def test_schedules_equal_the_interpreter(operator, arrays: tuple, build_grid):
    check(build_grid, operator, *arrays)


@pytest.mark.long
@pytest.mark.parametrize("case", [CONVOLUTIONS["strides"], CONVOLUTIONS["depthwise"], PRODUCTS["odd"], ROWS["softmax"]])
def test_schedules_for_devices_with_few_threads(case: tuple, build_grid):
    check(build_grid, *case, limits=DEVICES["small"])


@needs_opencl
@pytest.mark.long
def test_a_convolution_as_an_implicit_product_of_overlapping_windows():
    fn, (output,) = function_of(conv(pads=1), IMAGE, floats((16, 5, 3, 3), seed=1))
    tiles = Conv2dTiles(
        blocks=1, rows=4, columns=8, thread_channels=4, thread_rows=1, thread_columns=2, depth=1, implicit=True
    )
    (block,) = (name for name in fn.buffers if name.endswith("_sum"))
    kernel = build_opencl(grid_schedule(fn, tiles={block: tiles}).fn)
    arrays = IMAGE, floats((16, 5, 3, 3), seed=1)
    agree(kernel(*arrays), interpret(fn, dict(zip("ab", arrays, strict=True)))[output.name], ulps=32)
    assert f"a_conv2d_pad_shared[{9 * 4 * 8}]" in kernel.source.text


def test_one_sum_of_several_groups(build_grid):
    check(build_grid, lambda x: ops.sum(x), integers((33, 1000)), launches=2)


def test_vectors_of_elements(build_grid):
    check(build_grid, lambda x, y: ops.relu(ops.multiply(x, y)), integers((128, 520)), integers((128, 520), seed=1))
