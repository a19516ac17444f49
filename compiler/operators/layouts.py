# SPDX-License-Identifier: Apache-2.0
"""Layouts of tensors by name: one letter a dimension, and blocks of lanes innermost.

"NCHW16c" is [N, C / 16, H, W, 16]: blocks of 16 channels. "OIHW16o" is a weight with blocks of 16
output channels, [O / 16, I, H, W, 16], as `pack_conv2d` makes it.
"""

from __future__ import annotations

import re

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, check_rank, check_tensor


def block_size(where: str, what: str, layout: object, plain: str, blocked: str) -> int | None:
    """The lanes of a block in `layout`, None for `plain`; `blocked` is the letter of the blocks."""
    match = re.fullmatch(rf"{plain}(?:([1-9][0-9]*){blocked})?", layout) if isinstance(layout, str) else None
    if match is None:
        raise OperatorError(f"{where}: {what} must be {plain} or {plain}<lanes>{blocked}, got {layout!r}")
    return None if match[1] is None else int(match[1])


def check_layout(where: str, what: str, tensor: te.Tensor, layout: str, block: int | None) -> None:
    """Refuse a tensor whose rank or lanes contradict its layout."""
    check_tensor(where, what, tensor)
    rank = sum(letter.isupper() for letter in layout) + (block is not None)
    if len(tensor.shape) != rank:
        raise OperatorError(f"{where}: {what} must have {rank} dimensions in layout {layout}, got {len(tensor.shape)}")
    if block is not None and tensor.shape[-1] != block:
        raise OperatorError(f"{where}: {what} must have {block} lanes in layout {layout}, got {tensor.shape[-1]}")


def image_block(where: str, x: te.Tensor, layout: object) -> int | None:
    """The lanes of the blocks of an image [N, C, H, W] or [N, C / lanes, H, W, lanes]."""
    block = block_size(where, "layout", layout, "NCHW", "c")
    rank = 4 if block is None else 5
    check_rank(where, "x", x, rank, rank)
    if block is not None:
        check_layout(where, "x", x, f"NCHW{block}c", block)
    return block


def at_channel(
    block: int | None, n: te.Value, channel: te.Value | te.ReduceAxis, *place: te.Value
) -> tuple[te.Value | te.ReduceAxis, ...]:
    """The index of a channel of an image at a place."""
    if block is None:
        return (n, channel, *place)
    return (n, channel // block, *place, channel % block)
