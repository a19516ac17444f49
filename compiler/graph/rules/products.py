"""Rules of matrix products."""

from __future__ import annotations

from vdla.compiler import operators, te
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, OperatorRule


def _matmul(call: NodeCall) -> te.Tensor:
    return operators.matmul(call.tensor(0), call.tensor(1), name=call.name())


PRODUCTS = (OperatorRule("MatMul", FusionClass.COMPLEX, _matmul),)
