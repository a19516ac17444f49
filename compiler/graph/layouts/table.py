"""All layout rules by operator: an operator is added by a row of its family's table.

The blocked form needs a rule in `compiler/graph/rules` and a NumPy function, as every operator.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.graph.layouts.convolutions import CONVOLUTIONS
from vdla.compiler.graph.layouts.elementwise import ELEMENTWISE
from vdla.compiler.graph.layouts.integers import INTEGERS
from vdla.compiler.graph.layouts.layout_rule import LayoutRule
from vdla.compiler.graph.layouts.movement import MOVEMENT
from vdla.compiler.graph.layouts.pools import POOLS

LAYOUT_RULES: Mapping[str, LayoutRule] = {**CONVOLUTIONS, **ELEMENTWISE, **INTEGERS, **MOVEMENT, **POOLS}
