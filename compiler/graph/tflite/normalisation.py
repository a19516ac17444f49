# SPDX-License-Identifier: Apache-2.0
"""L2_NORMALIZATION and LOG_SOFTMAX, along the last dimension."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import TensorType
from vdla.compiler.graph.tflite.context import OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.floats import activated, check_float
from vdla.compiler.graph.tflite.movement import integers

_LEAST_LENGTH = 1e-6
_MOST_DEPTH = ((1 << 31) - 1) // 255**2  # elements whose squares are an int32 together


def l2_normalise(at: OperatorContext) -> None:
    """Rows over their Euclidean lengths."""
    shape = at.tensor(0).shape
    if not shape:
        decline("have at least one dimension")
    if at.is_quantised:
        if (at.result.scale, at.result.zero_point) != (np.float32(1 / 128), 0):
            decline("have a result of scale 1/128 and zero point 0")
        if shape[-1] > _MOST_DEPTH:
            decline(f"have rows of at most {_MOST_DEPTH} elements, got {shape[-1]}")
        kind = TensorType("int8", shape)
        return at.define(at.add("vdla.QNormalise", [at.read(0)], {"x_zero_point": at.affine(0).zero_point}, kind))
    check_float(at)
    x = at.read(0)
    length = at.add("ReduceL2", [x, integers(at, [-1], "axes")], {"keepdims": 1})
    least = at.builder.constant(np.array(_LEAST_LENGTH, np.float32), f"{at.builder.label}_least")
    return at.define(activated(at, at.add("Div", [x, at.add("Max", [length, least])])))


def log_softmax(at: OperatorContext) -> None:
    """The logarithm of a softmax of floats."""
    if not at.tensor(0).shape:
        decline("have at least one dimension")
    check_float(at)
    at.define(at.add("LogSoftmax", [at.read(0)], {"axis": -1}))
