# SPDX-License-Identifier: Apache-2.0
"""Attention of the domain com.microsoft in all forms, against ONNX Runtime and a naive model."""

import numpy as np
import onnxruntime
import pytest
from helpers.seeds import long_count
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.graph.onnx import OnnxError, import_model
from vdla.runtime.network.compile_network import compile_network
from vdla.verification.grids.cases import Grid
from vdla.verification.grids.judge import GridVerdict, judge

onnxruntime.set_default_logger_severity(4)
OPERATORS = ("com.microsoft.Attention", "com.microsoft.MultiHeadAttention", "com.microsoft.QAttention")
GRID = Grid(OPERATORS, seed=7, count=30)
B, S, L, N, H = 2, 5, 7, 2, 4
D = N * H
R = np.random.default_rng(3)


def f(*shape):
    return R.uniform(-2, 2, shape).astype(np.float32)


def i(*values):
    return np.array(values, np.int32)


def model_of(op, inputs, outputs=("y",), symbols=False, **attributes):
    """One node of the domain; all operands are inputs x0, x1, ..., their extents symbols or not."""
    names = ["" if value is None else f"x{n}" for n, value in enumerate(inputs)]
    given = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(x.dtype),
            [f"{name}_{axis}" for axis in range(x.ndim)] if symbols else x.shape,
        )
        for name, x in zip(names, inputs, strict=True)
        if name
    ]
    node = helper.make_node(op, names, list(outputs), domain="com.microsoft", num_heads=N, **attributes)
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs if name]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", given, results)
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def results_of(model, inputs):
    data = {f"x{n}": x for n, x in enumerate(inputs) if x is not None}
    with compile_network(model) as network:
        outputs = network.run(data).outputs
    return [outputs[value.name] for value in model.graph.output]


def heads_of(x):
    return x.reshape(*x.shape[:2], N, -1).transpose(0, 2, 1, 3) if x.ndim == 3 else x


def attended(query, key, value, addend=0.0):
    """A naive model of attention."""
    q, k, v = map(heads_of, (query, key, value))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]) + addend
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    result = weights / weights.sum(-1, keepdims=True) @ v
    return result.transpose(0, 2, 1, 3).reshape(*query.shape[:2], -1)


@pytest.mark.short
@pytest.mark.parametrize("place", range(0, len(GRID), 5))
def test_a_sample_of_the_options_agrees_with_onnx_runtime(place):
    outcome = judge(GRID.case(place))
    assert outcome.verdict is GridVerdict.PASSED, outcome.text


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_options_agree_with_onnx_runtime(part):
    grid = Grid(OPERATORS, seed=8, count=long_count(120, share=6))
    outcomes = [judge(grid.case(place)) for place in range(part, len(grid), 4)]
    assert [outcome.text for outcome in outcomes if outcome.verdict is not GridVerdict.PASSED] == []


PAST = [f(B, N, 3, H) for _ in range(2)]
SELF = [f(B, S, D)] * 3
CROSS = [f(B, S, D), f(B, L, D), f(B, L, D)]
SHOWN = {
    "plain": [*CROSS],
    "mask": [*CROSS, None, i(3, 7)],
    "queries": [*CROSS, None, R.integers(2, size=(B, S, L)).astype(np.int32)],
    "bias": [*CROSS, f(3 * D), None, f(1, N, S, L)],
    "past": [*SELF, None, i(4, 8), None, *PAST],
    "apart": [CROSS[0], f(B, N, L, H), f(B, N, L, H)],
}


@pytest.mark.sampled
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize("case", SHOWN)
def test_scores_are_shown_with_their_mask(case, symbols, causal):
    inputs = SHOWN[case]
    model = model_of("MultiHeadAttention", inputs, ("y", "key", "value", "qk"), symbols, unidirectional=causal)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {f"x{n}": x for n, x in enumerate(inputs) if x is not None})
    for got, wanted in zip(results_of(model, inputs), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)


MASKS = {
    "ends": i(3, 8),
    "ends and starts": i(3, 8, 1, 2),
    "ends and offsets": i(3, 8, 0, 5, 10, 0, 8, 16),
    "keys": np.array([[0, 1, 1, 1, 1, 1, 0, 1], [1, 1, 1, -1, 2, 1, 1, 0]], np.int32),
    "queries": np.concatenate([np.ones((B, S, 1)), R.integers(2, size=(B, S, 7))], -1).astype(np.int32),
}


