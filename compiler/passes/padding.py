"""What the annotations of a block say about the buffer that it writes: padded strides, two halves."""

from __future__ import annotations

from math import prod

from vdla.compiler import ir
from vdla.compiler.passes.errors import PassError
from vdla.compiler.schedule.access import Leaf

Shape = tuple[ir.Extent, ...]
LONGEST = 1 << 16  # paddings tried


def doubled(writers: list[Leaf]) -> bool:
    """Whether a writer asks for two halves, used in turn."""
    return any(writer.block.annotations.get("double_buffer") for writer in writers)


def aligned(buffer: str, shape: Shape, writers: list[Leaf]) -> Shape:
    """The shape padded as `storage_align` asks: the stride of dimension `axis` is `offset` modulo `factor`."""
    for writer in writers:
        if "storage_align" in writer.block.annotations:
            axis, factor, offset = writer.block.annotations["storage_align"]
            shape = padded(buffer, shape, axis, factor, offset)
    return shape


def padded(buffer: str, shape: Shape, axis: int, factor: int, offset: int) -> Shape:
    """The shape with dimension `axis + 1` enlarged until the stride of `axis` is `offset` modulo `factor`."""
    inner = shape[axis + 1 :]
    sizes = [extent for extent in inner if isinstance(extent, int)]
    where = f"place storage of {buffer}"
    if not inner:
        return shape  # the stride of the last dimension is one element
    if len(sizes) < len(inner):
        raise PassError(f"{where}: storage_align of dimension {axis} must be inside of static dimensions")
    row = prod(sizes[1:])
    for more in range(min(factor, LONGEST)):
        if (sizes[0] + more) * row % factor == offset % factor:
            return (*shape[: axis + 1], sizes[0] + more, *shape[axis + 2 :])
    rule = f"the stride of dimension {axis} must be able to be {offset} modulo {factor}"
    raise PassError(f"{where}: {rule}, got multiples of {row}")
