# SPDX-License-Identifier: Apache-2.0
"""Operators of graphs: one record an operator, by families, and the expressions of nodes.

`RECORDS` has the records by name, `register` adds one, `has_trait` asks what kind of operator it
is; `expressions(call)` applies the tensor expression of a node's operator.
"""

from vdla.compiler.graph.operators.elementwise import element_function, tensor_function
from vdla.compiler.graph.operators.graph_function import expressions
from vdla.compiler.graph.operators.record import OperatorRecord, Trait
from vdla.compiler.graph.operators.table import RECORDS, has_expression, has_trait, register

__all__ = [
    "RECORDS",
    "OperatorRecord",
    "Trait",
    "element_function",
    "expressions",
    "has_expression",
    "has_trait",
    "register",
    "tensor_function",
]
