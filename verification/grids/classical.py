# SPDX-License-Identifier: Apache-2.0
"""Drafts of classical models, ai.onnx.ml: features, labels, linear models, vectors, trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import numpy_helper

from vdla.verification.grids.draw import Array, Draw, NodeDraft
from vdla.verification.grids.elementwise import Drafter

_NUMBERS = ("float32", "float32", "float64", "int64", "int32")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
_WORDS = ("", "a", "bc", "Zug", "über")


def _rows(draw: Draw, columns: int, among: Sequence[str] = _NUMBERS) -> Array:
    parameter = "T1" if "T1" in draw.version.types else "T"
    return draw.array((draw.rank(1, 5), columns), draw.dtype(parameter, among=among), -3, 3)


def _numbers(draw: Draw, count: int, low: float = -2, high: float = 2) -> list[float]:
    return [float(value) for value in draw.array((count,), "float32", low, high)]


# --- features and labels --------------------------------------------------------------------------


def _feature_extractor(draw: Draw) -> NodeDraft:
    shape = draw.shape(draw.rank(1, 3), empty=False)
    x = draw.array(shape, draw.dtype(among=(*_NUMBERS, "object")))
    places = draw.random.integers(shape[-1], size=draw.rank(1, 4))
    return NodeDraft([x, places.astype(np.int64)], constant=frozenset({1}))


def _binarizer(draw: Draw) -> NodeDraft:
    return NodeDraft([draw.array(draw.shape(), draw.dtype(among=_NUMBERS))], draw.options(threshold=[0.5, -1.0]))


def _vectorizer(draw: Draw) -> NodeDraft:
    rows, dtype = draw.rank(1, 4), draw.dtype("T1", among=_NUMBERS)
    widths = [draw.rank(1, 4) for _ in range(draw.rank(1, 3))]
    return NodeDraft([draw.array((rows, width), dtype) for width in widths], {"inputdimensions": widths})


def _imputer(draw: Draw) -> NodeDraft:
    columns = draw.rank(1, 5)
    x = _rows(draw, columns, ("float32", "float64", "int64"))
    count = draw.pick([1, columns])
    if x.dtype.kind == "i":
        options = {"imputed_value_int64s": [int(v) for v in draw.array((count,), "int64")], "replaced_value_int64": 2}
        return NodeDraft([x], options)
    missing = np.nan if draw.chance() else 1.0
    x[draw.random.random(x.shape) < 0.3] = missing
    return NodeDraft([x], {"imputed_value_floats": _numbers(draw, count), "replaced_value_float": missing})


def _scaler(draw: Draw) -> NodeDraft:
    columns = draw.rank(1, 5)
    count = draw.pick([1, columns])
    attributes = {"scale": _numbers(draw, count), "offset": _numbers(draw, count)}
    return NodeDraft([_rows(draw, columns)], attributes)


def _normalizer(draw: Draw) -> NodeDraft:
    x = _rows(draw, draw.rank(1, 5))
    if draw.chance(0.2):
        x[0] = 0
    return NodeDraft([x], {"norm": draw.pick(["MAX", "L1", "L2"])})


def _one_hot_encoder(draw: Draw) -> NodeDraft:
    shape, words = draw.shape(draw.rank(1, 3)), draw.chance()
    if words:
        return NodeDraft([draw.array(shape, "object")], {"cats_strings": ["a", "Zug"], **draw.options(zeros=[1])})
    x = draw.array(shape, draw.pick(["int64", "int32", "float32", "float64"]), 0, 4)
    return NodeDraft([np.rint(x).astype(x.dtype)], {"cats_int64s": [0, 3, 4, 1, 2], **draw.options(zeros=[0, 1])})


def _category_mapper(draw: Draw) -> NodeDraft:
    pairs = {"cats_int64s": [0, 5, 2], "cats_strings": ["a", "", "Zug"]}
    options = draw.options(default_int64=[7], default_string=["none"])
    x = draw.array(draw.shape(draw.rank(1, 3)), "object" if draw.chance() else "int64", 0, 6)
    return NodeDraft([x], {**pairs, **options})


_LABELS: Mapping[str, tuple[str, str]] = {
    "object": ("keys_strings", "values_strings"),
    "int64": ("keys_int64s", "values_int64s"),
    "float32": ("keys_floats", "values_floats"),
}


def _label_encoder(draw: Draw) -> NodeDraft:
    if draw.version.since == 1:
        x = draw.array(draw.shape(draw.rank(1, 3)), "object" if draw.chance() else "int64", 0, 6)
        return NodeDraft(
            [x], {"classes_strings": list(_WORDS), **draw.options(default_int64=[9], default_string=["z"])}
        )
    first, second = draw.pick(list(_LABELS)), draw.pick(list(_LABELS))
    x = np.asarray(draw.array(draw.shape(draw.rank(0, 3)), first, 0, 6))
    if x.dtype.kind == "f":
        x = np.asarray(np.rint(x).astype(x.dtype))
    texts: Mapping[str, list[Any]] = {"object": ["a", "", "Zug"], "int64": [0, 5, 2], "float32": [0.0, 5.0, 2.0]}
    if draw.chance(0.2):  # equal keys
        texts = {kind: [*keys, keys[0]] for kind, keys in texts.items()}
    if draw.has("keys_tensor") and draw.chance(0.3):
        kinds = {name: draw.pick([name] if name == "object" else ["int32", "int16", "float64"]) for name in _LABELS}
        x = x.astype(kinds[first]) if first != "object" else x
        tensors = [np.asarray(texts[kind], object if kind == "object" else kinds[kind]) for kind in (first, second)]
        default = np.asarray(texts[second][:1], tensors[1].dtype)
        values = [numpy_helper.from_array(item) for item in (*tensors, default)]
        return NodeDraft([x], dict(zip(("keys_tensor", "values_tensor", "default_tensor"), values, strict=True)))
    options = draw.options(default_int64=[9], default_string=["z"], default_float=[0.5])
    return NodeDraft([x], {_LABELS[first][0]: texts[first], _LABELS[second][1]: texts[second][::-1], **options})


# --- linear models and vectors --------------------------------------------------------------------


def _labels(draw: Draw, count: int, integers: str = "classlabels_ints") -> dict[str, Any]:
    if draw.chance():
        return {"classlabels_strings": [f"c{i}" for i in range(count)]}
    return {integers: [3 * i - 1 for i in range(count)]}


def _linear_classifier(draw: Draw) -> NodeDraft:
    columns, classes = draw.rank(1, 4), draw.rank(2, 4)
    attributes = {"coefficients": _numbers(draw, classes * columns), **_labels(draw, classes)}
    attributes["intercepts"] = _numbers(draw, classes)
    attributes |= draw.options(post_transform=_TRANSFORMS, multi_class=[0, 1])
    return NodeDraft([_rows(draw, columns)], attributes, outputs=2)


def _linear_regressor(draw: Draw) -> NodeDraft:
    columns, targets = draw.rank(1, 4), draw.rank(1, 3)
    attributes: dict[str, Any] = {"coefficients": _numbers(draw, targets * columns), "targets": targets}
    if draw.chance(0.7):
        attributes["intercepts"] = _numbers(draw, targets)
    return NodeDraft([_rows(draw, columns)], {**attributes, **draw.options(post_transform=_TRANSFORMS)})


def _kernel(draw: Draw) -> dict[str, Any]:
    return {"kernel_type": draw.pick(["LINEAR", "POLY", "RBF", "SIGMOID"]), "kernel_params": [0.3, 0.5, 2.0]}


def _svm_regressor(draw: Draw) -> NodeDraft:
    columns, count = draw.rank(1, 4), draw.rank(1, 4)
    attributes = {
        "support_vectors": _numbers(draw, count * columns), "coefficients": _numbers(draw, count),
        "n_supports": count, "rho": _numbers(draw, 1), **_kernel(draw), **draw.options(one_class=[0, 1]),
    }  # fmt: skip
    return NodeDraft([_rows(draw, columns, ("float32",))], attributes)


def _svm_classifier(draw: Draw) -> NodeDraft:
    columns, classes = draw.rank(1, 4), draw.rank(2, 4)
    counts = [draw.rank(1, 3) for _ in range(classes)]
    pairs = classes * (classes - 1) // 2
    attributes = {
        "support_vectors": _numbers(draw, sum(counts) * columns),
        "coefficients": _numbers(draw, sum(counts) * (classes - 1)),
        "vectors_per_class": counts, "rho": _numbers(draw, pairs), **_kernel(draw), **_labels(draw, classes),
    }  # fmt: skip
    if draw.chance():
        attributes |= {"prob_a": _numbers(draw, pairs, -2, -0.5), "prob_b": _numbers(draw, pairs, -0.5, 0.5)}
    attributes |= draw.options(post_transform=["NONE", "LOGISTIC", "SOFTMAX"])
    # probabilities are coupled by steps until they hardly change; ONNX infers no extents here
    x = _rows(draw, columns, ("float32",))
    return NodeDraft([x], attributes, outputs=2, tolerance=2e-3, trusted=True)


# --- trees ----------------------------------------------------------------------------------------

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def _forest(draw: Draw, columns: int) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """The nodes of some trees, each a complete one of depth 0 to 3, and their leaves."""
    nodes: dict[str, list[Any]] = {
        f"nodes_{name}": []
        for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    leaves: list[tuple[int, int]] = []
    mode = draw.pick(_MODES)
    for tree in range(draw.rank(1, 4)):
        inner = 2 ** draw.rank(0, 3) - 1
        for place in range(2 * inner + 1):
            leaf = place >= inner
            if leaf:
                leaves.append((tree, place))
            row = {
                "treeids": tree, "nodeids": place, "featureids": 0 if leaf else draw.rank(0, columns - 1),
                "values": 0.0 if leaf else float(draw.pick([-1.0, 0.0, 0.5, 1.0, 2.0])),
                "modes": "LEAF" if leaf else draw.pick(_MODES) if draw.chance(0.2) else mode,
                "truenodeids": 0 if leaf else 2 * place + 1, "falsenodeids": 0 if leaf else 2 * place + 2,
            }  # fmt: skip
            for name, value in row.items():
                nodes[f"nodes_{name}"].append(value)
    made: dict[str, Any] = dict(nodes)
    if draw.chance(0.3):
        made["nodes_missing_value_tracks_true"] = [draw.rank(0, 1) for _ in nodes["nodes_values"]]
    return made, leaves


def _tree_rows(draw: Draw, columns: int) -> Array:
    x = _rows(draw, columns, ("float32", "float32", "float64", "int64"))
    if x.dtype.kind == "f":
        x = np.asarray(np.rint(2 * x) / 2).astype(x.dtype)  # some are equal to thresholds
        if draw.chance(0.3):
            x[0, 0] = np.nan
    return x


def _ensemble(draw: Draw) -> NodeDraft:
    """TreeEnsembleClassifier and TreeEnsembleRegressor."""
    columns, count = draw.rank(1, 4), draw.rank(1, 3)
    classifier = draw.version.name == "TreeEnsembleClassifier"
    x, (attributes, leaves) = _tree_rows(draw, columns), _forest(draw, columns)
    kind = "class" if classifier else "target"
    count = max(2, count) if classifier else count
    weighted = range(1) if classifier and count == 2 and draw.chance() else range(count)
    rows = [(*leaf, target, value) for leaf in leaves for target in weighted
            if draw.chance(0.8) or target == 0 for value in _numbers(draw, 1)]  # fmt: skip
    for place, name in enumerate(("treeids", "nodeids", "ids")):
        attributes[f"{kind}_{name}"] = [row[place] for row in rows]
    weights = [row[3] for row in rows]
    if draw.has(f"{kind}_weights_as_tensor") and x.dtype == np.float64:
        attributes[f"{kind}_weights_as_tensor"] = numpy_helper.from_array(np.asarray(weights, np.float64))
        values = np.asarray(attributes.pop("nodes_values"), np.float64)
        attributes["nodes_values_as_tensor"] = numpy_helper.from_array(values)
    else:
        attributes[f"{kind}_weights"] = weights
        if draw.chance(0.3):
            attributes["base_values"] = _numbers(draw, count)
    attributes |= draw.options(post_transform=_TRANSFORMS)
    if classifier:
        return NodeDraft([x], {**attributes, **_labels(draw, count, "classlabels_int64s")}, outputs=2)
    attributes |= draw.options(aggregate_function=["SUM", "AVERAGE", "MIN", "MAX"])
    return NodeDraft([x], {**attributes, "n_targets": count})


def _tree_ensemble(draw: Draw) -> NodeDraft:
    """Trees with leaves of their own numbering, the root a node with two leaves at least."""
    columns, targets, trees = draw.rank(1, 4), draw.rank(1, 3), draw.rank(1, 3)
    dtype = draw.pick(["float32", "float32", "float64"])
    x = _tree_rows(draw, columns).astype(dtype)
    rows: list[tuple[int, int, int, int]] = []
    roots, leaf = [], 0
    for _ in range(trees):
        first, inner = len(rows), 2 ** draw.rank(1, 3) - 1
        roots.append(first)
        for place in range(inner):
            entry = []
            for child in (2 * place + 1, 2 * place + 2):
                entry += [first + child, 0] if child < inner else [leaf, 1]
                leaf += child >= inner
            rows.append((entry[0], entry[1], entry[2], entry[3]))
    count = len(rows)
    splits = draw.array((count,), dtype, -2, 2)
    modes = draw.random.integers(6, size=count).astype(np.uint8)
    attributes = {
        "tree_roots": roots, "n_targets": targets,
        "nodes_featureids": [draw.rank(0, columns - 1) for _ in rows],
        "nodes_splits": numpy_helper.from_array(np.asarray(np.rint(2 * splits) / 2).astype(dtype)),
        "nodes_modes": numpy_helper.from_array(modes if draw.chance() else np.zeros(count, np.uint8)),
        "nodes_truenodeids": [row[0] for row in rows], "nodes_trueleafs": [row[1] for row in rows],
        "nodes_falsenodeids": [row[2] for row in rows], "nodes_falseleafs": [row[3] for row in rows],
        "leaf_targetids": [draw.rank(0, targets - 1) for _ in range(leaf)],
        "leaf_weights": numpy_helper.from_array(draw.array((leaf,), dtype)),
        **draw.options(aggregate_function=[0, 1, 2, 3], post_transform=[0, 1, 2, 3]),
    }  # fmt: skip
    return NodeDraft([x], attributes)


_DRAFTERS: Mapping[str, Drafter] = {
    "ArrayFeatureExtractor": _feature_extractor,
    "Binarizer": _binarizer,
    "CategoryMapper": _category_mapper,
    "FeatureVectorizer": _vectorizer,
    "Imputer": _imputer,
    "LabelEncoder": _label_encoder,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "OneHotEncoder": _one_hot_encoder,
    "SVMClassifier": _svm_classifier,
    "SVMRegressor": _svm_regressor,
    "Scaler": _scaler,
    "TreeEnsemble": _tree_ensemble,
    "TreeEnsembleClassifier": _ensemble,
    "TreeEnsembleRegressor": _ensemble,
}
CLASSICAL: Mapping[str, Drafter] = {f"ai.onnx.ml.{name}": drafter for name, drafter in _DRAFTERS.items()}
