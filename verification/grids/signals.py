# SPDX-License-Identifier: Apache-2.0
"""Drafts of transforms and windows of signals, and of operators on text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from vdla.verification.grids.draw import Array, Draw, NodeDraft
from vdla.verification.grids.elementwise import Drafter

_FLOAT = ("float32", "float32", "float64")


def _window(draw: Draw) -> NodeDraft:
    size = np.asarray(draw.rank(1, 16), draw.pick([np.int32, np.int64]))
    kinds = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16]
    return NodeDraft([size], draw.options(periodic=[0, 1], output_datatype=kinds), constant=frozenset({0}))


def _dft(draw: Draw) -> NodeDraft:
    dtype, sides = draw.dtype("T1", among=_FLOAT), draw.rank(1, 2)
    axis = draw.rank(1, sides)
    inverse, onesided = draw.pick([(0, 0), (0, 1), (1, 0)])
    parts = 2 if inverse else 1 if onesided else draw.pick([1, 2])
    x = draw.array((draw.rank(1, 2), *draw.shape(sides, empty=False), parts), dtype)
    inputs: list[Array | None] = [x]
    attributes: dict[str, Any] = {"inverse": inverse, "onesided": onesided}
    length = np.asarray(max(1, x.shape[axis] + draw.pick([-1, 0, 2])), np.int64) if draw.chance(0.4) else None
    if draw.has("axis"):
        inputs += [length] if length is not None else []
        return NodeDraft(inputs, {**attributes, "axis": axis}, constant=frozenset({1}))
    inputs.append(length)
    if axis != x.ndim - 2 or draw.chance():
        inputs.append(np.asarray(axis - (x.ndim if draw.chance() else 0), np.int64))
    return NodeDraft(inputs, attributes, constant=frozenset({1, 2}))


def _stft(draw: Draw) -> NodeDraft:
    dtype, frame = draw.dtype("T1", among=_FLOAT), draw.rank(2, 8)
    onesided = draw.rank(0, 1)
    parts = 1 if onesided else draw.pick([1, 2])
    x = draw.array((draw.rank(1, 2), frame + draw.rank(0, 9), parts), dtype)
    window = draw.array((frame,), dtype, 0, 1) if draw.chance(0.6) else None
    inputs: list[Array | None] = [x, np.asarray(draw.rank(1, 4), np.int64), window]
    if window is None or draw.chance():
        inputs.append(np.asarray(frame, np.int64))
    return NodeDraft(inputs, {"onesided": onesided}, constant=frozenset({1, 2, 3}))


def _mel(draw: Draw) -> NodeDraft:
    scalars = [draw.rank(1, 8), draw.pick([16, 33, 64]), draw.pick([8000, 16000])]
    limits = [draw.pick([0.0, 100.0]), draw.pick([3000.0, 4000.0])]
    inputs: list[Array | None] = [np.asarray(item, np.int64) for item in scalars]
    inputs += [np.asarray(item, np.float32) for item in limits]
    return NodeDraft(inputs, constant=frozenset(range(5)))


# --- text -----------------------------------------------------------------------------------------


def _concat(draw: Draw) -> NodeDraft:
    shape = draw.shape(draw.rank(0, 3))
    other = tuple(1 if draw.chance(0.3) else extent for extent in shape[draw.rank(0, len(shape)) :])
    pair = [draw.array(shape, "object"), draw.array(other, "object")]
    return NodeDraft(pair if draw.chance() else pair[::-1])


def _text(draw: Draw, shape: tuple[int, ...], words: tuple[str, ...]) -> Array:
    return np.asarray(np.array(words, object)[draw.random.integers(len(words), size=shape)], object)


def _split(draw: Draw) -> NodeDraft:
    words = ("", "a b", " a  b ", "a,b,,c", "über,den Zug", "abc", ",", "a,b c,d")
    options = draw.options(delimiter=[",", " ", "", "b"], maxsplit=[0, 1, 2])
    return NodeDraft([_text(draw, draw.shape(draw.rank(0, 3)), words)], options, outputs=2)


def _match(draw: Draw) -> NodeDraft:
    words = ("", "a", "abc", "a@b.de", "12", "Zug 7")
    patterns = [r"a.*", r"\d+", r"[a-z]+@[a-z]+\.[a-z]{2}", r".*", r"(a|12)", ""]
    return NodeDraft([_text(draw, draw.shape(draw.rank(0, 3)), words)], {"pattern": draw.pick(patterns)})


def _normalize(draw: Draw) -> NodeDraft:
    words = ("Monday", "monday", "TUESDAY", "a", "A", "")
    shape = (draw.rank(1, 5),)  # ONNX refuses a second dimension unless the first is declared as 1
    options = draw.options(
        case_change_action=["LOWER", "UPPER", "NONE"], is_case_sensitive=[0, 1],
        stopwords=[["monday"], ["Monday", "a"], ["monday", "Monday", "tuesday", "TUESDAY", "a", "A", ""]],
    )  # fmt: skip
    return NodeDraft([_text(draw, shape, words)], options)


def _tf_idf(draw: Draw) -> NodeDraft:
    """Grams of one to three words; the pool has all of one word first."""
    counts, indices = [0, 3, 7], [0, 1, 2, 3, 4]
    pool = [1, 2, 3, 1, 2, 2, 3]
    words = ["w0", "a", "b", "c"]
    shape = draw.pick([(draw.rank(1, 6),), (draw.rank(1, 3), draw.rank(1, 6))])
    x: Array = draw.random.integers(4, size=shape).astype(draw.pick([np.int32, np.int64]))
    chosen: dict[str, Any] = {"pool_int64s": pool}
    if draw.chance(0.4):
        chosen = {"pool_strings": [words[item] for item in pool]}
        x = np.asarray(np.array(words, object)[x], object)
    attributes = {
        "mode": draw.pick(["TF", "IDF", "TFIDF"]), "min_gram_length": draw.rank(1, 2), "max_gram_length": 2,
        "max_skip_count": draw.rank(0, 2), "ngram_counts": counts[:2], "ngram_indexes": indices, **chosen,
    }  # fmt: skip
    if draw.chance():
        attributes["weights"] = [0.5, 1.0, 2.0, 3.0, 4.0]
    return NodeDraft([x], attributes)


SIGNALS: Mapping[str, Drafter] = {
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), _window),
    "DFT": _dft,
    "MelWeightMatrix": _mel,
    "RegexFullMatch": _match,
    "STFT": _stft,
    "StringConcat": _concat,
    "StringNormalizer": _normalize,
    "StringSplit": _split,
    "TfIdfVectorizer": _tf_idf,
}
