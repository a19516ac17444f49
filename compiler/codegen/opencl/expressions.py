"""Expressions as OpenCL C of exactly their type: what C would promote is converted back.

Signed integers are added and multiplied as unsigned ones, which wrap. A value that occurs several
times in a statement is kept in a variable `t1`, `t2`, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vdla.compiler import ir
from vdla.compiler.arith import Range, bounds, var_names
from vdla.compiler.codegen.opencl import arithmetic, casts, functions
from vdla.compiler.codegen.opencl.indices import elements, is_index, offset_of
from vdla.compiler.codegen.opencl.literals import literal
from vdla.compiler.codegen.opencl.names import CNames
from vdla.compiler.codegen.opencl.repeated import ExpressionNumbers, repeated
from vdla.compiler.codegen.opencl.source_text import EQUALITY, PRODUCT, SUM, SourceText, conditional, infix, subscript
from vdla.compiler.codegen.opencl.types import c_type


@dataclass(slots=True)
class ExpressionWriter:
    """Writes the expressions of a kernel; `used` collects the device functions that they call.

    `fixed` are the variables with one value in a thread; `ranges` has the bounds of all variables
    at this point. Quotients of fixed variables are computed once, at the beginning of the kernel.
    """

    buffers: Mapping[str, ir.Buffer]
    names: CNames
    used: set[str]
    fixed: frozenset[str] = frozenset()
    ranges: dict[str, Range] = field(default_factory=dict)
    kept: dict[int, SourceText] = field(default_factory=dict)
    numbers: ExpressionNumbers = field(default_factory=ExpressionNumbers)
    hoisted: dict[ir.Expr, tuple[str, SourceText]] = field(default_factory=dict)

    def dtype(self, expr: ir.Expr) -> str:
        """The dtype of an expression."""
        return ir.dtype_of(expr, self.buffers)

    def value(self, expr: ir.Expr) -> SourceText:
        """A value."""
        if (known := self.known(expr)) is not None:
            return known
        match expr:
            case ir.Var(name=name):
                return SourceText(self.names[name])
            case ir.Const():
                return literal(expr)
            case ir.Load(buffer=buffer, indices=indices):
                return self.load(buffer, indices)
            case ir.Cast(dtype=dtype, value=value):
                return casts.cast(self, self.value(value), self.dtype(value), dtype)
            case ir.Select(cond=cond, a=a, b=b):
                chosen = conditional(self.value(cond), self.value(a), self.value(b))
                return arithmetic.narrowed(chosen, self.dtype(a))
            case ir.Binary():
                return arithmetic.binary(self, expr)
            case ir.Call(name=name, args=args):
                return functions.call_function(self, name, self.dtype(args[0]), [self.value(arg) for arg in args])

    def known(self, expr: ir.Expr) -> SourceText | None:
        """The variable that holds a value, if one does."""
        return self.kept.get(self.numbers[expr]) if self.kept else None

    def load(self, buffer: str, indices: tuple[ir.Expr, ...]) -> SourceText:
        """An element of a buffer."""
        element = self.element(buffer, indices)
        return infix("!=", EQUALITY, element, SourceText("0")) if self.buffers[buffer].dtype == "bool" else element

    def element(self, buffer: str, indices: tuple[ir.Expr, ...]) -> SourceText:
        """An element of a buffer as it is stored; a thread's array of one element is a variable."""
        if self.buffers[buffer].scope == "local" and elements(self.buffers[buffer]) == 1:
            return SourceText(self.names[buffer])
        return subscript(self.names[buffer], self.index(offset_of(indices, self.buffers[buffer], self.ranges)))

    def index(self, expr: ir.Expr) -> SourceText:
        """An offset, an index or an extent."""
        divides = isinstance(expr, ir.Binary) and expr.op in ("floordiv", "mod")
        if divides and is_index(expr) and var_names(expr) <= self.fixed:
            return self.hoist(expr)
        return self.computed_index(expr)

    def computed_index(self, expr: ir.Expr) -> SourceText:
        """An index, computed here."""
        match expr:
            case ir.Binary(op="add" | "sub" | "mul" as op, a=a, b=b):
                symbol, level = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT)}[op]
                return infix(symbol, level, self.index(a), self.index(b))
            case ir.Binary(op="floordiv" | "mod" as op, a=a, b=ir.Const(value=divisor)) if (
                is_index(a) and divisor > 0 and bounds(a, self.ranges)[0] >= 0
            ):
                return infix("/" if op == "floordiv" else "%", PRODUCT, self.index(a), SourceText(str(divisor)))
        return self.value(expr)

    def hoist(self, expr: ir.Expr) -> SourceText:
        """A variable that holds an index, declared at the beginning of the kernel."""
        if expr not in self.hoisted:
            kept, self.kept = self.kept, {}  # variables of the statement do not exist there
            code = self.computed_index(expr)
            self.kept = kept
            self.hoisted[expr] = self.names.fresh(f"i{len(self.hoisted)}"), code
        return SourceText(self.hoisted[expr][0])

    def hoisted_lines(self) -> list[str]:
        """The declarations at the beginning of the kernel."""
        return [f"const int {name} = {code.text};" for name, code in self.hoisted.values()]

    def helper(self, name: str) -> str:
        """The name of a device function, which the source then holds."""
        self.used.add(name)
        return name

    # --- values that occur several times

    def shared(self, roots: Iterable[ir.Expr]) -> list[str]:
        """Keep the values that occur several times in `roots`: each with its declaration."""
        self.forget()
        lines: list[str] = []
        for expr in repeated(list(roots), self.numbers):
            code = self.value(expr)
            name = f"t{len(self.kept) + 1}"
            self.kept[self.numbers[expr]] = SourceText(name)
            lines.append(f"const {c_type(self.dtype(expr))} {name} = {code.text};")
        return lines

    def forget(self) -> None:
        """End the statement: its variables are gone."""
        self.kept, self.numbers = {}, ExpressionNumbers()
