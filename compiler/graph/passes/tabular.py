# SPDX-License-Identifier: Apache-2.0
"""Models of tables (ai.onnx.ml) as tensor operators, so that they run in compiled kernels.

Scores of linear models and support vector machines are matrix products, scores of trees gathered
weights of leaves; a label is looked up at the position of the greatest score. Nodes on strings, and
those with probabilities of more than two classes, still run as NumPy functions.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.passes.expansion import Expansion, UnsuitableError
from vdla.compiler.graph.passes.fold_constants import InferNode, refine_types
from vdla.compiler.graph.passes.tree_tables import TreeTables, tree_tables
from vdla.compiler.graph.rewriting import Replacement, rewrite
from vdla.support.tree_ensemble import TreeEnsemble, either, older_tree_ensemble, tree_ensemble

_DOMAIN = "ai.onnx.ml"
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_MOST_KEYS = 64  # of a LabelEncoder that compares each element with all keys
_MOST_SPAN = 1 << 16  # of the keys of one that looks elements up in a table
_MOST_WEIGHTS = 1 << 24


def expand_tabular(graph: Graph, infer: InferNode) -> Graph:
    """The graph with tensor operators in place of tabular ones, where an expansion exists.

    ONNX infers no types of tabular results: those that follow from an expansion are carried on,
    and may be what the next expansion needs.
    """

    def rule(graph: Graph, node: Node) -> Replacement | None:
        expand = EXPANSIONS.get(node.op.removeprefix(f"{_DOMAIN}."))
        if expand is None or not node.op.startswith(_DOMAIN):
            return None
        expansion = _TabularExpansion(graph, node, infer)
        try:
            results = expand(expansion)
        except (UnsuitableError, ArithmeticError, LookupError, TypeError, ValueError):
            return None  # contradicting attributes: the NumPy function raises the error at run time
        return expansion.replacement(results)

    while (expanded := rewrite(graph, (rule,))) is not graph:
        graph = refine_types(expanded, infer)
    return graph


class _TabularExpansion(Expansion):
    """The expansion of a tabular node: parts shared by all kinds of models."""

    def rows(self, dtype: str = "float32") -> str:
        """The data as [N, features]; a vector is one row."""
        x = self.node.inputs[0]
        if self.type_of(x).dtype == "str":
            raise UnsuitableError
        if len(self.type_of(x).shape or ()) == 1:
            x = self.add("Reshape", x, self.integers(1, -1))
        if len(self.type_of(x).shape or ()) != 2:
            raise UnsuitableError
        return self.cast(x, dtype)

    def width(self, rows: str) -> int:
        """The features of rows."""
        extent = (self.type_of(rows).shape or ())[-1]
        if not isinstance(extent, int):
            raise UnsuitableError
        return extent

    def linear(self, rows: str, weights: Array, offsets: Array | None) -> str:
        """[N, outputs]: products with [outputs, features], plus offsets."""
        operands = [self.constant(weights.astype(np.float32))]
        if offsets is not None:
            operands.append(self.constant(offsets.astype(np.float32)))
        return self.add("Gemm", rows, *operands, transB=1)

    def transformed(self, scores: str, transform: str) -> str:
        """Scores [N, targets] by one of ONNX's transforms."""
        match transform:
            case "NONE":
                return scores
            case "SOFTMAX":
                return self.add("Softmax", scores, axis=1)
            case "LOGISTIC":
                return self.add("Sigmoid", scores)
            case "SOFTMAX_ZERO":
                return self._softmax_of_nonzero(scores)
        raise UnsuitableError

    def _softmax_of_nonzero(self, scores: str) -> str:
        zero, one, axis = self.floats(0.0), self.floats(1.0), self.integers(1)
        greatest = self.add("ReduceMax", scores, axis)
        powers = self.add("Exp", self.add("Sub", scores, greatest))
        powers = self.add("Where", self.add("Equal", scores, zero), zero, powers)
        total = self.add("ReduceSum", powers, axis)
        return self.add("Div", powers, self.add("Where", self.add("Equal", total, zero), one, total))

    def labels(self, places: str) -> str:
        """Class labels by their positions [N], integers."""
        texts = self.attribute("classlabels_strings")
        if texts:
            names = [text.decode() if isinstance(text, bytes) else text for text in texts]
            return self.add("Gather", self.constant(np.array(names, object)), places)
        numbers = tuple(self.attribute("classlabels_ints") or self.attribute("classlabels_int64s") or ())
        if numbers == tuple(range(len(numbers))):
            return places
        return self.add("Gather", self.integers(*numbers), places)

    def class_count(self) -> int:
        names = ("classlabels_strings", "classlabels_ints", "classlabels_int64s")
        return len(next((labels for name in names if (labels := self.attribute(name))), ()))

    def best(self, scores: str) -> str:
        """The positions of the greatest scores."""
        return self.add("ArgMax", scores, axis=1, keepdims=0)

    def of_two(self, score: str, transform: str, threshold: float) -> tuple[str, str]:
        """The predicted positions [N] and the transformed scores [N, 1] of the second of two
        classes.
        """
        above = self.add("Squeeze", self.add("Greater", score, self.floats(threshold)), self.integers(1))
        return self.cast(above, "int64"), self.transformed(score, transform)


