# SPDX-License-Identifier: Apache-2.0
"""The meaning of quantised ONNX graphs in exact integers: the oracle of all quantised networks.

Written from ONNX's specification and the contract below, with NumPy and `onnx` alone: it imports
nothing of VDLA. `evaluate(model, inputs)` gives every quantised tensor by its name.

The contract, for a QuantizeLinear whose input is an operator over dequantised tensors, with scales
in float32 (sx, sw, sy), zero points (zx, zw, zy) and every float32 operation rounded on its own:

- A result is clip(round(sum * s) + zy): the sum wraps in int32, its product with the float32 s is
  exact, and round is half to even.
- Conv, ConvTranspose, Gemm, MatMul: the sum of (x - zx) * (w - zw) and of the bias, with
  s = (sx * sw) / sy. A bias that is not int32 of scale sx * sw is quantised to it. A product by a
  constant and an Add of a constant for each channel are one operator.
- Add: Ia * (a - za) + Ib * (b - zb), s = sl / (sy * Ib), where a has the smaller of both scales,
  Ia / Ib of the larger one sl, to the nearest fraction whose denominator is at most 32767.
- AveragePool, GlobalAveragePool, ReduceMean over all spatial dimensions: the sum over the n pixels
  of a window, s = (sx / sy) / n.
- Mul: (a - za) * (b - zb), s = (sa * sb) / sy. Sub: Add with a negative Ib.
- LeakyRelu of slope p / q, a fraction as in Add: the larger of q * (x - zx) and p * (x - zx),
  s = sx / (sy * q).
- PRelu: 128 * (x - zx), below zero round(128 * slope) * (x - zx), s = sx / (sy * 128); slopes are
  constants along one dimension, below 256.
- A requantisation: x - zx, s = sx / sy.
- Relu and Clip before the QuantizeLinear limit the result to their quantised bounds.
- MaxPool, Concat and copies such as Reshape before the QuantizeLinear come after it.
- Any other operator, and one whose float result something else reads too: dequantise, compute in
  float32, quantise.
"""

from helpers.integer_evaluator.evaluator import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
