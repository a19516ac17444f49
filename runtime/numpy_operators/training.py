# SPDX-License-Identifier: Apache-2.0
"""One step of an optimiser: Adagrad, Adam, Momentum; losses of classification.

After the learning rate and the step come groups of tensors: values, gradients, accumulated states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.runtime.numpy_operators.dtypes import widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.normalisations import log_softmax

_Step = Callable[[Attributes, Array, Array, Sequence[Array]], Sequence[Array]]


def _per_tensor(groups: int, step: _Step) -> Function:
    """A step for each tensor; results are grouped as the inputs are, without gradients."""

    def operator(attributes: Attributes, rate: Array, count: Array, *tensors: Array) -> tuple[Array, ...]:
        number = len(tensors) // groups
        results = [step(attributes, rate, count, tensors[n::number]) for n in range(number)]
        return tuple(result[k].astype(tensors[0].dtype) for k in range(groups - 1) for result in results)

    return operator


def _adagrad(attributes: Attributes, rate: Array, count: Array, tensors: Sequence[Array]) -> Sequence[Array]:
    x, gradient, squares = tensors
    slope = attributes.get("norm_coefficient", 0.0) * x + gradient
    total = squares + slope * slope
    pace = rate / (1 + count * attributes.get("decay_factor", 0.0))
    return x - pace * slope / (np.sqrt(total) + attributes.get("epsilon", 1e-6)), total


def _adam(attributes: Attributes, rate: Array, count: Array, tensors: Sequence[Array]) -> Sequence[Array]:
    x, gradient, mean, square = tensors
    alpha, beta = attributes.get("alpha", 0.9), attributes.get("beta", 0.999)
    slope = attributes.get("norm_coefficient", 0.0) * x + gradient
    mean, square = alpha * mean + (1 - alpha) * slope, beta * square + (1 - beta) * slope * slope
    pace = rate * np.sqrt(1 - beta**count) / (1 - alpha**count) if count > 0 else rate
    new = x - pace * mean / (np.sqrt(square) + attributes.get("epsilon", 1e-6))
    return (1 - attributes.get("norm_coefficient_post", 0.0)) * new, mean, square


def _momentum(attributes: Attributes, rate: Array, count: Array, tensors: Sequence[Array]) -> Sequence[Array]:
    x, gradient, velocity = tensors
    alpha = attributes["alpha"]
    slope = attributes.get("norm_coefficient", 0.0) * x + gradient
    beta = attributes["beta"] if count > 0 else 1
    velocity = alpha * velocity + beta * slope
    way = slope + alpha * velocity if attributes["mode"] == "nesterov" else velocity
    return x - rate * way, velocity


_DOMAIN = "ai.onnx.preview.training"
TRAINING: Mapping[str, Function] = {
    f"{_DOMAIN}.Adagrad": _per_tensor(3, _adagrad),
    f"{_DOMAIN}.Adam": _per_tensor(4, _adam),
    f"{_DOMAIN}.Momentum": _per_tensor(3, _momentum),
}


# --- losses ---------------------------------------------------------------------------------------


def _loss(attributes: Attributes, logs: Array, target: Array, weight: Array | None) -> Array:
    """-log p of the target class, weighted; 0 at the ignored class."""
    ignored = attributes.get("ignore_index")
    kept = np.ones(target.shape, bool) if ignored is None else target != ignored
    classes = np.where(kept, target, 0).astype(np.int64)
    picked = np.take_along_axis(logs, classes[:, None], 1)[:, 0]
    weights = kept.astype(logs.dtype) if weight is None else np.where(kept, weight[classes], 0).astype(logs.dtype)
    losses = -picked * weights
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
