# SPDX-License-Identifier: Apache-2.0
"""Elements of groups at places that depend on inputs: within a tensor, or in entries of a group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla import te
from vdla.compiler.certificates.certify import certify
from vdla.compiler.certificates.look_up import looked_up
from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.symbols import numbers, unknowns
from vdla.compiler.map import candidates
from vdla.hardware.config import Config

SPARSE = Path(__file__).parents[3] / "examples" / "sparse" / "sparse.py"
ROW = unknowns("row", (64,), "int8", 0)
PLACE = binary("and", unknowns("w", (5,), "int32", 0), numbers(3), "int32")


def test_an_element_of_a_group_is_that_of_the_group_alone() -> None:
    inside = looked_up(ROW, binary("add", PLACE, numbers(20), "int64"))
    assert inside["value"].tolist() == looked_up(ROW[20:24], PLACE)["value"].tolist()
    for first in (19, 21, 24):
        other = looked_up(ROW, binary("add", PLACE, numbers(first), "int64"))
        assert not (other["value"] == inside["value"]).any()


def test_groups_may_begin_at_many_places() -> None:
    first = np.array([0, 4, 60, 8, 4])
    made = looked_up(ROW, binary("add", PLACE, numbers(first), "int64"))
    alone = [looked_up(ROW[at : at + 4], PLACE[n : n + 1])["value"][0] for n, at in enumerate(first)]
    assert made["value"].tolist() == alone
    assert set(made["low"].tolist()) == {-128} and set(made["high"].tolist()) == {127}


def test_bounds_are_those_of_the_elements_that_may_be_there() -> None:
    table = numbers(np.arange(64))
    made = looked_up(table, binary("add", PLACE, numbers(20), "int64"))
    assert set(made["low"].tolist()) == {20} and set(made["high"].tolist()) == {23}


def convolution(shape: tuple[int, int, int, int], group: Callable[[te.Value], te.Value]) -> te.Tensor:
    """That of the example, with another choice of groups."""
    size, channels, filters, kernel = shape
    places = size - kernel + 1
    image = te.placeholder((size, size, channels), "int8", "image")
    taps = te.placeholder((filters, kernel, kernel, channels // 2), "int8", "taps")
    ky, kx = te.reduce_axis(kernel, "ky"), te.reduce_axis(kernel, "kx")
    c = te.reduce_axis(channels // 2, "c")

    def value(y: te.Value, x: te.Value, o: te.Value) -> te.Value:
        weight = te.cast("int32", taps[o, ky, kx, c])
        pixel = image[y + ky, x + kx, 4 * group(te.as_value(c, "c") // 2) + (weight & 3)]
        return te.sum((weight >> 2) * te.cast("int32", pixel), axis=[ky, kx, c])

    return te.compute((places, places, filters), value, "pruned")


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [(4, 8, 3, 1), (3, 12, 9, 2), (1, 20, 3, 1)])
def test_sparse_weights_are_certified(shape: tuple[int, int, int, int]) -> None:
    config = vdla.extend(Config.preset("tiny"), str(SPARSE))
    expression = convolution(shape, lambda group: group)
    operator = candidates(expression, config).found[0]
    assert certify(operator).holds
    other = convolution(shape, lambda group: shape[1] // 4 - 1 - group)
    assert not certify(operator, expression=other).holds
