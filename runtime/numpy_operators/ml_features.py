# SPDX-License-Identifier: Apache-2.0
"""The operators of ai.onnx.ml on features: encoders, scalers, and others that prepare data.

Scores and classes, which its models share, are here as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.dtypes import is_string
from vdla.runtime.numpy_operators.elementwise import sigmoid
from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.normalisations import softmax
from vdla.runtime.numpy_operators.strings import strings, text_of

_NAN = object()  # the key of every NaN


def _given(attributes: Attributes, *names: str) -> Any:  # noqa: ANN401  an attribute of any type
    """The value of the first of `names` that the node has as an attribute, or None."""
    return next((attributes[name] for name in names if name in attributes), None)


def _key(value: Any) -> Any:  # noqa: ANN401  an element of any type
    """A value to look up: text, a number, or the key of all NaN."""
    if isinstance(value, str | bytes):
        return text_of(value)
    number = value.item() if isinstance(value, np.generic) else value
    return _NAN if isinstance(number, float) and math.isnan(number) else number


def _label_encoder(attributes: Attributes, x: Array) -> tuple[Array]:
    """Of equal keys the first counts."""
    keys = _given(attributes, "keys_tensor", "keys_strings", "keys_int64s", "keys_floats")
    values = _given(attributes, "values_tensor", "values_strings", "values_int64s", "values_floats")
    kind, default = _default(attributes, values)
    table: dict[Any, Any] = {}
    for key, value in zip(keys, values, strict=True):
        table.setdefault(_key(key), value)
    entry = [table.get(_key(element), default) for element in x.reshape(-1)]
    return (strings(entry, x.shape) if kind is None else np.array(entry, kind).reshape(x.shape),)


def _default(attributes: Attributes, values: Any) -> tuple[np.dtype[Any] | None, Any]:  # noqa: ANN401
    """The type of the results, None for strings, and the value of unknown keys."""
    given = attributes.get("default_tensor")
    if isinstance(values, np.ndarray):
        if is_string(values):
            return None, "_Unused" if given is None else given.reshape(-1)[0]
        plain = -1 if values.dtype.kind in "iu" else -0.0
        return values.dtype, plain if given is None else given.reshape(-1)[0]
    if isinstance(values[0], str | bytes):
        return None, attributes.get("default_string", "_Unused")
    if isinstance(values[0], int):
        return np.dtype(np.int64), attributes.get("default_int64", -1)
    return np.dtype(np.float32), attributes.get("default_float", -0.0)


def _category_mapper(attributes: Attributes, x: Array) -> tuple[Array]:
    """Strings to integers, or back."""
    categories, texts = attributes["cats_int64s"], attributes["cats_strings"]
    if is_string(x):
        codes = dict(zip(map(text_of, texts), categories, strict=True))
        default = attributes.get("default_int64", -1)
        numbers = [codes.get(text_of(element), default) for element in x.reshape(-1)]
        return (np.array(numbers, np.int64).reshape(x.shape),)
    names = dict(zip(categories, texts, strict=True))
    unknown = attributes.get("default_string", "_Unused")
    entry = [str(names.get(int(element), unknown)) for element in x.reshape(-1)]
    return (strings(entry, x.shape),)


def _one_hot_encoder(attributes: Attributes, x: Array) -> tuple[Array]:
    texts = attributes.get("cats_strings")
    categories = [text_of(text) for text in texts] if texts else list(attributes["cats_int64s"])
    places = {category: n for n, category in enumerate(categories)}
    result = np.zeros((x.size, len(categories)), np.float32)
    for row, element in zip(result, x.reshape(-1), strict=True):
        place = places.get(text_of(element) if texts else int(element))
        if place is not None:
            row[place] = 1
        elif not attributes.get("zeros", 1):
            raise ValueError(f"every element must be a category, got {element}")
    return (result.reshape(*x.shape, len(categories)),)


def _array_feature_extractor(attributes: Attributes, x: Array, places: Array) -> tuple[Array]:
    """Elements along the last axis; a vector is one row."""
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    return (np.take(rows, places.reshape(-1).astype(np.intp), -1),)


def _binarizer(attributes: Attributes, x: Array) -> tuple[Array]:
    return ((x > attributes.get("threshold", 0.0)).astype(x.dtype),)


def _feature_vectorizer(attributes: Attributes, *arrays: Array) -> tuple[Array]:
    rows = [x.reshape(1, -1) if x.ndim == 1 else x.reshape(len(x), -1) for x in arrays]
    return (np.concatenate(rows, 1).astype(np.float32),)


def _imputer(attributes: Attributes, x: Array) -> tuple[Array]:
    """One value replaced by another, or by one of each feature."""
    if x.dtype.kind == "f":
        old, new = attributes.get("replaced_value_float", 0.0), attributes["imputed_value_floats"]
        missing = np.isnan(x) if math.isnan(old) else x == np.asarray(old, x.dtype)
    else:
        old, new = attributes.get("replaced_value_int64", 0), attributes["imputed_value_int64s"]
        missing = x == old
    return (np.where(missing, np.asarray(new, x.dtype), x),)


def _normalizer(attributes: Attributes, x: Array) -> tuple[Array]:
    """Rows over their norm, where that is not 0."""
    wide = x.astype(np.float32)
    match attributes.get("norm", "MAX"):
        case "MAX":
            size = np.abs(wide).max(-1, keepdims=True)
        case "L1":
            size = np.abs(wide).sum(-1, keepdims=True)
        case _:
            size = np.sqrt((wide * wide).sum(-1, keepdims=True))
    return ((wide / np.where(size == 0, 1, size)).astype(np.float32),)


def _scaler(attributes: Attributes, x: Array) -> tuple[Array]:
    offset, scale = (np.asarray(attributes.get(key, (d,)), np.float32) for key, d in (("offset", 0.0), ("scale", 1.0)))
    return ((x.astype(np.float32) - offset) * scale,)


_DOMAIN = "ai.onnx.ml"
ML_FEATURES: Mapping[str, Function] = {
    f"{_DOMAIN}.ArrayFeatureExtractor": _array_feature_extractor,
    f"{_DOMAIN}.Binarizer": _binarizer,
    f"{_DOMAIN}.CategoryMapper": _category_mapper,
    f"{_DOMAIN}.FeatureVectorizer": _feature_vectorizer,
    f"{_DOMAIN}.Imputer": _imputer,
    f"{_DOMAIN}.LabelEncoder": _label_encoder,
    f"{_DOMAIN}.Normalizer": _normalizer,
    f"{_DOMAIN}.OneHotEncoder": _one_hot_encoder,
    f"{_DOMAIN}.Scaler": _scaler,
}


# --- scores ---------------------------------------------------------------------------------------


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
