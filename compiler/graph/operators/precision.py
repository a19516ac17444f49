"""float16 and bfloat16 as storage types: operators compute in float32 and round once."""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler import operators, te
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.ir import SMALL_FLOATS


def in_float32(call: NodeCall, function: Callable[..., te.Tensor], *tensors: te.Tensor | None) -> te.Tensor:
    """`function(*tensors, name=...)` on float32 tensors in place of 16-bit ones, rounded once.

    The result is named and typed as the node's first output; without 16-bit floats it is the
    function itself.
    """
    name, dtype = call.name(), call.result.dtype
    if not any(tensor is not None and tensor.dtype in SMALL_FLOATS for tensor in tensors):
        return function(*tensors, name=name)
    wide = function(*(widened(tensor, f"{name}_wide{n}") for n, tensor in enumerate(tensors)), name=f"{name}_wide")
    return wide if wide.dtype == dtype else operators.cast(wide, dtype, name=name)


def widened(tensor: te.Tensor | None, name: str) -> te.Tensor | None:
    """A 16-bit tensor as float32; any other tensor itself."""
    if tensor is None or tensor.dtype not in SMALL_FLOATS:
        return tensor
    return operators.cast(tensor, "float32", name=name)
