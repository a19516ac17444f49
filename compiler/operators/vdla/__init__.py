"""Tiles of an operator of the accelerator: their search and schedule, packed layouts, and the
templates of the GEMM.
"""

from vdla.compiler.operators.vdla.batched_matmul import batched_matmul
from vdla.compiler.operators.vdla.chain import Chain, ChainStep
from vdla.compiler.operators.vdla.compile_operators import TemplateCall, compile_operators
from vdla.compiler.operators.vdla.conv2d import conv2d
from vdla.compiler.operators.vdla.dense import dense
from vdla.compiler.operators.vdla.layouts import Layout
from vdla.compiler.operators.vdla.operator import Operator, TemplateError
from vdla.compiler.operators.vdla.tiling_problem import Tiling
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
    "dense",
    "residual_factors",
    "slope_factors",
]
