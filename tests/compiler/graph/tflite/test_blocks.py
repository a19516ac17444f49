# SPDX-License-Identifier: Apache-2.0
"""Blocks of images that the importer refuses, and edges that it mirrors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import vdla

pytest.importorskip("tflite")

from vdla.compiler.graph.tflite import import_tflite
from vdla.verification.tflite_models.writer import TfliteWriter


def refusal(operator: str, shape: Sequence[int], *constants: Any, **options: Any) -> str:
    """What the importer says of an operator on floats."""
    writer = TfliteWriter()
    x = writer.tensor(shape, "float32", name="x")
    more = [writer.constant(np.array(value, np.int32)) for value in constants]
    y = writer.tensor(shape, "float32", name="y")
    writer.operator(operator, (x, *more), (y,), **options)
    with pytest.raises(vdla.Error) as caught:
        import_tflite(writer.bytes((x,), (y,)))
    head, _, rule = str(caught.value).splitlines()[1].partition(": the operator must ")
    assert head == f"  {operator} y"
    return rule


IMAGE = (4, 3, 5, 2)


@pytest.mark.parametrize(
    ("constants", "rule"),
    [
        (([2, 2], [[0, 0], [0, 1]]), "have padded extents of whole blocks of [2, 2], got [3, 6]"),
        (([0, 2], [[0, 0], [0, 1]]), "have a block of 1 to 3 extents from 1 to 65536, got [0, 2]"),
        (([1, 1, 1, 1], [[0, 0]] * 4), "have a block of 1 to 3 extents from 1 to 65536, got [1, 1, 1, 1]"),
        (
            ([2, 2], [[0, -1], [0, 1]]),
            "have paddings from 0 to 65536 before and after 2 dimensions, got [[0, -1], [0, 1]]",
        ),
        (([2, 2], [[0, 1]]), "have paddings from 0 to 65536 before and after 2 dimensions, got [[0, 1]]"),
    ],
)
def test_space_to_batch(constants: tuple[Any, ...], rule: str) -> None:
    assert refusal("SPACE_TO_BATCH_ND", IMAGE, *constants) == rule


@pytest.mark.parametrize(
    ("constants", "rule"),
    [
        (([2, 3], [[0, 0], [0, 0]]), "have a batch of whole blocks of [2, 3], got 4"),
        (([2, 2], [[3, 4], [0, 0]]), "have crops within [6, 10], got [[3, 4], [0, 0]]"),
    ],
)
def test_batch_to_space(constants: tuple[Any, ...], rule: str) -> None:
    assert refusal("BATCH_TO_SPACE_ND", IMAGE, *constants) == rule


@pytest.mark.parametrize(("mode", "most"), [(0, 2), (1, 3)])
def test_edges_that_are_too_short_to_mirror(mode: int, most: int) -> None:
    widths = [[0, 0], [0, most + 1], [0, 0], [0, 0]]
    rule = f"have widths of at most the extents that are mirrored, got [0, {most + 1}] for 3"
    assert refusal("MIRROR_PAD", IMAGE, widths, Mode=mode) == rule


def test_a_condition_of_rows() -> None:
    writer = TfliteWriter()
    c = writer.tensor((3,), "bool", name="c")
    a, b = (writer.tensor((3, 5), "float32", name=name) for name in "ab")
    y = writer.tensor((3, 5), "float32", name="y")
    writer.operator("SELECT", (c, a, b), (y,))
    with pytest.raises(
        vdla.Error, match=r"SELECT y: .* must have a condition of one element or of \[3, 5\], got \[3\]"
    ):
        import_tflite(writer.bytes((c, a, b), (y,)))
