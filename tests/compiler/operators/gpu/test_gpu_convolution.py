# SPDX-License-Identifier: Apache-2.0
"""Schedules of convolutions for a grid: tiles, launches, shared memory. No device."""

from __future__ import annotations

import re

import pytest

from vdla.compiler import operators, te
from vdla.compiler.codegen.opencl import emit_opencl
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.operators.gpu.conv2d_schedule import Conv2dProblem, Conv2dTiles, schedule_conv2d
from vdla.compiler.operators.gpu.depthwise_schedule import DepthwiseProblem
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits, Target

LIMITS = GridLimits("a device", threads=256)
LANES_16 = Target.named("x86-64-avx512")  # plain weights are packed for its lanes
SMALL = GridLimits("a small device", threads=64, shared_bytes=16 * 1024)


def convolution(image=(1, 8, 14, 14), weight=(32, 8, 3, 3), dtype="float32", **options):
    x, w = te.placeholder(image, dtype, "x"), te.placeholder(weight, dtype, "w")
    given = {"pads": 1, "target": LANES_16, **options}
    return te.create_function([x, w], [operators.conv2d(x, w, name="c", **given)], "f")


def depthwise(image=(1, 6, 14, 14), multiplier=1, **options):
    x, w = te.placeholder(image, "float32", "x"), te.placeholder((image[1] * multiplier, 1, 3, 3), "float32", "w")
    return te.create_function([x, w], [operators.depthwise_conv2d(x, w, name="c", pads=1, **options)], "f")


def shared_bytes(source, itemsize: int) -> int:
    return itemsize * sum(int(n) for n in re.findall(r"__local \w+ \w+\[(\d+)\]", source.text))


def test_a_convolution_is_one_launch_that_pads_and_packs_on_the_way():
    """A window of 16 x 16 pixels and weights of 16 channels, for each of 8 input channels."""
    source = emit_opencl(grid_schedule(convolution(), LIMITS).fn, LIMITS)
    assert len(source.launches) == 1
    assert source.text.count("barrier(") == 1  # one step: nothing follows it
    assert shared_bytes(source, 4) == 4 * 8 * (16 * 16 + 9 * 16)


@pytest.mark.parametrize("limits", [LIMITS, SMALL])
@pytest.mark.parametrize("dtype", ["int8", "float64"])
def test_tiles_fit_the_device(limits: GridLimits, dtype: str):
    tiles = Conv2dProblem.of(Schedule(convolution((1, 64, 56, 56), (64, 64, 3, 3), dtype)), "c_sum", limits).default
    threads = tiles.threads(8 if dtype == "float64" else 16)
    assert threads["threadIdx.x"] * threads["threadIdx.y"] * threads["threadIdx.z"] <= limits.threads
    assert tiles.depth >= 1


@pytest.mark.long
def test_small_devices_compile_a_layer():
    source = emit_opencl(grid_schedule(convolution((1, 16, 28, 28), (32, 16, 3, 3)), SMALL).fn, SMALL)
    assert len(source.launches) == 1


def test_no_window_fits_a_device_without_shared_memory():
    none = GridLimits("none", shared_bytes=64)
    message = r"^conv2d on a grid: a window must fit 64 bytes of shared memory$"
    with pytest.raises(ScheduleError, match=message):
        assert Conv2dProblem.of(Schedule(convolution()), "c_sum", none).default
    assert len(emit_opencl(grid_schedule(convolution(), none).fn, none).launches) > 1


def test_channels_of_a_thread_must_divide_those_of_a_block():
    tiles = Conv2dTiles(blocks=1, rows=2, columns=14, thread_channels=3, thread_rows=1, thread_columns=1, depth=8)
    message = r"^conv2d on a grid: channels of a thread must divide \d+, got 3$"
    with pytest.raises(ScheduleError, match=message):
        schedule_conv2d(Schedule(convolution()), "c_sum", tiles)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "fn",
    [
        convolution(strides=(2, 1), dilations=(1, 2)),
        pytest.param(convolution((2, 8, 9, 9), (12, 4, 3, 3), groups=2), marks=pytest.mark.long),
        pytest.param(convolution((1, 5, 9, 10), (7, 5, 3, 3)), marks=pytest.mark.long),
        pytest.param(convolution(layout="NCHW", result_layout="NCHW16c", weight=(16, 8, 3, 3)), marks=pytest.mark.long),
    ],
    ids=["strides", "groups", "odd", "blocked"],
)
def test_convolutions_are_one_launch(fn):
    assert len(emit_opencl(grid_schedule(fn, LIMITS).fn, LIMITS).launches) == 1


@pytest.mark.parametrize("fn", [depthwise(), depthwise((2, 3, 11, 9), 2, strides=2)], ids=["plain", "multiplier"])
def test_a_depthwise_convolution_is_one_launch_with_a_halo(fn):
    source = emit_opencl(grid_schedule(fn, LIMITS).fn, LIMITS)
    assert len(source.launches) == 1
    assert source.text.count("barrier(") == 1


def test_channels_of_a_small_image_share_a_group():
    tiles = DepthwiseProblem.of(Schedule(depthwise((1, 64, 7, 7))), "c_sum", LIMITS).default
    assert (tiles.channels, tiles.rows, tiles.columns) == (2, 7, 7)


def test_halos_fit_the_shared_memory():
    tiles = DepthwiseProblem.of(Schedule(depthwise((1, 8, 56, 56))), "c_sum", GridLimits("s", 256, 2048)).default
    assert (tiles.rows + 2) * (tiles.columns + 2) * tiles.channels * 4 <= 1024
