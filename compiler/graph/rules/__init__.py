# SPDX-License-Identifier: Apache-2.0
"""Tensor expressions of window and integer operators; `rule.py` defines what a rule is."""

from vdla.compiler.graph.rules.rule import DeclinedError, Expression, FusionClass, NodeCall

__all__ = ["DeclinedError", "Expression", "FusionClass", "NodeCall"]
