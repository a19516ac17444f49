# SPDX-License-Identifier: Apache-2.0
"""NumPy functions on arrays without elements, against ONNX Runtime: as where shapes are known at
run time only.
"""

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from vdla.runtime.numpy_operators import FUNCTIONS

onnxruntime.set_default_logger_severity(4)


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


IMAGES = floats(0, 4, 6, 6)
WORDS = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": (0,),
         "ngram_indexes": (0, 1), "pool_int64s": (3, 4)}  # fmt: skip
CASES = [
    ("ArgMax", {"axis": 1}, [floats(0, 3)]),
    ("ArgMin", {"axis": 0, "keepdims": 0, "select_last_index": 1}, [floats(2, 0)]),
    ("ArgMax", {"axis": 0}, [floats(0, 0)]),
    ("AveragePool", {"kernel_shape": (2, 2)}, [IMAGES]),
    ("BatchNormalization", {}, [IMAGES, *[np.ones(4, np.float32)] * 4]),
    ("Col2Im", {}, [floats(0, 4, 25), ints(6, 6), ints(2, 2)]),
    ("Compress", {"axis": 1}, [floats(3, 0), np.array([True, False])]),
    ("Conv", {"pads": (1, 1, 1, 1)}, [IMAGES, floats(8, 4, 3, 3), floats(8)]),
    ("Conv", {"group": 4}, [IMAGES, floats(4, 1, 3, 3)]),
    ("Conv", {}, [floats(0, 4, 6), floats(8, 4, 3)]),
    ("ConvTranspose", {"strides": (2, 2), "group": 2}, [IMAGES, floats(4, 2, 3, 3), floats(4)]),
    ("ConvTranspose", {"auto_pad": "SAME_UPPER", "strides": (2,)}, [floats(0, 4, 6), floats(4, 2, 3)]),
    ("CumSum", {"exclusive": 1}, [floats(3, 0), ints(1)]),
    ("CumSum", {"exclusive": 1, "reverse": 1}, [floats(3, 4), ints(1)]),
    ("DepthToSpace", {"blocksize": 2}, [IMAGES]),
    ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}, [IMAGES]),
    ("DFT", {}, [floats(0, 5, 2)]),
    ("DFT", {"onesided": 1}, [floats(0, 5, 1)]),
    ("DynamicQuantizeLinear", {}, [floats(0, 4)]),
    ("GatherND", {}, [floats(2, 2), np.zeros((0, 2), np.int64)]),
    ("GatherND", {"batch_dims": 1}, [floats(0, 2, 3), np.zeros((0, 1), np.int64)]),
    ("GlobalAveragePool", {}, [IMAGES]),
    ("GridSample", {}, [IMAGES, floats(0, 3, 5, 2)]),
    ("Hardmax", {"axis": 1}, [floats(3, 0)]),
    ("LogSoftmax", {"axis": 1}, [floats(3, 0, 2)]),
    ("MaxPool", {"kernel_shape": (2, 2)}, [IMAGES]),
    ("NonZero", {}, [np.zeros((2, 3), np.float32)]),
    ("ReduceMax", {}, [np.zeros((0, 2), np.int32), ints(0)]),
    ("NegativeLogLikelihoodLoss", {}, [floats(0, 5), ints()]),
    ("ReduceMean", {}, [floats(3, 0), ints(1)]),
    ("ReduceMin", {"keepdims": 0}, [floats(2, 0)]),
    ("Resize", {"mode": "linear"}, [IMAGES, None, None, ints(0, 4, 9, 9)]),
    ("Softmax", {"axis": 0}, [floats(0, 2)]),
    ("SpaceToDepth", {"blocksize": 2}, [IMAGES]),
    ("Split", {"num_outputs": 2, "axis": 0}, [floats(0, 2)]),
    ("Squeeze", {}, [floats(1, 0, 1), ints()]),
    ("TfIdfVectorizer", WORDS, [np.zeros((2, 0), np.int64)]),
    ("TopK", {}, [floats(2, 0), ints(0)]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes", "inputs"), CASES)
def test_functions(op, attributes, inputs):
    results = FUNCTIONS[op](attributes, *inputs)
    names = ["" if value is None else f"x{n}" for n, value in enumerate(inputs)]
    arrays = {name: value for name, value in zip(names, inputs, strict=True) if name}
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for name, v in arrays.items()
    ]
    count = 1 if op in ("BatchNormalization", "MaxPool") else len(results)
    node = helper.make_node(op, names, [f"y{n}" for n in range(count)], **attributes)
    outputs = [helper.make_empty_tensor_value_info(f"y{n}") for n in range(count)]
    graph = helper.make_graph([node], "g", given, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for value, want in zip(results, session.run(None, arrays), strict=False):
        assert (value.dtype, value.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(value, want, rtol=1e-5)


def test_other_operators():
    """Those that ONNX Runtime does not have, or fails on."""
    (y,) = FUNCTIONS["GroupNormalization"]({"num_groups": 2}, IMAGES, floats(4), floats(4))
    assert y.shape == IMAGES.shape
    nothing = floats(2, 4, 0)
    y, present = FUNCTIONS["LinearAttention"]({"q_num_heads": 2, "kv_num_heads": 2}, nothing, nothing, nothing)
    assert y.shape == (2, 4, 0)
    assert present.shape == (2, 2, 0, 0)
    y, present = FUNCTIONS["CausalConvWithState"]({}, floats(0, 4, 8), floats(4, 1, 3))
    assert y.shape == (0, 4, 8)
    assert present.shape == (0, 4, 2)
    assert FUNCTIONS["CumProd"]({"exclusive": 1}, floats(0), ints(0))[0].shape == (0,)
