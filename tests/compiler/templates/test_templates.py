# SPDX-License-Identifier: Apache-2.0
"""Every template on many machines: verified, simulated, equal to the naive model bit for bit."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import reference
from helpers.random_config import random_config
from helpers.seeds import seeds
from helpers.template_cases import CASES

from vdla.compiler.operators.vdla.operator import Operator, TemplateError, shared_operators
from vdla.compiler.operators.workloads import Workload, workloads
from vdla.compiler.templates.channelwise import depthwise_conv2d, pool2d
from vdla.compiler.templates.conv2d import conv2d
from vdla.compiler.templates.conv2d_transpose import conv2d_transpose
from vdla.compiler.templates.products import batched_matmul
from vdla.hardware.config import Config
from vdla.simulator.simulate import simulate
from vdla.simulator.timing import time_program

PYNQ, TINY = Config.preset("pynq_z1"), Config.preset("tiny")
MACHINES = {
    "pynq_z1": PYNQ,
    "tiny": TINY,
    "int4": Config.preset("int4"),
    "batch4": Config.preset("batch4"),
    "through_acc": replace(PYNQ, block_in=32, axi_bits=128),  # vectors are narrower than entries of the input buffer
    "wide_out": replace(PYNQ, block_out=64, batch=2, axi_bits=256),
    "mixed_bits": replace(PYNQ, inp_bits=8, wgt_bits=2, block_in=64),
    "narrow": replace(PYNQ, inp_kib=2, wgt_kib=8, acc_kib=4, out_kib=2, scl_kib=1, uop_kib=1, axi_bits=32),
}


@pytest.mark.sampled
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("operator", CASES)
def test_template_programs_equal_the_naive_model(operator: str, machine: str) -> None:
    for seed in (1, 2, 3) if operator == "elementwise" else (1, 2):
        CASES[operator](MACHINES[machine], seed).check()


@pytest.mark.parametrize("operator", CASES)
def test_interpreted_loop_nests_equal_the_naive_model(operator: str) -> None:
    CASES[operator](TINY, 3).check(by_interpreter=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(range(1000, 1040), 3))
@pytest.mark.parametrize("operator", CASES)
def test_random_operators_on_random_machines(operator: str, seed: int) -> None:
    config = random_config(np.random.default_rng(seed), largest_block=32)
    try:
        case = CASES[operator](config, seed)
    except TemplateError as error:
        assert "must fit the buffers" in str(error)
        return
    case.check(by_interpreter=seed % 5 == 0)


# --- workloads ------------------------------------------------------------------------------------


def _workloads(operator: str) -> list[Workload]:
    return [layer for layer in workloads().values() if layer.operator == operator]


def _shape(layer: Workload) -> dict[str, int]:
    return {key: getattr(layer, key) for key in ("batch", "height", "width", "kernel", "strides", "pads")}


def _over_bound(operator: Operator, total: int, steps: float) -> float:
    """Cycles over the lower bound: iterations, or each byte transferred once."""
    nbytes = sum(t.nbytes for t in operator.program.tensors if t.name in ("data", "weight", "output"))
    return total / max(steps, nbytes / operator.config.axi_bytes)


@pytest.mark.slow
@pytest.mark.parametrize("layer", _workloads("depthwise_conv2d"), ids=lambda layer: layer.name)
def test_mobilenet_is_exact_and_near_the_bound(layer: Workload) -> None:
    rng, shape, channels = np.random.default_rng(7), _shape(layer), layer.in_channels
    kernel, strides, pads = ((shape[k],) * 2 for k in ("kernel", "strides", "pads"))
    operator = depthwise_conv2d(PYNQ, channels=channels, activation="relu", **shape)
    data = rng.integers(-128, 128, (1, channels, shape["height"], shape["width"]))
    weight, bias = rng.integers(-128, 128, (channels, 1, *kernel)), rng.integers(-999, 999, channels)
    factor = rng.uniform(1e-4, 1e-3, channels)
    result = simulate(operator.program, operator.pack(data, weight, bias, factor))
    sums = reference.depthwise_conv2d(data, weight, strides, pads)
    np.testing.assert_array_equal(operator.unpack(result.outputs), reference.requantise(sums, bias, factor, 0, 0, 127))
    assert _over_bound(operator, result.statistics.total_cycles, operator.macs / 16) < 1.12


@pytest.mark.slow
@pytest.mark.parametrize("layer", _workloads("conv2d_transpose"), ids=lambda layer: layer.name)
def test_dcgan_is_exact_and_near_the_bound(layer: Workload) -> None:
    rng, shape = np.random.default_rng(7), _shape(layer)
    inner, outer = layer.in_channels, layer.out_channels
    kernel, strides, pads = ((shape[k],) * 2 for k in ("kernel", "strides", "pads"))
    operator = conv2d_transpose(PYNQ, in_channels=inner, out_channels=outer, **shape)
    data = rng.integers(-128, 128, (1, inner, shape["height"], shape["width"]))
    weight = rng.integers(-128, 128, (inner, outer, *kernel))
    result = simulate(operator.program, operator.pack(data, weight, multiplier=1e-3))
    sums = reference.conv2d_transpose(data, weight, strides, pads, (0, 0))
    expected = reference.requantise(sums, np.zeros(outer, np.int64), np.full(outer, 1e-3), 0, -128, 127)
    np.testing.assert_array_equal(operator.unpack(result.outputs), expected)
    assert _over_bound(operator, result.statistics.total_cycles, operator.macs / 256) < 1.03


def test_pads_are_one_value_one_for_each_direction_or_one_for_each_side() -> None:
    shape = {"batch": 1, "height": 9, "width": 7, "in_channels": 16, "out_channels": 16, "kernel": 3}
    hashes = {conv2d(PYNQ, pads=pads, **shape).program.hash for pads in (1, (1, 1), [1, 1, 1, 1], np.ones(4, int))}
    assert len(hashes) == 1
    operator = conv2d(PYNQ, pads=(2, 0, 1, 1), raw=True, **shape)
    rng = np.random.default_rng(0)
    data, weight = rng.integers(-128, 128, (1, 16, 9, 7)), rng.integers(-128, 128, (16, 16, 3, 3))
    found = operator.unpack(simulate(operator.program, operator.pack(data, weight)).outputs)
    np.testing.assert_array_equal(found, reference.conv2d(data, weight, (1, 1), (2, 0, 1, 1)))
    assert found.shape == (1, 16, 10, 6)


def test_excluding_padding_from_an_average_costs_a_few_instructions() -> None:
    shape = {"batch": 1, "height": 28, "width": 28, "channels": 16, "kernel": 3, "pads": 1}
    counted = pool2d(PYNQ, kind="average", **shape).program
    left_out = pool2d(PYNQ, kind="average", count_include_pad=False, **shape).program
    assert time_program(left_out).total_cycles < 1.1 * time_program(counted).total_cycles


def test_tiles_do_not_wait_for_the_lanes_of_borders() -> None:
    """The scale buffer has 64 entries, not the 117 of all classes of these channels."""
    shape = {"batch": 1, "height": 9, "width": 9, "channels": 200, "kernel": 3, "pads": 1}
    counted, left_out = (pool2d(PYNQ, kind="average", count_include_pad=count, **shape) for count in (True, False))
    assert left_out.problem.lanes * left_out.problem.out_blocks == 117 > PYNQ.scl_depth
    cycles = [time_program(operator.program).total_cycles for operator in (counted, left_out)]
    assert cycles[1] < 1.1 * cycles[0]


def test_padding_of_a_grouped_convolution_is_skipped_where_that_pays() -> None:
    """Many small images have too many borders for the few terms of a group."""
    options = {"batch": 1, "kernel": 3, "pads": 1, "input_zero_point": -3}
    large = conv2d(PYNQ, in_channels=64, out_channels=64, groups=4, height=14, width=14, **options)
    small = conv2d(PYNQ, in_channels=256, out_channels=256, groups=32, height=7, width=7, **options)
    assert (str(large.layouts["scale"]), str(small.layouts["scale"])) == ("GCHW16c", "GC16c")
    assert (large.problem.cuts, large.problem.breaks) == ((2, 2), (3, 3))
    padded = 4 * 14 * 14 * 9
    cycles = time_program(large.program).total_cycles
    assert large.problem.least_cycles < padded
    assert large.problem.least_cycles < cycles < 1.1 * padded
    assert time_program(small.program).total_cycles < 1.25 * small.problem.least_cycles


def test_layouts_are_named_and_the_names_give_the_shapes() -> None:
    shape = {"batch": 1, "height": 4, "width": 6, "kernel": 3}
    operators = {
        conv2d(PYNQ, in_channels=40, out_channels=24, **shape): ("NCHW1n16c", "OIHW16o16i", "C16c", "NCHW1n16c"),
        conv2d(PYNQ, in_channels=3, out_channels=24, **shape): ("NPHW1n16p", "OP16o16p", "C16c", "NCHW1n16c"),
        conv2d(PYNQ, in_channels=32, out_channels=34, groups=2, **shape): (
            "NGCHW1n16c", "GOIHW16o16i", "GC16c", "NGCHW1n16c",
        ),
        batched_matmul(PYNQ, batch=2, rows=3, depth=20, columns=5): (
            "GCR1r16c", "GCR16r16c", "GC16c", "NGCHW1n16c",
        ),
        conv2d_transpose(PYNQ, in_channels=3, out_channels=24, strides=2, input_zero_point=1, **shape): (
            "NCHW1n16c", "OI2h2wHW16o16i", "C2h2w16c", "NCH2hW2w1n16c",
        ),
        depthwise_conv2d(PYNQ, channels=24, **shape): ("NCHW1n16c", "CK16k16c", "C16c", "NCHW1n16c"),
    }  # fmt: skip
    for operator, names in operators.items():
        tensors = ("data", "other" if "other" in operator.layouts else "weight", "scale", "output")
        assert tuple(str(operator.layouts[name]) for name in tensors) == names
        for name, layout in zip(tensors, names, strict=True):
            dimensions = re.findall(r"[A-Z]|\d+[a-z]", layout)
            sizes = operator.program.tensor(name).shape
            assert len(dimensions) == len(sizes)
            assert all(d.isalpha() or int(d[:-1]) == size for d, size in zip(dimensions, sizes, strict=True))


def test_blocks_are_padded_with_zeros_whatever_the_padding_of_windows_holds() -> None:
    """The fill of a maximum, -128, is no element of what the host packs."""
    pool = pool2d(TINY, kind="max", batch=1, height=3, width=4, channels=5, kernel=3, pads=1)
    packed = pool.pack(np.ones((1, 5, 3, 4), int))["data"]
    assert packed.shape == (1, 2, 3, 4, 1, 4)
    assert packed[0, 0].min() == packed[0, 1, ..., 0].min() == 1
    assert not packed[0, 1, ..., 1:].any()


def test_groups_of_one_result_are_sections_without_lanes() -> None:
    rng = np.random.default_rng(0)
    operator = conv2d(PYNQ, batch=2, height=1, width=2, in_channels=272, out_channels=17, kernel=1, groups=17, raw=True)
    assert operator.description.startswith("sections of 1 of 17 groups")
    data, weight = rng.integers(-128, 128, (2, 272, 1, 2)), rng.integers(-128, 128, (17, 16, 1, 1))
    found = operator.unpack(simulate(operator.program, operator.pack(data, weight)).outputs)
    exact = np.einsum("ngcw,gc->ngw", data.reshape(2, 17, 16, 2), weight[:, :, 0, 0])
    np.testing.assert_array_equal(found[:, :, 0], exact)


def test_patches_are_chosen_where_channels_do_not_fit() -> None:
    config = replace(PYNQ, wgt_kib=1)  # 4 entries, fewer than the taps of a kernel
    rng = np.random.default_rng(0)
    operator = conv2d(config, batch=1, height=5, width=5, in_channels=20, out_channels=16, kernel=3, raw=True)
    assert operator.description.startswith("patches")
    data, weight = rng.integers(-128, 128, (1, 20, 5, 5)), rng.integers(-128, 128, (16, 20, 3, 3))
    found = operator.unpack(simulate(operator.program, operator.pack(data, weight)).outputs)
    np.testing.assert_array_equal(found, reference.conv2d(data, weight, (1, 1), (0, 0)))


@pytest.mark.parametrize(
    ("options", "layout"),
    [
        ({"kernel": 1, "strides": 2}, "patches"),
        ({"kernel": 1, "strides": (1, 3)}, "patches"),
        ({"kernel": (1, 2), "strides": 2}, "patches"),
        ({"kernel": 2, "strides": 2}, "channels"),
        ({"kernel": (1, 3), "strides": 2}, "channels"),
        ({"kernel": 1, "strides": 2, "pads": 1}, "channels"),
        ({"kernel": 1, "strides": 2, "chained": True}, "channels"),
    ],
)
def test_patches_are_chosen_where_windows_lie_apart(options: dict[str, Any], layout: str) -> None:
    rng = np.random.default_rng(0)
    operator = conv2d(TINY, batch=1, height=5, width=6, in_channels=8, out_channels=4, raw=True, **options)
    assert operator.description.startswith(layout)
    data = rng.integers(-8, 8, (1, 8, 5, 6))
    weight = rng.integers(-8, 8, (4, 8, *np.broadcast_to(options["kernel"], 2)))
    found = operator.unpack(simulate(operator.program, operator.pack(data, weight)).outputs)
    strides, pads = (tuple(np.broadcast_to(options.get(k, d), 2).tolist()) for k, d in (("strides", 1), ("pads", 0)))
    np.testing.assert_array_equal(found, reference.conv2d(data, weight, strides, pads))


def test_patches_of_a_padded_image_with_a_zero_point_equal_channels() -> None:
    rng = np.random.default_rng(0)
    data, weight = rng.integers(-8, 8, (1, 8, 4, 5)), rng.integers(-8, 8, (4, 8, 3, 3))
    shape = {"batch": 1, "height": 4, "width": 5, "in_channels": 8, "out_channels": 4, "kernel": 3, "pads": 1}
    found = []
    for packing in ("channels", "patches"):
        operator = conv2d(TINY, packing=packing, input_zero_point=3, **shape)
        arrays = operator.pack(data, weight, np.zeros(4, np.int32), 1 / 16)
        found.append(operator.unpack(simulate(operator.program, arrays).outputs))
    np.testing.assert_array_equal(*found)


def test_the_examples_of_the_template_page_run(root: Path) -> None:
    page = (root / "docs" / "templates.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 9
    exec(compile("\n".join(blocks), "docs/templates.md", "exec"), {})


def test_equal_calls_share_an_operator_in_a_context_and_only_there() -> None:
    def layer(kernel: int = 1, **options: object) -> Operator:
        return conv2d(TINY, batch=1, height=4, width=4, in_channels=4, out_channels=4, kernel=kernel, **options)

    with shared_operators():
        one, other = layer(zero_point=1), layer(zero_point=2)
        assert layer(zero_point=np.int64(1)) is one
        assert other is not one
        with pytest.raises(TemplateError):
            layer(kernel=0)
    assert layer(zero_point=1) is not one


def test_options_without_a_hash_are_not_shared() -> None:
    with shared_operators(), pytest.raises(TemplateError):
        conv2d(TINY, batch=1, height=4, width=4, in_channels=4, out_channels=4, kernel=[[1], [1]])
