"""Operators on windows of images, convolutions and pools, and the one that changes their layout."""

from __future__ import annotations

from vdla.compiler import operators, te
from vdla.compiler.graph.integer.pools import fuse_average_pool
from vdla.compiler.graph.integer.products import fuse_conv, fuse_conv_transpose
from vdla.compiler.graph.layouts import windowed as layouts
from vdla.compiler.graph.operators.record import OperatorRecord, Trait, records
from vdla.compiler.graph.rules import convolutions, pools, qlinear
from vdla.compiler.graph.rules.patches import pack_patches
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall

_MEAN = Trait.POOL | Trait.COMBINING | Trait.KEEPS_MAGNITUDE | Trait.HOMOGENEOUS


def _global_max_pool(call: NodeCall) -> te.Tensor:
    return operators.global_max_pool(call.tensor(0), name=call.name())


def _global_lp_pool(call: NodeCall) -> te.Tensor:
    return operators.global_lp_pool(call.tensor(0), call.attribute("p", 2), name=call.name())


def _repack(call: NodeCall) -> te.Tensor:
    """An image in the layout of the result's type."""
    x, kind = call.tensor(0), call.result
    if kind.lanes:
        return operators.to_blocked(x, kind.lanes, name=call.name())
    return operators.from_blocked(x, kind.extents[1], name=call.name())


_PATCHES = {
    "kernel_shape": tuple,
    "strides": tuple,
    "pads": tuple,
    "dilations": tuple,
    "padding": int,
    "block": int,
    "batch": int,
}

WINDOWED = (
    OperatorRecord(
        name="Conv",
        fusion=FusionClass.COMPLEX,
        expression=convolutions.conv,
        traits=Trait.CONVOLUTION | Trait.BIASED,
        layout=layouts.conv,
        integer=fuse_conv,
        output_axis=0,
    ),
    OperatorRecord(
        name="ConvTranspose",
        fusion=FusionClass.COMPLEX,
        expression=convolutions.conv_transpose,
        traits=Trait.TRANSPOSED_CONVOLUTION | Trait.BIASED,
        integer=fuse_conv_transpose,
        output_axis=1,
    ),
    *records(FusionClass.COMPLEX, {"ConvInteger": qlinear.conv_integer}, Trait.CONVOLUTION),
    *records(FusionClass.COMPLEX, {"QLinearConv": qlinear.qlinear_conv}, Trait.CONVOLUTION, weight=3),
    *records(FusionClass.COMPLEX, {"MatMulInteger": qlinear.matmul_integer}, Trait.MATRIX_PRODUCT),
    *records(FusionClass.COMPLEX, {"QLinearMatMul": qlinear.qlinear_matmul}, Trait.MATRIX_PRODUCT, weight=3),
    *records(FusionClass.REDUCTION, {"DynamicQuantizeLinear": qlinear.dynamic_quantise}),
    OperatorRecord(
        name="AveragePool",
        fusion=FusionClass.REDUCTION,
        expression=pools.average_pool,
        traits=_MEAN,
        layout=layouts.pool,
        integer=fuse_average_pool,
    ),
    OperatorRecord(
        name="GlobalAveragePool",
        fusion=FusionClass.REDUCTION,
        expression=pools.global_average_pool,
        traits=_MEAN,
        layout=layouts.global_average_pool,
        integer=fuse_average_pool,
    ),
    OperatorRecord(
        name="MaxPool",
        fusion=FusionClass.REDUCTION,
        expression=pools.max_pool,
        traits=Trait.POOL | Trait.SELECTION | Trait.HOMOGENEOUS,
        layout=layouts.pool,
    ),
    *records(FusionClass.REDUCTION, {"GlobalMaxPool": _global_max_pool}, Trait.POOL | Trait.SELECTION),
    *records(FusionClass.REDUCTION, {"GlobalLpPool": _global_lp_pool, "LpPool": pools.lp_pool}),
    *records(FusionClass.INJECTIVE, {"vdla.Repack": _repack}, attributes={}),
    # Not injective: an element is read many times, and must not be computed as often.
    *records(FusionClass.COMPLEX, {"vdla.PackPatches": pack_patches}, attributes=_PATCHES),
)