# --- linear models --------------------------------------------------------------------------------


def _linear_scores(e: _TabularExpansion, targets: int | None) -> tuple[str, int]:
    rows = e.rows()
    coefficients, offsets = np.array(e.attribute("coefficients"), np.float32), e.attribute("intercepts")
    count = targets or len(coefficients) // e.width(rows)
    weights = coefficients.reshape(count, -1)
    return e.linear(rows, weights, np.array(offsets) if offsets else None), count


def _linear_regressor(e: _TabularExpansion) -> Sequence[str]:
    scores, _ = _linear_scores(e, e.attribute("targets", 1))
    return [e.transformed(scores, e.attribute("post_transform", "NONE"))]


def _linear_classifier(e: _TabularExpansion) -> Sequence[str]:
    """A single score of two classes belongs to the second; the first gets its complement."""
    scores, count = _linear_scores(e, None)
    transform = e.attribute("post_transform", "NONE")
    if count == 1 and e.class_count() == 2:
        second = e.transformed(scores, transform)
        places, _ = e.of_two(second, "NONE", 0.5 if transform != "NONE" else 0.0)
        first = e.add("Sub", e.floats(1.0), second) if transform == "LOGISTIC" else e.add("Neg", second)
        return [e.labels(places), e.add("Concat", first, second, axis=1)]
    return [e.labels(e.best(scores)), e.transformed(scores, transform)]


# --- support vector machines ----------------------------------------------------------------------


def _kernel(e: _TabularExpansion, rows: str, vectors: Array) -> str:
    """[N, vectors]: the kernel of the rows with each support vector."""
    gamma, offset, degree = e.attribute("kernel_params") or (0.0, 0.0, 0.0)
    kind = e.attribute("kernel_type", "LINEAR")
    if kind == "RBF":
        apart = e.add("Sub", e.add("Unsqueeze", rows, e.integers(1)), e.constant(vectors[None].astype(np.float32)))
        squares = e.add("ReduceSum", e.add("Mul", apart, apart), e.integers(2), keepdims=0)
        return e.add("Exp", e.add("Mul", squares, e.floats(-gamma)))
    products = e.linear(rows, vectors, None)
    if kind == "LINEAR":
        return products
    moved = e.add("Add", e.add("Mul", products, e.floats(gamma)), e.floats(offset))
    return e.add("Tanh", moved) if kind == "SIGMOID" else e.add("Pow", moved, e.floats(degree))


def _svm_regressor(e: _TabularExpansion) -> Sequence[str]:
    """Without support vectors the coefficients are those of a linear model."""
    count, weights = e.attribute("n_supports", 0), np.array(e.attribute("coefficients"), np.float64)
    rows, rho = e.rows(), np.array(e.attribute("rho"), np.float64)[:1]
    if count:
        vectors = np.array(e.attribute("support_vectors"), np.float64).reshape(count, -1)
        scores = e.linear(_kernel(e, rows, vectors), weights[None], rho)
    else:
        scores = e.add("Add", _kernel(e, rows, weights.reshape(1, -1)), e.floats(rho[0]))
    if e.attribute("one_class", 0):
        return [e.add("Where", e.add("Greater", scores, e.floats(0.0)), e.floats(1.0), e.floats(-1.0))]
    return [e.transformed(scores, e.attribute("post_transform", "NONE"))]


