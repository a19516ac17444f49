# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's own operators, of the domain com.microsoft, by ONNX's.

Quantised operators become the float operator between DequantizeLinear and QuantizeLinear, which
`passes/fuse_qdq.py` fuses to integer operators.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto, TensorProto, helper

from vdla.compiler.graph.onnx.foreign import ForeignOperator
from vdla.compiler.graph.onnx.microsoft_attention import ATTENTION
from vdla.compiler.graph.onnx.microsoft_decoders import DECODERS, SIMPLIFIED
from vdla.compiler.graph.onnx.old_node import OldNode, Upgrade

# --- quantised operators --------------------------------------------------------------------------


def _dequantised(old: OldNode, first: int, axis: int = 1) -> str:
    """The float value of the input `first`; its scale and zero point are the next inputs."""
    return old.value("DequantizeLinear", _given([old.input(first + i) for i in range(3)]), axis=axis)


def _quantised(old: OldNode, value: str, scale: int, like: int) -> list[NodeProto]:
    """All new nodes, the last a QuantizeLinear to the element type of the input `like`."""
    zero = old.input(scale + 1)
    if not zero:
        zero = old.constant(np.zeros((), old.dtype(old.input(like))), "zero_point")
    old.attributes.clear()
    return old.final("QuantizeLinear", [value, old.input(scale), zero])


def _given(names: list[str]) -> list[str]:
    """The inputs without absent ones at the end."""
    return names[:-1] if names and not names[-1] else names


def _of_two(op: str) -> Upgrade:
    def upgrade(old: OldNode) -> list[NodeProto]:
        operands = [_dequantised(old, 0), _dequantised(old, 3)]
        return _quantised(old, old.value(op, operands), 6, 0)

    return upgrade


def _of_one(op: str, **defaults: float) -> Upgrade:
    def upgrade(old: OldNode) -> list[NodeProto]:
        attributes = {name: old.take(name, value) for name, value in defaults.items()}
        return _quantised(old, old.value(op, [_dequantised(old, 0)], **attributes), 3, 0)

    return upgrade


def _q_softmax(old: OldNode) -> list[NodeProto]:
    """The exponentials of a table, by their distance from the largest number, over their sum.

    ONNX Runtime's steps and types, since near half a step the last bit of a sum decides. Results
    have the scale 1 / floor(1 / Y_scale).
    """
    axes, steps = _softmax_axes(old), old.dtype(old.input(0))
    x = old.value("Cast", [old.input(0)], to=TensorProto.INT32)
    below = old.value("Sub", [old.value("ReduceMax", [x, axes]), x])
    powers = old.value("Gather", [_powers(old, axes), below], axis=0)
    sums = old.value("ReduceSum", [powers, axes])
    one = old.constant(np.array(1, np.float32), "one")
    factor = old.value("Floor", [old.value("Div", [one, old.input(3)])])
    wide = [old.value("Cast", [name], to=TensorProto.DOUBLE) for name in (powers, factor, sums)]
    share = old.value("Div", [old.value("Mul", wide[:2]), wide[2]])
    zero = old.value("Cast", [old.input(4)], to=TensorProto.DOUBLE) if old.input(4) else ""
    level = old.value("Round", [share])
    level = old.value("Add", [level, zero]) if zero else level
    limits = np.iinfo(steps)
    ends = [old.constant(np.array(end, np.float64), "end") for end in (limits.min, limits.max)]
    old.attributes.clear()
    old.set("to", helper.np_dtype_to_tensor_dtype(steps))
    return old.final("Cast", [old.value("Clip", [level, *ends])])


def _softmax_axes(old: OldNode) -> str:
    """The axes that are normalised together: up to opset 12 all from `axis` on."""
    axis, opset = old.take("axis", -1), old.take("opset", 13)
    if opset >= 13 or axis == -1:
        return old.integers([axis], "axes")
    rank = old.rank(old.input(0))
    if rank is None or not -rank <= axis < rank:
        raise old.refuse(f"have an axis of its input where opset is below 13, got axis = {axis} of rank {rank}")
    return old.integers(range(axis % rank, rank), "axes")


