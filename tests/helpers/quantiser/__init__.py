# SPDX-License-Identifier: Apache-2.0
"""A simple quantiser of float ONNX models, for tests: it imports nothing of VDLA.

It writes QDQ graphs as ONNX Runtime's static quantiser does (min-max ranges, symmetric weights,
int32 biases of scale sx * sw), and QLinear graphs from them.
"""

from helpers.quantiser.qdq import to_qdq
from helpers.quantiser.qlinear import to_qlinear

__all__ = ["to_qdq", "to_qlinear"]
