# SPDX-License-Identifier: Apache-2.0
"""Where the specification decides against the references, or leaves a result open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.verification.grids.cases import GridCase


def decided(case: GridCase) -> str:
    """Why a result that differs from those of the references is not wrong; empty if it is."""
    attributes, first = case.draft.attributes, next(iter(case.draft.inputs), None)
    rounded = first is not None and first.dtype.kind in "iu"
    same = "SAME" in attributes.get("auto_pad", "") and "dilations" in attributes
    usual = first is not None and first.dtype.name == "float32"
    match case.operator:
        case "Attention" if {"is_causal", "softcap"} <= attributes.keys() and len(case.draft.inputs) > 4:
            return (
                "the specification shows raw scores, onnx.reference capped ones; ONNX Runtime shows one query all keys"
            )
        case "Hardmax" if case.version.since < 13 and not usual:
            return "onnx.reference alone computes this type, and as opset 13 defines it"
        case "LSTM" if "clip" in attributes:
            return "the specification clips the inputs of all activations, ONNX Runtime those of the gates"
        case "AveragePool" | "LpPool" | "MaxPool" if same:
            return "the specification gives SAME an extent of input / stride, the references that of dilated windows"
        case "ConvTranspose" if attributes.get("group", 1) > 1 and not usual:
            return "onnx.reference alone computes this type, and takes each group's bias and weights for another's"
        case "LRN" if not usual:
            return "onnx.reference alone computes this type, and leaves channels out of the sums of squares"
        case "StringNormalizer":
            return "onnx.reference alone computes this, keeps stopwords of another case and drops empty strings"
        case _ if "TreeEnsemble" in case.operator and first is not None and np.isnan(first).any():
            return "the specification sends NaN by an attribute, the references through BRANCH_NEQ by its comparison"
        case "ai.onnx.ml.TreeEnsemble" if attributes.get("post_transform"):
            return "onnx.reference transforms no scores, ONNX Runtime takes SOFTMAX and LOGISTIC for each other"
        case "ai.onnx.ml.LinearRegressor" | "ai.onnx.ml.TreeEnsembleRegressor" if _has_one_score(attributes):
            return "the specification transforms the score of one target too, ONNX Runtime leaves it as it is"
        case "ai.onnx.ml.TreeEnsembleRegressor" if "base_values" in attributes:
            return "ONNX Runtime gives targets without leaves 0 rather than their base values"
        case "ai.onnx.ml.SVMClassifier" | "ai.onnx.ml.TreeEnsembleClassifier" if _has_two_scores(attributes):
            return "how the scores of two classes follow from one is left open, and the references disagree"
        case "ai.onnx.ml.Normalizer" if attributes["norm"] == "MAX":
            return "onnx.reference divides by the largest magnitude, ONNX Runtime by the largest element"
        case "Optional" | "OptionalGetElement" if case.version.since >= 28:
            return "onnx.reference alone computes this version, and has an optional as a list of its value"
        case "ReduceLogSum" | "ReduceLogSumExp" if rounded:
            return "how logarithms of integers are rounded is left open"
        case "Resize" | "Upsample" if rounded and attributes.get("mode", "nearest") != "nearest":
            return "how interpolated integers are rounded is left open"
        case _:
            return ""


def _has_one_score(attributes: Mapping[str, Any]) -> bool:
    targets = attributes.get("n_targets", attributes.get("targets", 1))
    return bool(targets == 1) and attributes.get("post_transform", "NONE") != "NONE"


def _has_two_scores(attributes: Mapping[str, Any]) -> bool:
    """Whether a classifier of two classes has base values or transforms its scores."""
    kinds = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
    return max(len(attributes.get(kind, ())) for kind in kinds) == 2 and (
        "base_values" in attributes or attributes.get("post_transform", "NONE") != "NONE"
    )
