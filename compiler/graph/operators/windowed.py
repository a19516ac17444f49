"""Operators on windows of images: convolutions and pools, of floats, of integers, in blocks."""

from __future__ import annotations

from typing import Any

from vdla.compiler.graph.integer.pools import fuse_average_pool
from vdla.compiler.graph.integer.products import fuse_conv, fuse_conv_transpose
from vdla.compiler.graph.layouts import convolutions as conv_layouts
from vdla.compiler.graph.layouts import pools as pool_layouts
from vdla.compiler.graph.operators.record import OperatorRecord, Trait, of_rule
from vdla.compiler.graph.rules.blocked import BLOCKED
from vdla.compiler.graph.rules.convolutions import CONVOLUTIONS
from vdla.compiler.graph.rules.patches import PATCHES
from vdla.compiler.graph.rules.pools import POOLS
from vdla.compiler.graph.rules.qlinear import QLINEAR

_RULES = {rule.op: rule for rule in (*CONVOLUTIONS, *POOLS, *BLOCKED, *QLINEAR, *PATCHES)}
_LAYOUTS = {**conv_layouts.CONVOLUTIONS, **pool_layouts.POOLS}
_MEAN = Trait.POOL | Trait.COMBINING | Trait.KEEPS_MAGNITUDE | Trait.HOMOGENEOUS


def _record(name: str, traits: Trait, **fields: Any) -> OperatorRecord:  # noqa: ANN401  fields of the record
    return of_rule(_RULES[name], traits, layout=_LAYOUTS.get(name), **fields)


_DESCRIBED = (
    _record("AveragePool", _MEAN, integer=fuse_average_pool),
    _record("Conv", Trait.CONVOLUTION | Trait.BIASED, integer=fuse_conv, output_axis=0),
    _record("ConvInteger", Trait.CONVOLUTION),
    _record("ConvTranspose", Trait.TRANSPOSED_CONVOLUTION | Trait.BIASED, integer=fuse_conv_transpose, output_axis=1),
    _record("GlobalAveragePool", _MEAN, integer=fuse_average_pool),
    _record("GlobalMaxPool", Trait.POOL | Trait.SELECTION),
    _record("MatMulInteger", Trait.MATRIX_PRODUCT),
    _record("MaxPool", Trait.POOL | Trait.SELECTION | Trait.HOMOGENEOUS),
    _record("QLinearConv", Trait.CONVOLUTION, weight=3),
    _record("QLinearMatMul", Trait.MATRIX_PRODUCT, weight=3),
    _record("vdla.BlockedConv", Trait.CONVOLUTION),
)
_OTHERS = _RULES.keys() - {record.name for record in _DESCRIBED}
WINDOWED = (*_DESCRIBED, *(of_rule(_RULES[name]) for name in sorted(_OTHERS)))
