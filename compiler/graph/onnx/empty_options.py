"""Optional inputs that a model gives as tensors without elements, which mean that they are absent.

Opsets 11 and 12 demand such tensors for the `roi` and `scales` of a Resize that has `sizes`.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto, TypeProto

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_OPTIONS: Mapping[str, tuple[int, ...]] = {
    "Resize": (1, 2, 3),  # roi, scales, sizes
    "Squeeze": (1,),  # axes
    **{f"Reduce{name}": (1,) for name in _REDUCTIONS},  # axes
}


def without_empty_options(node: NodeProto, types: Mapping[str, TypeProto]) -> NodeProto:
    """The node without the optional inputs whose types say that they have no elements."""
    places = () if node.domain not in ("", "ai.onnx") else _OPTIONS.get(node.op_type, ())
    empty = [place for place in places if place < len(node.input) and _is_empty(types.get(node.input[place]))]
    if not empty or (node.op_type == "Resize" and len(node.input) == 2):  # the scales of opset 10
        return node
    made = NodeProto()
    made.CopyFrom(node)
    for place in empty:
        made.input[place] = ""
    while not made.input[-1]:
        del made.input[-1]
    return made


def _is_empty(kind: TypeProto | None) -> bool:
    if kind is None or not kind.tensor_type.HasField("shape"):
        return False
    dims = kind.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].HasField("dim_value") and dims[0].dim_value == 0
