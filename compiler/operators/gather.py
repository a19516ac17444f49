"""Reading at places that are data: gather, gather_elements, gather_nd, one_hot.

Indices are of any integer dtype that int64 holds; negative ones count from the end. What is out of range even so never
reads outside of the tensor: `mode` "clip" takes the nearest element, "wrap" counts modulo the extent.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.ir import is_integer
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    axis_of,
    check_choice,
    check_rank,
    check_tensor,
    dim_text,
    extent_value,
    same_extent,
    same_shape,
    shape_text,
    static_extent,
)
from vdla.compiler.operators.results import result_name

MODES = ("clip", "wrap")


def gather(x: te.Tensor, indices: te.Tensor, axis: int = 0, mode: str = "clip", name: str | None = None) -> te.Tensor:
    """The slices of `x` along `axis` that `indices` name: their shape stands in place of the dimension."""
    along = prepared("gather", x, indices, mode, axis)
    rank = len(indices.shape)

    def value(*i: te.Value) -> te.Value:
        place = within(indices[i[along : along + rank]], x.shape[along], mode)
        return x[(*i[:along], place, *i[along + rank :])]

    shape = (*x.shape[:along], *indices.shape, *x.shape[along + 1 :])
    return te.compute(shape, value, result_name(x, "gather", name))


def gather_elements(
    x: te.Tensor, indices: te.Tensor, axis: int = 0, mode: str = "clip", name: str | None = None
) -> te.Tensor:
    """For each element of `indices` the element of `x` at its place, but along `axis` at the index itself."""
    along = prepared("gather_elements", x, indices, mode, axis)
    check_rank("gather_elements", "indices", indices, len(x.shape), len(x.shape))
    for d, (extent, most) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if d != along and not same_extent(extent, most) and is_longer(extent, most):
            raise OperatorError(
                f"gather_elements: extent {d} of indices must be at most {dim_text(most)}, got {dim_text(extent)}"
            )

    def value(*i: te.Value) -> te.Value:
        return x[(*i[:along], within(indices[i], x.shape[along], mode), *i[along + 1 :])]

    return te.compute(indices.shape, value, result_name(x, "gather_elements", name))


def gather_nd(
    x: te.Tensor, indices: te.Tensor, batch_dims: int = 0, mode: str = "clip", name: str | None = None
) -> te.Tensor:
    """The last dimension of `indices` holds points of the leading dimensions of `x` behind `batch_dims` common ones."""
    prepared("gather_nd", x, indices, mode, 0)
    shared = at_least("gather_nd", "batch_dims", batch_dims, 0)
    depth = static_extent("gather_nd", "the last extent of indices", indices.shape[-1])
    if shared >= min(len(x.shape), len(indices.shape)):
        raise OperatorError(f"gather_nd: batch_dims must be less than both ranks, got {shared}")
    if depth > len(x.shape) - shared:
        rule = f"the last extent of indices must be at most {len(x.shape) - shared}"
        raise OperatorError(f"gather_nd: {rule}, got {depth}")
    if not same_shape(x.shape[:shared], indices.shape[:shared]):
        found = f"{shape_text(x.shape)} and {shape_text(indices.shape)}"
        raise OperatorError(f"gather_nd: the first {shared} extents must be equal, got {found}")
    points = len(indices.shape) - 1

    def value(*i: te.Value) -> te.Value:
        at = [within(indices[(*i[:points], te.const(d, "int32"))], x.shape[shared + d], mode) for d in range(depth)]
        return x[(*i[:shared], *at, *i[points:])]

    result = result_name(x, "gather_nd", name)
    shape = (*indices.shape[:-1], *x.shape[shared + depth :])
    return te.compute(shape, value, result) if shape else te.compute((1,), lambda one: value(), result)


def one_hot(
    indices: te.Tensor, depth: int, on: te.Value, off: te.Value, axis: int = -1, name: str | None = None
) -> te.Tensor:
    """`on` where the place along a new dimension of extent `depth` at `axis` is the index, else `off`; a negative index
    counts from the end, and one that is out of range is nowhere."""
    check_indices("one_hot", indices)
    count = at_least("one_hot", "depth", depth, 1)
    along = axis_of("one_hot", len(indices.shape) + 1, axis)

    def value(*i: te.Value) -> te.Value:
        index = te.cast("int64", indices[(*i[:along], *i[along + 1 :])])
        place = te.cast("int64", i[along])
        return te.select((index == place) | (index + count == place), on, off)

    shape = (*indices.shape[:along], count, *indices.shape[along:])
    return te.compute(shape, value, result_name(indices, "one_hot", name))


# --- parts -----------------------------------------------------------------------------------------------------------


def prepared(where: str, x: te.Tensor, indices: te.Tensor, mode: str, axis: int) -> int:
    """The dimension, after the checks that all gathers share."""
    check_tensor(where, "x", x)
    check_indices(where, indices)
    check_choice(where, "mode", mode, MODES)
    return axis_of(where, len(x.shape), axis)


def check_indices(where: str, indices: te.Tensor) -> None:
    """Refuse indices that are no integers, or that could wrap in int64."""
    check_tensor(where, "indices", indices)
    if not is_integer(indices.dtype) or indices.dtype == "uint64":
        raise OperatorError(f"{where}: indices must be of an integer dtype that int64 holds, got {indices.dtype}")


def is_longer(extent: te.Dim, most: te.Dim) -> bool:
    """Whether an extent is, or as a symbol may be, greater than another one."""
    return not isinstance(extent, int) or not isinstance(most, int) or extent > most


def within(index: te.Value, extent: te.Dim, mode: str) -> te.Value:
    """The index as an int32 in [0, extent); computed in int64, so that no index wraps on the way."""
    wide, count = te.cast("int64", index), te.cast("int64", extent_value(extent))
    if mode == "wrap":
        return te.cast("int32", wide % count)
    counted = te.select(wide < 0, wide + count, wide)
    return te.cast("int32", te.clip(counted, 0, count - 1))
