# SPDX-License-Identifier: Apache-2.0
"""The operators of networks that are measured, each at three sizes, smallest first.

A size is the shape of the first input, as in networks of images, text and sound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.support.arrays import Array

if TYPE_CHECKING:
    from onnx import ModelProto

Size = tuple[int, ...]
Draw = Callable[..., Array]
"""Normally distributed float32 numbers of a shape."""
_OPSET, _IR_VERSION = 23, 11


@dataclass(frozen=True, slots=True)
class KernelCase:
    """One node: `inputs` change from run to run, `constants` follow them; None is one left out."""

    op: str
    inputs: Sequence[Array]
    constants: Sequence[Array | None] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1

    def model(self) -> ModelProto:
        """The ONNX model of the node, with inputs x0, x1, ... and outputs y0, y1, ..."""
        from onnx import helper, numpy_helper, shape_inference

        inputs = [f"x{n}" for n in range(len(self.inputs))]
        constants = {f"c{n}": array for n, array in enumerate(self.constants) if array is not None}
        names = [
            *inputs,
            *(name if name in constants else "" for name in map("c{}".format, range(len(self.constants)))),
        ]
        outputs = [f"y{n}" for n in range(self.outputs)]
        graph = helper.make_graph(
            [helper.make_node(self.op, names, outputs, **self.attributes)],
            self.op,
            [_value(name, array) for name, array in zip(inputs, self.inputs, strict=True)],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        )
        opset = helper.make_opsetid("", _OPSET)
        made = helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)
        return shape_inference.infer_shapes(made, strict_mode=True, data_prop=True)


def _value(name: str, array: Array) -> Any:  # noqa: ANN401  onnx has no types
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


@dataclass(frozen=True, slots=True)
class SizedOperator:
    """An operator at three sizes; `case` makes one of them."""

    sizes: tuple[Size, Size, Size]
    case: Callable[[Draw, Size], KernelCase]


def drawn_case(name: str, size: Size, seed: int) -> KernelCase:
    """An operator at a size, with operands that depend on the seed only."""
    rng = np.random.default_rng([seed, *name.encode(), *size])
    return OPERATORS[name].case(lambda *shape: rng.standard_normal(shape, np.float32), size)


# --- nodes ----------------------------------------------------------------------------------------


def _weight(draw: Draw, *shape: int) -> Array:
    """Weights that keep the magnitude of what they are multiplied with."""
    return np.asarray(draw(*shape) / np.sqrt(np.float32(prod(shape[1:]))), np.float32)


def _conv(draw: Draw, size: Size) -> KernelCase:
    return KernelCase("Conv", [draw(*size)], [_weight(draw, size[1], size[1], 3, 3)], {"pads": [1] * 4})


def _depthwise_conv(draw: Draw, size: Size) -> KernelCase:
    return KernelCase("Conv", [draw(*size)], [_weight(draw, size[1], 1, 3, 3)], {"pads": [1] * 4, "group": size[1]})


def _conv_transpose(draw: Draw, size: Size) -> KernelCase:
    attributes = {"pads": [1] * 4, "strides": [2, 2]}
    return KernelCase("ConvTranspose", [draw(*size)], [_weight(draw, size[1], size[1] // 2, 4, 4)], attributes)


def _matmul(draw: Draw, size: Size) -> KernelCase:
    *batch, rows, depth = size
    return KernelCase("MatMul", [draw(*size), draw(*batch, depth, rows)])


def _gemm(draw: Draw, size: Size) -> KernelCase:
    return KernelCase("Gemm", [draw(*size)], [_weight(draw, 4 * size[1], size[1]), draw(4 * size[1])], {"transB": 1})


def _pool(op: str, **attributes: Any) -> Callable[[Draw, Size], KernelCase]:  # noqa: ANN401  attributes of ONNX
    window = {"kernel_shape": [3, 3], "pads": [1] * 4, **attributes}
    return lambda draw, size: KernelCase(op, [draw(*size)], attributes=window)


def _unary(op: str, *constants: Array, **attributes: Any) -> Callable[[Draw, Size], KernelCase]:  # noqa: ANN401
    return lambda draw, size: KernelCase(op, [draw(*size)], constants, attributes)


def _batch_norm(draw: Draw, size: Size) -> KernelCase:
    scale, bias, mean = (draw(size[1]) for _ in range(3))
    return KernelCase("BatchNormalization", [draw(*size)], [scale, bias, mean, np.abs(draw(size[1])) + 1])


def _affine_norm(op: str, axis: int, **attributes: Any) -> Callable[[Draw, Size], KernelCase]:  # noqa: ANN401
    """A normalisation with a scale and an offset for each element of an axis."""
    return lambda draw, size: KernelCase(op, [draw(*size)], [draw(size[axis]), draw(size[axis])], attributes)


def _attention(draw: Draw, size: Size) -> KernelCase:
    return KernelCase("Attention", [draw(*size) for _ in range(3)])


def _recurrent(op: str, gates: int) -> Callable[[Draw, Size], KernelCase]:
    """A layer whose state is as wide as its input, `size` [steps, batch, width]."""

    def case(draw: Draw, size: Size) -> KernelCase:
        width = size[2]
        weights = [_weight(draw, 1, gates * width, width) * np.float32(np.sqrt(gates * width)) for _ in range(2)]
        return KernelCase(op, [draw(*size)], [*weights, draw(1, 2 * gates * width)], {"hidden_size": width})

    return case


def _gather(draw: Draw, size: Size) -> KernelCase:
    """Rows of a table, a quarter as many as it has."""
    rows = np.abs(draw(size[0] // 4) * 1e6).astype(np.int64) % size[0]
    return KernelCase("Gather", [draw(*size), rows])


def _resize(**attributes: Any) -> Callable[[Draw, Size], KernelCase]:  # noqa: ANN401
    scales = np.array([1, 1, 2, 2], np.float32)
    return lambda draw, size: KernelCase("Resize", [draw(*size)], [None, scales], attributes)


def _concat(draw: Draw, size: Size) -> KernelCase:
    return KernelCase("Concat", [draw(*size), draw(*size)], attributes={"axis": 1})


def _split(draw: Draw, size: Size) -> KernelCase:
    return KernelCase("Split", [draw(*size)], attributes={"axis": 1, "num_outputs": 2}, outputs=2)


def _slice(draw: Draw, size: Size) -> KernelCase:
    """Every other row and column, as of a focus layer."""
    starts, ends, axes, steps = (np.array(row, np.int64) for row in ([0, 0], [1 << 31] * 2, [2, 3], [2, 2]))
    return KernelCase("Slice", [draw(*size)], [starts, ends, axes, steps])


def _add(draw: Draw, size: Size) -> KernelCase:
    """An offset for each channel."""
    return KernelCase("Add", [draw(*size), draw(size[1], 1, 1)])


def _top_k(draw: Draw, size: Size) -> KernelCase:
    return KernelCase("TopK", [draw(*size)], [np.array([5], np.int64)], outputs=2)


# --- the table ------------------------------------------------------------------------------------

_LAYERS: tuple[Size, Size, Size] = ((1, 256, 14, 14), (1, 128, 28, 28), (1, 64, 56, 56))
_IMAGES: tuple[Size, Size, Size] = ((1, 64, 28, 28), (1, 128, 56, 56), (1, 64, 112, 112))
_TOKENS: tuple[Size, Size, Size] = ((16, 384), (197, 384), (512, 768))
_HIDDEN: tuple[Size, Size, Size] = ((16, 1536), (197, 1536), (512, 3072))
_HEADS: tuple[Size, Size, Size] = ((1, 12, 16, 64), (1, 6, 197, 64), (1, 12, 384, 64))
_SCORES: tuple[Size, Size, Size] = ((12, 16, 16), (6, 197, 197), (12, 384, 384))
_SEQUENCES: tuple[Size, Size, Size] = ((32, 1, 64), (64, 1, 256), (64, 8, 256))
_CLASSES: tuple[Size, Size, Size] = ((1, 1000), (16, 1000), (1, 32000))
_SPATIAL = np.array([2, 3], np.int64)
_LAST = np.array([-1], np.int64)

OPERATORS: Mapping[str, SizedOperator] = {
    "conv": SizedOperator(_LAYERS, _conv),
    "depthwise_conv": SizedOperator(((1, 576, 14, 14), (1, 192, 28, 28), (1, 32, 112, 112)), _depthwise_conv),
    "conv_transpose": SizedOperator(((1, 256, 8, 8), (1, 128, 16, 16), (1, 64, 32, 32)), _conv_transpose),
    "matmul": SizedOperator(_HEADS, _matmul),
    "gemm": SizedOperator(((1, 512), (16, 384), (197, 384)), _gemm),
    "max_pool": SizedOperator(_IMAGES, _pool("MaxPool", strides=[2, 2])),
    "average_pool": SizedOperator(_IMAGES, _pool("AveragePool", count_include_pad=0)),
    "global_average_pool": SizedOperator(
        ((1, 512, 7, 7), (1, 1280, 7, 7), (1, 256, 56, 56)), _unary("GlobalAveragePool")
    ),
    "batch_norm": SizedOperator(_IMAGES, _batch_norm),
    "instance_norm": SizedOperator(_IMAGES, _affine_norm("InstanceNormalization", 1)),
    "group_norm": SizedOperator(_IMAGES, _affine_norm("GroupNormalization", 1, num_groups=32)),
    "layer_norm": SizedOperator(_TOKENS, _affine_norm("LayerNormalization", -1)),
    "softmax": SizedOperator(_SCORES, _unary("Softmax")),
    "attention": SizedOperator(_HEADS, _attention),
    "gru": SizedOperator(_SEQUENCES, _recurrent("GRU", 3)),
    "lstm": SizedOperator(_SEQUENCES, _recurrent("LSTM", 4)),
    "gather": SizedOperator(((128, 64), (1024, 384), (4096, 768)), _gather),
    "resize_nearest": SizedOperator(
        _IMAGES, _resize(mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")
    ),
    "resize_linear": SizedOperator(_IMAGES, _resize(mode="linear")),
    "reflect_pad": SizedOperator(_IMAGES, _unary("Pad", np.array([0, 0, 1, 1] * 2, np.int64), mode="reflect")),
    "transpose_channels_last": SizedOperator(_IMAGES, _unary("Transpose", perm=[0, 2, 3, 1])),
    "transpose_heads": SizedOperator(_HEADS, _unary("Transpose", perm=[0, 2, 1, 3])),
    "transpose_matrices": SizedOperator(_HEADS, _unary("Transpose", perm=[0, 1, 3, 2])),
    "concat": SizedOperator(_IMAGES, _concat),
    "split": SizedOperator(_IMAGES, _split),
    "slice": SizedOperator(_IMAGES, _slice),
    "add": SizedOperator(_IMAGES, _add),
    "reduce_mean": SizedOperator(_TOKENS, _unary("ReduceMean", _LAST)),
    "reduce_mean_spatial": SizedOperator(_LAYERS, _unary("ReduceMean", _SPATIAL)),
    "arg_max": SizedOperator(_CLASSES, _unary("ArgMax", axis=-1)),
    "top_k": SizedOperator(_CLASSES, _top_k),
    "clip": SizedOperator(_IMAGES, _unary("Clip", np.array(0, np.float32), np.array(6, np.float32))),
    "hard_swish": SizedOperator(_IMAGES, _unary("HardSwish")),
    "sigmoid": SizedOperator(_IMAGES, _unary("Sigmoid")),
    "tanh": SizedOperator(_TOKENS, _unary("Tanh")),
    "erf": SizedOperator(_HIDDEN, _unary("Erf")),
    "gelu": SizedOperator(_HIDDEN, _unary("Gelu")),
}
