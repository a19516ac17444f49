"""Integer operators of a graph as operators of the accelerator.

`operator_call(graph, node, config)` applies the template of a node's operator. The arithmetic of
both is the same (`runtime/numpy_operators/integer.py`), so that results do not depend on which
nodes run where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vdla.compiler import templates
from vdla.compiler.graph.accelerator.call import MachineNode, OperatorCall
from vdla.compiler.graph.accelerator.concat_call import concat
from vdla.compiler.graph.accelerator.convolution_calls import conv, conv_transpose, dense
from vdla.compiler.graph.accelerator.elementwise_calls import add, elementwise, pool
from vdla.compiler.graph.accelerator.errors import NotAcceleratedError, decline
from vdla.compiler.graph.accelerator.matmul_call import matmul
from vdla.compiler.graph.accelerator.packing import PackedLayout
from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.operators.vdla import TemplateError
from vdla.hardware.config import Config
from vdla.hardware.numerics import NumericsError

MOVEMENTS = (
    "Expand",
    "Flatten",
    "Gather",
    "Pad",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)

_OF_NO_FLOATS = ("bool", "int16", "int32", "int64", "uint16", "uint32", "uint64", "str")
"""Element types that quantisation does not change."""


def operator_call(
    graph: Graph, node: Node, config: Config, made: Mapping[str, PackedLayout] | None = None
) -> OperatorCall:
    """The operator of the accelerator that computes a node.

    `made` has the layouts of values that the accelerator makes, which element-wise operators keep.

    Raises:
        NotAcceleratedError: the message says what the node must do to run there.
    """
    make = _CALLS.get(node.op)
    if make is None:
        decline(_why_not(graph, node))
    try:
        return make(MachineNode(graph, node, config, made or {}))
    except (TemplateError, NumericsError) as error:
        raise NotAcceleratedError(f"fit a template; {error}") from error


def _why_not(graph: Graph, node: Node) -> str:
    if node.op.startswith("vdla.Q"):
        return f"be an operator with a template, got {node.op.removeprefix('vdla.')}"
    if node.op in MOVEMENTS:
        return "compute; it moves data only"
    if node.op in ("QuantizeLinear", "DequantizeLinear"):
        return "compute; it converts between floats and integers only"
    if reads_quantised(graph, node):
        return "compute in integers; its operands are quantised, its result is not"
    kind = graph.types.get(node.outputs[0])
    if isinstance(kind, TensorType) and kind.dtype in _OF_NO_FLOATS:
        return f"compute in integers of 8 bits, got {kind.dtype}"
    return "compute in integers; it is not quantised"


def reads_quantised(graph: Graph, node: Node) -> bool:
    """Whether a node computes with a value that a DequantizeLinear makes."""
    makers = (graph.producers.get(name) for name in node.inputs)
    return any(maker is not None and maker.op == "DequantizeLinear" for maker in makers)


_CALLS: Mapping[str, Callable[[MachineNode], OperatorCall]] = {
    "Concat": concat,
    "vdla.QAdd": add,
    "vdla.QAveragePool": pool("average"),
    "vdla.QConv": conv,
    "vdla.QConvTranspose": conv_transpose,
    "vdla.QDense": dense,
    "vdla.QLeakyRelu": elementwise(templates.leaky_relu, "factors"),
    "vdla.QMatMul": matmul,
    "vdla.QMaxPool": pool("max"),
    "vdla.QRescale": elementwise(templates.rescale),
}
