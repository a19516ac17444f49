"""Operators of graphs as tensor expressions: one rule an operator.

`expressions(call)` applies the rule of a node's operator; `RULES` has all of them by name.
`HOST_OPERATORS` are those that also or only run as NumPy functions.
"""

from vdla.compiler.graph.rules.apply import expressions
from vdla.compiler.graph.rules.host import HOST_OPERATORS
from vdla.compiler.graph.rules.rule import DeclinedError, Expression, FusionClass, NodeCall, OperatorRule
from vdla.compiler.graph.rules.table import RULES

__all__ = [
    "HOST_OPERATORS",
    "RULES",
    "DeclinedError",
    "Expression",
    "FusionClass",
    "NodeCall",
    "OperatorRule",
    "expressions",
]
