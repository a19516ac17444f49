# SPDX-License-Identifier: Apache-2.0
"""Operators on windows of images: convolutions, pools, and repacking."""

from __future__ import annotations

from vdla.compiler import operators, te
from vdla.compiler.graph.integer.pools import fuse_average_pool
from vdla.compiler.graph.integer.products import fuse_conv, fuse_conv_transpose
from vdla.compiler.graph.layouts import windowed as layouts
from vdla.compiler.graph.operators.record import OperatorRecord, Trait, records
from vdla.compiler.graph.rules import convolutions, pools, qlinear, transposed
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall
from vdla.compiler.operators.roles import PLACED

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


def _pack_patches(call: NodeCall) -> te.Tensor:
    """The windows of an image as channels, which a 1x1 convolution reads.

    Channel (ky * KW + kx) * C + c of a window is channel c of the image at kernel position (ky,
    kx). The result [N / batch, KH * KW * C / block, OH, OW, batch, block] has the channels and the
    images in blocks, with zeros behind the last ones. An image [N, C, W] is one row.
    """
    kernel, block, batch = (call.attribute(key) for key in ("kernel_shape", "block", "batch"))
    (row_step, column_step), (row_gap, column_gap) = call.attribute("strides"), call.attribute("dilations")
    image = _padded(call)
    images, channels, taps = image.shape[0], image.shape[1], image.shape[1] * kernel[0] * kernel[1]

    def value(n: te.Value, g: te.Value, i: te.Value, j: te.Value, m: te.Value, b: te.Value) -> te.Value:
        c, number = g * block + b, n * batch + m
        tap, channel = c // channels, c % channels
        row, column = i * row_step + tap // kernel[1] * row_gap, j * column_step + tap % kernel[1] * column_gap
        inside = te.all_of(c < taps, number < images)
        return te.select(inside, image[number, channel, row, column], te.const(0, image.dtype))

    return te.compute(call.result.extents, value, call.name())


def _padded(call: NodeCall) -> te.Tensor:
    """The image with its padding, a stage of its own: each of its elements is read many times."""
    x, (top, left, bottom, right) = call.tensor(0), call.attribute("pads")
    count, channels, *spatial = x.shape
    height, width = (1, *spatial)[-2:]

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        inside = te.all_of(h >= top, h < top + height, w >= left, w < left + width)
        element = x[(n, c, *(h - top, w - left)[-len(spatial) :])]
        return te.select(inside, element, te.const(call.attribute("padding"), x.dtype))

    shape = (count, channels, top + height + bottom, left + width + right)
    return te.compute(shape, value, f"{call.name()}_padded", PLACED)


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
        expression=transposed.conv_transpose,
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
    # Not injective: an element is read many times, and fusion would recompute it for each read.
    *records(FusionClass.COMPLEX, {"vdla.PackPatches": _pack_patches}, attributes=_PATCHES),
)
