# SPDX-License-Identifier: Apache-2.0
"""All values of the operands of a step that is a function of few bits, side by side in its lanes.

A lane reads one element of an operand, or a row of it. The number of the step supplies the digits
of these elements, and each lane adds its own offset: over all steps every lane sees every
combination of its elements, and neighbouring lanes differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir, te
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import limits, storage_dtype
from vdla.compiler.te import Stage, Value
from vdla.compiler.te.expr import axis_name

MOST_BITS = 16
"""Of operands and fields that are tested exhaustively."""
_RESULT = "every_result"
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class StepValues:
    """The drawn operands of a step and its result."""

    operands: Mapping[str, Array]
    result: Array


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand; `digits` is the shape of what a lane reads of it."""

    buffer: ir.Buffer
    digits: tuple[int, ...]

    @property
    def bits(self) -> int:
        return self.span.bit_length() * prod(self.digits) - prod(self.digits)

    @property
    def low(self) -> int:
        return int(limits(self.buffer.dtype)[0])

    @property
    def span(self) -> int:
        low, high = limits(self.buffer.dtype)
        return int(high) - int(low) + 1

    def values(self, numbers: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """The operand in each step: the lowest bits of the steps' numbers."""
        bits = self.span.bit_length() - 1
        places = bits * np.arange(prod(self.digits), dtype=np.int64).reshape(self.digits)
        shape = tuple(map(int, self.buffer.dims))
        steps = numbers.reshape(-1, *(1 for _ in shape))
        elements = (steps >> places) + rng.integers(0, self.span, shape)
        return (self.low + elements % self.span).astype(storage_dtype(self.buffer.dtype))


def operand_bits(output: te.Tensor, behaviour: ir.Function, drawn: Sequence[str]) -> int:
    """How many bits of the drawn operands a lane of a step reads."""
    return sum(operand.bits for operand in _operands(output, behaviour, drawn))


def all_values(
    output: te.Tensor,
    behaviour: ir.Function,
    drawn: Sequence[str],
    fixed: Mapping[str, Array],
    rng: np.random.Generator,
) -> Iterator[StepValues]:
    """A step for each value of what its lanes read of the drawn operands, in random order."""
    operands = _operands(output, behaviour, drawn)
    numbers = rng.permutation(1 << sum(operand.bits for operand in operands))
    stacked, below = dict[str, Array](), 0
    for operand in operands:
        stacked[operand.buffer.name] = operand.values(numbers >> below, rng)
        below += operand.bits
    results = _results(output, stacked, fixed)
    for step in range(len(numbers)):
        yield StepValues({name: values[step] for name, values in stacked.items()}, results[step])


def _operands(output: te.Tensor, behaviour: ir.Function, drawn: Sequence[str]) -> list[_Operand]:
    stage = output.stage
    assert isinstance(stage, Stage), "an output is computed"
    loads = {item for item in ir.walk_expr(stage.value.expr) if isinstance(item, ir.Load)}
    reduced = {axis_name(axis.name) for axis in stage.reduction.axes} if stage.reduction else set()
    result = list[_Operand]()
    for name in drawn:
        reads = [load for load in loads if load.buffer == name]
        shape = tuple(map(int, behaviour.buffers[name].dims))
        if len(reads) <= 1 and not any(_names(load.indices) & reduced for load in reads):
            digits: tuple[int, ...] = ()
        elif len(shape) > 1 and all(isinstance(load.indices[0], ir.Var) for load in reads):
            digits = shape if any(_names(load.indices[:1]) & reduced for load in reads) else shape[1:]
        else:
            digits = shape
        result.append(_Operand(behaviour.buffers[name], digits))
    return result


def _names(exprs: Sequence[ir.Expr]) -> set[str]:
    return {item.name for expr in exprs for item in ir.walk_expr(expr) if isinstance(item, ir.Var)}


def _results(output: te.Tensor, stacked: Mapping[str, Array], fixed: Mapping[str, Array]) -> Array:
    """The results of all steps, interpreted as one nest with a loop over them."""
    stage = output.stage
    assert isinstance(stage, Stage), "an output is computed"
    dtypes = {tensor.name: tensor.dtype for tensor in stage.reads}
    arrays = {**stacked, **fixed}
    tensors = {name: te.placeholder(arrays[name].shape, dtype, name) for name, dtype in dtypes.items()}

    def placed(expr: ir.Expr, step: te.Value) -> ir.Expr:
        if isinstance(expr, ir.Load):
            front = (step,) if expr.buffer in stacked else ()
            entry = (Value(placed(index, step), "int32") for index in expr.indices)
            return tensors[expr.buffer][(*front, *entry)].expr
        old = ir.operands(expr)
        new = tuple(placed(operand, step) for operand in old)
        return expr if new == old else ir.with_operands(expr, new)

    def body(step: te.Value, *_: te.Value) -> te.Value:
        expr = placed(stage.value.expr, step)
        return Value(expr, stage.value.dtype, tensors=tuple(tensors.values()), reduction=stage.reduction)

    count = len(next(iter(stacked.values())))
    result: te.Tensor = te.compute((count, *stage.shape), te.with_axes(["every_step", *stage.axes], body), _RESULT)
    function = te.create_function(list(tensors.values()), [result], _RESULT)
    return interpret(function, {name: arrays[name] for name in dtypes})[_RESULT]
