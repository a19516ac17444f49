# SPDX-License-Identifier: Apache-2.0
"""Operators whose results are looked up in a table, chains of them, and products of activations."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.compiler import templates
from vdla.compiler.extensions import extend
from vdla.compiler.templates import Chain, ChainStep, TemplateError
from vdla.hardware.config import Config
from vdla.simulator.simulate import simulate

LUT = Path(__file__).parents[3] / "examples" / "look_up_table" / "lut.py"
Array = np.ndarray[Any, Any]


@cache
def machine(preset: str = "pynq_z1") -> Config:
    return extend(Config.preset(preset), str(LUT))


def integers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("preset", ["pynq_z1", "tiny", "batch4"])
def test_results_are_those_of_the_table(preset: str) -> None:
    config = machine(preset)
    x, table = integers(0, 2, 20, 5, 3), integers(1, 256)
    operator = templates.rescale(config, batch=2, height=5, width=3, channels=20, table=True)
    outputs = simulate(operator.program, operator.pack(x, table=table)).outputs
    assert np.array_equal(operator.unpack(outputs), table[x.astype(int) + 128])


def test_two_tables_in_a_chain_take_turns() -> None:
    """Many groups of channels of one pixel, which the order of operations mixes with the others."""
    config, shape = machine(), {"batch": 1, "height": 6, "width": 6}
    first = templates.depthwise_conv2d(config, **shape, channels=96, kernel=3, pads=1, table=True, chained=True)
    pool = templates.pool2d(config, **shape, channels=96, kind="average", kernel=6)
    point = {"batch": 1, "height": 1, "width": 1}
    second = templates.conv2d(
        config, **point, in_channels=96, out_channels=96, kernel=1, packing="channels", table=True, chained=True
    )
    last = templates.scaling(config, **shape, channels=96, by_channel=True)
    steps = [
        ChainStep("first", first, {"data": "x", "output": "a"}),
        ChainStep("pool", pool, {"data": "a", "output": "b"}),
        ChainStep("second", second, {"data": "b", "output": "c"}),
        ChainStep("last", last, {"data": "a", "other": "c", "output": "y"}),
    ]
    chain = Chain(config, "tables", steps, ("y",))
    x, tables = integers(0, 1, 96, 6, 6), [integers(1, 256), integers(2, 256)]
    weights = [integers(3, 96, 1, 3, 3), integers(4, 96, 96, 1, 1)]
    inputs = chain.pack_input("x", x)
    inputs |= chain.pack_constants("first", weights[0], multiplier=2e-3, table=tables[0])
    inputs |= chain.pack_constants("pool") | chain.pack_constants("last", multiplier=1e-2)
    inputs |= chain.pack_constants("second", weights[1], multiplier=1e-3, table=tables[1])
    known: dict[str, Array] = {"x": x}
    constants: list[dict[str, Any]] = [
        {"weight": weights[0], "multiplier": 2e-3, "table": tables[0]},
        {},
        {"weight": weights[1], "multiplier": 1e-3, "table": tables[1]},
        {"multiplier": 1e-2},
    ]
    for step, named in zip(steps, constants, strict=True):
        data = {name: known[tensor] for name, tensor in step.tensors.items() if name != "output"}
        alone = simulate(step.operator.program, step.operator.pack(**data, **named))
        known[step.tensors["output"]] = step.operator.unpack(alone.outputs)
    assert np.array_equal(chain.unpack("y", simulate(chain.program, inputs).outputs), known["y"])


@pytest.mark.parametrize("by_channel", [True, False])
@pytest.mark.parametrize("preset", ["pynq_z1", "tiny", "batch4"])
def test_products_of_activations(preset: str, by_channel: bool) -> None:
    zeros = (-128, 5)
    x, other = integers(0, 2, 20, 5, 3), integers(1, 2, 20, *((1, 1) if by_channel else (5, 3)))
    operator = templates.scaling(
        Config.preset(preset), batch=2, height=5, width=3, channels=20, by_channel=by_channel, input_zero_points=zeros
    )
    outputs = simulate(operator.program, operator.pack(x, other, multiplier=2**-8)).outputs
    sums = (x.astype(int) - zeros[0]) * (other.astype(int) - zeros[1])
    wanted = np.clip(np.rint(sums / 256), -128, 127)
    assert np.array_equal(operator.unpack(outputs), wanted)


def test_refusals() -> None:
    shape = {"batch": 1, "height": 2, "width": 2, "channels": 16}
    with pytest.raises(TemplateError, match="must have a stage on the way out, got none"):
        templates.rescale(Config.preset("pynq_z1"), **shape, table=True)
    operator = templates.rescale(machine(), **shape, table=True)
    with pytest.raises(TemplateError, match="rescale: table must be given with table=True, got none"):
        operator.pack(integers(0, 1, 16, 2, 2))
    with pytest.raises(TemplateError, match="rescale: table must be left out with table=False, got one"):
        templates.rescale(machine(), **shape).pack(integers(0, 1, 16, 2, 2), table=integers(0, 256))
    with pytest.raises(TemplateError, match="by_channel must be True or False, got 1"):
        templates.scaling(machine(), **shape, by_channel=1)