def _powers(old: OldNode, axes: str) -> str:
    """The exponentials of 0 to -255 times X_scale, times a number that keeps their sum finite."""
    count = old.value("ReduceProd", [old.value("Gather", [old.value("Shape", [old.input(0)]), axes])], keepdims=0)
    most = old.constant(np.array(np.finfo(np.float32).max, np.float32), "most")
    bits = old.value("Log", [old.value("Div", [most, old.value("Cast", [count], to=TensorProto.FLOAT)])])
    wide, scale = (old.value("Cast", [name], to=TensorProto.DOUBLE) for name in (bits, old.input(1)))
    zero, spare = (old.constant(np.array(value, np.float64), "number") for value in (0, 5))
    shift = old.value("Div", [old.value("Max", [old.value("Sub", [wide, spare]), zero]), scale])
    places = old.constant(-np.arange(256.0), "places")
    exponents = old.value("Mul", [old.value("Add", [places, shift]), scale])
    return old.value("Cast", [old.value("Exp", [exponents])], to=TensorProto.FLOAT)


def _q_concat(old: OldNode) -> list[NodeProto]:
    operands = [_dequantised(old, first) for first in range(2, len(old.node.input), 3)]
    return _quantised(old, old.value("Concat", operands, axis=old.take("axis")), 0, 2)


def _q_average_pool(old: OldNode) -> list[NodeProto]:
    if old.take("channels_last", 0):
        raise old.refuse("have channels before the image, got channels_last = 1")
    kept = {name: old.take(name) for name in tuple(old.attributes)}
    op = old.node.op_type.removeprefix("QLinear")
    return _quantised(old, old.value(op, [_dequantised(old, 0)], **kept), 3, 0)


def _q_gemm(old: OldNode) -> list[NodeProto]:
    """Float where the result has no scale. The bias has the scale of the products."""
    alpha = old.take("alpha", 1.0)
    kept = {name: old.take(name, 0) for name in ("transA", "transB")}
    operands = [_dequantised(old, 0), _dequantised(old, 3, axis=0 if kept["transB"] else 1)]
    if old.input(6):
        scale = old.value("Mul", [old.input(1), old.input(4)])
        operands.append(old.value("DequantizeLinear", [old.input(6), scale], axis=-1))
        kept["beta"] = alpha
    if not old.input(7):
        for name, value in {**kept, "alpha": alpha}.items():
            old.set(name, value)
        return old.final("Gemm", operands)
    return _quantised(old, old.value("Gemm", operands, alpha=alpha, **kept), 7, 0)


def _as_onnx(old: OldNode) -> list[NodeProto]:
    return old.final(old.node.op_type, old.node.input)


# --- integer products of floats -------------------------------------------------------------------


def _dynamic_quantize_matmul(old: OldNode) -> list[NodeProto]:
    names = [old.fresh(what) for what in ("a", "a_scale", "a_zero_point")]
    old.made.append(helper.make_node("DynamicQuantizeLinear", [old.input(0)], names))
    b, b_scale, b_zero, bias = (old.input(place) for place in range(1, 5))
    return _scaled_product(old, (names[0], b), (names[1], b_scale), (names[2], b_zero), bias)


def _matmul_integer_to_float(old: OldNode) -> list[NodeProto]:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (old.input(place) for place in range(7))
    return _scaled_product(old, (a, b), (a_scale, b_scale), (a_zero, b_zero), bias)


def _scaled_product(
    old: OldNode, operands: tuple[str, str], scales: tuple[str, str], zeros: tuple[str, str], bias: str
) -> list[NodeProto]:
    sums = old.value("MatMulInteger", _given([*operands, *zeros]))
    factors = old.value("Cast", [sums], to=old.float_code(scales[0])), old.value("Mul", scales)
    return old.final("Add", [old.value("Mul", factors), bias]) if bias else old.final("Mul", factors)


