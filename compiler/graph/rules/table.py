"""All rules by the name of their operator."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.graph.rules.attention import ATTENTION
from vdla.compiler.graph.rules.blocked import BLOCKED
from vdla.compiler.graph.rules.blocked_integer import BLOCKED_INTEGER
from vdla.compiler.graph.rules.broadcast import BROADCAST
from vdla.compiler.graph.rules.convolutions import CONVOLUTIONS
from vdla.compiler.graph.rules.cumulative import CUMULATIVE
from vdla.compiler.graph.rules.einsum import EINSUM
from vdla.compiler.graph.rules.elementwise import ELEMENTWISE
from vdla.compiler.graph.rules.gathers import GATHERS
from vdla.compiler.graph.rules.integer_elementwise import INTEGER_ELEMENTWISE
from vdla.compiler.graph.rules.integer_products import INTEGER_PRODUCTS
from vdla.compiler.graph.rules.integer_transposed import INTEGER_TRANSPOSED
from vdla.compiler.graph.rules.inverse_functions import INVERSE_FUNCTIONS
from vdla.compiler.graph.rules.movement import MOVEMENT
from vdla.compiler.graph.rules.normalisations import NORMALISATIONS
from vdla.compiler.graph.rules.patches import PATCHES
from vdla.compiler.graph.rules.pools import POOLS
from vdla.compiler.graph.rules.product_terms import PRODUCT_TERMS
from vdla.compiler.graph.rules.products import PRODUCTS
from vdla.compiler.graph.rules.qlinear import QLINEAR
from vdla.compiler.graph.rules.quantise_linear import QUANTISE_LINEAR
from vdla.compiler.graph.rules.recurrent import RECURRENT
from vdla.compiler.graph.rules.reductions import REDUCTIONS
from vdla.compiler.graph.rules.resize import RESIZE
from vdla.compiler.graph.rules.rule import OperatorRule
from vdla.compiler.graph.rules.sampling import SAMPLING
from vdla.compiler.graph.rules.sequences import SEQUENCES

_FAMILIES = (
    ATTENTION,
    BLOCKED,
    BLOCKED_INTEGER,
    BROADCAST,
    CONVOLUTIONS,
    CUMULATIVE,
    EINSUM,
    ELEMENTWISE,
    GATHERS,
    INTEGER_ELEMENTWISE,
    INTEGER_PRODUCTS,
    INTEGER_TRANSPOSED,
    PATCHES,
    INVERSE_FUNCTIONS,
    MOVEMENT,
    NORMALISATIONS,
    POOLS,
    PRODUCTS,
    PRODUCT_TERMS,
    QLINEAR,
    QUANTISE_LINEAR,
    RECURRENT,
    REDUCTIONS,
    RESIZE,
    SAMPLING,
    SEQUENCES,
)
RULES: Mapping[str, OperatorRule] = {rule.op: rule for family in _FAMILIES for rule in family}
