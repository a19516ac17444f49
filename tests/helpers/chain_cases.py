# SPDX-License-Identifier: Apache-2.0
"""Random chains of small operators, with the results of every step by the naive model.

Configuration and seed replay a chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers import reference
from helpers.template_cases import Draw
from vdla.compiler.templates import Chain, ChainStep, Operator, conv2d, depthwise_conv2d, pool2d, residual_add
from vdla.hardware.config import Config

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ChainCase:
    """A chain, its packed inputs, and the plain results of its outputs.

    `constants` are the operands of each step that follow the activations.
    """

    chain: Chain
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    plain: Mapping[str, Array]
    constants: Mapping[str, tuple[Any, ...]]


@dataclass
class _Builder:
    draw: Draw
    steps: list[ChainStep] = field(default_factory=list)
    plain: dict[str, Array] = field(default_factory=dict)  # of every tensor
    constants: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)  # whether a tensor is in blocks of inputs, results or both
    used: set[str] = field(default_factory=set)

    def add(self, operator: Operator, tensors: dict[str, str], constants: tuple[Any, ...], result: Array) -> None:
        name = f"s{len(self.steps)}"
        output = f"{name}.y"
        self.steps.append(ChainStep(name, operator, tensors | {"output": output}))
        self.constants[name], self.plain[output] = constants, result
        self.used |= set(tensors.values())
        self.blocks[output] = "out"

    def requantised(self, sums: Array) -> tuple[tuple[Any, ...], Array, dict[str, Any]]:
        options = {"zero_point": 0, "activation": "relu" if self.draw.chance(0.5) else "none"}
        bias, factor = self.draw.scale(sums.shape[1], sums)
        result = self.draw.finish(sums, bias, factor, {"floor": None, "ceiling": None, **options})
        return (bias, factor), result, {"activation": options["activation"]}


def chain_case(config: Config, seed: int, steps: int = 5) -> ChainCase:
    """A chain of convolutions, depthwise ones, pools and additions from one image."""
    draw = Draw(config, seed)
    build = _Builder(draw)
    height, width, batch = draw.integer(5, 12), draw.integer(5, 12), draw.integer(1, 2)
    same = config.block_in == config.block_out
    build.plain["x"] = draw.elements((batch, draw.channels(2), height, width), config.inp_bits)
    build.blocks["x"] = "in"
    for _ in range(steps):
        _random_step(build, config, same)
    outputs = [step.tensor("output") for step in build.steps if step.tensor("output") not in build.used]
    outputs += [t for t in build.plain if t in build.used and t != "x" and draw.chance(0.2)]
    chain = Chain(config, f"chain{seed}", tuple(build.steps), tuple(outputs))
    inputs = chain.pack_input("x", build.plain["x"])
    for step in build.steps:
        inputs |= chain.pack_constants(step.name, *build.constants[step.name])
    expected = {tensor: build.plain[tensor] for tensor in outputs}
    return ChainCase(chain, inputs, expected, build.plain, build.constants)


def _random_step(build: _Builder, config: Config, same: bool) -> None:
    draw = build.draw
    tensors = list(build.plain)
    source = tensors[-1] if draw.chance(0.7) else tensors[draw.integer(0, len(tensors) - 1)]
    data = build.plain[source]
    if not same and build.blocks[source] == "out":
        kinds = ["depthwise", "pool", "add"]
    else:
        kinds = ["conv"] if not same else ["conv", "conv", "add", "depthwise", "pool"]
    if source == "x" and not same:
        kinds = ["conv"]
    others = [t for t in tensors if build.plain[t].shape == data.shape and build.blocks[t] == build.blocks[source]]
    match kinds[draw.integer(0, len(kinds) - 1)]:
        case "conv":
            _conv(build, config, source, data)
        case "add":
            _add(build, config, source, others[draw.integer(0, len(others) - 1)])
        case "depthwise":
            _depthwise(build, config, source, data)
        case _:
            _pool(build, config, source, data)


def _shape(data: Array) -> dict[str, int]:
    batch, _, height, width = data.shape
    return {"batch": batch, "height": height, "width": width}


def _conv(build: _Builder, config: Config, source: str, data: Array) -> None:
    draw = build.draw
    kernel, pads = ((3, 3), (1, 1)) if draw.chance(0.6) else ((1, 1), (0, 0))
    stride = 2 if min(data.shape[2:]) > 3 and draw.chance(0.3) else 1
    channels = data.shape[1] if draw.chance(0.5) else draw.channels(2)
    zero = draw.integer(-3, 3) if draw.chance(0.2) else 0
    weight = draw.elements((channels, data.shape[1], *kernel), config.wgt_bits)
    sums = reference.conv2d(data, weight, (stride, stride), pads, (1, 1), zero)
    constants, result, options = build.requantised(sums)
    operator = conv2d(
        config, in_channels=data.shape[1], out_channels=channels, kernel=kernel, strides=stride, pads=pads,
        input_zero_point=zero, packing="channels", chained=draw.chance(0.7), virtual_threads=draw.integer(1, 2),
        **_shape(data), **options,
    )  # fmt: skip
    build.add(operator, {"data": source}, (weight, *constants), result)


def _depthwise(build: _Builder, config: Config, source: str, data: Array) -> None:
    weight = build.draw.elements((data.shape[1], 1, 3, 3), config.wgt_bits)
    constants, result, options = build.requantised(reference.depthwise_conv2d(data, weight, (1, 1), (1, 1)))
    chained = build.draw.chance(0.7)
    operator = depthwise_conv2d(
        config, channels=data.shape[1], kernel=3, pads=1, chained=chained, **_shape(data), **options
    )
    build.add(operator, {"data": source}, (weight, *constants), result)


def _pool(build: _Builder, config: Config, source: str, data: Array) -> None:
    sums = np.maximum(reference.max_pool2d(data, (3, 3), (2, 2), (1, 1)), build.draw.low)
    constants, result, options = build.requantised(sums)
    operator = pool2d(
        config, kind="max", channels=data.shape[1], kernel=3, strides=2, pads=1, **_shape(data), **options
    )
    build.add(operator, {"data": source}, constants, result)


def _add(build: _Builder, config: Config, source: str, other: str) -> None:
    factors = build.draw.integer(1, 400), build.draw.integer(-400, 400)
    data = build.plain[source]
    constants, result, options = build.requantised(reference.residual_add(data, build.plain[other], factors))
    operator = residual_add(config, channels=data.shape[1], factors=factors, **_shape(data), **options)
    build.add(operator, {"data": source, "other": other}, constants, result)
