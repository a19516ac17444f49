"""Rules of element-wise operators."""

from __future__ import annotations

from vdla.compiler import operators, te
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, OperatorRule


def _relu(call: NodeCall) -> te.Tensor:
    return operators.relu(call.tensor(0), name=call.name())


def _add(call: NodeCall) -> te.Tensor:
    return operators.add(call.tensor(0), call.tensor(1), name=call.name())


ELEMENTWISE = (
    OperatorRule("Relu", FusionClass.INJECTIVE, _relu),
    OperatorRule("Add", FusionClass.INJECTIVE, _add),
)
