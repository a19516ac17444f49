"""Operators of graphs as tensor expressions: one rule an operator.

`expressions(call)` applies the rule of a node's operator; `RULES` has all of them by name.
"""

from vdla.compiler.graph.rules.apply import expressions
from vdla.compiler.graph.rules.rule import DeclinedError, Expression, FusionClass, NodeCall, OperatorRule
from vdla.compiler.graph.rules.table import RULES

__all__ = ["RULES", "DeclinedError", "Expression", "FusionClass", "NodeCall", "OperatorRule", "expressions"]