def _dynamic_quantize_lstm(old: OldNode) -> list[NodeProto]:
    """An LSTM of the dequantised weights; its data stay float."""
    count = 2 if old.peek("direction", b"forward") == b"bidirectional" else 1
    weights = [_float_weight(old, place, first, count) for place, first in ((1, 8), (2, 10))]
    optional_inputs = [old.input(place) for place in range(3, 8)]
    return old.final("LSTM", [old.input(0), *weights, *optional_inputs])


def _float_weight(old: OldNode, place: int, first: int, count: int) -> str:
    """A weight of [directions, inputs, outputs], its parameters for each direction or output."""
    shape = old.integers([count, 1, -1], "shape")
    scale, zero = (old.value("Reshape", [old.input(first + i), shape]) for i in range(2))
    centred = old.value("Sub", [old.value("Cast", [name], to=1) for name in (old.input(place), zero)])
    return old.value("Transpose", [old.value("Mul", [centred, scale])], perm=[0, 2, 1])


def _matmul_n_bits(old: OldNode) -> list[NodeProto]:
    """A weight of 4 bits, two a byte, or of 8, in blocks along the rows of its transpose."""
    bits, rows, depth, block = (old.take(name, 4 if name == "bits" else None) for name in _N_BITS)
    old.attributes.clear()
    if bits not in (4, 8):
        raise old.refuse(f"have weights of 4 or 8 bits, got {bits}")
    if old.input(4):
        raise old.refuse("have groups in the order of the weight, got an input g_idx")
    blocks = -(-depth // block)
    numbers = _bytes(old, old.input(1), bits, (rows, blocks * block))
    scale = old.value("Reshape", [old.input(2), old.integers([rows, blocks], "blocks")])
    zero = _zero_points(old, bits, (rows, blocks))
    weight = old.value("DequantizeLinear", [numbers, scale, zero], axis=1, block_size=block)
    if blocks * block > depth:
        weight = old.value("Slice", [weight, *(old.integers([place], "cut") for place in (0, depth, 1))])
    operands = [old.input(0), old.value("Transpose", [weight], perm=[1, 0])]
    return (
        old.final("Add", [old.value("MatMul", operands), old.input(5)])
        if old.input(5)
        else old.final("MatMul", operands)
    )


_N_BITS = ("bits", "N", "K", "block_size")


def _zero_points(old: OldNode, bits: int, shape: tuple[int, int]) -> str:
    if not old.input(3):
        return old.constant(np.full(shape, 1 << (bits - 1), np.uint8), "zero_point")
    if old.dtype(old.input(3)) != np.uint8:
        raise old.refuse(f"have zero points of uint8, got {old.dtype(old.input(3))}")
    return _bytes(old, old.input(3), bits, shape)


def _bytes(old: OldNode, packed: str, bits: int, shape: tuple[int, int]) -> str:
    """The numbers of `bits` in bytes, the lower ones first, a byte each; rows begin with a byte."""
    rows, columns = shape
    if bits == 8:
        return old.value("Reshape", [packed, old.integers(shape, "shape")])
    column = old.value("Reshape", [packed, old.integers([rows, -1, 1], "column")])
    low = old.value("BitwiseAnd", [column, old.constant(np.array(15, np.uint8), "mask")])
    high = old.value("BitShift", [column, old.constant(np.array(4, np.uint8), "by")], direction="RIGHT")
    pairs = old.value("Concat", [low, high], axis=2)
    flat = old.value("Reshape", [pairs, old.integers([rows, -1], "flat")])
    return old.value("Slice", [flat, *(old.integers([place], "cut") for place in (0, columns, 1))])


# --- activations, products and normalisations -----------------------------------------------------


def _gelu(approximate: str) -> Upgrade:
    def upgrade(old: OldNode) -> list[NodeProto]:
        x = old.value("Add", [old.input(0), old.input(1)]) if old.input(1) else old.input(0)
        old.set("approximate", approximate)
        return old.final("Gelu", [x])

    return upgrade


def _quick_gelu(old: OldNode) -> list[NodeProto]:
    old.set("alpha", old.take("alpha", 1.702))
    return old.final("Swish", [old.input(0)])


_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}


