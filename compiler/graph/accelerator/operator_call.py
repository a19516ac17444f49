# SPDX-License-Identifier: Apache-2.0
"""Integer operators of a graph as operators of the accelerator.

`operator_call(graph, node, config)` applies the template of a node's operator. Both have the same
arithmetic (`runtime/numpy_operators/integer.py`), so that results do not depend on the placement of
nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.machine.call import MachineNode, NotAcceleratedError, OperatorCall, decline
from vdla.compiler.graph.machine.packing import PackedLayout
from vdla.compiler.graph.operators import RECORDS, Trait, has_trait
from vdla.compiler.operators.vdla import TemplateError
from vdla.hardware.config import Config
from vdla.hardware.numerics import NumericsError

_OF_NO_FLOATS = ("bool", "int16", "int32", "int64", "uint16", "uint32", "uint64", "str")
"""Element types that quantisation does not change."""


def operator_call(
    graph: Graph, node: Node, config: Config, made: Mapping[str, PackedLayout] | None = None
) -> OperatorCall:
    """The operator of the accelerator that computes a node.

    `made` has the layouts of values computed on the accelerator, which element-wise operators keep.

    Raises:
        NotAcceleratedError: the message says what the node must do to run on the accelerator.
    """
    record = RECORDS.get(node.op)
    if record is None or record.template is None:
        decline(_why_not(graph, node))
    try:
        return record.template(MachineNode(graph, node, config, made or {}))
    except (TemplateError, NumericsError) as error:
        raise NotAcceleratedError(f"fit a template; {error}") from error


def _why_not(graph: Graph, node: Node) -> str:
    if node.op.startswith("vdla.Q"):
        return f"be an operator with a template, got {node.op.removeprefix('vdla.')}"
    if has_trait(node.op, Trait.MOVEMENT):
        return "compute, not only move data"
    if has_trait(node.op, Trait.CONVERSION):
        return "compute, not only convert between floats and integers"
    if reads_quantised(graph, node):
        return "have a quantised result, not only quantised operands"
    kind = graph.types.get(node.outputs[0])
    if isinstance(kind, TensorType) and kind.dtype in _OF_NO_FLOATS:
        return f"compute in 8-bit integers, got {kind.dtype}"
    return "be quantised"


def reads_quantised(graph: Graph, node: Node) -> bool:
    """Whether an operand of a node is the result of a DequantizeLinear."""
    makers = (graph.producers.get(name) for name in node.inputs)
    return any(maker is not None and maker.op == "DequantizeLinear" for maker in makers)
