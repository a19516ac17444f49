# SPDX-License-Identifier: Apache-2.0
"""Shapes with symbols, such as [n, 3, h, w], and the numbers that shapes of inputs give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vdla.support.suggest import one_of

Declared = Sequence[int | str | None] | None
"""The extents of an input as a model declares them; None: any rank, or any extent."""
Shape = tuple[int, ...]


def shape_words(shape: Sequence[int | str | None]) -> str:
    """A shape as it is written on the command line: 1x3x48x192."""
    return "x".join("?" if extent is None else str(extent) for extent in shape) or "scalar"


def with_names(
    where: str, shapes: Mapping[str, Shape], inputs: Sequence[str], error: type[Exception]
) -> dict[str, Shape]:
    """Shapes by input; a shape without a name is that of the only input.

    `error` is raised for an unknown input, and where there are several for one without a name.
    """
    for name, shape in shapes.items():
        if not name and len(inputs) != 1:
            names = ", ".join(inputs) or "none"
            raise error(f"{where}: the shape {shape_words(shape)} must name one of the inputs ({names}), got no name")
        if name and name not in inputs:
            raise error(f"{where}: shapes must be those of inputs, {one_of(name, inputs)}")
    return {name or inputs[0]: shape for name, shape in shapes.items()}


def numbers_of(
    where: str,
    declared: Mapping[str, Declared],
    shapes: Mapping[str, Shape],
    error: type[Exception],
    numbers: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """The numbers of symbols, with which `declared` shapes become `shapes`.

    `numbers` are known before. `error` is raised for a shape of another rank, one that contradicts
    a number of the model, and for two numbers of one symbol.
    """
    symbols = dict(numbers or {})
    sources = dict.fromkeys(symbols, "extents")
    for name, shape in shapes.items():
        extents = declared[name]
        if extents is None:
            continue
        rule = f"{where}: shape of {name} must fit {list_text(extents)}, got {list_text(shape)}"
        if len(shape) != len(extents):
            raise error(f"{rule}, which has {len(shape)} axes, not {len(extents)}")
        for axis, (extent, number) in enumerate(zip(extents, shape, strict=True)):
            if isinstance(extent, int) and extent != number:
                raise error(f"{rule}, whose axis {axis} is {number}, not {extent}")
            if isinstance(extent, str) and symbols.setdefault(extent, number) != number:
                raise error(f"{rule}, as {extent} is {symbols[extent]} in {sources[extent]}")
            if isinstance(extent, str):
                sources.setdefault(extent, f"the shape of {name}")
    return symbols


def list_text(extents: Sequence[int | str | None]) -> str:
    """A shape as it stands in messages: [n, 3, 48]."""
    return f"[{', '.join('?' if extent is None else str(extent) for extent in extents)}]"
