# SPDX-License-Identifier: Apache-2.0
"""Nodes of a graph on the accelerator: templates for integer operators, layouts, regions."""

from vdla.compiler.graph.accelerator.choose import Choice, Decision, choose, milliseconds
from vdla.compiler.graph.accelerator.cost import (
    CPU_MODELS,
    CpuModel,
    board_cpu,
    cpu_seconds,
    modelled_cpu,
    seconds_of,
    tensor_bytes,
)
from vdla.compiler.graph.accelerator.operator_call import operator_call
from vdla.compiler.graph.accelerator.partition import AcceleratorCandidates, BetterCall, candidates, partition
from vdla.compiler.graph.accelerator.region import ACCELERATED, REGION, AcceleratedRegion, with_named_inputs
from vdla.compiler.graph.accelerator.region_expression import RegionExpression, region_expressions
from vdla.compiler.graph.accelerator.stored_expressions import expressions_from_bytes, expressions_to_bytes
from vdla.compiler.graph.machine.call import NotAcceleratedError, OperatorCall

__all__ = [
    "ACCELERATED",
    "CPU_MODELS",
    "REGION",
    "AcceleratedRegion",
    "AcceleratorCandidates",
    "BetterCall",
    "Choice",
    "CpuModel",
    "Decision",
    "NotAcceleratedError",
    "OperatorCall",
    "RegionExpression",
    "board_cpu",
    "candidates",
    "choose",
    "cpu_seconds",
    "expressions_from_bytes",
    "expressions_to_bytes",
    "milliseconds",
    "modelled_cpu",
    "operator_call",
    "partition",
    "region_expressions",
    "seconds_of",
    "tensor_bytes",
    "with_named_inputs",
]
