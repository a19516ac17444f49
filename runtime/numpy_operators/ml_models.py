"""Linear models and support vector machines of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.ml_scores import labelled, transformed


def _rows(x: Array) -> Array:
    """The data as [N, features] of float32."""
    return (x.reshape(1, -1) if x.ndim == 1 else x).astype(np.float32)


def _linear(attributes: Attributes, x: Array, targets: int) -> Array:
    """[N, targets]: the products with the coefficients, plus the intercepts."""
    weights = np.array(attributes["coefficients"], np.float32).reshape(targets, -1)
    total = _rows(x) @ weights.T
    intercepts = attributes.get("intercepts")
    return total + np.array(intercepts, np.float32) if intercepts else total


def _linear_regressor(attributes: Attributes, x: Array) -> tuple[Array]:
    scores = _linear(attributes, x, attributes.get("targets", 1))
    return (transformed(scores, attributes.get("post_transform", "NONE")),)


def _linear_classifier(attributes: Attributes, x: Array) -> tuple[Array, Array]:
    """One score of two classes is that of the second; the first has what is left."""
    labels = attributes.get("classlabels_strings") or attributes.get("classlabels_ints") or ()
    count = len(attributes["coefficients"]) // _rows(x).shape[1]
    transform = attributes.get("post_transform", "NONE")
    scores = _linear(attributes, x, count)
    if count == 1 and len(labels) == 2:
        second = transformed(scores, transform)
        chosen = (second[:, 0] > (0.5 if transform != "NONE" else 0)).astype(np.int64)
        first = 1 - second if transform == "LOGISTIC" else -second
        return labelled(attributes, chosen), np.concatenate([first, second], 1)
    return labelled(attributes, scores.argmax(1)), transformed(scores, transform)


def _kernel(attributes: Attributes, x: Array, vectors: Array) -> Array:
    """[N, vectors]: the kernel of the data with each support vector."""
    gamma, offset, degree = attributes.get("kernel_params") or (0.0, 0.0, 0.0)
    data = _rows(x).astype(np.float64)
    products = data @ vectors.T
    match attributes.get("kernel_type", "LINEAR"):
        case "POLY":
            return np.asarray((gamma * products + offset) ** degree)
        case "RBF":
            distances = ((data[:, None] - vectors[None]) ** 2).sum(-1)
            return np.asarray(np.exp(-gamma * distances))
        case "SIGMOID":
            return np.asarray(np.tanh(gamma * products + offset))
    return np.asarray(products)


def _svm_regressor(attributes: Attributes, x: Array) -> tuple[Array]:
    """Without support vectors the coefficients are those of a linear model."""
    count, weights = attributes.get("n_supports", 0), np.array(attributes["coefficients"], np.float64)
    if count:
        vectors = np.array(attributes["support_vectors"], np.float64).reshape(count, -1)
        total = _kernel(attributes, x, vectors) @ weights
    else:
        total = _kernel(attributes, x, weights.reshape(1, -1))[:, 0]
    scores = (total + attributes["rho"][0])[:, None]
    if attributes.get("one_class", 0):
        return (np.where(scores > 0, 1, -1).astype(np.float32),)
    return (transformed(scores, attributes.get("post_transform", "NONE")),)


_DOMAIN = "ai.onnx.ml"
ML_MODELS: Mapping[str, Function] = {
    f"{_DOMAIN}.LinearClassifier": _linear_classifier,
    f"{_DOMAIN}.LinearRegressor": _linear_regressor,
    f"{_DOMAIN}.SVMRegressor": _svm_regressor,
}
