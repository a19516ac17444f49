# SPDX-License-Identifier: Apache-2.0
"""A vectorized loop around one store as one statement on vectors.

Loads and stores are contiguous; what all lanes share is computed once and broadcast. Statements
that need anything else, such as a gather or a type without vectors, stay loops.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.arith import var_names
from vdla.compiler.codegen.opencl.arithmetic import BUILT_IN, SYMBOLS
from vdla.compiler.codegen.opencl.expressions import ExpressionWriter
from vdla.compiler.codegen.opencl.indices import lane_access, offset_of
from vdla.compiler.codegen.opencl.source_text import SUM, UNARY, OpenClError, SourceText, call, infix
from vdla.compiler.codegen.opencl.types import VECTOR_DTYPES, VECTOR_LANES, bits, c_type, is_signed, unsigned
from vdla.compiler.ir import is_float

_FUNCTIONS = ("exp", "log", "sqrt", "tanh", "floor", "ceil", "round", "trunc", "abs")


class _NotAVectorError(OpenClError):
    """The statement has no form on vectors; never leaves this module."""


def vector_store(writer: ExpressionWriter, loop: ir.For, store: ir.Store) -> str | None:
    """The statement for all lanes of `loop`, or None."""
    if loop.size not in VECTOR_LANES:
        return None
    lanes = _Lanes(writer, loop.var, loop.size)
    try:
        return lanes.store(store)
    except _NotAVectorError:
        return None


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Writes expressions that differ between the `count` lanes of the loop over `var`."""

    writer: ExpressionWriter
    var: str
    count: int

    def store(self, store: ir.Store) -> str:
        """`vstore4(value, 0, array + offset);`"""
        address = self.address(store.buffer, store.indices)
        if address is None:
            raise _NotAVectorError
        return f"vstore{self.count}({self.value(store.value).text}, 0, {address.text});"

    def address(self, buffer: str, indices: tuple[ir.Expr, ...]) -> SourceText | None:
        """The address of the first lane's element; None if all lanes have the same one."""
        self.check(self.writer.buffers[buffer].dtype)
        access = lane_access(offset_of(indices, self.writer.buffers[buffer], self.writer.ranges), self.var)
        if access is None:
            raise _NotAVectorError
        if not access.contiguous:
            return None
        array = self.writer.names[buffer]
        if access.start == ir.Const(0):
            return SourceText(array)
        return SourceText(f"{array} + {self.writer.index(access.start).at(SUM)}", SUM)

    def check(self, dtype: str) -> None:
        """Refuse a type without vectors."""
        if dtype not in VECTOR_DTYPES:
            raise _NotAVectorError

    def value(self, expr: ir.Expr) -> SourceText:
        """A vector."""
        dtype = self.writer.dtype(expr)
        self.check(dtype)
        kind = c_type(dtype, self.count)
        if self.var not in var_names(expr):
            return SourceText(f"({kind})({self.writer.value(expr).text})", UNARY)
        match expr:
            case ir.Var():
                return SourceText(f"({kind})({', '.join(map(str, range(self.count)))})", UNARY)
            case ir.Load(buffer=buffer, indices=indices):
                address = self.address(buffer, indices)
                if address is None:
                    return SourceText(f"({kind})({self.writer.load(buffer, indices).text})", UNARY)
                return call(f"vload{self.count}", SourceText("0"), address)
            case ir.Cast(value=inner):
                return self.cast(inner, dtype)
            case ir.Binary(op=op, a=a, b=b):
                return self.binary(op, dtype, self.value(a), self.value(b))
            case ir.Select(cond=cond, a=a, b=b):
                return call("select", self.value(b), self.value(a), self.condition(cond, dtype))
            case ir.Call(name="divide", args=args):
                return infix("/", *map(self.value, args))
            case ir.Call(name=name, args=args) if name in _FUNCTIONS and is_float(dtype):
                return call(BUILT_IN[name], *map(self.value, args))
        raise _NotAVectorError

    def cast(self, value: ir.Expr, dtype: str) -> SourceText:
        """A conversion of every lane."""
        source = self.writer.dtype(value)
        if is_float(source) and not is_float(dtype):  # of NaN, devices differ
            raise _NotAVectorError
        return call(f"convert_{c_type(dtype, self.count)}", self.value(value))

    def binary(self, op: str, dtype: str, a: SourceText, b: SourceText) -> SourceText:
        """An operator on every lane."""
        kind = c_type(dtype, self.count)
        if op in ("min", "max"):
            return call(self.writer.helper(f"{op}imum_{kind}") if is_float(dtype) else op, a, b)
        if op not in SYMBOLS or op in ir.COMPARE_OPS:
            raise _NotAVectorError
        if is_float(dtype) or not is_signed(dtype) or op in ir.LOGIC_OPS:
            return infix(SYMBOLS[op], a, b)
        wrapping = f"as_{c_type(unsigned(dtype), self.count)}"
        return call(f"as_{kind}", infix(SYMBOLS[op], call(wrapping, a), call(wrapping, b)))

    def condition(self, cond: ir.Expr, dtype: str) -> SourceText:
        """A comparison whose lanes are as wide as those of `dtype`, as `select` wants."""
        if not isinstance(cond, ir.Binary) or cond.op not in ir.COMPARE_OPS:
            raise _NotAVectorError
        compared = self.writer.dtype(cond.a)
        self.check(compared)
        if _width(compared) != _width(dtype) or not (is_float(compared) or is_signed(compared)):
            raise _NotAVectorError
        return infix(SYMBOLS[cond.op], self.value(cond.a), self.value(cond.b))


def _width(dtype: str) -> int:
    return int(dtype.removeprefix("float")) if is_float(dtype) else bits(dtype)
