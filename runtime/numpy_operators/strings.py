# SPDX-License-Identifier: Apache-2.0
"""Operators on strings. Strings of arrays are Python strings; bytes are UTF-8."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.function import Array, Attributes, Function


def text_of(value: Any) -> str:  # noqa: ANN401  an element of an array of objects
    """An element as a Python string."""
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def strings(values: Sequence[str] | Array, shape: Sequence[int] | None = None) -> Array:
    """An array of strings."""
    result = np.empty(len(values), object)
    result[:] = [text_of(value) for value in values]
    return result if shape is None else result.reshape(tuple(shape))


def _concat(attributes: Attributes, a: Array, b: Array) -> tuple[Array]:
    left, right = np.broadcast_arrays(a, b)
    pairs = zip(left.reshape(-1), right.reshape(-1), strict=True)
    return (strings([text_of(x) + text_of(y) for x, y in pairs], left.shape),)


def _split(attributes: Attributes, x: Array) -> tuple[Array, Array]:
    """The parts, padded with empty strings, and their numbers."""
    delimiter, most = attributes.get("delimiter") or None, attributes.get("maxsplit", -1)
    parts = [text_of(value).split(delimiter, most) for value in x.reshape(-1)]
    width = max(map(len, parts), default=0)
    flat = [part for row in parts for part in (*row, *("",) * (width - len(row)))]
    counts = np.array([len(row) for row in parts], np.int64).reshape(x.shape)
    return strings(flat, (*x.shape, width)), counts


def _normalise(attributes: Attributes, x: Array) -> tuple[Array]:
    """Without the stop words, in one case; one empty string if nothing is left."""
    exact = attributes.get("is_case_sensitive", 0)
    stops = {word if exact else word.lower() for word in attributes.get("stopwords", ())}
    words = [text_of(word) for word in x.reshape(-1)]
    kept = [word for word in words if (word if exact else word.lower()) not in stops] or [""]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(attributes.get("case_change_action", "NONE"), str)
    return (strings([change(word) for word in kept], (len(kept),) if x.ndim == 1 else (1, len(kept))),)


def _full_match(attributes: Attributes, x: Array) -> tuple[Array]:
    pattern = re.compile(attributes["pattern"])
    match = [pattern.fullmatch(text_of(value)) is not None for value in x.reshape(-1)]
    return (np.array(match, bool).reshape(x.shape),)


def _ngrams(attributes: Attributes) -> dict[tuple[Any, ...], int]:
    """The n-grams of the pool, and their positions in it."""
    pool = attributes.get("pool_strings") or attributes["pool_int64s"]
    starts = [*attributes["ngram_counts"], len(pool)]
    result: dict[tuple[Any, ...], int] = {}
    for length, (start, end) in enumerate(pairwise(starts), 1):
        for place in range(start, end, length):
            result[tuple(pool[place : place + length])] = len(result)
    return result


def _tf_idf(attributes: Attributes, x: Array) -> tuple[Array]:
    """How often the n-grams of the pool occur in each row, weighted as the mode says."""
    grams, places = _ngrams(attributes), attributes["ngram_indexes"]
    weights = attributes.get("weights") or (1.0,) * len(places)
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    result = np.zeros((len(rows), max(places) + 1), np.float32)
    for row, words in zip(result, rows.tolist(), strict=True):
        for gram in _occurrences(attributes, words):
            if gram in grams:
                row[places[grams[gram]]] += 1
        for number in grams.values():
            row[places[number]] = _weighted(attributes["mode"], row[places[number]], weights[number])
    return (result.reshape(*x.shape[:-1], result.shape[-1]),)


def _weighted(mode: str, count: float, weight: float) -> float:
    if mode == "TF":
        return count
    return count * weight if mode == "TFIDF" else min(count, 1) * weight


def _occurrences(attributes: Attributes, words: list[Any]) -> list[tuple[Any, ...]]:
    """The n-grams of a row, of all lengths and numbers of skips; single words once."""
    result = []
    for length in range(attributes["min_gram_length"], attributes["max_gram_length"] + 1):
        for skip in range(1 if length == 1 else attributes["max_skip_count"] + 1):
            span = (length - 1) * (skip + 1) + 1
            result += [tuple(words[at : at + span : skip + 1]) for at in range(len(words) - span + 1)]
    return result


STRINGS: Mapping[str, Function] = {
    "RegexFullMatch": _full_match,
    "StringConcat": _concat,
    "StringNormalizer": _normalise,
    "StringSplit": _split,
    "TfIdfVectorizer": _tf_idf,
}
