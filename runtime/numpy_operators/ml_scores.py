"""What the models of ai.onnx.ml share: transforms of scores, and the class of the best score."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from vdla.runtime.numpy_operators.elementwise import sigmoid
from vdla.runtime.numpy_operators.function import Array, Attributes
from vdla.runtime.numpy_operators.normalisations import softmax
from vdla.runtime.numpy_operators.strings import strings

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def transformed(scores: Array, transform: str) -> Array:
    """Scores [N, targets] by one of ONNX's transforms, as float32."""
    match transform:
        case "SOFTMAX":
            result = softmax(scores, 1)
        case "SOFTMAX_ZERO":
            powers = np.where(scores == 0, 0, np.exp(scores - scores.max(1, keepdims=True)))
            total = powers.sum(1, keepdims=True)
            result = powers / np.where(total == 0, 1, total)
        case "LOGISTIC":
            result = sigmoid(scores)
        case "PROBIT":
            normal = NormalDist()
            result = np.array([normal.inv_cdf(float(p)) for p in scores.reshape(-1)]).reshape(scores.shape)
        case _:
            result = scores
    return result.astype(np.float32)


def labelled(attributes: Attributes, places: Array, prefix: str = "classlabels") -> Array:
    """Class labels by their positions."""
    texts = attributes.get(f"{prefix}_strings")
    if texts:
        return strings([texts[int(place)] for place in places])
    numbers: Sequence[int] = attributes.get(f"{prefix}_ints") or attributes.get(f"{prefix}_int64s") or ()
    return np.array([numbers[int(place)] for place in places], np.int64)
