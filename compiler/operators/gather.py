# SPDX-License-Identifier: Apache-2.0
"""Reads at data-dependent indices: gather, gather_elements, gather_nd, one_hot.

Indices have any integer dtype that int64 holds; negative indices count from the end. An index out
of range never reads outside of the tensor: `mode` "clip" reads the nearest element, "wrap" takes
the index modulo the extent.
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

_MODES = ("clip", "wrap")


def gather(x: te.Tensor, indices: te.Tensor, axis: int = 0, mode: str = "clip", name: str | None = None) -> te.Tensor:
    """The slices of `x` at `indices` along `axis`, whose extent the shape of `indices` replaces."""
    along = _check_and_axis("gather", x, indices, mode, axis)
    rank = len(indices.shape)

    def value(*i: te.Value) -> te.Value:
        place = _in_range(indices[i[along : along + rank]], x.shape[along], mode)
        return x[(*i[:along], place, *i[along + rank :])]

    shape = (*x.shape[:along], *indices.shape, *x.shape[along + 1 :])
    return te.compute(shape, value, result_name(x, "gather", name))


def gather_elements(
    x: te.Tensor, indices: te.Tensor, axis: int = 0, mode: str = "clip", name: str | None = None
) -> te.Tensor:
    """For each position of `indices` the element of `x` at that position, with the index along
    `axis`.
    """
    along = _check_and_axis("gather_elements", x, indices, mode, axis)
    check_rank("gather_elements", "indices", indices, len(x.shape), len(x.shape))
    for d, (extent, most) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if d != along and not same_extent(extent, most) and _may_exceed(extent, most):
            raise OperatorError(
                f"gather_elements: extent {d} of indices must be at most {dim_text(most)}, got {dim_text(extent)}"
            )

    def value(*i: te.Value) -> te.Value:
        return x[(*i[:along], _in_range(indices[i], x.shape[along], mode), *i[along + 1 :])]

    return te.compute(indices.shape, value, result_name(x, "gather_elements", name))


def gather_nd(
    x: te.Tensor, indices: te.Tensor, batch_dims: int = 0, mode: str = "clip", name: str | None = None
) -> te.Tensor:
    """The slices of `x` at index tuples, the last dimension of `indices`, after `batch_dims`."""
    _check_and_axis("gather_nd", x, indices, mode, 0)
    shared = at_least("gather_nd", "batch_dims", batch_dims, 0)
    depth = static_extent("gather_nd", "the last extent of indices", indices.shape[-1])
    if shared >= min(len(x.shape), len(indices.shape)):
        raise OperatorError(f"gather_nd: batch_dims must be less than both ranks, got {shared}")
    if depth > len(x.shape) - shared:
        rule = f"the last extent of indices must be at most {len(x.shape) - shared}"
        raise OperatorError(f"gather_nd: {rule}, got {depth}")
    if not same_shape(x.shape[:shared], indices.shape[:shared]):
        shapes = f"{shape_text(x.shape)} and {shape_text(indices.shape)}"
        raise OperatorError(f"gather_nd: the first {shared} extents must be equal, got {shapes}")
    points = len(indices.shape) - 1

    def value(*i: te.Value) -> te.Value:
        at = [_in_range(indices[(*i[:points], te.const(d, "int32"))], x.shape[shared + d], mode) for d in range(depth)]
        return x[(*i[:shared], *at, *i[points:])]

    result = result_name(x, "gather_nd", name)
    shape = (*indices.shape[:-1], *x.shape[shared + depth :])
    return te.compute(shape, value, result) if shape else te.compute((1,), lambda one: value(), result)


def one_hot(
    indices: te.Tensor, depth: int, on_value: te.Value, off_value: te.Value, axis: int = -1, name: str | None = None
) -> te.Tensor:
    """Vectors of `depth` along a new `axis`: `on_value` at the index, `off_value` elsewhere.

    An index out of range gives a vector of `off_value`.
    """
    _check_indices("one_hot", indices)
    count = at_least("one_hot", "depth", depth, 1)
    along = axis_of("one_hot", len(indices.shape) + 1, axis)

    def value(*i: te.Value) -> te.Value:
        index = te.cast("int64", indices[(*i[:along], *i[along + 1 :])])
        place = te.cast("int64", i[along])
        return te.select((index == place) | (index + count == place), on_value, off_value)

    shape = (*indices.shape[:along], count, *indices.shape[along:])
    return te.compute(shape, value, result_name(indices, "one_hot", name))


# --- parts ----------------------------------------------------------------------------------------


def _check_and_axis(where: str, x: te.Tensor, indices: te.Tensor, mode: str, axis: int) -> int:
    """Check the operands of a gather; the dimension of `axis`."""
    check_tensor(where, "x", x)
    _check_indices(where, indices)
    check_choice(where, "mode", mode, _MODES)
    return axis_of(where, len(x.shape), axis)


def _check_indices(where: str, indices: te.Tensor) -> None:
    """Refuse indices of a dtype that is no integer, or that int64 does not hold."""
    check_tensor(where, "indices", indices)
    if not is_integer(indices.dtype) or indices.dtype == "uint64":
        raise OperatorError(f"{where}: indices must be of an integer dtype that int64 holds, got {indices.dtype}")


def _may_exceed(extent: te.Dim, most: te.Dim) -> bool:
    """Whether an extent may be greater than another; symbolic extents may."""
    return not isinstance(extent, int) or not isinstance(most, int) or extent > most


def _in_range(index: te.Value, extent: te.Dim, mode: str) -> te.Value:
    """The index as an int32 in [0, extent); int64 on the way, so that no index overflows."""
    index, count = te.cast("int64", index), te.cast("int64", extent_value(extent))
    if mode == "wrap":
        return te.cast("int32", index % count)
    from_start = te.select(index < 0, index + count, index)
    return te.cast("int32", te.clip(from_start, 0, count - 1))
