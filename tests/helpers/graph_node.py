# SPDX-License-Identifier: Apache-2.0
"""One node of a graph, compiled by its rule and called with arrays."""

import numpy as np

from vdla.compiler import te
from vdla.compiler.graph import Node, TensorType
from vdla.compiler.graph.operators import expressions
from vdla.compiler.graph.rules import NodeCall
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import Target
from vdla.runtime.native import build


def type_of(array, channels=None):
    """The type of an array; with `channels`, of one that is an image in blocks of channels."""
    if array is None:
        return None
    if channels is None or array.ndim != 5:
        return TensorType(str(array.dtype), array.shape)
    batch, _, *plane, lanes = array.shape
    return TensorType(str(array.dtype), (batch, channels, *plane), lanes)


def call_of(op, attributes, inputs, outputs, constants=(), channels=(None, None)):
    """The call of a node on arrays (None is absent), its results like `outputs`; the inputs at the
    indices `constants` are constants of the graph. `channels` are those of the first input and of
    the results where they are in blocks.
    """
    names = [f"x{n}" if array is not None else "" for n, array in enumerate(inputs)]
    results = [f"y{n}" if array is not None else "" for n, array in enumerate(outputs)]
    return NodeCall(
        node=Node(op, tuple(names), tuple(results), attributes),
        tensors=tuple(
            None if array is None else te.placeholder(array.shape or (1,), str(array.dtype), name)
            for name, array in zip(names, inputs, strict=True)
        ),
        constants=tuple(array if n in constants else None for n, array in enumerate(inputs)),
        types=tuple(type_of(array, channels[1]) for array in outputs),
        target=Target.named("host"),
        input_types=tuple(type_of(array, channels[0] if n == 0 else None) for n, array in enumerate(inputs)),
    )


def run_rule(op, attributes, inputs, outputs, constants=(), channels=(None, None)):
    """The results of a node as machine code; `outputs` have their types and shapes."""
    call = call_of(op, attributes, inputs, outputs, constants, channels)
    results = [tensor for tensor, array in zip(expressions(call), outputs, strict=False) if array is not None]
    used = [(tensor, array) for tensor, array in zip(call.tensors, inputs, strict=True) if tensor is not None]
    used += call.packed.items()
    fn = te.create_function([tensor for tensor, _ in used], results, "node")
    arrays = [np.ascontiguousarray(array).reshape(tensor.shape) for tensor, array in used]
    made = build(default_schedule(fn).fn)(*arrays)
    values = iter(made if len(results) > 1 else [made])
    return [None if array is None else next(values).reshape(array.shape) for array in outputs]
