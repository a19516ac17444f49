"""Losses of classification: negative log likelihood, cross entropy of a softmax."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.dtypes import widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.normalisations import log_softmax


def _loss(attributes: Attributes, logs: Array, target: Array, weight: Array | None) -> Array:
    """-log p of the target class, weighted; 0 at the ignored class."""
    ignored = attributes.get("ignore_index")
    kept = np.ones(target.shape, bool) if ignored is None else target != ignored
    classes = np.where(kept, target, 0).astype(np.int64)
    taken = np.take_along_axis(logs, classes[:, None], 1)[:, 0]
    weights = kept.astype(logs.dtype) if weight is None else np.where(kept, weight[classes], 0).astype(logs.dtype)
    losses = -taken * weights
    match attributes.get("reduction", "mean"):
        case "none":
            return np.asarray(losses)
        case "sum":
            return np.asarray(losses.sum())
    return np.asarray(losses.sum() / (weights.sum() if losses.size else 1))


def _likelihood(attributes: Attributes, x: Array, target: Array, weight: Array | None = None) -> tuple[Array]:
    return (_loss(attributes, widened(x), target, None if weight is None else widened(weight)).astype(x.dtype),)


def _cross_entropy(attributes: Attributes, x: Array, labels: Array, weight: Array | None = None) -> tuple[Array, Array]:
    logs = log_softmax(widened(x), 1)
    loss = _loss(attributes, logs, labels, None if weight is None else widened(weight))
    return loss.astype(x.dtype), logs.astype(x.dtype)


LOSSES: Mapping[str, Function] = {
    "NegativeLogLikelihoodLoss": _likelihood,
    "SoftmaxCrossEntropyLoss": _cross_entropy,
}
