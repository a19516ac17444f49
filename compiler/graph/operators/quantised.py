"""Integer operators of quantised graphs, `vdla.Q...`, and their templates on the accelerator."""

from __future__ import annotations

from typing import Any

from vdla.compiler import templates
from vdla.compiler.graph.layouts.integers import INTEGERS
from vdla.compiler.graph.machine.convolution_calls import conv, conv_transpose, dense
from vdla.compiler.graph.machine.elementwise_calls import add, elementwise, pool
from vdla.compiler.graph.machine.matmul_call import matmul
from vdla.compiler.graph.operators.record import OperatorRecord, Trait, of_rule
from vdla.compiler.graph.rules.blocked_integer import BLOCKED_INTEGER
from vdla.compiler.graph.rules.integer_elementwise import INTEGER_ELEMENTWISE
from vdla.compiler.graph.rules.integer_products import INTEGER_PRODUCTS
from vdla.compiler.graph.rules.integer_transposed import INTEGER_TRANSPOSED
from vdla.compiler.graph.rules.product_terms import PRODUCT_TERMS

_FAMILIES = (BLOCKED_INTEGER, INTEGER_ELEMENTWISE, INTEGER_PRODUCTS, INTEGER_TRANSPOSED, PRODUCT_TERMS)
_RULES = {rule.op: rule for family in _FAMILIES for rule in family}


def _record(name: str, traits: Trait = Trait.NONE, **fields: Any) -> OperatorRecord:  # noqa: ANN401  fields of the record
    return of_rule(_RULES[name], traits, layout=INTEGERS.get(name), **fields)


_DESCRIBED = (
    _record("vdla.BlockedQConv", Trait.CONVOLUTION),
    _record("vdla.BlockedQConvTranspose", Trait.TRANSPOSED_CONVOLUTION),
    _record("vdla.QAdd", Trait.ELEMENTWISE, template=add),
    _record("vdla.QAveragePool", template=pool("average")),
    _record("vdla.QConv", Trait.CONVOLUTION, template=conv),
    _record("vdla.QConvTranspose", Trait.TRANSPOSED_CONVOLUTION, template=conv_transpose),
    _record("vdla.QDense", Trait.MATRIX_PRODUCT, template=dense),
    _record("vdla.QLeakyRelu", Trait.ELEMENTWISE, template=elementwise(templates.leaky_relu, "factors")),
    _record("vdla.QMatMul", Trait.MATRIX_PRODUCT, template=matmul),
    _record("vdla.QMaxPool", template=pool("max")),
    _record("vdla.QMul", Trait.ELEMENTWISE),
    _record("vdla.QRescale", Trait.ELEMENTWISE, template=elementwise(templates.rescale)),
    _record("vdla.QTable", Trait.ELEMENTWISE),
    _record("vdla.ToInt8", Trait.ELEMENTWISE),
    _record("vdla.ToUint8", Trait.ELEMENTWISE),
)
_OTHERS = _RULES.keys() - {record.name for record in _DESCRIBED}
QUANTISED = (*_DESCRIBED, *(of_rule(_RULES[name]) for name in sorted(_OTHERS)))
