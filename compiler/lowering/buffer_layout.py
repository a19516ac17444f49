"""Buffer layout by annotations of the writing block: aligned strides, double buffering."""

from __future__ import annotations

from itertools import count
from math import gcd, prod

from vdla.compiler import ir
from vdla.compiler.analysis import LeafBlock
from vdla.compiler.ir import extent_text
from vdla.compiler.lowering.errors import PassError

_Shape = tuple[ir.Extent, ...]


def wants_double_buffer(writers: list[LeafBlock]) -> bool:
    """Whether a writer is annotated with `double_buffer`."""
    return any(writer.block.annotations.get("double_buffer") for writer in writers)


def align_strides(buffer: str, shape: _Shape, writers: list[LeafBlock]) -> _Shape:
    """The shape padded according to the `storage_align` annotations of the writers."""
    for writer in writers:
        if "storage_align" in writer.block.annotations:
            axis, factor, offset = writer.block.annotations["storage_align"]
            shape = pad_stride(buffer, shape, axis, factor, offset)
    return shape


def pad_stride(buffer: str, shape: _Shape, axis: int, factor: int, offset: int) -> _Shape:
    """The shape padded so that the stride of dimension `axis` is `offset` modulo `factor`.

    Dimension `axis + 1` is padded, and inner ones too if it alone cannot give that stride.
    """
    inner = shape[axis + 1 :]
    sizes = [extent for extent in inner if isinstance(extent, int)]
    if not inner:
        return shape  # the stride of the last dimension is one element
    if len(sizes) < len(inner):
        symbolic = next(extent for extent in inner if not isinstance(extent, int))
        rule = f"the dimensions inside dimension {axis} of storage_align must be constant"
        raise PassError(f"place storage of {buffer}: {rule}, got {extent_text(symbolic)}")
    rows = sizes[1:]
    if offset % gcd(prod(rows), factor):
        rows = [next(n for n in count(size) if gcd(n, factor) == 1) for size in rows]
    shared = gcd(prod(rows), factor)
    step = factor // shared
    right = offset // shared * pow(prod(rows) // shared, -1, step)  # times prod(rows), `offset` modulo `factor`
    return (*shape[: axis + 1], sizes[0] + (right - sizes[0]) % step, *rows)
