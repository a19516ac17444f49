# SPDX-License-Identifier: Apache-2.0
"""Operators that differ in numbers only share a schedule and operations, and get what they would
have had alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.lower import lower
from vdla.compiler.codegen.vdla.macro_ops import TiledOps
from vdla.compiler.codegen.vdla.skip_padding import cut_at_padding
from vdla.compiler.codegen.vdla.state_loads import with_readers
from vdla.compiler.codegen.vdla.tiled_function import _form, tiled_function
from vdla.compiler.codegen.vdla.webs import split_tiles
from vdla.compiler.operators.vdla.schedule import _placed
from vdla.compiler.templates import Operator, conv2d, dense, depthwise_conv2d, pool2d, residual_add
from vdla.hardware.config import Config
from vdla.verification.programs.suite import NAMES

IMAGE = {"batch": 1, "height": 6, "width": 6}
KERNEL = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}
CASES: dict[str, tuple[Callable[..., Operator], dict[str, Any], list[dict[str, Any]]]] = {
    "conv2d": (
        conv2d,
        IMAGE | KERNEL | {"in_channels": 8, "out_channels": 8},
        [{"zero_point": 3, "floor": -2}, {"zero_point": -1, "ceiling": 4}, {"zero_point": 5, "floor": 5}],
    ),
    "depthwise": (
        depthwise_conv2d,
        IMAGE | KERNEL | {"channels": 8},
        [{"zero_point": 3, "input_zero_point": 2}, {"zero_point": -7, "input_zero_point": 2}],
    ),
    "dense": (
        dense,
        {"rows": 2, "in_features": 16, "out_features": 8},
        [{"zero_point": 3}, {"zero_point": 2, "activation": "relu"}],
    ),
    "average": (
        pool2d,
        IMAGE | {"kind": "average", "channels": 8, "kernel": (2, 2), "strides": (2, 2)},
        [{"zero_point": 3}, {"zero_point": -5}],
    ),
    "residual_add": (
        residual_add,
        IMAGE | {"channels": 8},
        [
            {"factors": (3, 5), "zero_point": 1, "input_zero_points": (1, 2)},
            {"factors": (11, 2), "zero_point": -2, "input_zero_points": (0, 3)},
        ],
    ),
}


def alone(operator: Operator) -> TiledOps:
    lowered = lower(operator.config, operator.function)
    return cut_at_padding(operator.config, with_readers(split_tiles(operator.config, lowered)))[1]


def assert_equal(one: TiledOps, other: TiledOps) -> None:
    assert list(one) == list(other)
    assert [one.ops.forms[form] for form in one.ops.used] == [other.ops.forms[form] for form in other.ops.used]
    for column in ("tile", "entries", "group"):
        assert np.array_equal(getattr(one, column), getattr(other, column))
    assert one.origin == other.origin


@pytest.mark.parametrize("machine", ["tiny", "int4", "batch4"])
@pytest.mark.parametrize("name", CASES)
def test_operators_with_other_numbers_share_schedule_and_operations(name: str, machine: str) -> None:
    template, shape, numbers = CASES[name]
    config = Config.preset(machine)

    def made(given: dict[str, Any]) -> Operator:
        return template(config, **shape, **given)

    expected = []
    for given in numbers:
        _placed.cache_clear()
        operator = made(given)
        expected.append((str(operator.function), alone(operator)))
    assert len({text for text, _ in expected}) == len(numbers)
    _placed.cache_clear()
    _form.cache_clear()
    for given, (text, ops) in zip(numbers, expected, strict=True):
        operator = made(given)
        assert str(operator.function) == text
        assert_equal(tiled_function(config, operator.function), ops)
    more = len(numbers) - 1
    assert (_placed.cache_info().misses, _placed.cache_info().hits) == (1, more)
    assert (_form.cache_info().misses, _form.cache_info().hits) == (1, more)


@pytest.mark.parametrize("operator", NAMES[::2], indirect=True)
def test_operations_are_those_that_are_lowered(operator: Operator) -> None:
    _form.cache_clear()
    for _ in range(2):
        assert_equal(tiled_function(operator.config, operator.function), alone(operator))


def test_shared_operations_cannot_be_changed() -> None:
    template, shape, numbers = CASES["conv2d"]
    operator = template(Config.preset("tiny"), **shape, **numbers[0])
    ops = tiled_function(operator.config, operator.function)
    for column in (ops.tile, ops.entries, ops.group, ops.ops.form, ops.ops.offsets, ops.ops.dram):
        with pytest.raises(ValueError, match="read-only"):
            column[:] = 0