def _activated(old: OldNode, value: str, name: str, parameters: list[float]) -> list[NodeProto]:
    if name not in _ACTIVATIONS:
        raise old.refuse(f"have an activation of {', '.join(_ACTIVATIONS)}, got {name}")
    old.attributes.clear()
    if name == "Clip":
        limits = [old.scalar_like(limit, old.input(0)) for limit in parameters]
        return old.final("Clip", [value, *limits])
    for key, parameter in zip(_ACTIVATIONS[name], parameters, strict=False):
        old.set(key, parameter)
    return old.final(name, [value])


def _fused_conv(old: OldNode) -> list[NodeProto]:
    """activation(Conv(x, w, bias) + z)."""
    name = old.take("activation", b"").decode()
    parameters = list(old.take("activation_params", []))
    kept = {key: old.take(key) for key in tuple(old.attributes)}
    total = old.value("Conv", _given([old.input(place) for place in range(3)]), **kept)
    total = old.value("Add", [total, old.input(3)]) if old.input(3) else total
    return _activated(old, total, name, parameters) if name else old.final("Identity", [total])


def _fused_gemm(old: OldNode) -> list[NodeProto]:
    name = old.take("activation", b"").decode()
    parameters = [old.take(f"activation_{key}") for key in ("alpha", "beta", "gamma")]
    kept = {key: old.take(key) for key in tuple(old.attributes)}
    total = old.value("Gemm", _given([old.input(place) for place in range(3)]), **kept)
    return _activated(old, total, name, [p for p in parameters if p is not None])


def _fused_matmul(old: OldNode) -> list[NodeProto]:
    alpha = old.take("alpha", 1.0)
    if old.take("transBatchA", 0) or old.take("transBatchB", 0):
        raise old.refuse("multiply along the last two dimensions, got transBatchA or transBatchB = 1")
    swapped = old.take("transA", 0), old.take("transB", 0)
    operands = [_swapped(old, name) if swap else name for name, swap in zip(old.node.input, swapped, strict=True)]
    if alpha == 1:
        return old.final("MatMul", operands)
    return old.final("Mul", [old.value("MatMul", operands), old.scalar_like(alpha, old.input(0))])


def _swapped(old: OldNode, name: str) -> str:
    """A value with its last two dimensions exchanged; a vector as it is."""
    rank = old.rank(name)
    if rank is None:
        return old.value("Einsum", [name], equation="...ij->...ji")
    return name if rank < 2 else old.value("Transpose", [name], perm=[*range(rank - 2), rank - 1, rank - 2])


def _skip_normalization(old: OldNode) -> list[NodeProto]:
    """The normalised sum of two values and a bias; the fourth result is the sum."""
    layer = old.node.op_type == "SkipLayerNormalization"
    total = old.value("Add", [old.input(0), old.input(1)])
    bias = old.input(4 if layer else 3)
    total = old.value("Add", [total, bias]) if bias else total
    outputs = [*old.node.output, "", "", ""]
    if any(outputs[1:3]):
        raise old.refuse("not have the results of training, mean and inv_std_var")
    if outputs[3]:
        old.made.append(helper.make_node("Identity", [total], [outputs[3]]))
    old.set("epsilon", old.take("epsilon", 1e-12))
    old.set("axis", -1)
    if not layer:
        return old.final("RMSNormalization", [total, old.input(2)], outputs[:1])
    return old.final("LayerNormalization", _given([total, old.input(2), old.input(3)]), outputs[:1])


