# SPDX-License-Identifier: Apache-2.0
"""NumPy functions against ONNX Runtime on random data: those without a rule, and options that
ONNX's own node tests leave out.
"""

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from vdla.runtime.numpy_operators import FUNCTIONS

onnxruntime.set_default_logger_severity(4)


def floats(r, *shape):
    return r.uniform(-2, 2, shape).astype(np.float32)


def words(*values):
    return np.array(values, object)


def ints(*values):
    return np.array(values, np.int64)


def peer(op, attributes, inputs):
    """The results of ONNX Runtime."""
    domain, _, name = op.rpartition(".")
    names = [f"x{n}" if value is not None else "" for n, value in enumerate(inputs)]
    given = {name: value for name, value in zip(names, inputs, strict=True) if name}
    fed = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for key, v in given.items()
    ]
    kept = {key: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for key, v in attributes.items()}
    count = len(FUNCTIONS[op](attributes, *inputs))
    node = helper.make_node(name, names, [f"y{n}" for n in range(count)], domain=domain, **kept)
    outputs = [helper.make_empty_tensor_value_info(f"y{n}") for n in range(count)]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    model = helper.make_model(helper.make_graph([node], "g", fed, outputs), opset_imports=imports, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, given)


ML = "ai.onnx.ml"
TREE = {
    "nodes_treeids": (0, 0, 0, 0, 0, 1, 1, 1),
    "nodes_nodeids": (0, 1, 2, 3, 4, 0, 1, 2),
    "nodes_featureids": (1, 0, 0, 0, 0, 2, 0, 0),
    "nodes_values": (0.1, -0.3, 0.0, 0.0, 0.0, 0.4, 0.0, 0.0),
    "nodes_modes": ("BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"),
    "nodes_truenodeids": (1, 3, 0, 0, 0, 1, 0, 0),
    "nodes_falsenodeids": (2, 4, 0, 0, 0, 2, 0, 0),
    "nodes_missing_value_tracks_true": (1, 0, 0, 0, 0, 0, 0, 0),
}


def votes(kind, targets):
    return {
        f"{kind}_treeids": (0, 0, 0, 1, 1),
        f"{kind}_nodeids": (2, 3, 4, 1, 2),
        f"{kind}_ids": targets,
        f"{kind}_weights": (0.5, 1.25, 2.0, 0.75, 0.25),
    }


def rows(r):
    x = floats(r, 9, 3)
    x[0, 1] = np.nan
    return x


