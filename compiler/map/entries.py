# SPDX-License-Identifier: Apache-2.0
"""How an intrinsic indexes its entries: which dimensions axes select, and which it reads whole.

A dimension that every access indexes by the same axis, of as many elements, is that axis. Any
other one, with an index that is a number, depends on data or is part of a dimension, is *whole*: it
lies in the entry as in the plain tensor, and the plain expression must have the same index.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from vdla.compiler import ir
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.compiler.tensorize import IMMEDIATE, Intrinsic


def stage_of(intrinsic: Intrinsic) -> Stage:
    """The computation of an intrinsic."""
    stage = intrinsic.output.stage
    assert isinstance(stage, Stage), "an intrinsic computes its output"
    return stage


def axis_extents(intrinsic: Intrinsic) -> dict[str, int]:
    """The extents of the axes of an intrinsic, spatial ones first."""
    stage = stage_of(intrinsic)
    result = dict(zip(map(axis_name, stage.axes), map(int, stage.shape), strict=True))
    if stage.reduction is not None:
        result |= {axis_name(axis.name): int(axis.extent) for axis in stage.reduction.axes}
    return result


def whole_axis(operand: str, dimension: int) -> str:
    """The name under which a whole dimension of an operand is an axis."""
    return f"{operand}.{dimension}"


@lru_cache(maxsize=256)
def whole_dims(intrinsic: Intrinsic) -> Mapping[str, tuple[int, ...]]:
    """The whole dimensions of operands that have some; look-up tables are none of them."""
    result = {}
    for operand, loads in _loads(intrinsic).items():
        indexed = _indexed(intrinsic, loads)
        if operand not in lookup_tables(intrinsic) and None in indexed:
            result[operand] = tuple(d for d, axis in enumerate(indexed) if axis is None)
    return result


@lru_cache(maxsize=256)
def lookup_tables(intrinsic: Intrinsic) -> frozenset[str]:
    """The operands that data indexes and no axis does."""
    loads = _loads(intrinsic)
    return frozenset(name for name in intrinsic.tables if not any(_indexed(intrinsic, loads[name])))


def entry_axes(intrinsic: Intrinsic, operand: str) -> tuple[str, ...] | None:
    """The axes and the whole dimensions of an entry; None where the value does not read it."""
    loads = _loads(intrinsic).get(operand)
    if loads is None:
        return None
    return tuple(axis or whole_axis(operand, d) for d, axis in enumerate(_indexed(intrinsic, loads)))


def entry_extents(intrinsic: Intrinsic) -> dict[str, int]:
    """The extents of the axes, and of whole dimensions by their names."""
    buffers = intrinsic.behaviour.buffers
    whole = {
        whole_axis(operand, d): buffers[operand].dims[d]
        for operand, dims in whole_dims(intrinsic).items()
        for d in dims
    }
    return axis_extents(intrinsic) | whole


def _loads(intrinsic: Intrinsic) -> dict[str, list[ir.Load]]:
    """The accesses of each operand in memory."""
    result: dict[str, list[ir.Load]] = {}
    for e in ir.walk_expr(stage_of(intrinsic).value.expr):
        if isinstance(e, ir.Load) and intrinsic.scopes[e.buffer] != IMMEDIATE:
            result.setdefault(e.buffer, []).append(e)
    return result


def _indexed(intrinsic: Intrinsic, loads: list[ir.Load]) -> list[str | None]:
    """The axis of each dimension of an operand; None for one that is whole."""
    extents = axis_extents(intrinsic)
    dims = intrinsic.behaviour.buffers[loads[0].buffer].dims
    result: list[str | None] = []
    for dimension, extent in enumerate(dims):
        indices = {load.indices[dimension] for load in loads}
        (one, *others) = indices
        is_axis = not others and isinstance(one, ir.Var) and extents[one.name] == extent
        result.append(one.name if is_axis and isinstance(one, ir.Var) else None)
    return result
