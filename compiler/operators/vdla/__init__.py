# SPDX-License-Identifier: Apache-2.0
"""Operators of the accelerator: search and schedule of their tiles, packed layouts, chains."""

from vdla.compiler.operators.vdla.chain import Chain, ChainStep
from vdla.compiler.operators.vdla.compile_operators import TemplateCall, compile_operators
from vdla.compiler.operators.vdla.operator import Layout, Operator, TemplateError
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.operators.vdla.written_operator import WrittenOperator
from vdla.hardware.factors import residual_factors, slope_factors

__all__ = [
    "Chain",
    "ChainStep",
    "Layout",
    "Operator",
    "TemplateCall",
    "TemplateError",
    "Tiling",
    "WrittenOperator",
    "compile_operators",
    "residual_factors",
    "slope_factors",
]
