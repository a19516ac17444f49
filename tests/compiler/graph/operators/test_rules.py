# SPDX-License-Identifier: Apache-2.0
"""Every rule against the NumPy function of its operator, on random data and options.

Each entry of `CASES` makes the attributes and the inputs of a node from a random generator; the
inputs behind the first `data` of them are constants of the graph.
"""

import numpy as np
import pytest
from helpers.graph_node import run_rule

from vdla.compiler.graph.operators import RECORDS, has_expression
from vdla.runtime.numpy_operators import FUNCTIONS

SEEDS = (0, 1)
FIRST_RESULT = ("BatchNormalization",)  # the others exist in training only


def floats(r, *shape, low=-2.0, high=2.0, dtype="float32"):
    return r.uniform(low, high, shape).astype(dtype)


def integers(r, *shape, low=-50, high=50, dtype="int32"):
    return r.integers(low, high, shape).astype(dtype)


def indices(r, extent, *shape):
    return r.integers(-extent, extent, shape).astype(np.int64)


def ints(*values):
    return np.array(values, np.int64)


def unary(low=-3.0, high=3.0, **attributes):
    return lambda r: (attributes, [floats(r, 3, 1, 17, low=low, high=high)], 1)


def binary(low=-3.0, high=3.0, **attributes):
    return lambda r: (attributes, [floats(r, 3, 1, 5, low=low, high=high), floats(r, 4, 1, low=low, high=high)], 2)


def of_integers(low=-50, high=50, dtype="int32", **attributes):
    return lambda r: (attributes, [integers(r, 3, 1, 5, low=low, high=high, dtype=dtype),
                                   integers(r, 4, 1, low=low, high=high, dtype=dtype)], 2)  # fmt: skip


def bools(r):
    return {}, [r.random((3, 1, 5)) < 0.5, r.random((4, 1)) < 0.5], 2


def reduction(low=-2.0, high=2.0):
    def case(r):
        axes = sorted(r.choice(3, r.integers(1, 3), replace=False).tolist())
        return {"keepdims": int(r.integers(2))}, [floats(r, 3, 4, 5, low=low, high=high), ints(*axes)], 1

    return case


def pool(**more):
    def case(r):
        attributes = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": tuple(map(int, r.integers(0, 2, 4)))}
        return {**attributes, "ceil_mode": int(r.integers(2)), **more}, [floats(r, 2, 3, 8, 7)], 1

    return case


def quantised_matrices(r):
    scales = [np.float32(s) for s in r.uniform(0.01, 0.05, 3)]
    zeros = [np.uint8(z) for z in r.integers(100, 150, 3)]
    a, b = (integers(r, *s, low=0, high=256, dtype="uint8") for s in ((5, 7), (7, 4)))
    return {}, [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]], 8


def quantised_convolution(r):
    x, w = integers(r, 1, 2, 6, 6, low=0, high=256, dtype="uint8"), integers(r, 3, 2, 3, 3, low=-127, dtype="int8")
    scale = r.uniform(0.01, 0.05, 3).astype(np.float32)
    inputs = [x, np.float32(0.02), np.uint8(120), w, scale, np.int8([0, 0, 0]), np.float32(0.3), np.uint8(9)]
    return {"pads": (1, 0, 1, 1)}, [*inputs, integers(r, 3)], 3


def layer(gates, **more):
    def case(r):
        ways = int(r.integers(1, 3))
        attributes = {"hidden_size": 3, "direction": "bidirectional" if ways == 2 else "reverse", **more}
        first = bool(more.get("layout"))
        x, state = floats(r, *((2, 4, 5) if first else (4, 2, 5))), (2, ways, 3) if first else (ways, 2, 3)
        weights = [floats(r, ways, gates * 3, 5), floats(r, ways, gates * 3, 3), floats(r, ways, 2 * gates * 3)]
        states = [floats(r, *state) for _ in range(2 if gates == 4 else 1)]
        lengths = r.integers(1, 5, 2).astype(np.int32)
        return attributes, [x, *weights, lengths, *states, *([floats(r, ways, 9)] if gates == 4 else [])], 20

    return case


