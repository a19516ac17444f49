# SPDX-License-Identifier: Apache-2.0
"""The words that attributes may be; ONNX's schemas say so in prose only."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler.graph.graph import Node

_WINDOWS = ("AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool", "QLinearConv")
_RECURRENT = ("GRU", "LSTM", "RNN")
_LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
_SCATTERING = ("ScatterElements", "ScatterND")
_SVM = ("ai.onnx.ml.SVMClassifier", "ai.onnx.ml.SVMRegressor")
_SCORES = (
    *_SVM, "ai.onnx.ml.LinearClassifier", "ai.onnx.ml.LinearRegressor", "ai.onnx.ml.TreeEnsembleClassifier",
    "ai.onnx.ml.TreeEnsembleRegressor",
)  # fmt: skip
_WORDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    **dict.fromkeys(((op, "auto_pad") for op in _WINDOWS), ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")),
    **dict.fromkeys(((op, "direction") for op in _RECURRENT), ("forward", "reverse", "bidirectional")),
    **dict.fromkeys(((op, "reduction") for op in _LOSSES), ("none", "sum", "mean")),
    **dict.fromkeys(((op, "reduction") for op in _SCATTERING), ("none", "add", "mul", "max", "min")),
    **dict.fromkeys(
        ((op, "post_transform") for op in _SCORES), ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    ),
    **dict.fromkeys(((op, "kernel_type") for op in _SVM), ("LINEAR", "POLY", "RBF", "SIGMOID")),
    ("BitShift", "direction"): ("LEFT", "RIGHT"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("Gelu", "approximate"): ("none", "tanh"),
    ("GridSample", "mode"): ("linear", "nearest", "cubic", "bilinear", "bicubic"),
    ("GridSample", "padding_mode"): ("zeros", "border", "reflection"),
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("Resize", "keep_aspect_ratio_policy"): ("stretch", "not_larger", "not_smaller"),
    ("Resize", "mode"): ("nearest", "linear", "cubic"),
    ("Resize", "nearest_mode"): ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    ("RoiAlign", "coordinate_transformation_mode"): ("half_pixel", "output_half_pixel"),
    ("RoiAlign", "mode"): ("avg", "max"),
    ("ai.onnx.ml.Normalizer", "norm"): ("MAX", "L1", "L2"),
    ("ai.onnx.ml.TreeEnsembleRegressor", "aggregate_function"): ("SUM", "AVERAGE", "MIN", "MAX"),
}
"""By operator and attribute."""


def wrong_word(node: Node) -> str | None:
    """The sentence for an attribute that is none of its words."""
    for name, value in node.attributes.items():
        words = _WORDS.get((node.op, name))
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        if words is not None and text not in words:
            return f"{name} must be one of {', '.join(words)}, got {text}"
    return None
