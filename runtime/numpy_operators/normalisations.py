# SPDX-License-Identifier: Apache-2.0
"""Normalisations and the softmax family, in float32 at least."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.dtypes import in_float32, is_short_float, numpy_dtype, widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function


def softmax(x: Array, axis: int) -> Array:
    """exp(x) / sum(exp(x)) along an axis."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _softmax(attributes: Attributes, x: Array) -> tuple[Array]:
    """Short floats are rounded after every operator of ONNX's definition."""
    axis = attributes.get("axis", -1)
    if not is_short_float(x.dtype):
        return (softmax(x, axis),)
    wide = widened(x)
    largest = wide.max(axis=axis, keepdims=True, initial=-np.inf)
    powers = np.exp(widened((wide - largest).astype(x.dtype))).astype(x.dtype)
    total = widened(powers).sum(axis=axis, keepdims=True).astype(x.dtype)
    return ((widened(powers) / widened(total)).astype(x.dtype),)


def log_softmax(x: Array, axis: int) -> Array:
    """log(softmax(x)) along an axis."""
    if not x.size:
        return x
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))


def _hardmax(attributes: Attributes, x: Array) -> tuple[Array]:
    axis = attributes.get("axis", -1)
    if not x.size:
        return (x,)
    place = np.expand_dims(np.argmax(widened(x), axis), axis)
    result = np.zeros(x.shape, x.dtype)
    np.put_along_axis(result, place, np.ones((), x.dtype), axis)
    return (result,)


def _per_channel(parameter: Array, rank: int) -> Array:
    """A parameter of the channels, to broadcast over [N, C, spatial...]."""
    return parameter.reshape(-1, *(1,) * (rank - 2))


def _batch_norm(
    attributes: Attributes, x: Array, scale: Array, bias: Array, mean: Array, variance: Array
) -> tuple[Array, ...]:
    """In training the moments are those of the batch, and the running ones follow them."""
    epsilon, momentum = attributes.get("epsilon", 1e-5), attributes.get("momentum", 0.9)
    wide, gamma, beta, old_mean, old_variance = map(widened, (x, scale, bias, mean, variance))
    rank = max(x.ndim, 2)
    means, variances = old_mean, old_variance
    if attributes.get("training_mode", 0):
        axes = tuple(d for d in range(x.ndim) if d != 1)
        means, variances = wide.mean(axes), wide.var(axes)
    centred = wide - _per_channel(means, rank)
    result = centred / np.sqrt(_per_channel(variances, rank) + epsilon) * _per_channel(gamma, rank)
    running = (
        (old_mean * momentum + means * (1 - momentum)).astype(mean.dtype),
        (old_variance * momentum + variances * (1 - momentum)).astype(variance.dtype),
    )
    return ((result + _per_channel(beta, rank)).astype(x.dtype), *running)


def _layer_norm(attributes: Attributes, x: Array, scale: Array, bias: Array | None = None) -> tuple[Array, ...]:
    stash = numpy_dtype(attributes.get("stash_type") or "float32")
    wide = x if x.dtype.name == "float64" else x.astype(np.float32)
    axes = tuple(range(attributes.get("axis", -1) % x.ndim, x.ndim))
    mean = wide.mean(axes, keepdims=True)
    factor = 1 / np.sqrt(wide.var(axes, keepdims=True) + attributes.get("epsilon", 1e-5))
    result = (wide - mean) * factor * widened(scale)
    if bias is not None:
        result = result + widened(bias)
    return result.astype(x.dtype), mean.astype(stash), factor.astype(stash)


def _rms_norm(attributes: Attributes, x: Array, scale: Array) -> Array:
    axes = tuple(range(attributes.get("axis", -1) % x.ndim, x.ndim))
    mean = np.mean(x * x, axes, keepdims=True)
    return np.asarray(x / np.sqrt(mean + attributes.get("epsilon", 1e-5)) * scale)


def _instance_norm(attributes: Attributes, x: Array, scale: Array, bias: Array) -> Array:
    axes = tuple(range(2, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    normal = centred / np.sqrt(x.var(axes, keepdims=True) + attributes.get("epsilon", 1e-5))
    return np.asarray(normal * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim))


def _group_norm(attributes: Attributes, x: Array, scale: Array, bias: Array) -> Array:
    groups = x.reshape(x.shape[0], attributes["num_groups"], math.prod(x.shape[1:]) // attributes["num_groups"])
    centred = groups - groups.mean(2, keepdims=True)
    normal = centred / np.sqrt(groups.var(2, keepdims=True) + attributes.get("epsilon", 1e-5))
    return np.asarray(normal.reshape(x.shape) * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim))


def _lp_norm(attributes: Attributes, x: Array) -> Array:
    """0 where the norm is 0."""
    order = attributes.get("p", 2)
    norm = np.linalg.norm(x, order, attributes.get("axis", -1), keepdims=True)
    return np.asarray(np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm)))


def _local_response_norm(attributes: Attributes, x: Array) -> Array:
    size, below = attributes["size"], (attributes["size"] - 1) // 2
    squares = np.pad(x * x, [(0, 0), (below, size - 1 - below), *((0, 0),) * (x.ndim - 2)])
    total = sum(squares[:, k : k + x.shape[1]] for k in range(size))
    scale = attributes.get("bias", 1.0) + attributes.get("alpha", 0.0001) / size * total
    return np.asarray(x / scale ** attributes.get("beta", 0.75))


def _mean_variance_norm(attributes: Attributes, x: Array) -> Array:
    axes = tuple(attributes.get("axes", (0, 2, 3)))
    centred = x - x.mean(axes, keepdims=True)
    return np.asarray(centred / (np.sqrt((centred**2).mean(axes, keepdims=True)) + 1e-9))


NORMALISATIONS: Mapping[str, Function] = {
    "BatchNormalization": _batch_norm,
    "GroupNormalization": in_float32(_group_norm),
    "Hardmax": _hardmax,
    "InstanceNormalization": in_float32(_instance_norm),
    "LRN": in_float32(_local_response_norm),
    "LayerNormalization": _layer_norm,
    "LogSoftmax": in_float32(lambda attributes, x: log_softmax(x, attributes.get("axis", -1))),
    "LpNormalization": in_float32(_lp_norm),
    "MeanVarianceNormalization": in_float32(_mean_variance_norm),
    "RMSNormalization": in_float32(_rms_norm),
    "Softmax": _softmax,
}