def _svm_classifier(e: _TabularExpansion) -> Sequence[str]:
    """Every pair of classes votes by its decision; scores are decisions, or probabilities of two.

    Without support vectors the coefficients are those of a linear model for each class.
    """
    classes, transform = e.class_count(), e.attribute("post_transform", "NONE")
    counts, rows = e.attribute("vectors_per_class"), e.rows()
    if not counts:
        weights = np.array(e.attribute("coefficients"), np.float64).reshape(classes, -1)
        scores = e.add("Add", _kernel(e, rows, weights), e.floats(e.attribute("rho")[0]))
        return [e.labels(e.best(scores)), e.transformed(scores, transform)]
    if e.attribute("prob_a") and classes > 2:
        raise UnsuitableError
    decisions = _decisions(e, rows, counts)
    places = e.best(_votes(e, decisions, classes))
    if e.attribute("prob_a"):
        a, b = (np.array(e.attribute(name), np.float32) for name in ("prob_a", "prob_b"))
        powers = e.add("Add", e.add("Mul", decisions, e.constant(-a)), e.constant(-b))
        first = e.add("Clip", e.add("Sigmoid", powers), e.floats(1e-7), e.floats(1 - 1e-7))
        scores = e.add("Concat", first, e.add("Sub", e.floats(1.0), first), axis=1)
    else:
        both = classes == 2
        scores = e.add("Concat", e.add("Neg", decisions), decisions, axis=1) if both else decisions
    return [e.labels(places), e.transformed(scores, transform)]


def _decisions(e: _TabularExpansion, rows: str, counts: Sequence[int]) -> str:
    """[N, pairs of classes]: the decision functions, positive for the first class of a pair.

    Row r of the coefficients weighs the vectors of a class against the r-th of the other classes.
    """
    total = sum(counts)
    vectors = np.array(e.attribute("support_vectors"), np.float64).reshape(total, -1)
    weights = np.array(e.attribute("coefficients"), np.float64).reshape(-1, total)
    ends = np.cumsum((0, *counts))
    pairs = list(itertools.combinations(range(len(counts)), 2))
    of_pairs = np.zeros((len(pairs), total))
    for row, (first, second) in zip(of_pairs, pairs, strict=True):
        first_rows, second_rows = slice(ends[first], ends[first + 1]), slice(ends[second], ends[second + 1])
        row[first_rows], row[second_rows] = weights[second - 1, first_rows], weights[first, second_rows]
    return e.linear(_kernel(e, rows, vectors), of_pairs, np.array(e.attribute("rho"), np.float64))


def _votes(e: _TabularExpansion, decisions: str, classes: int) -> str:
    """[N, classes]: the pairs that decide for a class."""
    pairs = list(itertools.combinations(range(classes), 2))
    gained, base = np.zeros((classes, len(pairs))), np.zeros(classes)
    for n, (first, second) in enumerate(pairs):
        gained[first, n], gained[second, n] = 1, -1
        base[second] += 1
    positive = e.cast(e.add("Greater", decisions, e.floats(0.0)), "float32")
    return e.linear(positive, gained, base)


# --- trees ----------------------------------------------------------------------------------------


def _tree_scores(e: _TabularExpansion, ensemble: TreeEnsemble, targets: int, aggregate: str, dtype: str) -> str:
    """[N, targets]: the votes of all trees, aggregated."""
    tables = tree_tables(ensemble, dtype)
    if tables is None or len(tables.leaf) * targets > _MOST_WEIGHTS:
        raise UnsuitableError
    places = _leaf_places(e, tables, len(ensemble.roots), dtype)
    absent = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
    votes = _leaf_votes(ensemble, targets, aggregate, absent, dtype)
    weights = np.concatenate([votes, np.full((1, targets), absent, dtype)])[tables.leaf]
    gathered = e.add("Gather", e.constant(weights), places)
    reduction = {"MIN": "ReduceMin", "MAX": "ReduceMax"}.get(aggregate, "ReduceSum")
    scores = e.add(reduction, gathered, e.integers(1), keepdims=0)
    if aggregate == "AVERAGE":
        return e.add("Div", scores, e.constant(np.array(len(ensemble.roots), dtype)))
    if absent:
        zero, none = (e.constant(np.array(value, dtype)) for value in (0, absent))
        return e.add("Where", e.add("Equal", scores, none), zero, scores)
    return scores


def _leaf_places(e: _TabularExpansion, tables: TreeTables, trees: int, dtype: str) -> str:
    rows = e.rows(dtype)
    arrays = [tables.feature, tables.threshold, tables.successor]
    if tables.nan_passes.any():
        arrays.append(tables.nan_passes)
    if tables.feature.min(initial=0) < 0 or tables.feature.max(initial=0) >= e.width(rows):
        raise UnsuitableError
    kind = TensorType("int32", ((e.type_of(rows).shape or ())[0], trees))
    operands = map(e.constant, arrays)
    return e.add("vdla.TreeLeaves", rows, *operands, kind=kind, depth=tables.depth, trees=trees)