CASES = [
    (f"{ML}.TreeEnsembleRegressor", lambda r: ({**TREE, **votes("target", (0, 1, 0, 1, 0)),
                                                "n_targets": 2}, [rows(r)])),
    (f"{ML}.TreeEnsembleRegressor", lambda r: ({**TREE, **votes("target", (0,) * 5), "n_targets": 1,
                                                "aggregate_function": "MAX"}, [rows(r)])),
    (f"{ML}.TreeEnsembleClassifier", lambda r: ({**TREE, **votes("class", (0, 1, 2, 1, 0)),
                                                 "classlabels_strings": ("a", "b", "c"),
                                                 "post_transform": "SOFTMAX"}, [rows(r)])),
    (f"{ML}.LinearRegressor", lambda r: ({"coefficients": tuple(map(float, floats(r, 6))), "targets": 2,
                                          "intercepts": (0.5, -0.5)}, [floats(r, 4, 3)])),
    (f"{ML}.LinearClassifier", lambda r: ({"coefficients": tuple(map(float, floats(r, 9))),
                                           "intercepts": (0.5, -0.5, 0.1), "classlabels_ints": (3, 5, 9),
                                           "post_transform": "LOGISTIC"}, [floats(r, 4, 3)])),
    (f"{ML}.LinearClassifier", lambda r: ({"coefficients": tuple(map(float, floats(r, 9))),
                                           "intercepts": (0.5, -0.5, 0.1), "classlabels_strings": ("x", "y", "z"),
                                           "post_transform": "SOFTMAX"}, [floats(r, 4, 3)])),
    *[(f"{ML}.SVMRegressor", lambda r, kind=kind: ({"coefficients": tuple(map(float, floats(r, 4))),
                              "support_vectors": tuple(map(float, floats(r, 12))), "n_supports": 4, "rho": (0.3,),
                              "kernel_type": kind, "kernel_params": (0.4, 0.2, 3.0)}, [floats(r, 5, 3)]))
      for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")],
    *[(f"{ML}.SVMClassifier", lambda r, more=more: ({
          "coefficients": tuple(map(float, floats(r, 12))), "support_vectors": tuple(map(float, floats(r, 18))),
          "vectors_per_class": (2, 1, 3), "rho": (0.1, -0.2, 0.3), "classlabels_ints": (4, 5, 7),
          "kernel_type": "RBF", "kernel_params": (0.4, 0.0, 3.0), **more}, [floats(r, 5, 3)]))
      for more in ({}, {"prob_a": (-1.0, -2.0, -1.5), "prob_b": (0.1, 0.2, -0.1)})],
    *[(f"{ML}.Normalizer", lambda r, norm=norm: ({"norm": norm}, [floats(r, 4, 3)])) for norm in ("L1", "L2")],
    (f"{ML}.Scaler", lambda r: ({"offset": (0.1, 0.2, 0.3), "scale": (1.0, 2.0, 3.0)}, [floats(r, 4, 3)])),
    (f"{ML}.Imputer", lambda r: ({"imputed_value_floats": (1.0, 2.0, 3.0), "replaced_value_float": float("nan")},
                                 [rows(r)])),
    (f"{ML}.OneHotEncoder", lambda r: ({"cats_int64s": (3, 1, 7)}, [ints(1, 3, 5, 7)])),
    (f"{ML}.OneHotEncoder", lambda r: ({"cats_strings": ("a", "b")}, [words("b", "c")])),
    (f"{ML}.CategoryMapper", lambda r: ({"cats_int64s": (3, 1), "cats_strings": ("a", "b")}, [words("b", "c", "a")])),
    (f"{ML}.CategoryMapper", lambda r: ({"cats_int64s": (3, 1), "cats_strings": ("a", "b"), "default_string": "?"},
                                        [ints(1, 2, 3)])),
    (f"{ML}.LabelEncoder", lambda r: ({"keys_floats": (0.5, float("nan")), "values_int64s": (7, 8)},
                                      [np.float32([np.nan, 0.5, 1])])),
    (f"{ML}.FeatureVectorizer", lambda r: ({"inputdimensions": (2, 3)}, [floats(r, 4, 2), floats(r, 4, 3)])),
    ("MaxUnpool", lambda r: ({"kernel_shape": (2, 2), "strides": (2, 2)}, [floats(r, 1, 1, 2, 2),
                                                                           ints(0, 3, 8, 15).reshape(1, 1, 2, 2)])),
    ("TopK", lambda r: ({"axis": 1, "largest": int(r.integers(2))}, [floats(r, 3, 9), ints(4)])),
    ("Unique", lambda r: ({"axis": 1, "sorted": 1}, [r.integers(0, 2, (2, 9)).astype(np.float32)])),
    ("NonZero", lambda r: ({}, [r.integers(0, 2, (3, 4, 2))])),
    ("ScatterND", lambda r: ({"reduction": "max"}, [floats(r, 4, 5), ints(0, 3, 0)[:, None], floats(r, 3, 5)])),
    ("ScatterElements", lambda r: ({"axis": 1, "reduction": "add"}, [floats(r, 3, 5), r.integers(-5, 5, (3, 4)),
                                                                     floats(r, 3, 4)])),
    ("Compress", lambda r: ({"axis": 1}, [floats(r, 3, 4), np.array([True, False, True])])),
    ("Det", lambda r: ({}, [floats(r, 3, 4, 4)])),
    ("MaxRoiPool", lambda r: ({"pooled_shape": (2, 3), "spatial_scale": 0.5},
                              [floats(r, 2, 3, 8, 9), np.float32([[0, 1, 2, 13, 14], [1, 3, 3, 9, 5]])])),
    ("RoiAlign", lambda r: ({"output_height": 2, "output_width": 3, "spatial_scale": 0.5,
                             "coordinate_transformation_mode": "output_half_pixel"},
                            [floats(r, 2, 3, 8, 8), np.float32([[0, 0, 9, 7], [3, 2, 15, 14]]), ints(0, 1)])),
    ("RegexFullMatch", lambda r: ({"pattern": "[a-c]+"}, [words("abc", "abd", "")])),
    ("ReduceLogSumExp", lambda r: ({"keepdims": 0}, [floats(r, 3, 4, 5) * 100, ints(0, 2)])),
    ("NonMaxSuppression", lambda r: ({}, [np.sort(r.random((1, 9, 2, 2)), 2).reshape(1, 9, 4).astype(np.float32),
                                          r.random((1, 2, 9)).astype(np.float32), ints(4), np.float32([0.2]),
                                          np.float32([0.1])])),
]  # fmt: skip


CLOSE = {f"{ML}.SVMClassifier": 3e-3}  # ONNX Runtime ends the iteration for its probabilities early


@pytest.mark.parametrize(("op", "case"), CASES, ids=[f"{op}-{n}" for n, (op, _) in enumerate(CASES)])
def test_functions_equal_onnxruntime(op, case):
    for seed in range(3):
        attributes, inputs = case(np.random.default_rng(seed))
        inputs = [None if value is None else np.asarray(value) for value in inputs]
        for got, wanted in zip(FUNCTIONS[op](attributes, *inputs), peer(op, attributes, inputs), strict=True):
            if got.dtype == object or np.asarray(wanted).dtype == object:
                assert got.tolist() == np.asarray(wanted).tolist()
                continue
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=CLOSE.get(op, 1e-5), err_msg=f"seed {seed}")
