# SPDX-License-Identifier: Apache-2.0
"""Expressions as OpenCL C of exactly their type: what C would promote is converted back.

Signed integers are added and multiplied as unsigned ones, which wrap. A value that occurs several
times in a statement is kept in a variable `t1`, `t2`, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vdla.compiler import ir
from vdla.compiler.arith import Range, bounds, var_names
from vdla.compiler.codegen.opencl import arithmetic
from vdla.compiler.codegen.opencl.indices import elements, is_index, offset_of
from vdla.compiler.codegen.opencl.names import CNames
from vdla.compiler.codegen.opencl.source_text import SourceText, conditional, infix, subscript
from vdla.compiler.codegen.opencl.types import c_type, literal

_FEW_NODES = 3  # an expression of so few nodes is repeated rather than kept in a variable


@dataclass(slots=True)
class ExpressionNumbers:
    """Numbers of expressions, found in time linear in the size of the tree.

    Equal ones have one number: passes copy what a tensor expression shares.
    """

    known: dict[tuple[object, ...], int] = field(default_factory=dict)
    seen: dict[int, tuple[ir.Expr, int]] = field(default_factory=dict)

    def __getitem__(self, expr: ir.Expr) -> int:
        if id(expr) not in self.seen:
            key = (type(expr), _label(expr), *(self[operand] for operand in ir.operands(expr)))
            self.seen[id(expr)] = expr, self.known.setdefault(key, len(self.known))
        return self.seen[id(expr)][1]


def _label(expr: ir.Expr) -> object:
    """What an expression has beside its operands."""
    match expr:
        case ir.Var(name=name):
            return name
        case ir.Const(value=value, dtype=dtype):
            return repr(value), dtype
        case ir.Binary(op=op):
            return op
        case ir.Cast(dtype=dtype):
            return dtype
        case ir.Load(buffer=buffer):
            return buffer
        case ir.Call(name=name, dtype=dtype):
            return name, dtype
    return None


def repeated(roots: Sequence[ir.Expr], numbers: ExpressionNumbers) -> list[ir.Expr]:
    """The expressions that occur several times in `roots`, operands first.

    Without those that read memory and stand under a condition somewhere, which may guard the read.
    """
    walk = _Walk(numbers)
    for root in roots:
        walk.visit(root, under=False)
    return [
        expr
        for expr in walk.order
        if walk.counts[numbers[expr]] > 1
        and ir.size_of(expr).nodes > _FEW_NODES
        and not (numbers[expr] in walk.hidden and ir.reads_memory(expr))
    ]


@dataclass(slots=True)
class _Walk:
    """Counts the occurrences of expressions as operands of distinct ones."""

    numbers: ExpressionNumbers
    counts: dict[int, int] = field(default_factory=dict)
    order: list[ir.Expr] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)

    def visit(self, expr: ir.Expr, *, under: bool) -> None:
        """Count an occurrence, `under` a condition or not."""
        number = self.numbers[expr]
        first, exposes = number not in self.counts, under and number not in self.hidden
        self.counts[number] = self.counts.get(number, 0) + 1
        if under:
            self.hidden.add(number)
        if not first and not exposes:
            return
        for operand, guarded in _operands(expr):
            self.visit(operand, under=under or guarded)
            if not first:
                self.counts[self.numbers[operand]] -= 1  # seen before, without the condition
        if first:
            self.order.append(expr)


def _operands(expr: ir.Expr) -> list[tuple[ir.Expr, bool]]:
    """The operands that are values, and whether each is evaluated under a condition only."""
    match expr:
        case ir.Select(cond=cond, a=a, b=b):
            return [(cond, False), (a, True), (b, True)]
        case ir.Binary(op="and" | "or", a=a, b=b):
            return [(a, False), (b, True)]
        case ir.Load(indices=indices):
            return [(index, False) for index in indices if not is_index(index)]
    return [(operand, False) for operand in ir.operands(expr)]


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
                return arithmetic.cast(self, self.value(value), self.dtype(value), dtype)
            case ir.Select(cond=cond, a=a, b=b):
                chosen = conditional(self.value(cond), self.value(a), self.value(b))
                return arithmetic.narrowed(chosen, self.dtype(a))
            case ir.Binary():
                return arithmetic.binary(self, expr)
            case ir.Call(name=name, args=args):
                return arithmetic.call_function(self, name, self.dtype(args[0]), [self.value(arg) for arg in args])

    def known(self, expr: ir.Expr) -> SourceText | None:
        """The variable that holds a value, if one does."""
        return self.kept.get(self.numbers[expr]) if self.kept else None

    def load(self, buffer: str, indices: tuple[ir.Expr, ...]) -> SourceText:
        """An element of a buffer."""
        element = self.element(buffer, indices)
        return infix("!=", element, SourceText("0")) if self.buffers[buffer].dtype == "bool" else element

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
                return infix(arithmetic.SYMBOLS[op], self.index(a), self.index(b))
            case ir.Binary(op="floordiv" | "mod" as op, a=a, b=ir.Const(value=divisor)) if (
                is_index(a) and divisor > 0 and bounds(a, self.ranges)[0] >= 0
            ):
                return infix("/" if op == "floordiv" else "%", self.index(a), SourceText(str(divisor)))
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