@pytest.mark.sampled
@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize("case", MASKS)
def test_every_form_of_mask_hides_the_keys_that_onnx_runtime_hides(case, symbols):
    inputs = [f(B, S, D), f(D, 3 * D), f(3 * D), MASKS[case], np.stack(PAST)]
    model = model_of("Attention", inputs, ("y", "present"), symbols)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {f"x{n}": x for n, x in enumerate(inputs)})
    for got, wanted in zip(results_of(model, inputs), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


# --- what ONNX Runtime defines, and its CPU does not compute --------------------------------------


def packed(*parts):
    return np.stack([part.reshape(B, -1, N, H) for part in parts], 3)


@pytest.mark.parametrize("symbols", [False, True])
def test_packed_operands_are_those_of_their_own(symbols):
    q, k, v = CROSS
    model = model_of("MultiHeadAttention", [q, packed(k, v)], symbols=symbols)
    np.testing.assert_allclose(results_of(model, [q, packed(k, v)])[0], attended(q, k, v), rtol=1e-4, atol=1e-5)
    q, k, v, bias = f(B, S, D), f(B, S, D), f(B, S, D), f(3 * D)
    inputs = [packed(q, k, v), None, None, bias]
    model = model_of("MultiHeadAttention", inputs, symbols=symbols)
    parts = [x + part for x, part in zip((q, k, v), np.split(bias, 3), strict=True)]
    np.testing.assert_allclose(results_of(model, inputs)[0], attended(*parts), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize("steps", [0, 3])
def test_a_mask_of_four_dimensions_has_the_longest_sequence(steps, symbols):
    x, weights, past = f(B, S, D), f(D, 3 * D), f(2, B, N, steps, H)
    mask = R.integers(2, size=(B, 1, 11, 11)).astype(np.int32)
    mask[..., 0] = 1
    inputs = [x, weights, None, mask, past]
    model = model_of("Attention", inputs, ("y", "present"), symbols)
    k, v = (heads_of(part) for part in np.split(x @ weights, 3, -1)[1:])
    present = [np.concatenate(pair, 2) for pair in zip(past, (k, v), strict=True)]
    seen = mask[:, :, steps : steps + S, : steps + S]
    result, made = results_of(model, inputs)
    wanted = attended(x @ weights[:, :D], *present, np.where(seen, 0, -10000))
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made, np.stack(present), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention"])
def test_a_past_without_a_present_is_seen(op):
    x, weights = f(B, S, D), f(D, 3 * D)
    q, k, v = np.split(x @ weights, 3, -1)
    inputs = [x, weights, None, None, np.stack(PAST)] if op == "Attention" else [q, k, v, *[None] * 3, *PAST]
    whole = [np.concatenate([old, heads_of(new)], 2) for old, new in zip(PAST, (k, v), strict=True)]
    model = model_of(op, inputs)
    np.testing.assert_allclose(results_of(model, inputs)[0], attended(q, *whole), rtol=1e-4, atol=1e-5)


def test_float16_keeps_its_type():
    inputs = [x.astype(np.float16) for x in CROSS]
    inputs += [None, i(3, 7)]
    model = model_of("MultiHeadAttention", inputs, ("y", "key", "value"), unidirectional=1)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    for value in model.graph.output:
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    result, key, _ = results_of(model, inputs)
    place = np.arange(L) <= np.arange(S)[:, None]
    place[-1] = True  # as in ONNX Runtime
    seen = place & (np.arange(L) < np.array([3, 7]).reshape(-1, 1, 1, 1))
    wanted = attended(*(x.astype(np.float32) for x in inputs[:3]), np.where(seen, 0, -np.inf))
    assert (result.dtype, key.dtype) == (np.float16, np.float16)
    np.testing.assert_allclose(result, wanted, rtol=2e-2, atol=1e-2)


def test_the_mask_of_an_embedding_has_a_known_rank():
    """The types behind an operator without a schema follow from those of its expansion."""
    ids, table, gamma = R.integers(9, size=(B, S)).astype(np.int32), f(9, D), np.ones(D, np.float32)
    constants = {"words": table, "places": f(6, D), "gamma": gamma, "beta": gamma, "w": f(D, 3 * D), "b": f(3 * D)}
    nodes = [
        helper.make_node(
            "EmbedLayerNormalization",
            ["ids", "", "words", "places", "", "gamma", "beta", "mask"],
            ["x", "mask_index"],
            domain="com.microsoft",
        ),
        helper.make_node("Attention", ["x", "w", "b", "mask_index"], ["y"], domain="com.microsoft", num_heads=N),
        helper.make_node("Gelu", ["y"], ["z"], domain="com.microsoft"),
        helper.make_node("MultiHeadAttention", ["z", "z", "z", "b"], ["out"], domain="com.microsoft", num_heads=N),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, [B, S]) for name in ("ids", "mask")]
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("out")], held)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    data = {"ids": ids, "mask": np.array([[1] * 5, [1, 1, 0, 0, 0]], np.int32)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(vdla.compile(model, "host")(**data), session.run(None, data)[0], rtol=1e-3, atol=1e-4)
    assert import_model(model).types["out"].shape == (B, S, D)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "rule"),
    [
        ("Attention", [f(B, S, D), f(D, 24)], {"past_present_share_buffer": 1},
         "have a past and a present of their own, got past_present_share_buffer = 1"),
        ("Attention", [f(B, S, D), f(D, 24)], {"do_rotary": 1}, "not rotate, got do_rotary = 1"),
        ("Attention", [f(B, S, D), f(D, 24), None, np.int32(1)], {}, "have a mask of 1 to 4 dimensions, got 0"),
        ("MultiHeadAttention", [*SELF, *[None] * 3, *PAST, i(2)], {},
         "have a past of its full length, got past_sequence_length or cache_indirection"),
        ("MultiHeadAttention", [*SELF, *[None] * 3, PAST[0]], {},
         "have past keys and past values, got one of them"),
        ("MultiHeadAttention", SELF[:2], {},
         "have queries, keys and values of 3 dimensions, the last two of 4, or packed ones of 5, got [3, 3]"),
    ],
)  # fmt: skip
def test_what_is_refused_is_said(op, inputs, attributes, rule):
    with pytest.raises(OnnxError) as error:
        import_model(model_of(op, [None if x is None else np.asarray(x) for x in inputs], **attributes))
    assert str(error.value) == f"{op} y: the node must {rule}"
