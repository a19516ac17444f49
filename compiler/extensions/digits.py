# SPDX-License-Identifier: Apache-2.0
"""Indices of several parts, such as `j * 16 + o` or `2 * i + 1`, as an index for each part.

The operand is seen with another dimension, of the same elements in the same order. A part is an
axis, or behind axes what is known to stay below the least of their steps: a number, or data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from vdla.compiler import ir, te
from vdla.compiler.arith import Linear, bounds, linear, simplify
from vdla.compiler.te import Stage, Value
from vdla.compiler.te.expr import axis_name

Digits = list[tuple[ir.Expr, int]]
"""The parts of an index and their extents; the last varies fastest."""
Splits = Mapping[str, list[list[int]]]
"""For each dimension of a tensor the extents of its digits."""


def with_digits(output: te.Tensor) -> te.Tensor:
    """A behaviour in which each operand has a dimension for each digit of its indices; dimensions
    whose indices have other digits in another place stay as they are. An axis of the reduction that
    is divided by a number is two axes.
    """
    stage = output.stage
    assert isinstance(stage, Stage), "an output is computed"
    stage = _with_quotients(stage)
    extents = dict(zip(map(axis_name, stage.axes), map(int, stage.shape), strict=True))
    if stage.reduction is not None:
        extents |= {axis_name(axis.name): int(axis.extent) for axis in stage.reduction.axes}
    splits = digit_splits(stage.value.expr, {t.name: tuple(map(int, t.shape)) for t in stage.reads}, extents)
    if not splits and stage is output.stage:
        return output
    shapes = {name: [extent for split in dims for extent in split] for name, dims in splits.items()}
    tensors = {t.name: te.placeholder(tuple(shapes.get(t.name, t.shape)), t.dtype, t.name) for t in stage.reads}

    def value(*at: te.Value) -> te.Value:
        expr = ir.transform(stage.value.expr, lambda part: split_load(part, splits, extents))
        return Value(expr, stage.value.dtype, tensors=tuple(tensors.values()), reduction=stage.reduction)

    result: te.Tensor = te.compute(stage.shape, te.with_axes(list(stage.axes), value), output.name)
    return result


def digit_splits(value: ir.Expr, shapes: Mapping[str, tuple[int, ...]], extents: Mapping[str, int]) -> Splits:
    """The tensors that have an index of several digits in a value, alike in all their loads."""
    loads = [e for e in ir.walk_expr(value) if isinstance(e, ir.Load)]
    splits: dict[str, list[list[int]]] = {}
    for name, shape in shapes.items():
        mine = [load for load in loads if load.buffer == name]
        dims = [_radices([load.indices[d] for load in mine], extent, extents) for d, extent in enumerate(shape)]
        if any(len(split) > 1 for split in dims):
            splits[name] = dims
    return splits


def split_load(part: ir.Expr, splits: Splits, extents: Mapping[str, int]) -> ir.Expr:
    """A load with an index for each digit; any other expression as it is."""
    if not isinstance(part, ir.Load) or part.buffer not in splits:
        return part
    indices: list[ir.Expr] = []
    for index, split in zip(part.indices, splits[part.buffer], strict=True):
        indices += [digit for digit, _ in _digits(index, extents)] if len(split) > 1 else [index]
    return ir.Load(part.buffer, tuple(indices))


def _radices(indices: Sequence[ir.Expr], extent: int, extents: Mapping[str, int]) -> list[int]:
    """The extents of the digits that all indices of a dimension have; the whole one without."""
    radices = {tuple(size for _, size in _digits(index, extents)) for index in indices}
    (one, *others) = radices or {(extent,)}
    return list(one) if not others and prod(one) == extent and one else [extent]


def _digits(index: ir.Expr, extents: Mapping[str, int]) -> Digits:
    """The digits of an index; none where its terms are no digits."""
    form = linear(index)
    axes = [(term, factor) for term, factor in form.terms.items() if isinstance(term, ir.Var) and term.name in extents]
    others = Linear({term: factor for term, factor in form.terms.items() if (term, factor) not in axes}, form.const)
    result: Digits = []
    below = min((factor for _, factor in axes), default=1)
    if below > 1:
        result.append((others.expr(), below))
    least, most = bounds(others.expr(), {name: (0, extent - 1) for name, extent in extents.items()})
    if least < 0 or most >= below:
        return []
    for axis, factor in sorted(axes, key=lambda term: term[1]):
        if factor != below:
            return []
        result.insert(0, (axis, extents[axis.name]))
        below *= extents[axis.name]
    return result


# --- quotients ------------------------------------------------------------------------------------


def _with_quotients(stage: Stage) -> Stage:
    """A stage in which an axis of the reduction that is divided by a number is two axes."""
    divisors = {} if stage.reduction is None else _divisors(stage)
    if not divisors or stage.reduction is None:
        return stage
    axes: list[te.ReduceAxis] = []
    wholes: dict[str, ir.Expr] = {}
    for axis in stage.reduction.axes:
        divisor = divisors.get(axis_name(axis.name))
        if divisor is None:
            axes.append(axis)
            continue
        high = te.reduce_axis(int(axis.extent) // divisor, f"{axis.name}_h")
        low = te.reduce_axis(divisor, f"{axis.name}_l")
        axes += [high, low]
        whole = ir.Binary("mul", ir.Var(axis_name(high.name)), ir.Const(divisor))
        wholes[axis_name(axis.name)] = ir.Binary("add", whole, ir.Var(axis_name(low.name)))
    ranges = {axis_name(axis.name): (0, int(axis.extent) - 1) for axis in axes}
    expr = ir.transform(ir.substitute(stage.value.expr, wholes), lambda part: _quotient(part, ranges))
    reduction = replace(stage.reduction, axes=tuple(axes))
    return replace(stage, values=(replace(stage.value, expr=expr),), reduction=reduction)


def _quotient(part: ir.Expr, ranges: Mapping[str, tuple[int, int]]) -> ir.Expr:
    """A quotient or remainder of axes without the division."""
    divided = isinstance(part, ir.Binary) and part.op in ("floordiv", "mod") and not ir.reads_memory(part)
    return simplify(part, ranges) if divided else part


def _divisors(stage: Stage) -> dict[str, int]:
    """The number by which each axis of the reduction is divided, where it divides the extent."""
    assert stage.reduction is not None
    extents = {axis_name(axis.name): int(axis.extent) for axis in stage.reduction.axes}
    result: dict[str, int] = {}
    for e in ir.walk_expr(stage.value.expr):
        match e:
            case ir.Binary(op="floordiv" | "mod", a=ir.Var(name=axis), b=ir.Const(value=number)) if axis in extents:
                if 1 < int(number) < extents[axis] and extents[axis] % int(number) == 0:
                    result.setdefault(axis, int(number))
    return result
