# SPDX-License-Identifier: Apache-2.0
"""Operator templates for the accelerator, for any shape and configuration.

Each template is a function from a `Config` and keyword options to an `Operator`. It is a plain
definition, which the mapper packs so that channels are the lanes of entries.
"""

from vdla.compiler.operators.vdla.chain import Chain, ChainStep
from vdla.compiler.operators.vdla.compile_operators import TemplateCall, compile_operators
from vdla.compiler.operators.vdla.operator import Layout, Operator, TemplateError
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.channelwise import depthwise_conv2d, pool2d
from vdla.compiler.templates.conv2d import conv2d
from vdla.compiler.templates.conv2d_transpose import conv2d_transpose
from vdla.compiler.templates.elementwise import extremum, leaky_relu, rescale, residual_add, scaling
from vdla.compiler.templates.products import batched_matmul, dense
from vdla.hardware.factors import residual_factors, slope_factors

__all__ = [
    "Chain",
    "ChainStep",
    "Layout",
    "Operator",
    "TemplateCall",
    "TemplateError",
    "Tiling",
    "batched_matmul",
    "compile_operators",
    "conv2d",
    "conv2d_transpose",
    "dense",
    "depthwise_conv2d",
    "extremum",
    "leaky_relu",
    "pool2d",
    "rescale",
    "residual_add",
    "residual_factors",
    "scaling",
    "slope_factors",
]