def _embed_layer_normalization(old: OldNode) -> list[NodeProto]:
    ids, segments, words, places, segment_table, gamma, beta, mask, positions = (old.input(i) for i in range(9))
    outputs = [*old.node.output, "", ""]
    length = old.value("Shape", [ids], start=1, end=2)
    if positions:
        place = old.value("Gather", [places, positions])
    else:
        place = old.value("Slice", [places, old.integers([0], "first"), length, old.integers([0], "axis")])
    total = old.value("Add", [old.value("Gather", [words, ids]), place])
    if segments:
        total = old.value("Add", [total, old.value("Gather", [segment_table, segments])])
    if outputs[1]:
        shown = mask or old.value("Mul", [ids, old.constant(np.array(0, np.int32), "zero")])
        axes = old.integers([1], "axes")
        old.made.append(helper.make_node("ReduceSum", [shown, axes], [outputs[1]], keepdims=0))
    if outputs[2]:
        old.made.append(helper.make_node("Identity", [total], [outputs[2]]))
    epsilon = old.take("epsilon", 1e-12)
    old.attributes.clear()
    old.set("epsilon", epsilon)
    return old.final("LayerNormalization", [total, gamma, beta], outputs[:1])


_ONE = "X X_scale X_zero_point? Y_scale Y_zero_point?"
_TWO = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?"
_TABLE: Mapping[str, ForeignOperator] = {
    **ATTENTION,
    **DECODERS,
    "BiasGelu": ForeignOperator(_gelu("none"), "A B"),
    "DequantizeLinear": ForeignOperator(_as_onnx, "x x_scale x_zero_point?"),
    "DynamicQuantizeMatMul": ForeignOperator(_dynamic_quantize_matmul, "A B b_scale b_zero_point? bias?"),
    "DynamicQuantizeLSTM": ForeignOperator(
        _dynamic_quantize_lstm,
        "X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale R_zero_point",
        "hidden_size",
    ),
    "EmbedLayerNormalization": ForeignOperator(
        _embed_layer_normalization,
        "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? position_ids?",
    ),
    "FastGelu": ForeignOperator(_gelu("tanh"), "X bias?"),
    "FusedConv": ForeignOperator(_fused_conv, "X W B? Z?"),
    "FusedGemm": ForeignOperator(_fused_gemm, "A B C?"),
    "FusedMatMul": ForeignOperator(_fused_matmul, "A B"),
    "Gelu": ForeignOperator(_gelu("none"), "X"),
    "MatMulIntegerToFloat": ForeignOperator(
        _matmul_integer_to_float, "A B a_scale b_scale a_zero_point? b_zero_point? bias?"
    ),
    "MatMulNBits": ForeignOperator(_matmul_n_bits, "A B scales zero_points? g_idx? bias?", "K N block_size"),
    "QGemm": ForeignOperator(_q_gemm, "A a_scale a_zero_point? B b_scale b_zero_point? C? y_scale? y_zero_point?"),
    "QLinearAdd": ForeignOperator(_of_two("Add"), _TWO),
    "QLinearAveragePool": ForeignOperator(_q_average_pool, _ONE),
    "QLinearConcat": ForeignOperator(_q_concat, "Y_scale Y_zero_point X X_scale X_zero_point ..."),
    "QLinearGlobalAveragePool": ForeignOperator(_q_average_pool, _ONE),
    "QLinearLeakyRelu": ForeignOperator(_of_one("LeakyRelu", alpha=0.01), _ONE),
    "QLinearMul": ForeignOperator(_of_two("Mul"), _TWO),
    "QLinearSigmoid": ForeignOperator(_of_one("Sigmoid"), _ONE),
    "QLinearSoftmax": ForeignOperator(_q_softmax, _ONE),
    "QuantizeLinear": ForeignOperator(_as_onnx, "x y_scale y_zero_point?"),
    "QuickGelu": ForeignOperator(_quick_gelu, "X"),
    "SkipLayerNormalization": ForeignOperator(_skip_normalization, "input skip gamma beta? bias?"),
    "SkipSimplifiedLayerNormalization": ForeignOperator(_skip_normalization, "input skip gamma bias?"),
}
MICROSOFT: Mapping[str, Mapping[int, Upgrade]] = {
    **{f"com.microsoft.{op}": {0: made} for op, made in _TABLE.items()},
    "SimplifiedLayerNormalization": {0: SIMPLIFIED},
}
"""The expansions, under version 0, since onnx has no schemas of the domain."""
