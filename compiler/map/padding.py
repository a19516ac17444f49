# SPDX-License-Identifier: Apache-2.0
"""What fills the terms of an entry beyond the last one of a sum, so that they change no result.

Of a largest or least term, the last term is repeated. Of a sum, operands are zero, or one of them
has a value for which the term is: a term of bits that agree or differ is zero where half of them
do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.arith import linear
from vdla.compiler.extensions import vanishes
from vdla.compiler.interpret import interpret
from vdla.compiler.map.computation import AxisPlace, FromOperand, FromPlace, FromTable
from vdla.compiler.map.entries import axis_extents, entry_axes, stage_of
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.map.mapping import Mapping as AxisMapping
from vdla.compiler.te import Stage, Value

Fills = dict[str, int]
_MOST_BITS = 16
"""Of operands all of whose values are tried."""


def repeats_last(mapping: AxisMapping) -> bool:
    """Whether terms beyond the last one repeat it."""
    reduction = stage_of(mapping.intrinsic).reduction
    return reduction is not None and reduction.reducer in (te.max, te.min)


def term_fills(mapping: AxisMapping) -> Fills:
    """The element of each operand of the computation beyond the last term; none where any will do.

    Where the plain tensor is padded, it is the element of that padding.

    Raises:
        MapError: no element of an operand makes terms zero.
    """
    computation, stage, padded = mapping.computation, stage_of(mapping.intrinsic), _padded(mapping)
    plain = {name: access.gather.fill if access.gather else 0 for name, access in computation.operands.items()}
    if not padded:
        return {}
    moving = _places(mapping, padded)
    if repeats_last(mapping):
        if moving and not _later_is_worse(mapping, padded):
            raise _must_fill(mapping, padded, "the place of a term beyond the last one may be the result")
        return {}
    step = computation.steps[-1]
    of_operand = {read.name: operand for operand, read in step.reads.items() if isinstance(read, FromOperand)}
    axes = {name: entry_axes(mapping.intrinsic, operand) or () for name, operand in of_operand.items()}
    zeros = [name for name in of_operand if plain[name] == 0 and vanishes(stage.value.expr, of_operand[name])]
    if all(any(axis in axes[name] for name in zeros) for axis in padded):
        return plain
    every = all(axis in entry for axis in padded for entry in axes.values()) and not moving
    if every and not any(isinstance(read, FromTable | FromPlace) for read in step.reads.values()):
        for fills in _candidates(mapping, plain):
            terms = _terms(stage, {of_operand.get(name, name): values for name, values in fills.items()}, step.reads)
            if not terms.all():
                at = int(np.flatnonzero(terms == 0)[0])
                return {name: int(values[at % len(values)]) for name, values in fills.items()}
    raise _must_fill(mapping, padded, f"no padding of {', '.join(plain)} makes a term 0")


def _must_fill(mapping: AxisMapping, padded: list[str], reason: str) -> MapError:
    """The error of terms that do not fill entries."""
    size, got = axis_extents(mapping.intrinsic)[padded[0]], mapping.extent(padded[0])
    return MapError(f"terms must be a multiple of {size}, since {reason}, got {got}")


def _padded(mapping: AxisMapping) -> list[str]:
    """The axes of which the last entry has more terms than are left."""
    extents = axis_extents(mapping.intrinsic)
    return [axis for axis in mapping.terms if mapping.extent(axis) % extents[axis]]


def _places(mapping: AxisMapping, axes: list[str]) -> list[AxisPlace]:
    """The places that one of some axes moves."""
    names = {ir.Var(axis) for axis in axes}
    return [place for place in mapping.computation.places if names & {*place.pattern.terms}]


def _later_is_worse(mapping: AxisMapping, padded: list[str]) -> bool:
    """Whether a term that repeats the last one at a later place is never the largest or least."""
    stage = stage_of(mapping.intrinsic)
    assert stage.reduction is not None
    match stage.reduction.reducer.name, stage.value.expr:
        case ("max", ir.Binary(op="sub", b=last)) | ("min", ir.Binary(op="add", b=last)):
            form = linear(last)
            only = [place.pattern for place in _places(mapping, padded)] == [form]
            return only and all(form.terms.get(ir.Var(axis), 0) >= 0 for axis in padded)
    return False


def _candidates(mapping: AxisMapping, plain: Mapping[str, int]) -> Iterator[dict[str, npt.NDArray[np.int64]]]:
    """Elements of all operands: those of the padding, but for one operand that has all its values;
    a padding that is laid out keeps its element.
    """
    known = {name: np.array([fill], np.int64) for name, fill in plain.items()}
    yield known
    for name, access in mapping.computation.operands.items():
        if access.gather is None and ir.INTEGER_BITS[access.source.dtype] <= _MOST_BITS:
            low, high = map(int, ir.limits(access.source.dtype))
            yield {**known, name: np.arange(low, high + 1, dtype=np.int64)}


def _terms(
    stage: Stage, fills: Mapping[str, npt.NDArray[np.int64]], reads: Mapping[str, object]
) -> npt.NDArray[np.int64]:
    """The term of an intrinsic for each element of its operands."""
    numbers = {name: read for name, read in reads.items() if isinstance(read, ir.Const)}
    count = max(map(len, fills.values()))
    dtypes = {tensor.name: tensor.dtype for tensor in stage.reads}
    tensors = {name: te.placeholder((count,), dtypes[name], name) for name in fills}

    def replaced(expr: ir.Expr, at: te.Value) -> ir.Expr:
        if isinstance(expr, ir.Load):
            return numbers[expr.buffer] if expr.buffer in numbers else tensors[expr.buffer][at].expr
        return ir.map_operands(expr, lambda operand: replaced(operand, at))

    def value(at: te.Value) -> te.Value:
        expr = replaced(stage.value.expr, at)
        return Value(expr, stage.value.dtype, tensors=tuple(tensors.values()), axes=at.axes)

    result: te.Tensor = te.compute((count,), value, "every_term")
    arrays = {
        name: np.broadcast_to(values, (count,)).astype(ir.storage_dtype(dtypes[name])) for name, values in fills.items()
    }
    return interpret(te.create_function(list(tensors.values()), [result], "terms"), arrays)["every_term"].astype(
        np.int64
    )
