# SPDX-License-Identifier: Apache-2.0
"""Tensor expressions of operators on windows and of integers; what an expression is, `rule.py`."""

from vdla.compiler.graph.rules.rule import DeclinedError, Expression, FusionClass, NodeCall

__all__ = ["DeclinedError", "Expression", "FusionClass", "NodeCall"]
