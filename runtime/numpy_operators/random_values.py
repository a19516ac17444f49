# SPDX-License-Identifier: Apache-2.0
"""Random operators. A seed repeats the values; without one they differ at every call.

ONNX does not define the generator. `RandomState` is the generator that NumPy keeps unchanged, so
that a seed gives the same values with every version of NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.dtypes import numpy_dtype, widened
from vdla.runtime.numpy_operators.function import Array, Attributes, Function


def _generator(attributes: Attributes) -> np.random.RandomState:
    """The generator of a node; a seed that is not a whole number counts by its bits."""
    seed = attributes.get("seed")
    if seed is None:
        return np.random.RandomState()
    whole = float(seed).is_integer() and 0 <= seed < 1 << 32
    return np.random.RandomState(int(seed) if whole else int(np.float32(seed).view(np.uint32)))


def _dtype(attributes: Attributes, default: str) -> str:
    return attributes.get("dtype") or default


def _normal(attributes: Attributes, shape: tuple[int, ...], dtype: str) -> Array:
    values = _generator(attributes).normal(attributes.get("mean", 0.0), attributes.get("scale", 1.0), shape)
    return values.astype(numpy_dtype(dtype))


def _uniform(attributes: Attributes, shape: tuple[int, ...], dtype: str) -> Array:
    values = _generator(attributes).uniform(attributes.get("low", 0.0), attributes.get("high", 1.0), shape)
    return values.astype(numpy_dtype(dtype))


def _random_normal(attributes: Attributes) -> tuple[Array]:
    return (_normal(attributes, tuple(attributes["shape"]), _dtype(attributes, "float32")),)


def _random_normal_like(attributes: Attributes, x: Array) -> tuple[Array]:
    return (_normal(attributes, x.shape, _dtype(attributes, x.dtype.name)),)


def _random_uniform(attributes: Attributes) -> tuple[Array]:
    return (_uniform(attributes, tuple(attributes["shape"]), _dtype(attributes, "float32")),)


def _random_uniform_like(attributes: Attributes, x: Array) -> tuple[Array]:
    return (_uniform(attributes, x.shape, _dtype(attributes, x.dtype.name)),)


def _bernoulli(attributes: Attributes, x: Array) -> tuple[Array]:
    drawn = _generator(attributes).uniform(size=x.shape) < widened(x)
    return (drawn.astype(numpy_dtype(_dtype(attributes, x.dtype.name))),)


def _multinomial(attributes: Attributes, x: Array) -> tuple[Array]:
    """Classes drawn by their unnormalised log-probabilities, row by row."""
    logs = widened(x)
    powers = np.exp(logs - logs.max(1, keepdims=True))
    ends = np.cumsum(powers / powers.sum(1, keepdims=True), 1)
    drawn = _generator(attributes).uniform(size=(x.shape[0], attributes.get("sample_size", 1)))
    places = (drawn[..., None] >= ends[:, None, :-1]).sum(-1)
    return (places.astype(numpy_dtype(_dtype(attributes, "int32"))),)


def _dropout(
    attributes: Attributes, x: Array, ratio: Array | None = None, training: Array | None = None
) -> tuple[Array, Array]:
    """Elements dropped at random in training; the others are scaled up."""
    share = 0.5 if ratio is None else float(ratio.reshape(-1)[0])
    if training is None or not training.any() or share == 0:
        return x.copy(), np.ones(x.shape, bool)
    kept = _generator(attributes).uniform(size=x.shape) >= share
    return np.where(kept, widened(x) / (1 - share), 0).astype(x.dtype), kept


RANDOM: Mapping[str, Function] = {
    "Bernoulli": _bernoulli,
    "Dropout": _dropout,
    "Multinomial": _multinomial,
    "RandomNormal": _random_normal,
    "RandomNormalLike": _random_normal_like,
    "RandomUniform": _random_uniform,
    "RandomUniformLike": _random_uniform_like,
}