def attention(**attributes):
    def case(r):
        q, k, v = floats(r, 2, 4, 3, 8), floats(r, 2, 2, 5, 8), floats(r, 2, 2, 5, 6)
        return attributes, [q, k, v, floats(r, 3, 5), floats(r, 2, 2, 2, 8), floats(r, 2, 2, 2, 6)][
            : 3 if attributes.get("is_causal") else 4
        ], 6  # fmt: skip

    return case


CASES = {
    **{op: unary() for op in ("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSwish", "IsNaN", "Mish", "Neg")},
    **{op: unary() for op in ("Identity", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Cosh", "Softplus")},
    **{op: unary() for op in ("Softsign", "Tanh", "Tan", "Asinh", "Atan", "Reciprocal")},
    **{op: unary(0.01, 4) for op in ("Log", "Sqrt")},
    **{op: unary(-1, 1) for op in ("Acos", "Asin", "Atanh")},
    **{op: binary() for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum", "PRelu", "Equal")},
    **{op: binary() for op in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    **{op: bools for op in ("And", "Or", "Xor")},
    **{op: of_integers() for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    **{op: reduction() for op in ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean")},
    **{op: reduction() for op in ("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")},
    **{op: lambda r: ({"axis": int(r.integers(-3, 3)), "keepdims": int(r.integers(2)),
                       "select_last_index": int(r.integers(2))}, [integers(r, 3, 4, 5, low=0, high=3)], 1)
       for op in ("ArgMax", "ArgMin")},
    **{op: lambda r: ({"axis": int(r.integers(-3, 3))}, [floats(r, 3, 4, 5)], 1)
       for op in ("Softmax", "LogSoftmax", "Hardmax")},
    **{op: lambda r: ({"reverse": int(r.integers(2)), "exclusive": int(r.integers(2))},
                      [floats(r, 3, 4, 5), ints(int(r.integers(3)))], 1) for op in ("CumSum", "CumProd")},
    "Acosh": unary(1, 4),
    "Attention": attention(softcap=2.0),
    "AveragePool": pool(count_include_pad=1),
    "BatchNormalization": lambda r: (
        {"epsilon": 0.01}, [floats(r, 2, 3, 4), *(floats(r, 3) for _ in range(3)), floats(r, 3, low=0.1)], 5),
    "BitShift": of_integers(0, 9, "uint8", direction="RIGHT"),
    "BitwiseNot": lambda r: ({}, [integers(r, 5)], 1),
    "Cast": lambda r: ({"to": "int8"}, [floats(r, 9, low=-100, high=100)], 1),
    "CastLike": lambda r: ({}, [floats(r, 9), integers(r, 2)], 2),
    "CausalConvWithState": lambda r: (
        {"activation": "silu"}, [floats(r, 2, 3, 5), floats(r, 3, 1, 4), floats(r, 3), floats(r, 2, 3, 3)], 4),
    "Celu": unary(alpha=0.7),
    "CenterCropPad": lambda r: ({"axes": (0, 2)}, [floats(r, 3, 4, 5), ints(6, 2)], 1),
    "Clip": lambda r: ({}, [floats(r, 9), np.float32(-1), np.float32(0.5)], 1 + 2 * int(r.integers(2))),
    "Col2Im": lambda r: ({"pads": (1, 0, 1, 0), "strides": (2, 1)}, [floats(r, 1, 12, 12), ints(5, 5), ints(2, 2)], 1),
    "Concat": lambda r: ({"axis": -2}, [floats(r, 2, n, 3) for n in (1, 4, 2)], 3),
    "Conv": lambda r: ({"group": 2, "strides": (1, 2), "auto_pad": "SAME_LOWER", "dilations": (2, 1)},
                       [floats(r, 1, 4, 7, 6), floats(r, 6, 2, 3, 3), floats(r, 6)], int(r.integers(1, 4))),
    "ConvInteger": lambda r: ({"pads": (1,) * 4}, [integers(r, 1, 2, 5, 5, low=0, high=256, dtype="uint8"),
                              integers(r, 3, 2, 3, 3, dtype="int8"), np.uint8(7), np.int8([1, -2, 3])], 4),
    "ConvTranspose": lambda r: ({"strides": (2, 3), "output_padding": (1, 0), "pads": (1, 0, 0, 2)},
                                [floats(r, 1, 3, 4, 5), floats(r, 3, 2, 3, 4), floats(r, 2)], 3),
    "DepthToSpace": lambda r: ({"blocksize": 2, "mode": "CRD"}, [floats(r, 1, 8, 2, 3)], 1),
    "DequantizeLinear": lambda r: ({"axis": 1}, [integers(r, 2, 3, dtype="int8"), floats(r, 3), np.int8([1, 2, 3])], 3),
    "Dropout": lambda r: ({}, [floats(r, 9)], 1),
    "DynamicQuantizeLinear": lambda r: ({}, [floats(r, 3, 9)], 1),
    "Einsum": lambda r: ({"equation": "...ij,...kj->...ik"}, [floats(r, 2, 3, 4), floats(r, 2, 5, 4)], 2),
    "Elu": unary(alpha=0.7),
    "Expand": lambda r: ({}, [floats(r, 3, 1), ints(2, 1, 4)], 1),
    "EyeLike": lambda r: ({"k": -1}, [floats(r, 3, 5)], 1),
    "Flatten": lambda r: ({"axis": int(r.integers(4))}, [floats(r, 2, 3, 4)], 1),
    "GRU": layer(3, linear_before_reset=1),
    "Gather": lambda r: ({"axis": 1}, [floats(r, 3, 4, 5), indices(r, 4, 2, 3)], 2),
    "GatherElements": lambda r: ({"axis": 1}, [floats(r, 3, 4), indices(r, 4, 3, 2)], 2),
    "GatherND": lambda r: ({"batch_dims": 1}, [floats(r, 3, 4, 5), indices(r, 4, 3, 2, 1)], 2),
    "Gelu": unary(approximate="tanh"),
    "Gemm": lambda r: ({"alpha": 0.5, "beta": 2.0, "transA": int(r.integers(2)), "transB": 1},
                       [floats(r, 4, 4), floats(r, 5, 4), floats(r, 5)], 3),
    "GlobalAveragePool": lambda r: ({}, [floats(r, 2, 3, 4, 5)], 1),
    "GlobalLpPool": lambda r: ({"p": 3}, [floats(r, 2, 3, 4, 5)], 1),
    "GlobalMaxPool": lambda r: ({}, [floats(r, 2, 3, 4, 5)], 1),
    "GridSample": lambda r: (
        {"mode": ("linear", "cubic")[r.integers(2)], "align_corners": int(r.integers(2)),
         "padding_mode": ("zeros", "border", "reflection")[r.integers(3)]},
        [floats(r, 2, 2, 4, 5), floats(r, 2, 3, 3, 2, low=-1.5, high=1.5)], 2),
    "GroupNormalization": lambda r: ({"num_groups": 2}, [floats(r, 2, 4, 5), floats(r, 4), floats(r, 4)], 3),
    "HardSigmoid": unary(alpha=0.3, beta=0.4),
    "InstanceNormalization": lambda r: ({}, [floats(r, 2, 3, 4, 5), floats(r, 3), floats(r, 3)], 3),
    "IsInf": lambda r: ({"detect_negative": int(r.integers(2))}, [np.float32([1, np.inf, -np.inf, np.nan])], 1),
    "LRN": lambda r: ({"size": 3, "alpha": 0.1}, [floats(r, 2, 5, 3, 3)], 1),
    "LSTM": layer(4, clip=0.8, input_forget=1),
    "LayerNormalization": lambda r: ({"axis": 1}, [floats(r, 2, 3, 4), floats(r, 3, 4), floats(r, 4)], 3),
    "LeakyRelu": unary(alpha=0.2),
    "LinearAttention": lambda r: (
        {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "gated_delta"},
        [floats(r, 2, 5, 12), floats(r, 2, 5, 6), floats(r, 2, 5, 8), floats(r, 2, 2, 3, 4), floats(r, 2, 5, 2),
         floats(r, 2, 5, 1, low=0, high=1)], 6),
    "LpNormalization": lambda r: ({"axis": 1, "p": int(r.integers(1, 3))}, [floats(r, 3, 4)], 1),
    "LpPool": pool(p=3, ceil_mode=0),
    "MatMul": lambda r: ({}, [floats(r, 5), floats(r, 3, 5, 4)], 2),
    "MatMulInteger": lambda r: ({}, [integers(r, 3, 4, low=0, dtype="uint8"), integers(r, 4, 5, dtype="int8"),
                                     np.uint8([1, 2, 3]), np.int8([1])], 4),
    "MaxPool": pool(storage_order=1),
    "MeanVarianceNormalization": lambda r: ({}, [floats(r, 2, 3, 4, 5)], 1),
    "Mod": lambda r: ({"fmod": int(r.integers(2))}, [integers(r, 9), integers(r, 9, low=1)], 2),
    "Not": lambda r: ({}, [r.random(9) < 0.5], 1),
    "OneHot": lambda r: ({"axis": 1}, [indices(r, 4, 2, 3), np.int64(4), floats(r, 2)], 3),
    "Pad": lambda r: ({"mode": ("reflect", "edge", "wrap", "constant")[r.integers(4)]},
                      [floats(r, 4, 5), ints(2, -1, 1, 3)], 1),
    "Pow": lambda r: ({}, [floats(r, 9, low=0.1), np.float32((2.0, -1.7)[r.integers(2)])], 1),
    "QLinearConv": quantised_convolution,
    "QLinearMatMul": quantised_matrices,
    "QuantizeLinear": lambda r: ({"axis": 0}, [floats(r, 3, 4), floats(r, 3, low=0.01), np.uint8([1, 2, 3])], 3),
    "RMSNormalization": lambda r: ({"axis": -1}, [floats(r, 2, 3, 4), floats(r, 4)], 2),
    "RNN": layer(1, layout=1, activations=("LeakyRelu",) * 2, activation_alpha=(0.3, 0.2)),
    "ReduceLogSum": reduction(0.1, 2.0),
    "Reshape": lambda r: ({}, [floats(r, 2, 6, 4), ints(0, 3, -1)], 1),
    "Resize": lambda r: (
        {"mode": ("cubic", "linear", "nearest")[r.integers(3)], "antialias": int(r.integers(2)), "axes": (2, 3),
         "coordinate_transformation_mode": ("half_pixel", "align_corners", "half_pixel_symmetric")[r.integers(3)]},
        [floats(r, 1, 2, 6, 5), None, None, ints(int(r.integers(2, 12)), 4)], 1),
    "ReverseSequence": lambda r: ({"batch_axis": 0, "time_axis": 1}, [floats(r, 3, 4, 2), ints(1, 4, 3)], 2),
    "RotaryEmbedding": lambda r: (
        {"interleaved": int(r.integers(2)), "num_heads": 2, "rotary_embedding_dim": 4},
        [floats(r, 2, 3, 16), floats(r, 9, 2), floats(r, 9, 2), r.integers(0, 9, (2, 3))], 4),
    "Selu": unary(alpha=1.5, gamma=1.1),
    "Shrink": unary(bias=0.3, lambd=1.0),
    "Slice": lambda r: ({}, [floats(r, 5, 6, 7), ints(4, 0), ints(-9, 9), ints(0, -1), ints(-2, 3)], 1),
    "SpaceToDepth": lambda r: ({"blocksize": 2, "mode": ("DCR", "CRD")[r.integers(2)]}, [floats(r, 1, 2, 4, 6)], 1),
    "Split": lambda r: ({"axis": 1}, [floats(r, 2, 7, 3), ints(2, 4, 1)], 1),
    "Squeeze": lambda r: ({}, [floats(r, 1, 2, 1, 3), ints(-2)], 1),
    "SwiGLU": lambda r: ({"alpha": 1.2}, [floats(r, 9), floats(r, 9)], 2),
    "Swish": unary(alpha=1.2),
    "TensorScatter": lambda r: (
        {"mode": "circular"}, [floats(r, 2, 3, 5, 4), floats(r, 2, 3, 2, 4), ints(4, 1)], 3),
    "ThresholdedRelu": unary(alpha=0.4),
    "Tile": lambda r: ({}, [floats(r, 2, 3), ints(2, 3)], 1),
    "Transpose": lambda r: ({"perm": tuple(r.permutation(3).tolist())}, [floats(r, 2, 3, 4)], 1),
    "Trilu": lambda r: ({"upper": int(r.integers(2))}, [floats(r, 2, 4, 5), ints(int(r.integers(-6, 6)))], 1),
    "Unsqueeze": lambda r: ({}, [floats(r, 2, 3), ints(-1, 0)], 1),
    "TopK": lambda r: ({"axis": int(r.integers(-2, 2)), "largest": int(r.integers(2))},
                       [floats(r, 7, 8), np.array([int(r.integers(1, 8))])], 1),
    "Upsample": lambda r: ({"mode": ("nearest", "linear")[r.integers(2)]},
                           [floats(r, 1, 2, 3, 4), np.float32([1, 1, 2, 1.5])], 1),
    "Where": lambda r: ({}, [r.random((3, 1)) < 0.5, floats(r, 3, 4), floats(r, 4)], 3),
}  # fmt: skip
ALL_RULES = sorted(op for op in RECORDS if has_expression(op) and not op.startswith("vdla."))


def test_every_rule_has_a_case():
    assert set(ALL_RULES) <= set(CASES)


MORE = {
    "Conv of a row": ("Conv", lambda r: ({"strides": (2,)}, [floats(r, 2, 3, 9), floats(r, 4, 3, 3)], 1)),
    "Conv of a volume": ("Conv", lambda r: (
        {"strides": (2, 1, 1), "pads": (1, 0, 1, 0, 1, 2), "dilations": (2, 1, 1), "group": 2},
        [floats(r, 2, 4, 5, 6, 7), floats(r, 6, 2, 2, 3, 3), floats(r, 6)], int(r.integers(1, 3)))),
    "ConvTranspose by phases": ("ConvTranspose", lambda r: (
        {"strides": (2, 3), "output_padding": (1, 2), "pads": (1, 0, 0, 2), "group": 2},
        [floats(r, 2, 4, 4, 5), floats(r, 4, 3, 3, 4), floats(r, 6)], 1)),
    "ConvTranspose of a row": ("ConvTranspose", lambda r: (
        {"strides": (3,), "output_shape": (16,)}, [floats(r, 1, 2, 5), floats(r, 2, 3, 2)], 1)),
    "Gemm of a constant": ("Gemm", lambda r: (
        {"transB": int(r.integers(2))}, [floats(r, 3, 5), floats(r, 5, 5), floats(r, 5)], 1)),
    "MatMul of short rows": ("MatMul", lambda r: ({}, [floats(r, 2, 3, 9, 5), floats(r, 3, 5, 33)], 2)),
    "MatMul of a constant": ("MatMul", lambda r: ({}, [floats(r, 3, 5), floats(r, 5, 7)], 1)),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*ALL_RULES, *MORE])
def test_rules_equal_numpy_functions(name):
    op, case = MORE.get(name) or (name, CASES[name])
    for seed in SEEDS:
        attributes, inputs, data = case(np.random.default_rng(seed))
        inputs = [None if value is None else np.asarray(value) for value in inputs]
        with np.errstate(all="ignore"):
            expected = [np.asarray(value) for value in FUNCTIONS[op](attributes, *inputs)]
        expected = expected[:1] if op in FIRST_RESULT else expected
        made = run_rule(op, attributes, inputs, expected, range(data, len(inputs)))
        for got, wanted in zip(made, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5, err_msg=f"{op} {seed} {attributes}")


SHORT = ("Attention", "Conv", "Gelu", "LSTM", "LayerNormalization", "MatMul", "Resize", "Softmax")


def in_dtype(arrays, dtype):
    """The arrays, floats as `dtype`."""
    return [v.astype(dtype) if v is not None and v.dtype.kind == "f" else v for v in arrays]


@pytest.mark.parametrize("op", SHORT)
def test_short_floats_are_rounded_once(op):
    """Results in float16 equal those in float32 of the same numbers, rounded."""
    attributes, inputs, data = CASES[op](np.random.default_rng(3))
    short = in_dtype(inputs[:3] if op == "Attention" else inputs, "float16")
    (expected, *_) = FUNCTIONS[op](attributes, *in_dtype(short, "float32"))
    (got,) = run_rule(op, attributes, short, [expected.astype(np.float16)], range(data, len(short)))
    tolerance = 5e-3 if op == "LSTM" else 1.01e-3  # states are rounded after each step
    np.testing.assert_allclose(got.astype(np.float32), expected, rtol=tolerance, atol=tolerance)
