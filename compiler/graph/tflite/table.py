# SPDX-License-Identifier: Apache-2.0
"""The converters of operators by their names in the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.graph.tflite import (
    blocks,
    conversions,
    elementwise,
    functions,
    movement,
    normalisation,
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
    "BATCH_TO_SPACE_ND": blocks.batch_to_space,
    "BROADCAST_TO": movement.broadcast_to,
    "CAST": conversions.cast,
    "CEIL": functions.function("Ceil"),
    "CONCATENATION": movement.concatenate,
    "CONV_2D": windows.convolution,
    "COS": functions.function("Cos"),
    "DEPTHWISE_CONV_2D": windows.depthwise_convolution,
    "DEPTH_TO_SPACE": blocks.depth_to_space,
    "DEQUANTIZE": conversions.dequantise,
    "DIV": elementwise.arithmetic("Div"),
    "ELU": functions.function("Elu", functions.elu),
    "EQUAL": elementwise.comparison("Equal"),
    "EXP": functions.function("Exp", np.exp),
    "EXPAND_DIMS": movement.reshape,
    "FLOOR": functions.function("Floor"),
    "FULLY_CONNECTED": products.fully_connected,
    "GATHER": movement.gather,
    "GATHER_ND": movement.gather_nd,
    "GELU": functions.gelu,
    "GREATER": elementwise.comparison("Greater"),
    "GREATER_EQUAL": elementwise.comparison("GreaterOrEqual"),
    "HARD_SWISH": functions.hard_swish,
    "L2_NORMALIZATION": normalisation.l2_normalise,
    "LEAKY_RELU": functions.leaky_relu,
    "LESS": elementwise.comparison("Less"),
    "LESS_EQUAL": elementwise.comparison("LessOrEqual"),
    "LOG": functions.logarithm,
    "LOGISTIC": functions.function("Sigmoid", functions.logistic),
    "LOG_SOFTMAX": normalisation.log_softmax,
    "MAXIMUM": elementwise.choice("Max"),
    "MAX_POOL_2D": windows.max_pool,
    "MEAN": reductions.reduction("ReduceMean"),
    "MINIMUM": elementwise.choice("Min"),
    "MIRROR_PAD": movement.mirror_pad,
    "MUL": elementwise.multiply,
    "NEG": functions.function("Neg"),
    "NOT_EQUAL": elementwise.comparison("NotEqual"),
    "PACK": movement.pack,
    "PAD": movement.pad,
    "PADV2": movement.pad,
    "PRELU": functions.prelu,
    "QUANTIZE": conversions.quantise,
    "REDUCE_MAX": reductions.reduction("ReduceMax"),
    "REDUCE_MIN": reductions.reduction("ReduceMin"),
    "RELU": functions.relu("RELU"),
    "RELU_0_TO_1": functions.relu("RELU_0_TO_1"),
    "RELU6": functions.relu("RELU6"),
    "RELU_N1_TO_1": functions.relu("RELU_N1_TO_1"),
    "RESHAPE": movement.reshape,
    "RESIZE_BILINEAR": resize.resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": movement.resize_nearest,
    "REVERSE_V2": movement.reverse,
    "ROUND": functions.function("Round"),
    "RSQRT": functions.inverse_square_root,
    "SELECT": movement.select,
    "SELECT_V2": movement.select,
    "SHAPE": movement.shape_of,
    "SIN": functions.function("Sin"),
    "SLICE": movement.slice_part,
    "SOFTMAX": softmax.softmax,
    "SPACE_TO_BATCH_ND": blocks.space_to_batch,
    "SPACE_TO_DEPTH": blocks.space_to_depth,
    "SPLIT": movement.split,
    "SPLIT_V": movement.split_by_sizes,
    "SQRT": functions.square_root,
    "SQUARED_DIFFERENCE": elementwise.squared_difference,
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

_RECURRENT = ("LSTM", "RNN", "SVDF")
_CONTROL_FLOW = ("IF", "WHILE", "CALL", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")


def remedy(name: str) -> str:
    """Why an operator has no converter, and what to do."""
    if name.startswith("NON_MAX_SUPPRESSION") or name == "CUSTOM TFLite_Detection_PostProcess":
        return "boxes are selected outside of a network here; convert the model without its postprocessing"
    if name.startswith("CUSTOM"):
        return "operators of an application's own are not known here; convert the model with builtin operators only"
    if name in _CONTROL_FLOW:
        return "subgraphs and variables are not imported; export the model without them"
    if name.endswith(_RECURRENT):
        return "recurrent layers are not imported; unroll them before the conversion, or export the network to ONNX"
    if name.startswith("STABLEHLO"):
        return "StableHLO is not imported; convert the model with tf.lite.OpsSet.TFLITE_BUILTINS_INT8"
    return "the importer has no such operator; export the network to ONNX, or without the operator"
