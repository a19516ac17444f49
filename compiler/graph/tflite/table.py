# SPDX-License-Identifier: Apache-2.0
"""The converters of operators by their names in the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.graph.tflite import (
    conversions,
    elementwise,
    functions,
    movement,
    products,
    reductions,
    resize,
    softmax,
    windows,
)
from vdla.compiler.graph.tflite.context import OperatorContext

Converter = Callable[[OperatorContext], None]

CONVERTERS: Mapping[str, Converter] = {
    "ABS": functions.absolute,
    "ADD": elementwise.add,
    "ARG_MAX": reductions.arg_extreme("ArgMax"),
    "ARG_MIN": reductions.arg_extreme("ArgMin"),
    "AVERAGE_POOL_2D": windows.average_pool,
    "BATCH_MATMUL": products.batch_matmul,
    "BROADCAST_TO": movement.broadcast_to,
    "CAST": conversions.cast,
    "CEIL": functions.function("Ceil"),
    "CONCATENATION": movement.concatenate,
    "CONV_2D": windows.convolution,
    "COS": functions.function("Cos"),
    "DEPTHWISE_CONV_2D": windows.depthwise_convolution,
    "DEPTH_TO_SPACE": movement.depth_to_space,
    "DEQUANTIZE": conversions.dequantise,
    "DIV": elementwise.arithmetic("Div"),
    "ELU": functions.function("Elu", functions.elu),
    "EQUAL": elementwise.comparison("Equal"),
    "EXP": functions.function("Exp", np.exp),
    "EXPAND_DIMS": movement.reshape,
    "FLOOR": functions.function("Floor"),
    "FULLY_CONNECTED": products.fully_connected,
    "GATHER": movement.gather,
    "GREATER": elementwise.comparison("Greater"),
    "GREATER_EQUAL": elementwise.comparison("GreaterOrEqual"),
    "HARD_SWISH": functions.hard_swish,
    "LEAKY_RELU": functions.leaky_relu,
    "LESS": elementwise.comparison("Less"),
    "LESS_EQUAL": elementwise.comparison("LessOrEqual"),
    "LOG": functions.function("Log"),
    "LOGISTIC": functions.function("Sigmoid", functions.logistic),
    "MAXIMUM": elementwise.choice("Max"),
    "MAX_POOL_2D": windows.max_pool,
    "MEAN": reductions.reduction("ReduceMean"),
    "MINIMUM": elementwise.choice("Min"),
    "MIRROR_PAD": movement.mirror_pad,
    "MUL": elementwise.multiply,
    "NEG": functions.function("Neg"),
    "PACK": movement.pack,
    "PAD": movement.pad,
    "PADV2": movement.pad,
    "PRELU": functions.prelu,
    "QUANTIZE": conversions.quantise,
    "REDUCE_MAX": reductions.reduction("ReduceMax"),
    "REDUCE_MIN": reductions.reduction("ReduceMin"),
    "RELU": functions.relu("RELU"),
    "RELU6": functions.relu("RELU6"),
    "RELU_N1_TO_1": functions.relu("RELU_N1_TO_1"),
    "RESHAPE": movement.reshape,
    "RESIZE_BILINEAR": resize.resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": movement.resize_nearest,
    "ROUND": functions.function("Round"),
    "SHAPE": movement.shape_of,
    "SIN": functions.function("Sin"),
    "SLICE": movement.slice_part,
    "SOFTMAX": softmax.softmax,
    "SPACE_TO_DEPTH": movement.space_to_depth,
    "SPLIT": movement.split,
    "SPLIT_V": movement.split_by_sizes,
    "SQRT": functions.function("Sqrt"),
    "SQUEEZE": movement.reshape,
    "STRIDED_SLICE": movement.strided_slice,
    "SUB": elementwise.subtract,
    "SUM": reductions.reduction("ReduceSum"),
    "TANH": functions.function("Tanh", np.tanh),
    "TILE": movement.tile,
    "TRANSPOSE": movement.transpose,
    "TRANSPOSE_CONV": windows.transposed_convolution,
    "UNPACK": movement.unpack,
}
"""What adds the nodes of an operator to a graph."""

_CONTROL_FLOW = ("IF", "WHILE", "CALL", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")


def remedy(name: str) -> str:
    """Why an operator has no converter, and what to do."""
    if name.startswith("CUSTOM"):
        return "operators of an application's own are not known here; convert the model with builtin operators only"
    if name in _CONTROL_FLOW:
        return "subgraphs and variables are not imported; export the model without them"
    return "the importer has no such operator; export the network to ONNX, or without the operator"
