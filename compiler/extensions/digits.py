# SPDX-License-Identifier: Apache-2.0
"""Indices of several axes, such as `j * 16 + o`, as an index for each axis.

The operand is seen with another dimension, of the same elements in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from vdla.compiler import ir, te
from vdla.compiler.arith import linear
from vdla.compiler.te import Stage, Value
from vdla.compiler.te.expr import axis_name

Digits = list[tuple[str, int]]
"""The axes of an index, with the elements by which it rises with each, the largest first."""


def with_digits(output: te.Tensor) -> te.Tensor:
    """A behaviour in which each operand has a dimension for each digit of its indices; dimensions
    whose indices have other digits in another place stay as they are.
    """
    stage = output.stage
    assert isinstance(stage, Stage), "an output is computed"
    extents = dict(zip(map(axis_name, stage.axes), map(int, stage.shape), strict=True))
    if stage.reduction is not None:
        extents |= {axis_name(axis.name): int(axis.extent) for axis in stage.reduction.axes}
    loads = [e for e in ir.walk_expr(stage.value.expr) if isinstance(e, ir.Load)]
    splits: dict[str, list[list[int]]] = {}
    for tensor in stage.reads:
        mine = [load for load in loads if load.buffer == tensor.name]
        dims = [_radices([load.indices[d] for load in mine], int(e), extents) for d, e in enumerate(tensor.shape)]
        if any(len(split) > 1 for split in dims):
            splits[tensor.name] = dims
    if not splits:
        return output
    shapes = {name: [extent for split in dims for extent in split] for name, dims in splits.items()}
    tensors = {t.name: te.placeholder(tuple(shapes.get(t.name, t.shape)), t.dtype, t.name) for t in stage.reads}

    def value(*at: te.Value) -> te.Value:
        expr = ir.transform(stage.value.expr, lambda part: _split(part, splits))
        return Value(expr, stage.value.dtype, tensors=tuple(tensors.values()), reduction=stage.reduction)

    result: te.Tensor = te.compute(stage.shape, te.with_axes(list(stage.axes), value), output.name)
    return result


def _radices(indices: Sequence[ir.Expr], extent: int, extents: Mapping[str, int]) -> list[int]:
    """The extents of the digits that all indices of a dimension have; the whole one without."""
    digits = [_digits(index, extents) for index in indices]
    radices = {tuple(extents[axis] for axis, _ in index) for index in digits}
    (one, *others) = radices or {(extent,)}
    return list(one) if not others and prod(one) == extent and one else [extent]


def _digits(index: ir.Expr, extents: Mapping[str, int]) -> Digits:
    """The digits of an index; none where its terms are no digits."""
    if ir.reads_memory(index):
        return []
    form = linear(index)
    terms = [(term.name, factor) for term, factor in form.terms.items() if isinstance(term, ir.Var)]
    result = sorted(terms, key=lambda term: -term[1])
    below = 1
    for axis, factor in reversed(result):
        if factor != below or axis not in extents:
            return []
        below *= extents[axis]
    return result if len(terms) == len(form.terms) and form.const == 0 else []


def _split(part: ir.Expr, splits: Mapping[str, list[list[int]]]) -> ir.Expr:
    """A load with an index for each digit."""
    if not isinstance(part, ir.Load) or part.buffer not in splits:
        return part
    indices: list[ir.Expr] = []
    for index, split in zip(part.indices, splits[part.buffer], strict=True):
        axes = [term for term in linear(index).terms if isinstance(term, ir.Var)] if len(split) > 1 else []
        factors = linear(index).terms if axes else {}
        indices += sorted(axes, key=lambda axis: -factors[axis]) if axes else [index]
    return ir.Load(part.buffer, tuple(indices))
