"""Scalar functions."""

from __future__ import annotations

from vdla.compiler.llvm.types import Value
from vdla.compiler.llvm.values import Operators


def call(operators: Operators, name: str, dtype: str, args: list[Value]) -> Value:
    """x."""
    if name == "divide":
        return operators.builder.fdiv(*args)
    raise NotImplementedError(name)
