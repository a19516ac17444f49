# SPDX-License-Identifier: Apache-2.0
"""Options of windows over the spatial dimensions of a tensor [N, C, spatial...], checked.

Options are one integer for all spatial dimensions or one for each. `pads` is ONNX's: the padding
before each dimension, then after each.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, check_choice, extents_of, integers, static_extents
from vdla.support.window import AUTO_PADS, Window, same_padding

Ints = int | Sequence[int]


def windows_of(
    where: str,
    extents: Sequence[te.Dim],
    kernel_shape: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
) -> Window:
    """The windows with these options.

    `ceil_mode` rounds the number of windows up: the last one may leave the padded input, but must
    not begin in the padding after the input.
    """
    rank = len(extents)
    size = tuple(static_extents(where, "spatial extent", extents))
    taps = integers(where, "kernel_shape", kernel_shape, rank, 1)
    steps = integers(where, "strides", strides, rank, 1)
    gaps = integers(where, "dilations", dilations, rank, 1)
    margins = integers(where, "pads", pads, 2 * rank, 0)
    window = Window(
        size=size,
        taps=taps,
        strides=steps,
        before=margins[:rank],
        after=margins[rank:],
        dilations=gaps,
        rounds_up=ceil_mode,
    )
    padded = zip(size, window.before, window.after, window.span, strict=True)
    for d, (extent, before, after, span) in enumerate(padded):
        if extent + before + after < span:
            text = f"a window of {span} over {extent + before + after} along spatial dimension {d}"
            raise OperatorError(f"{where}: a window must not be longer than the padded input, got {text}")
    return window


def in_image(window: Window, position: Sequence[te.Value], extents: Sequence[int] = ()) -> list[te.Value]:
    """The conditions under which a position is in the image; empty if no window leaves it.

    Windows reach `extents` elements of the sampled image, by default those that they span.
    """
    conditions = []
    for d, index in enumerate(position):
        last = (extents[d] - 1) * window.steps[d] - window.before[d] if extents else window.last(d)
        if window.before[d]:
            conditions.append(index >= 0)
        if last >= window.size[d]:
            conditions.append(index < window.size[d])
    return conditions


def select_if(conditions: Sequence[te.Value], element: te.Value, otherwise: te.Value) -> te.Value:
    """An element where all conditions hold, which may be an empty list."""
    return te.select(te.all_of(*conditions), element, otherwise) if conditions else element


def sampled_position(window: Window, sample: Sequence[te.Value]) -> list[te.Value]:
    """The position in the image of an element of the window's sampled, padded image."""
    axes = zip(sample, window.steps, window.before, strict=True)
    return [index * step - before for index, step, before in axes]


def same_pads(
    extents: Sequence[int],
    kernel_shape: Ints,
    strides: Ints = 1,
    dilations: Ints = 1,
    auto_pad: str = "SAME_UPPER",
) -> tuple[int, ...]:
    """The `pads` for ceil(extent / stride) windows; SAME_UPPER puts odd padding last."""
    where = "same_pads"
    check_choice(where, "auto_pad", auto_pad, AUTO_PADS)
    size = static_extents(where, "spatial extent", extents_of(where, "extents", extents))
    taps, steps, gaps = (
        integers(where, what, given, len(size), 1)
        for what, given in (("kernel_shape", kernel_shape), ("strides", strides), ("dilations", dilations))
    )
    return same_padding(size, taps, steps, gaps, auto_pad)
