# SPDX-License-Identifier: Apache-2.0
"""The interpreter of functions on symbols in place of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import exact_function, function_ranges
from vdla.compiler.certificates.symbols import (
    SYMBOL,
    CertificateError,
    Symbols,
    binary,
    called,
    cast,
    combined_along,
    known,
    numbers,
    select,
)
from vdla.compiler.interpret.memory import EVERYWHERE, InterpreterMemory, Mask, Points
from vdla.compiler.interpret.scalar import ClosureCompiler
from vdla.compiler.ir import limits


class SymbolicMemory(InterpreterMemory):
    """Buffers of symbols."""

    @staticmethod
    def stored(dtype: str) -> np.dtype[Any]:
        """Symbols of every type."""
        return SYMBOL

    def value(self, expr: ir.Expr, at: Points) -> Symbols:
        """The value of `expr`, which broadcasts with the points; arbitrary at inactive points."""
        match expr:
            case ir.Var(name=name):
                return numbers(at.values[name])
            case ir.Const(value=value):
                return numbers(int(value))
            case ir.Binary(op=op, a=a, b=b):
                return binary(op, self.value(a, at), self.value(b, at), self._dtype(a))
            case ir.Cast(dtype=dtype, value=inner):
                return cast(self.value(inner, at), self._dtype(inner), dtype)
            case ir.Select(cond=cond, a=a, b=b):
                return self._chosen(self.value(cond, at), a, b, at)
            case ir.Load(buffer=buffer, indices=indices):
                return self._load(buffer, tuple(self.places(indices, at)), at)
            case ir.Call(name=name, args=args, dtype=dtype):
                return called(name, [self.value(a, at) for a in args], [self._dtype(a) for a in args], dtype)

    def _dtype(self, expr: ir.Expr) -> str:
        return ir.dtype_of(expr, self.buffers)

    def _chosen(self, cond: Symbols, a: ir.Expr, b: ir.Expr, at: Points) -> Symbols:
        """`a` or `b`; where indices decide, only the selected one is evaluated."""
        if not known(cond).all():
            return select(cond, self.value(a, at), self.value(b, at), self._dtype(a))
        holds = np.asarray(cond["low"] == 1)
        then, otherwise = at.only(holds), at.only(~holds)
        if not otherwise.mask.any():
            return self.value(a, at)
        if not then.mask.any():
            return self.value(b, at)
        return np.where(holds, *np.broadcast_arrays(self.value(a, then), self.value(b, otherwise)))

    def index(self, expr: ir.Expr, at: Points) -> Any:  # noqa: ANN401  an int or an array of ints
        """An index or a condition, which must not depend on inputs."""
        function = exact_function(expr, self.ranges)
        return function(at.values) if function is not None else _number(self.value(expr, at), at.where)

    def reduced(self, op: str, terms: Symbols, mask: Mask, along: tuple[int, ...], dtype: str) -> Symbols:
        """Terms where `mask` holds, combined over the dimensions `along`."""
        if not mask.all():
            identity = 0 if op == "add" else limits(dtype)[op == "min"]
            terms = np.where(mask, terms, numbers(identity))
        return combined_along(op, terms, along, dtype)

    def combined(self, op: str, old: Symbols, total: Symbols, dtype: str) -> Symbols:
        """An element and a combination of terms, combined."""
        return binary(op, old, total, dtype)


class _SymbolicClosures(ClosureCompiler):
    """Statements as closures; expressions are those of the memory."""

    @property
    def min_batch(self) -> int:
        """Batches of any size."""
        return 0

    def value(self, expr: ir.Expr, where: str) -> Any:  # noqa: ANN401  a closure
        """A value as a closure that returns a symbol."""
        return lambda env: self.memory.value(expr, Points(env, EVERYWHERE, where))[()]

    def index(self, expr: ir.Expr, where: str) -> Any:  # noqa: ANN401  a closure
        """An index or condition as a closure that returns an integer."""
        function = exact_function(expr, self.memory.ranges)
        if function is not None:
            return function
        return lambda env: int(_number(self.memory.value(expr, Points(env, EVERYWHERE, where)), where))


def _number(value: Symbols, where: str) -> Any:  # noqa: ANN401  an array of integers
    if not known(value).all():
        raise CertificateError(f"certify: block {where}: an index must not depend on inputs, got one that does")
    return value["low"]


def evaluate(fn: ir.Function, arrays: Mapping[str, Symbols]) -> dict[str, Symbols]:
    """The outputs of a function of integers on symbols, both by parameter name.

    Raises:
        InterpretError: an access out of bounds or of an element that is not written.
        CertificateError: a type without symbols, or an index that depends on inputs.
    """
    memory = SymbolicMemory(fn.buffers, function_ranges(fn, axes=True))
    for name, array in arrays.items():
        memory.fill(name, array)
    with np.errstate(all="ignore"):
        _SymbolicClosures(memory).statement(fn.body)({})
    return {name: memory.arrays[name] for name in ir.output_names(fn)}