def _leaf_votes(ensemble: TreeEnsemble, targets: int, aggregate: str, absent: float, dtype: str) -> Array:
    """[leaves, targets]: the votes of each leaf."""
    combine = {"MIN": min, "MAX": max}.get(aggregate, operator.add)
    votes = np.full((len(ensemble.leaves), targets), absent, np.float64)
    for row, leaf in zip(votes, ensemble.leaves, strict=True):
        for target, weight in leaf:
            row[target] = combine(row[target], weight)
    return votes.astype(dtype)


def _tree_ensemble(e: _TabularExpansion) -> Sequence[str]:
    dtype = e.type_of(e.node.inputs[0]).dtype
    if dtype not in ("float32", "float64"):
        raise UnsuitableError
    aggregate = _AGGREGATES[e.attribute("aggregate_function", 1)]
    ensemble = tree_ensemble(e.node.attributes)
    scores = _tree_scores(e, ensemble, e.attribute("n_targets"), aggregate, dtype)
    return [e.transformed(scores, _TRANSFORMS[e.attribute("post_transform", 0)])]


def _tree_regressor(e: _TabularExpansion) -> Sequence[str]:
    ensemble = older_tree_ensemble(e.node.attributes, "target")
    aggregate, base = e.attribute("aggregate_function", "SUM"), either(e.node.attributes, "base_values")
    scores = _tree_scores(e, ensemble, e.attribute("n_targets"), aggregate, "float32")
    whole = e.add("Add", scores, e.floats(*base)) if base else scores
    return [e.transformed(whole, e.attribute("post_transform", "NONE"))]


def _tree_classifier(e: _TabularExpansion) -> Sequence[str]:
    """Votes for one of two classes are the score of the second."""
    ensemble, base = older_tree_ensemble(e.node.attributes, "class"), either(e.node.attributes, "base_values")
    classes, voted = e.class_count(), set(e.attribute("class_ids"))
    transform = e.attribute("post_transform", "NONE")
    if classes == 2 and len(voted) == 1:
        only = [[(0, weight) for _, weight in leaf] for leaf in ensemble.leaves]
        score = _tree_scores(e, TreeEnsemble(ensemble.branches, only, ensemble.roots), 1, "SUM", "float32")
        score = e.add("Add", score, e.floats(base[-1])) if base else score
        places, second = e.of_two(score, transform, 0.5 if transform == "NONE" else 0.0)
        return [e.labels(places), e.add("Concat", e.add("Sub", e.floats(1.0), second), second, axis=1)]
    scores = _tree_scores(e, ensemble, classes, "SUM", "float32")
    whole = e.add("Add", scores, e.floats(*base)) if len(base) == classes else scores
    return [e.labels(e.best(whole)), e.transformed(whole, transform)]


# --- features -------------------------------------------------------------------------------------


def _scaler(e: _TabularExpansion) -> Sequence[str]:
    x = e.cast(e.node.inputs[0], "float32")
    moved = e.add("Sub", x, e.floats(*e.attribute("offset", (0.0,))))
    return [e.add("Mul", moved, e.floats(*e.attribute("scale", (1.0,))))]


def _normalizer(e: _TabularExpansion) -> Sequence[str]:
    """Rows over their norm, where that is not 0."""
    x = e.cast(e.node.inputs[0], "float32")
    op = {"MAX": "ReduceMax", "L1": "ReduceL1"}.get(e.attribute("norm", "MAX"), "ReduceL2")
    size = e.add(op, e.add("Abs", x) if op == "ReduceMax" else x, e.integers(-1))
    return [e.add("Div", x, e.add("Where", e.add("Equal", size, e.floats(0.0)), e.floats(1.0), size))]


def _binarizer(e: _TabularExpansion) -> Sequence[str]:
    x = e.node.inputs[0]
    dtype = e.type_of(x).dtype
    limit = e.attribute("threshold", 0.0)
    wide = x if dtype.startswith("float") else e.cast(x, "float64")
    threshold = e.constant(np.array(limit, e.type_of(wide).dtype))
    return [e.cast(e.add("Greater", wide, threshold), dtype)]


