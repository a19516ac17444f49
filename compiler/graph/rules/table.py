"""All rules by the name of their operator."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.graph.rules.elementwise import ELEMENTWISE
from vdla.compiler.graph.rules.products import PRODUCTS
from vdla.compiler.graph.rules.rule import OperatorRule

RULES: Mapping[str, OperatorRule] = {rule.op: rule for rule in (*ELEMENTWISE, *PRODUCTS)}
