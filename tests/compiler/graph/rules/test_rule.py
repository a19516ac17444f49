# SPDX-License-Identifier: Apache-2.0
"""What a rule gets: inputs, attributes, constants made at compile time."""

import numpy as np

from vdla.compiler import te
from vdla.compiler.graph import Node, TensorType
from vdla.compiler.graph.rules import NodeCall
from vdla.compiler.target import host


def test_packed_constants_are_inputs_behind_those_of_the_node():
    x = te.placeholder((2,), "float32", "x")
    node, kind = Node("vdla.Scaled", ("x",), ("y",)), TensorType("float32", (2,))
    call = NodeCall(node=node, tensors=(x,), constants=(None,), types=(kind,), target=host())
    value = np.array([2, 3], np.float32)
    factors = call.pack("factors", value)
    assert (factors.name, factors.shape, factors.dtype) == ("y_factors", (2,), "float32")
    assert call.packed == {factors: value}
    y = te.compute((2,), lambda i: x[i] * factors[i], call.name())
    assert te.create_function([x, *call.packed], [y], "f").params == ("x", "y_factors", "y")