def _imputer(e: _TabularExpansion) -> Sequence[str]:
    """Replaces a value by another one, or by one for each feature."""
    x = e.node.inputs[0]
    dtype = e.type_of(x).dtype
    kind = "float" if dtype.startswith("float") else "int64"
    old, new = e.attribute(f"replaced_value_{kind}", 0), e.attribute(f"imputed_value_{kind}s")
    unset = np.isnan(old)
    missing = e.add("IsNaN", x) if unset else e.add("Equal", x, e.constant(np.array(old, dtype)))
    return [e.add("Where", missing, e.constant(np.array(new, dtype)), x)]


def _feature_vectorizer(e: _TabularExpansion) -> Sequence[str]:
    parts = []
    for x in e.node.inputs:
        rank = len(e.type_of(x).shape or ())
        flat = e.add("Reshape", x, e.integers(1, -1)) if rank == 1 else x if rank == 2 else e.add("Flatten", x)
        parts.append(e.cast(flat, "float32"))
    return [e.add("Concat", *parts, axis=1)]


def _array_feature_extractor(e: _TabularExpansion) -> Sequence[str]:
    """Elements along the last axis; a vector is one row."""
    x, places = e.node.inputs
    if len(e.type_of(x).shape or ()) == 1:
        x = e.add("Reshape", x, e.integers(1, -1))
    return [e.add("Gather", x, e.add("Reshape", places, e.integers(-1)), axis=-1)]


def _one_hot_encoder(e: _TabularExpansion) -> Sequence[str]:
    categories = e.attribute("cats_int64s") or ()
    if e.attribute("cats_strings") or not e.attribute("zeros", 1) or len(set(categories)) < len(categories):
        raise UnsuitableError
    wide = e.add("Unsqueeze", e.cast(e.node.inputs[0], "int64"), e.integers(-1))
    return [e.cast(e.add("Equal", wide, e.integers(*categories)), "float32")]


def _label_encoder(e: _TabularExpansion) -> Sequence[str]:
    """Numbers by numbers; of equal keys the first counts."""
    keys, values = (_numbers(e, name) for name in ("keys", "values"))
    if np.isnan(keys).any() or keys.dtype.name != e.type_of(e.node.inputs[0]).dtype:
        raise UnsuitableError
    default = e.attribute("default_tensor")
    if default is None:
        name, plain = ("default_int64", -1) if values.dtype.kind == "i" else ("default_float", -0.0)
        default = np.array(plain if e.attribute("values_tensor") is not None else e.attribute(name, plain))
    default = np.asarray(default).reshape(-1)[0].astype(values.dtype)
    if keys.dtype.kind == "i" and int(keys.max()) - int(keys.min()) < _MOST_SPAN:
        return [_looked_up(e, keys.astype(np.int64), values, default)]
    if len(keys) > _MOST_KEYS:
        raise UnsuitableError
    equal = e.add("Equal", e.add("Unsqueeze", e.node.inputs[0], e.integers(-1)), e.constant(keys))
    numbers = e.cast(equal, "int32")
    first = e.add("ArgMax", numbers, axis=-1, keepdims=0)
    known = e.cast(e.add("ReduceMax", numbers, e.integers(-1), keepdims=0), "bool")
    return [e.add("Where", known, e.add("Gather", e.constant(values), first), e.constant(default))]


def _looked_up(e: _TabularExpansion, keys: Array, values: Array, default: Array) -> str:
    """The values in a table from the least key to the greatest, with the default at its end."""
    first, last = keys.min(), keys.max()
    table = np.full(last - first + 2, default, values.dtype)
    table[(keys - first)[::-1]] = values[::-1]  # of equal keys the first is written last
    low, high, end = (e.constant(np.array(value, np.int64)) for value in (first, last, last - first + 1))
    x = e.cast(e.node.inputs[0], "int64")
    inside = e.add("And", e.add("GreaterOrEqual", x, low), e.add("LessOrEqual", x, high))
    return e.add("Gather", e.constant(table), e.add("Where", inside, e.add("Sub", x, low), end))


def _numbers(e: _TabularExpansion, name: str) -> Array:
    """The keys or values of a LabelEncoder."""
    listed = {f"{name}_tensor": None, f"{name}_int64s": np.int64, f"{name}_floats": np.float32}
    for key, dtype in listed.items():
        if (value := e.attribute(key)) is not None:
            array = np.asarray(value, dtype)
            if array.dtype.kind in "if":
                return array
    raise UnsuitableError


EXPANSIONS: Mapping[str, Callable[[_TabularExpansion], Sequence[str]]] = {
    "ArrayFeatureExtractor": _array_feature_extractor,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _feature_vectorizer,
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
    "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": _tree_regressor,
}
