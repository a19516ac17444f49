# SPDX-License-Identifier: Apache-2.0
"""Linear models and support vector machines of ai.onnx.ml."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.ml_features import labelled, transformed


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
    """A single score is that of the second of two classes; the first class has the complement."""
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


def _svm_classifier(attributes: Attributes, x: Array) -> tuple[Array, Array]:
    """Every pair of classes votes by its decision; scores are decisions, or probabilities.

    Without support vectors the coefficients are those of a linear model for each class.
    """
    labels = attributes.get("classlabels_strings") or attributes.get("classlabels_ints") or ()
    transform, counts = attributes.get("post_transform", "NONE"), attributes.get("vectors_per_class")
    if not counts:
        weights = np.array(attributes["coefficients"], np.float64).reshape(len(labels), -1)
        scores = _kernel(attributes, x, weights) + attributes["rho"][0]
        return labelled(attributes, scores.argmax(1)), transformed(scores, transform)
    decisions = _decisions(attributes, x, counts)
    pairs = list(itertools.combinations(range(len(labels)), 2))
    votes = np.zeros((len(decisions), len(labels)))
    for column, (first, second) in zip(decisions.T, pairs, strict=True):
        votes[np.arange(len(votes)), np.where(column > 0, first, second)] += 1
    if attributes.get("prob_a"):
        scores = _coupled(attributes, decisions, pairs, len(labels))
    else:
        scores = _shown(decisions, len(labels))
    return labelled(attributes, votes.argmax(1)), transformed(scores, transform)


def _shown(decisions: Array, classes: int) -> Array:
    """The scores of a result without probabilities: the decisions; of two classes both signs."""
    return np.concatenate([-decisions, decisions], 1) if classes == 2 else decisions


def _decisions(attributes: Attributes, x: Array, counts: Sequence[int]) -> Array:
    """[N, pairs of classes]: the decision functions, positive for the first class of a pair.

    Row r of the coefficients weighs the vectors of a class against the r-th of the other classes.
    """
    total = sum(counts)
    vectors = np.array(attributes["support_vectors"], np.float64).reshape(total, -1)
    weights = np.array(attributes["coefficients"], np.float64).reshape(-1, total)
    kernel, ends = _kernel(attributes, x, vectors), np.cumsum((0, *counts))
    columns = []
    for n, (first, second) in enumerate(itertools.combinations(range(len(counts)), 2)):
        first_rows, other = slice(ends[first], ends[first + 1]), slice(ends[second], ends[second + 1])
        one = kernel[:, first_rows] @ weights[second - 1, first_rows] + kernel[:, other] @ weights[first, other]
        columns.append(one + attributes["rho"][n])
    return np.stack(columns, 1)


def _coupled(attributes: Attributes, decisions: Array, pairs: Sequence[tuple[int, int]], classes: int) -> Array:
    """[N, classes]: the probabilities that agree best with those of all pairs (Wu, Lin, Weng 2004).

    They minimise the sum over pairs of (r_ji p_i - r_ij p_j)**2, a linear system with sum 1.
    """
    chances = 1 / (1 + np.exp(decisions * np.array(attributes["prob_a"]) + np.array(attributes["prob_b"])))
    chances = np.clip(chances, 1e-7, 1 - 1e-7)
    rows = []
    for row in chances:
        r = np.zeros((classes, classes))
        for value, (first, second) in zip(row, pairs, strict=True):
            r[first, second], r[second, first] = value, 1 - value
        system = np.zeros((classes + 1, classes + 1))
        system[:classes, :classes] = -r * r.T
        np.fill_diagonal(system[:classes, :classes], (r**2).sum(0))
        system[:classes, classes] = system[classes, :classes] = 1
        rows.append(np.linalg.solve(system, np.eye(classes + 1)[classes])[:classes])
    return np.array(rows).reshape(-1, classes)


_DOMAIN = "ai.onnx.ml"
ML_MODELS: Mapping[str, Function] = {
    f"{_DOMAIN}.LinearClassifier": _linear_classifier,
    f"{_DOMAIN}.LinearRegressor": _linear_regressor,
    f"{_DOMAIN}.SVMClassifier": _svm_classifier,
    f"{_DOMAIN}.SVMRegressor": _svm_regressor,
}
