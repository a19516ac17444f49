# SPDX-License-Identifier: Apache-2.0
"""Small programs of every template on several machines, for tests and the mutants benchmark.

Each case needs several tiles or virtual threads on some machine; its channel counts are not
multiples of the blocks. Names are unique: case, threads, machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from vdla.compiler.templates import (
    Operator,
    batched_matmul,
    conv2d,
    conv2d_transpose,
    dense,
    depthwise_conv2d,
    leaky_relu,
    pool2d,
    rescale,
    residual_add,
)
from vdla.hardware.config import Config, Dram
from vdla.hardware.program import Program

PYNQ = Config.preset("pynq_z1")

_SLOW = Dram(read_latency=120, beat_cycles=2)
# Small buffers need several tiles for small shapes; slow memory fills the queues.
MACHINES: tuple[Config, ...] = (
    PYNQ,
    replace(PYNQ, name="narrow", inp_kib=2, wgt_kib=8, acc_kib=4, out_kib=2, dram=_SLOW),
    Config.preset("tiny"),
    Config.preset("int4"),
    Config.preset("batch4"),
)


@dataclass(frozen=True, slots=True)
class _Case:
    """A template with its options."""

    name: str
    template: Callable[..., Operator]
    options: Mapping[str, Any]


def _image(channels: str, batch: int, height: int, width: int, count: int) -> dict[str, int]:
    return {"batch": batch, "height": height, "width": width, channels: count}


CASES: tuple[_Case, ...] = (
    _Case("conv3x3", conv2d, {**_image("in_channels", 1, 7, 6, 20), "out_channels": 24, "kernel": 3, "pads": 1}),
    _Case(
        "conv1x1_stride2",
        conv2d,
        {**_image("in_channels", 1, 8, 8, 33), "out_channels": 17, "kernel": 1, "strides": 2},
    ),
    _Case(
        "conv_dilated_relu",
        conv2d,
        {**_image("in_channels", 2, 7, 9, 5), "out_channels": 9, "kernel": (3, 2), "dilations": 2, "pads": (2, 1)}
        | {"activation": "relu", "zero_point": -1, "input_zero_point": 1},
    ),
    _Case(
        "conv_patches",
        conv2d,
        {**_image("in_channels", 1, 9, 9, 3), "out_channels": 8, "kernel": 5, "strides": 2, "pads": 2},
    ),
    _Case("conv_raw", conv2d, {**_image("in_channels", 1, 4, 5, 18), "out_channels": 8, "kernel": 1, "raw": True}),
    _Case(
        "conv_grouped",
        conv2d,
        {**_image("in_channels", 1, 5, 6, 40), "out_channels": 36, "kernel": 3, "pads": 1, "groups": 2},
    ),
    _Case("batched_matmul", batched_matmul, {"batch": 3, "rows": 7, "depth": 20, "columns": 18}),
    _Case("dense", dense, {"rows": 5, "in_features": 70, "out_features": 37}),
    _Case(
        "transpose4x4",
        conv2d_transpose,
        {**_image("in_channels", 1, 3, 4, 18), "out_channels": 9, "kernel": 4, "strides": 2, "pads": 1},
    ),
    _Case("depthwise3x3", depthwise_conv2d, {**_image("channels", 1, 7, 6, 19), "kernel": 3, "pads": 1}),
    _Case(
        "max_pool",
        pool2d,
        {"kind": "max", **_image("channels", 1, 8, 7, 17), "kernel": 3, "strides": 2, "pads": 1},
    ),
    _Case("average_pool", pool2d, {"kind": "average", **_image("channels", 1, 6, 6, 17), "kernel": 2, "strides": 2}),
    _Case(
        "leaky_relu",
        leaky_relu,
        {**_image("channels", 1, 5, 6, 21), "factors": (10, 1), "input_zero_point": 3, "floor": -5},
    ),
    _Case("rescale", rescale, {**_image("channels", 1, 5, 6, 21), "input_zero_point": 3, "zero_point": -2}),
    _Case("global_pool", pool2d, {"kind": "average", **_image("channels", 1, 17, 16, 19), "kernel": (17, 16)}),
    _Case(
        "residual_add",
        residual_add,
        {**_image("channels", 1, 5, 6, 21), "factors": (3, 2), "activation": "relu"},
    ),
)


def _name(case: _Case, threads: int, config: Config) -> str:
    return f"{case.name}_{threads}t_{config.name}"


_CHOICES: Mapping[str, tuple[_Case, int, Config]] = {
    _name(*choice): choice
    for choice in (
        *((case, 2, config) for config in MACHINES for case in CASES),
        *((CASES[0], 1, config) for config in MACHINES),
    )
}
NAMES = tuple(_CHOICES)
"""Every case on every machine with two virtual threads, and the first case with one."""


@cache
def operator(name: str) -> Operator:
    """The operator of a name of NAMES."""
    case, threads, config = _CHOICES[name]
    return case.template(config, name=name, virtual_threads=threads, **case.options)


def operators() -> tuple[Operator, ...]:
    """The operators of all names, in order."""
    return tuple(operator(name) for name in NAMES)


def programs() -> list[Program]:
    """The compiled programs of `operators()`."""
    return [one.program for one in operators()]
