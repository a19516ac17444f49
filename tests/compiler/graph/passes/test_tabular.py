# SPDX-License-Identifier: Apache-2.0
"""Models of tables as tensor operators, against ONNX Runtime and the functions of NumPy."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import vdla
from vdla.compiler.graph.operators import RECORDS, Trait
from vdla.compiler.graph.passes import tabular
from vdla.runtime.numpy_operators import FUNCTIONS

ML = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
GRID = np.float32([-1, -0.5, 0, 0.5, 1, np.inf, -np.inf])


def model(op, attributes, inputs, outputs=1, version=3, shapes=None):
    names = [f"x{n}" for n in range(len(inputs))]
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(op, names, results, domain=ML, **attributes)
    kinds = [8 if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype) for x in inputs]
    extents = shapes or [x.shape for x in inputs]
    fed = [helper.make_tensor_value_info(*each) for each in zip(names, kinds, extents, strict=True)]
    graph = helper.make_graph([node], "g", fed, [helper.make_empty_tensor_value_info(name) for name in results])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def peer(made, inputs):
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{n}": x for n, x in enumerate(inputs)})


def ours(made, inputs, **options):
    network = vdla.compile(made, "host", **options)
    results = network.run({f"x{n}": x for n, x in enumerate(inputs)}).outputs
    return [results[f"y{n}"] for n in range(len(results))], network


def equal(got, expected, tolerance=1e-5):
    for one, other in zip(got, expected, strict=True):
        if np.asarray(other).dtype.kind in "OUS":
            assert list(one.reshape(-1)) == list(np.asarray(other).reshape(-1))
        else:
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def in_numpy(network):
    """The operators that run as functions of NumPy."""
    return [step.op for step in network.artifact.plan.steps if step.placement.device == "numpy"]


def rows(r, count=40, features=4, dtype=np.float32):
    x = r.choice(GRID, (count, features)).astype(dtype)
    x[r.random(x.shape) < 0.1] = np.nan
    return x


def trees(r, kind, targets, modes=MODES, count=5, depth=4, votes=2):
    """A random ensemble, whose first tree is a leaf only; without `votes` leaves vote for all."""
    names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    nodes = {name: [] for name in (*names, "missing_value_tracks_true")}
    leaves = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def add(tree, left):
        place = len(nodes["treeids"])
        number = nodes["treeids"].count(tree)
        branch = left and (r.random() < 0.8)
        row = (tree, number, int(r.integers(4)), str(r.choice(modes)), float(r.choice(GRID[:5])), 0, 0)
        for name, value in zip(names, row if branch else (tree, number, 0, "LEAF", 0.0, 0, 0), strict=True):
            nodes[name].append(value)
        nodes["missing_value_tracks_true"].append(int(r.integers(2)) if branch else 0)
        if branch:
            nodes["truenodeids"][place] = add(tree, left - 1)
            nodes["falsenodeids"][place] = add(tree, left - 1)
        else:
            voted = r.integers(targets, size=r.integers(1, votes + 1)) if votes else range(targets)
            for target in voted:
                vote = (tree, number, int(target), float(r.integers(-8, 8)) / 4)
                for name, value in zip(leaves, vote, strict=True):
                    leaves[name].append(value)
        return number

    for tree in range(count):
        add(tree, depth if tree else 0)
    return {f"nodes_{k}": v for k, v in nodes.items()} | {f"{kind}_{k}": v for k, v in leaves.items()}


def test_the_records_name_the_operators_that_others_replace():
    names = {name for name, record in RECORDS.items() if record.has(Trait.TABULAR)}
    assert names == {f"{ML}.{name}" for name in tabular.EXPANSIONS}


# --- trees ----------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", [*MODES, "all"])
def test_each_mode_of_branches_equals_the_function_of_numpy(mode, seed):
    """ONNX Runtime confuses modes that differ within an ensemble, and sends NaN its own way."""
    r = np.random.default_rng(seed)
    attributes = trees(r, "target", 2, MODES if mode == "all" else (mode,)) | {"n_targets": 2}
    x = rows(r)
    got, network = ours(model("TreeEnsembleRegressor", attributes, [x]), [x])
    equal(got, FUNCTIONS[f"{ML}.TreeEnsembleRegressor"](attributes, x))
    assert not in_numpy(network)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_regressors_equal_onnxruntime(aggregate, targets, seed):
    r = np.random.default_rng(seed)
    attributes = trees(r, "target", targets, ("BRANCH_LEQ",), votes=0)
    attributes |= {"n_targets": targets, "aggregate_function": aggregate}
    if aggregate == "SUM":
        attributes |= {"base_values": [0.25] * targets}
        attributes |= {"post_transform": "LOGISTIC"} if targets > 1 else {}  # ONNX Runtime ignores it of one
    x = rows(r)
    made = model("TreeEnsembleRegressor", attributes, [x])
    got, network = ours(made, [x])
    equal(got, peer(made, [x]))
    assert not in_numpy(network)


@pytest.mark.sampled
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize(("classes", "voted"), [(3, 3), (2, 2), (2, 1)])
@pytest.mark.parametrize("labels", ["ints", "places", "strings"])
def test_classifiers_equal_onnxruntime_or_the_function_of_numpy(transform, classes, voted, labels):
    r = np.random.default_rng(7)
    attributes = trees(r, "class", voted, ("BRANCH_LEQ",), votes=0) | {"post_transform": transform}
    if labels == "strings":
        attributes["classlabels_strings"] = ["a", "b", "c"][:classes]
    else:
        attributes["classlabels_int64s"] = [4, 2, 9][:classes] if labels == "ints" else list(range(classes))
    x = rows(r)
    made = model("TreeEnsembleClassifier", attributes, [x], 2)
    expected = peer(made, [x]) if classes > 2 else FUNCTIONS[f"{ML}.TreeEnsembleClassifier"](attributes, x)
    got, network = ours(made, [x])
    equal(got, expected)
    assert in_numpy(network) == ["Gather"] * (labels == "strings")


def test_votes_for_some_classes_only_equal_the_function_of_numpy():
    r = np.random.default_rng(8)
    attributes = trees(r, "class", 3) | {"classlabels_int64s": [4, 2, 9], "base_values": [0.5, 0.25, 0.0]}
    x = rows(r)
    got, _ = ours(model("TreeEnsembleClassifier", attributes, [x], 2), [x])
    equal(got, FUNCTIONS[f"{ML}.TreeEnsembleClassifier"](attributes, x))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64])
def test_rows_of_other_types_are_compared_as_float32(dtype):
    r = np.random.default_rng(3)
    attributes = trees(r, "target", 1) | {"n_targets": 1}
    x = r.integers(-2, 3, (20, 4)).astype(dtype)
    got, _ = ours(model("TreeEnsembleRegressor", attributes, [x]), [x])
    equal(got, FUNCTIONS[f"{ML}.TreeEnsembleRegressor"](attributes, x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("extents", [[7, 3], ["n", 3]])
def test_tree_ensembles_of_opset_5_equal_the_function_of_numpy(dtype, extents):
    """Also with sets of members, one of them empty, and with a number of rows known at run time."""

    def tensor(values, kind=dtype):
        return numpy_helper.from_array(np.array(values, kind), "")

    attributes = {
        "n_targets": 2,
        "tree_roots": [0, 2],
        "nodes_featureids": [0, 1, 2, 0],
        "nodes_modes": tensor([0, 6, 4, 6], np.uint8),
        "nodes_splits": tensor([0.5, 0, 2, 0]),
        "nodes_missing_value_tracks_true": [0, 1, 0, 1],
        "membership_values": tensor([1, 3, np.nan, np.nan]),
        "nodes_truenodeids": [1, 0, 3, 4],
        "nodes_trueleafs": [0, 1, 0, 1],
        "nodes_falsenodeids": [1, 2, 3, 5],
        "nodes_falseleafs": [1, 1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 0, 1],
        "leaf_weights": tensor([1, 2, 4, 8, 16, 32]),
    }
    plain = {k: numpy_helper.to_array(v) if hasattr(v, "data_type") else v for k, v in attributes.items()}
    x = np.array([[0, 1, 2], [0, 3, 1], [0, 2, 2], [1, 1, np.nan], [0.5, np.nan, 2], [9, 1, 2], [np.nan, 3, 2]], dtype)
    got, network = ours(model("TreeEnsemble", attributes, [x], version=5, shapes=[extents]), [x])
    equal(got, FUNCTIONS[f"{ML}.TreeEnsemble"](plain, x))
    assert in_numpy(network) == (["vdla.TreeLeaves", "Gather", "ReduceSum"] if "n" in extents else [])


def test_a_tree_without_end_is_refused():
    attributes = {
        "n_targets": 1,
        **{f"nodes_{k}": [0, 0] for k in ("treeids", "featureids")},
        "nodes_nodeids": [0, 1],
        "nodes_modes": ["BRANCH_LEQ", "LEAF"],
        "nodes_values": [0.0, 0.0],
        "nodes_truenodeids": [0, 0],
        "nodes_falsenodeids": [1, 0],
        "target_treeids": [0],
        "target_nodeids": [1],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    x = np.ones((2, 1), np.float32)
    with pytest.raises(vdla.Error) as caught:
        vdla.compile(model("TreeEnsembleRegressor", attributes, [x]), "host")
    assert str(caught.value) == (
        f"g: {ML}.TreeEnsembleRegressor y0: branches must not lead back, got node 0 of tree 0 after itself"
    )


# --- linear models, support vector machines, features ---------------------------------------------


def floats(r, *shape):
    return r.standard_normal(shape).astype(np.float32)


def numbers(r, *shape):
    return list(map(float, floats(r, *shape).reshape(-1)))


def svm(r, classes, kernel, **more):
    pairs = classes * (classes - 1) // 2
    return {
        "coefficients": numbers(r, classes - 1, 2 * classes),
        "support_vectors": numbers(r, 2 * classes, 3),
        "vectors_per_class": [2] * classes,
        "rho": numbers(r, pairs),
        "classlabels_ints": list(range(3, 3 + classes)),
        "kernel_type": kernel,
        "kernel_params": [0.4, 0.2, 3.0],
        **more,
    }


CASES = {
    "one target": ("LinearRegressor", lambda r: ({"coefficients": numbers(r, 3)}, [floats(r, 5, 3)])),
    "two targets": ("LinearRegressor", lambda r: ({"coefficients": numbers(r, 6), "targets": 2,
                                                   "intercepts": [0.5, -0.5]}, [floats(r, 5, 3)])),
    **{f"linear, {classes}, {transform}": ("LinearClassifier", lambda r, c=classes, t=transform: (
        {"coefficients": numbers(r, c, 3), "intercepts": numbers(r, c), "classlabels_ints": [4, 2, 9][:c],
         "post_transform": t}, [floats(r, 5, 3)]))
       for classes in (2, 3) for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")},
    **{f"regressor, {kernel}": ("SVMRegressor", lambda r, k=kernel: (
        {"coefficients": numbers(r, 4), "support_vectors": numbers(r, 12), "n_supports": 4, "rho": [0.3],
         "kernel_type": k, "kernel_params": [0.4, 0.2, 3.0]}, [floats(r, 5, 3)]))
       for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID")},
    "one class": ("SVMRegressor", lambda r: (
        {"coefficients": numbers(r, 4), "support_vectors": numbers(r, 12), "n_supports": 4, "rho": [0.1],
         "kernel_type": "RBF", "kernel_params": [0.4, 0.0, 3.0], "one_class": 1}, [floats(r, 9, 3)])),
    **{f"classifier, {c}, {k}": ("SVMClassifier", lambda r, c=c, k=k: (svm(r, c, k), [floats(r, 9, 3)]))
       for c in (2, 3, 4) for k in ("LINEAR", "POLY", "RBF", "SIGMOID")},
    "far from 0": ("SVMClassifier", lambda r: (
        svm(r, 3, "RBF") | {"support_vectors": [1e4 + v for v in numbers(r, 18)]}, [floats(r, 9, 3) + 1e4])),
    **{f"norm {norm}": ("Normalizer", lambda r, n=norm: ({"norm": n}, [np.maximum(floats(r, 6, 3), 0)]))
       for norm in ("L1", "L2", "MAX")},
    "scaler": ("Scaler", lambda r: ({"offset": [0.1, 0.2, 0.3], "scale": [1.0, 2.0, 3.0]}, [floats(r, 4, 3)])),
    "scaler of integers": ("Scaler", lambda r: ({"offset": [2.0], "scale": [0.5]}, [r.integers(-9, 9, (4, 3))])),
    "binarizer": ("Binarizer", lambda r: ({"threshold": 0.2}, [floats(r, 4, 3)])),
    "imputer": ("Imputer", lambda r: ({"imputed_value_floats": [1.0, 2.0, 3.0, 4.0],
                                       "replaced_value_float": float("nan")}, [rows(r)])),
    "imputer of 0": ("Imputer", lambda r: ({"imputed_value_floats": [7.0], "replaced_value_float": 0.0}, [rows(r)])),
    "imputer of integers": ("Imputer", lambda r: ({"imputed_value_int64s": [7, 8, 9], "replaced_value_int64": 1},
                                                  [r.integers(0, 3, (4, 3))])),
    "one-hot": ("OneHotEncoder", lambda r: ({"cats_int64s": [3, 1, 7]}, [np.array([1, 3, 5, 7])])),
    "one-hot, images": ("OneHotEncoder", lambda r: ({"cats_int64s": [3, 1, 7]}, [r.integers(0, 9, (2, 5))])),
    "extract": ("ArrayFeatureExtractor", lambda r: ({}, [floats(r, 4, 5), np.array([[3, 0]])])),
    "extract from a row": ("ArrayFeatureExtractor", lambda r: ({}, [floats(r, 5), np.array([3, 0, 3])])),
    "vector": ("FeatureVectorizer", lambda r: ({"inputdimensions": [2, 3]}, [floats(r, 4, 2), floats(r, 4, 3)])),
    "labels": ("LabelEncoder", lambda r: ({"keys_int64s": [3, 5, 9], "values_floats": [0.5, 2.5, -1.0],
                                           "default_float": 7.0}, [r.integers(0, 10, (4, 3))])),
    "labels of many keys": ("LabelEncoder", lambda r: (
        {"keys_int64s": r.permutation(300).tolist(), "values_int64s": r.integers(-9, 9, 300).tolist(),
         "default_int64": -5}, [np.append(r.integers(-5, 310, (4, 30)), [[-(2**63), 2**63 - 1] * 15], 0)])),
    "labels far apart": ("LabelEncoder", lambda r: ({"keys_int64s": [-(2**63), 5, 2**63 - 1],
                                                     "values_int64s": [1, 2, 3]},
                                                    [np.array([5, 6, -(2**63), 2**63 - 1])])),
    "labels of equal keys": ("LabelEncoder", lambda r: ({"keys_int64s": [3, 5, 3, 5], "values_int64s": [1, 2, 3, 4]},
                                                        [np.array([3, 5, 9])])),
    "labels of equal keys far apart": ("LabelEncoder", lambda r: (
        {"keys_int64s": [3, 2**40, 3, 2**40], "values_floats": [1.0, 2.0, 3.0, 4.0]}, [np.array([3, 2**40, 9])])),
    "labels of zeros": ("LabelEncoder", lambda r: ({"keys_floats": [-0.0, 1.0, 0.0], "values_int64s": [7, 8, 9]},
                                                   [np.float32([0, -0.0, 1, 2])])),
    "labels of floats": ("LabelEncoder", lambda r: ({"keys_floats": [0.5, 1.0], "values_int64s": [7, 8]},
                                                    [np.float32([1, 0.5, 0.25])])),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_other_operators_equal_onnxruntime(name):
    op, case = CASES[name]
    for seed in range(3):
        attributes, inputs = case(np.random.default_rng(seed))
        made = model(op, attributes, inputs, 2 if op.endswith("Classifier") else 1)
        got, network = ours(made, inputs)
        equal(got, peer(made, inputs), 1e-4 if name.startswith(("classifier", "regressor", "far")) else 1e-5)
        assert not in_numpy(network)


def chain(*steps, classes=3, features=4):
    """A model of operators of tables, each on the last result of the one before."""
    nodes, last = [], "x0"
    for n, (op, attributes) in enumerate(steps):
        results = [f"label{n}", f"s{n}"] if op.endswith("Classifier") else [f"s{n}"]
        nodes.append(helper.make_node(op, [last], results, domain=ML, **attributes))
        last = results[-1]
    nodes[-1].output[-1] = "y0"
    fed = [helper.make_tensor_value_info("x0", 1, ["n", features])]
    graph = helper.make_graph(nodes, "chain", fed, [helper.make_empty_tensor_value_info("y0")])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


SCALER = ("Scaler", {"offset": [0.5], "scale": [2.0]})
LINEAR = ("LinearClassifier", {"coefficients": numbers(np.random.default_rng(1), 12), "intercepts": [0.1, 0.2, 0.3],
                               "classlabels_ints": [0, 1, 2], "post_transform": "SOFTMAX"})  # fmt: skip
SVM = ("SVMClassifier", svm(np.random.default_rng(2), 3, "RBF"))
NORM = ("Normalizer", {"norm": "L1"})
IMPUTER = ("Imputer", {"imputed_value_floats": [0.25], "replaced_value_float": 0.0})
REGRESSOR = ("LinearRegressor", {"coefficients": [0.5, 0.25, -1.0]})


@pytest.mark.parametrize(
    "steps",
    [
        (SCALER, LINEAR, NORM),
        (NORM, SCALER, NORM, LINEAR, NORM),
        (LINEAR, SVM, NORM),
        (IMPUTER, LINEAR, IMPUTER, NORM, REGRESSOR),
    ],
)
@pytest.mark.parametrize("count", [1, 7])
def test_types_that_onnx_does_not_infer_follow_from_the_operators_before(steps, count):
    made, x = chain(*steps), floats(np.random.default_rng(3), count, 4)
    got, network = ours(made, [x], extents={"n": count})
    equal(got, peer(made, [x]), 1e-4)
    assert not in_numpy(network)


def test_probabilities_of_two_classes_are_those_of_the_decision():
    r = np.random.default_rng(5)
    attributes, x = svm(r, 2, "RBF", prob_a=[-1.5], prob_b=[0.2]), floats(r, 9, 3)
    made = model("SVMClassifier", attributes, [x], 2)
    got, network = ours(made, [x])
    equal(got, peer(made, [x]), 5e-3)  # ONNX Runtime ends the iteration for its probabilities early
    assert not in_numpy(network)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LinearRegressor", {"coefficients": [1.0, 0.25, 0.5], "post_transform": "PROBIT"}),
        ("LabelEncoder", {"keys_floats": [float("nan"), 1.0], "values_floats": [1.0, 2.0]}),
        ("LabelEncoder", {"keys_floats": [0.0, 1.0], "values_strings": ["a", "b"]}),
        ("LabelEncoder", {"keys_floats": [0.0, 1.0, 0.0], "values_strings": ["a", "b", "c"]}),
        ("LabelEncoder", {"keys_floats": [float("nan"), 0.0, float("nan")], "values_floats": [1.0, 2.0, 3.0]}),
        ("OneHotEncoder", {"cats_int64s": [0, 1], "zeros": 0}),
        ("OneHotEncoder", {"cats_int64s": [0, 1, 0]}),
    ],
)
def test_what_has_no_tensor_operators_stays_a_function_of_numpy(op, attributes):
    x = np.array([[0.0, 1.0, 1.0]], np.float32)
    made = model(op, attributes, [x])
    got, network = ours(made, [x])
    equal(got, peer(made, [x]), 1e-2)  # ONNX Runtime approximates PROBIT
    assert in_numpy(network) == [f"{ML}.{op}"]


def test_a_number_of_rows_that_is_known_at_run_time(tmp_path):
    r = np.random.default_rng(2)
    attributes = trees(r, "target", 2, ("BRANCH_LEQ",)) | {"n_targets": 2}
    x = rows(r, 6)
    made = model("TreeEnsembleRegressor", attributes, [x], shapes=[["n", 4]])
    expected = peer(made, [x])
    equal(ours(made, [x])[0], expected)
    network = vdla.compile(made, "host", extents={"n": (6, 12)})
    network.save(tmp_path / "trees.vdla")
    equal([vdla.load(tmp_path / "trees.vdla").run({"x0": x}).outputs["y0"]], expected)
    assert not in_numpy(network)
