"""What the tables of operators, conversions and functions ask of the writer of expressions."""

from __future__ import annotations

from typing import Protocol

from vdla.compiler import ir
from vdla.compiler.arith import Range
from vdla.compiler.codegen.opencl.source_text import SourceText


class ValueWriter(Protocol):
    """Writes the expressions of a kernel; `ranges` has the bounds of the variables."""

    ranges: dict[str, Range]

    def dtype(self, expr: ir.Expr) -> str:
        """The dtype of an expression."""

    def value(self, expr: ir.Expr) -> SourceText:
        """A value."""

    def index(self, expr: ir.Expr) -> SourceText:
        """Arithmetic on loop variables, which cannot overflow."""

    def known(self, expr: ir.Expr) -> SourceText | None:
        """The variable that holds a value, if one does."""

    def helper(self, name: str) -> str:
        """The name of a device function, which the source then holds."""
