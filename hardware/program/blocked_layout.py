# SPDX-License-Identifier: Apache-2.0
"""Plain arrays in the blocked layouts of programs, and back, from the text of the layout.

`N/batch, C/block_in, H, W, batch, block_in`: the extent of `C` is cut into blocks of `block_in`,
and the elements of a block lie where `block_in` stands alone. The last block is filled with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.hardware.program.tensor import ProgramError, ProgramTensor
from vdla.support.arrays import Array


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The plain dimensions, and for each the position of its blocks' elements (None: no blocks)."""

    names: tuple[str, ...]
    inner: tuple[int | None, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The axes of the packed array: one for each plain dimension, or two in a row."""
        pairs = ((k,) if inner is None else (k, inner) for k, inner in enumerate(self.inner))
        return tuple(axis for pair in pairs for axis in pair)


def pack_blocked(tensor: ProgramTensor, array: Array) -> Array:
    """A plain array as the array of a program's tensor.

    Raises:
        ProgramError: the layout is not blocks of plain dimensions, or the array does not fit.
    """
    blocks = _blocks(tensor)
    most = _extents(tensor, blocks)
    fits = array.ndim == len(most) and all(
        0 < got <= high and got > high - _block(tensor, inner)
        for got, high, inner in zip(array.shape, most, blocks.inner, strict=True)
    )
    if not fits:
        rule = f"{', '.join(blocks.names)} of {tensor.name} must be blocks of {list(most)}"
        raise ProgramError(f"pack: {rule}, got {list(array.shape)}")
    padded = np.pad(array, [(0, high - got) for got, high in zip(array.shape, most, strict=True)])
    split = padded.reshape([tensor.shape[axis] for axis in blocks.order])
    return np.ascontiguousarray(split.transpose(np.argsort(blocks.order)))


def unpack_blocked(tensor: ProgramTensor, array: Array, shape: tuple[int, ...] | None = None) -> Array:
    """The plain array of a packed one; `shape` cuts off what fills the last blocks."""
    blocks = _blocks(tensor)
    if array.shape != tensor.shape:
        raise ProgramError(f"unpack: {tensor.name} must be {list(tensor.shape)}, got {list(array.shape)}")
    most = _extents(tensor, blocks)
    plain = array.transpose(blocks.order).reshape(most)
    if shape is None:
        return np.ascontiguousarray(plain)
    if len(shape) != len(most) or any(not 0 < got <= high for got, high in zip(shape, most, strict=True)):
        raise ProgramError(f"unpack: shape of {tensor.name} must be at most {list(most)}, got {list(shape)}")
    return np.ascontiguousarray(plain[tuple(slice(extent) for extent in shape)])


def _blocks(tensor: ProgramTensor) -> _Blocks:
    parts = [part.strip() for part in tensor.layout.split(",")]
    blocked = [part.partition("/")[2] for part in parts if "/" in part]
    outer = [part for part in parts if part not in blocked]
    regular = parts == [*outer, *blocked] and len(set(blocked)) == len(blocked) and len(parts) == len(tensor.shape)
    if not regular or any("*" in part or " " in part for part in parts):
        rule = "layout must be blocks of plain dimensions"
        raise ProgramError(f"tensor {tensor.name}: {rule}, got {tensor.layout or 'none'}")
    names = tuple(part.partition("/")[0] for part in outer)
    inner = tuple(parts.index(part.partition("/")[2]) if "/" in part else None for part in outer)
    return _Blocks(names, inner)


def _block(tensor: ProgramTensor, inner: int | None) -> int:
    return 1 if inner is None else tensor.shape[inner]


def _extents(tensor: ProgramTensor, blocks: _Blocks) -> tuple[int, ...]:
    return tuple(tensor.shape[k] * _block(tensor, inner) for k, inner in enumerate(blocks.inner))
