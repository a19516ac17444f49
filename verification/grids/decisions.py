# SPDX-License-Identifier: Apache-2.0
"""Where the specification decides against the references, or leaves a result open."""

from __future__ import annotations

from vdla.verification.grids.cases import GridCase


def decided(case: GridCase) -> str:
    """Why a result that differs from those of the references is not wrong; empty if it is."""
    attributes, first = case.draft.attributes, next(iter(case.draft.inputs), None)
    rounded = first is not None and first.dtype.kind in "iu"
    same = "SAME" in attributes.get("auto_pad", "") and "dilations" in attributes
    usual = first is not None and first.dtype.name == "float32"
    match case.operator:
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
        case "Optional" | "OptionalGetElement" if case.version.since >= 28:
            return "onnx.reference alone computes this version, and has an optional as a list of its value"
        case "ReduceLogSum" | "ReduceLogSumExp" if rounded:
            return "how logarithms of integers are rounded is left open"
        case "Resize" | "Upsample" if rounded and attributes.get("mode", "nearest") != "nearest":
            return "how interpolated integers are rounded is left open"
        case _:
            return ""
