# SPDX-License-Identifier: Apache-2.0
"""Operators of decoders of the domain com.microsoft, against ONNX Runtime."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from vdla.compiler.graph.onnx import OnnxError, import_model
from vdla.runtime.network.compile_network import compile_network

onnxruntime.set_default_logger_severity(4)
R = np.random.default_rng(5)
POSITIONS = 64


def f(*shape):
    return R.uniform(-1, 1, shape).astype(np.float32)


def tables(pairs):
    angles = np.outer(np.arange(POSITIONS), 10000.0 ** -(np.arange(pairs) / pairs))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def model_of(op, inputs, outputs, symbols=False, domain="com.microsoft", **attributes):
    """One node; its operands are inputs of the model. With symbols, tables keep their extents."""
    given = []
    for name, x in inputs.items():
        if x is not None:
            shape = [f"{name}_{axis}" for axis in range(x.ndim)] if symbols and name not in ("cos", "sin") else x.shape
            given.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), shape))
    names = ["" if x is None else name for name, x in inputs.items()]
    while not names[-1]:
        names.pop()
    node = helper.make_node(op, names, list(outputs), domain=domain, **attributes)
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "g", given, results), opset_imports=imports, ir_version=10)


def both(model, inputs):
    """Our results and those of ONNX Runtime by name."""
    data = {name: x for name, x in inputs.items() if x is not None}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in model.graph.output]
    with compile_network(model) as network:
        outputs = network.run(data).outputs
    return outputs, dict(zip(names, session.run(None, data), strict=True))


def grouped(batch, steps, past, heads, groups, size, *, ends=None, room=0, packed=False, pairs=0, more=(), cache=True):
    """Operands of GroupQueryAttention by name: a cache of `past` places, or of `room`."""
    ends = np.array([past + steps] * batch if ends is None else ends)
    x = {"query": f(batch, steps, heads * size), "key": f(batch, steps, groups * size)}
    x["value"] = f(batch, steps, groups * size)
    if packed:
        x |= {"query": f(batch, steps, (heads + 2 * groups) * size), "key": None, "value": None}
    shape = (batch, groups, room or past, size)
    x |= {name: f(*shape) if cache else None for name in ("past_key", "past_value")}
    total = int(ends.max())
    x |= {"last": (ends - 1).astype(np.int32), "total": np.array(total, np.int32)}
    cos, sin = tables(pairs) if pairs else (None, None)
    x |= {"cos": cos, "sin": sin, "positions": None, "bias": None, "sink": None}
    if "bias" in more:
        x["bias"] = f(batch, heads, steps, total)
    if "sink" in more:
        x["sink"] = f(heads)
    return x, ends


CASES = {
    "a token": ((1, 1, 5, 4, 2, 8), {}, {}),
    "a prompt": ((2, 5, 0, 4, 1, 8), {}, {}),
    "a prompt without a cache": ((2, 5, 0, 3, 3, 8), {"cache": False}, {}),
    "prompts of two lengths": ((2, 5, 0, 4, 2, 8), {"ends": [5, 3]}, {}),
    "two lengths": ((2, 1, 6, 6, 2, 24), {"ends": [7, 4]}, {"softcap": 2.0, "scale": 0.3}),
    "a chunk, rotated": ((1, 3, 6, 6, 2, 16), {"pairs": 8}, {}),
    "half rotated": ((2, 1, 6, 6, 3, 32), {"pairs": 8, "ends": [7, 4]}, {}),
    "packed, a window": ((1, 3, 6, 6, 2, 16), {"pairs": 8, "packed": True},
                         {"rotary_interleaved": 1, "local_window_size": 3}),
    "a buffer": ((2, 1, 0, 6, 2, 16), {"room": 16, "ends": [9, 4], "pairs": 8}, {}),
    "a buffer, a window": ((1, 3, 0, 6, 2, 16), {"room": 16, "ends": [9], "pairs": 8}, {"local_window_size": 4}),
    "a bias": ((1, 3, 6, 6, 2, 16), {"pairs": 8, "more": ("bias",)}, {}),
    "a smooth softmax": ((1, 3, 6, 6, 2, 8), {}, {"smooth_softmax": 1}),
    "a sink": ((2, 1, 6, 6, 2, 8), {"ends": [7, 5], "more": ("sink",)}, {}),
    "a sink and a bias": ((1, 2, 4, 2, 2, 8), {"more": ("sink", "bias")}, {}),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_grouped_attention_agrees_with_onnx_runtime(case, symbols):
    sizes, options, attributes = CASES[case]
    inputs, ends = grouped(*sizes, **options)
    batch, steps, _, heads, groups, _ = sizes
    rotated = {"do_rotary": 1} if options.get("pairs") else {}
    model = model_of("GroupQueryAttention", inputs, ("y", "key_cache", "value_cache"), symbols,
                     num_heads=heads, kv_num_heads=groups, **attributes, **rotated)  # fmt: skip
    results, expected = both(model, inputs)
    for row in range(batch):  # behind the end of a sequence, ONNX Runtime leaves anything
        shown = slice(None) if ends[row] >= steps else slice(0, ends[row])
        np.testing.assert_allclose(results["y"][row, shown], expected["y"][row, shown], rtol=1e-4, atol=1e-5)
        for name in ("key_cache", "value_cache"):
            assert results[name].shape == expected[name].shape
            pair = (part[name][row, :, : ends[row]] for part in (results, expected))
            np.testing.assert_allclose(*pair, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("form", ["places", "first", "apart", "partly"])
def test_rotation_agrees_with_onnx_runtime(form, interleaved, symbols):
    batch, steps, heads, size = 2, 5, 3, 16
    pairs = 4 if form == "partly" else size // 2
    places = np.array([7]) if form == "first" else R.integers(POSITIONS, size=(batch, steps))
    x = f(batch, heads, steps, size) if form == "apart" else f(batch, steps, heads * size)
    cos, sin = tables(pairs)
    inputs = {"x": x, "places": places, "cos": cos, "sin": sin}
    partly = {"num_heads": heads, "rotary_embedding_dim": 2 * pairs} if form == "partly" else {}
    model = model_of("RotaryEmbedding", inputs, ("y",), symbols, interleaved=interleaved, **partly)
    results, expected = both(model, inputs)
    np.testing.assert_allclose(results["y"], expected["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_a_simplified_normalisation_is_that_of_the_root_mean_square(domain):
    inputs = {"x": f(2, 3, 17), "scale": f(17)}
    model = model_of("SimplifiedLayerNormalization", inputs, ("y",), domain=domain, axis=-1, epsilon=1e-2)
    with compile_network(model) as network:
        result = network.run(inputs).outputs["y"]
    x = inputs["x"].astype(np.float64)
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-2) * inputs["scale"]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    if not domain:
        np.testing.assert_allclose(both(model, inputs)[1]["y"], expected, rtol=1e-5, atol=1e-6)


TWO = {"num_heads": 4, "kv_num_heads": 2}


@pytest.mark.parametrize(
    ("changes", "attributes", "rule"),
    [
        ({"value": None}, TWO, "have keys and values, got one of them"),
        ({"past_value": None}, TWO, "have past keys and past values, got one of them"),
        ({}, {"num_heads": 4, "kv_num_heads": 3}, "have num_heads that kv_num_heads divides, got 4 and 3"),
        ({}, {**TWO, "do_rotary": 1}, "have cos_cache and sin_cache where do_rotary is 1, got none"),
        ({"k_scale": f(1)}, TWO, "have a cache of floats, got k_scale, v_scale or kv_cache_bit_width"),
        ({}, {"num_heads": 4}, "have a positive integer as kv_num_heads, got none"),
    ],
)
def test_what_grouped_attention_refuses_is_said(changes, attributes, rule):
    inputs, _ = grouped(1, 2, 3, 4, 2, 8)
    with pytest.raises(OnnxError) as error:
        import_model(model_of("GroupQueryAttention", inputs | changes, ("y",), **attributes))
    assert str(error.value) == f"GroupQueryAttention y: the node must {rule}"


def test_scores_of_grouped_attention_are_refused():
    inputs, _ = grouped(1, 2, 3, 4, 2, 8)
    with pytest.raises(OnnxError) as error:
        import_model(model_of("GroupQueryAttention", inputs, ("y", "k", "v", "qk"), **TWO))
    assert str(error.value) == "GroupQueryAttention y: the node must not show its scores, got a fourth output"


@pytest.mark.parametrize(
    ("shape", "attributes", "rule"),
    [
        ((2, 5, 48), {"is_packed_batching": 1}, "have sequences of one length, got is_packed_batching = 1"),
        ((2, 5, 48), {"scale": 2.0}, "have a scale of 1, got 2"),
        ((2, 5), {}, "have an input of 3 or 4 dimensions, got 2"),
    ],
)
def test_what_rotation_refuses_is_said(shape, attributes, rule):
    cos, sin = tables(8)
    inputs = {"x": f(*shape), "places": np.zeros((2, 5), np.int64), "cos": cos, "sin": sin}
    with pytest.raises(OnnxError) as error:
        import_model(model_of("RotaryEmbedding", inputs, ("y",), **attributes))
    assert str(error.value) == f"RotaryEmbedding y: the node must {rule}"


def test_what_a_simplified_normalisation_refuses_is_said():
    inputs = {"x": f(2, 3, 17), "scale": f(17)}
    with pytest.raises(OnnxError) as error:
        import_model(model_of("SimplifiedLayerNormalization", inputs, ("y", "deviation"), domain=""))
    text = "SimplifiedLayerNormalization y: the node must not have the result of training, inv_std_var"
    assert str(error.value) == text
