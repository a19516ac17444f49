# SPDX-License-Identifier: Apache-2.0
"""Decoders whose attention is one of integers: as quantised, in files, and as programs have it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import vdla
from vdla.compiler.graph.integer.attention import SCORE_SCALE
from vdla.compiler.graph.onnx import OnnxError
from vdla.compiler.graph.onnx.export import export_model
from vdla.compiler.graph.quantise import QuantiseError, QuantiseWarning
from vdla.compiler.layer_programs import CachedAttention
from vdla.hardware.config import Config
from vdla.hardware.numerics import scales_from_floats
from vdla.networks.decoder import decoder_model, seeded_weights
from vdla.networks.llama_shape import LlamaShape
from vdla.runtime.devices import open_device
from vdla.runtime.devices.residents import Residents
from vdla.runtime.devices.run import run
from vdla.runtime.generate.compile_decoder import compile_decoder
from vdla.runtime.generate.errors import GenerateError
from vdla.runtime.generate.generation import DecoderRun
from vdla.runtime.generate.quantise_decoder import quantise_decoder
from vdla.runtime.numpy_operators.integer_attention import attention

SHAPE = LlamaShape(words=40, width=32, layers=2, heads=2, key_heads=1, hidden=48, positions=32)
WORDS = np.random.default_rng(0).integers(0, SHAPE.words, 64).tolist()
TEXT = np.random.default_rng(4).integers(1, SHAPE.words, 22).tolist()


def decoder():
    return decoder_model("small", SHAPE, seeded_weights(SHAPE))


def quantised(model=None, **options):
    given = {"window": 16, "sums": "int8", "attention": "int8", **options}
    return quantise_decoder(decoder() if model is None else model, WORDS, **given)


def operators(model, **options):
    seen = {}
    given = {"cache": 24, "chunk": 4, "certify": False, **options}
    made = compile_decoder(model, observe=lambda name, _, after: seen.update({name: after}), **given)
    return made, seen["fuse_qdq"]


def scores(model):
    decoder_run = DecoderRun(model)
    pieces = decoder_run.pieces(TEXT)
    return np.concatenate([np.array(decoder_run.advance(piece).outputs["logits"][0]) for piece in pieces])


# --- the operator ---------------------------------------------------------------------------------


def lanes(factor, name=""):
    return dict(zip((f"{name}multiplier", f"{name}shift"), scales_from_floats(factor), strict=True))


def test_it_is_what_programs_of_a_cache_compute():
    config = vdla.extend(Config.preset("pynq_z1_lm"), "softmax", "transpose")
    sizes = {"heads": 6, "kv_heads": 2}
    of = CachedAttention(config=config, **sizes, size=32, places=32, score=6e-4, factor=9000, result=4e-3)
    layer, rng, past = of.program(), np.random.default_rng(1), np.zeros((2, 1, 2, 0, 32), np.int8)
    options = {**sizes, "causal": 1, "factor": 9000, **lanes(6e-4, "score_"), **lanes(4e-3)}
    with open_device("sim", config) as device, Residents(device, [layer.program]) as kept:
        for place in range(20):
            token = {name: rng.integers(-127, 128, (heads, 32), np.int8) for name, heads in widths(of).items()}
            got = run(layer.program, layer.pack(token), device, residents=kept, offsets=of.offsets(place))
            absent = np.zeros((1, 2, of.places - place - 1, 32), np.int8)
            mask = (np.arange(of.places) >= of.places - place - 1)[None, None]
            rows = [token[name].reshape(1, 1, -1) for name in ("query", "key", "value")]
            before = [np.concatenate([absent, kept_part], 2) for kept_part in past]
            result, keys, values = attention(*rows, mask, *before, **options, y_zero_point=0, low=-128, high=127)
            past = np.stack([keys[:, :, -place - 1 :], values[:, :, -place - 1 :]])
            np.testing.assert_array_equal(layer.unpack(got.outputs), result.reshape(6, 32))


def widths(of):
    return {"query": of.heads, "key": of.kv_heads, "value": of.kv_heads}


def test_several_queries_attend_what_is_before_them():
    rng = np.random.default_rng(2)
    query, key, value = (rng.integers(-127, 128, (1, 5, width), np.int8) for width in (32, 16, 16))
    options = {"heads": 2, "kv_heads": 1, "factor": 9000, **lanes(2e-3, "score_"), **lanes(4e-3)}
    options |= {"y_zero_point": 3, "low": -100, "high": 127}
    whole, *_ = attention(query, key, value, causal=1, **options)
    assert whole.min() >= -100
    heads, *_ = attention(*(x.reshape(1, 5, -1, 16).swapaxes(1, 2) for x in (query, key, value)), causal=1, **options)
    np.testing.assert_array_equal(heads.swapaxes(1, 2).reshape(whole.shape), whole)
    for count in (1, 3, 5):
        mask = (np.arange(5) < count)[None, None]
        last, *_ = attention(query[:, count - 1 : count], key, value, mask, causal=0, **options)
        np.testing.assert_array_equal(last, whole[:, count - 1 : count])
    assert (attention(query, key, value, causal=0, **options)[0] != whole).any()


# --- in decoders ----------------------------------------------------------------------------------


def test_a_quantised_decoder_has_it_and_is_near_the_float_one():
    model = quantised()
    hints = [node.attributes[SCORE_SCALE] for node in model.graph.nodes if node.op == "Attention"]
    assert len(hints) == SHAPE.layers
    compiled, graph = operators(export_model(model.graph))
    nodes = [node for node in graph.nodes if node.op == "vdla.QAttention"]
    assert len(nodes) == SHAPE.layers
    assert not any(node.op == "Attention" for node in graph.nodes)
    with compiled, compile_decoder(decoder(), cache=24, chunk=4) as exact:
        got, wanted = scores(compiled), scores(exact)
    assert np.abs(got - wanted).max() < 0.2 * np.abs(wanted).max()
    with compile_decoder(export_model(model.graph), cache=24, chunk=1) as single:
        np.testing.assert_array_equal(scores(single), got)


def test_a_file_has_the_scale_of_scores_as_metadata(tmp_path):
    path = tmp_path / "decoder.onnx"
    quantised().save(path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    nodes = [node for node in model.graph.node if node.op_type == "Attention"]
    assert [entry.key for node in nodes for entry in node.metadata_props] == [SCORE_SCALE] * SHAPE.layers
    assert all(len(node.output) == 3 for node in nodes)
    nodes[0].metadata_props[0].value = "wide"
    with pytest.raises(OnnxError) as error:
        compile_decoder(model, cache=24)
    label = f"Attention {nodes[0].name}"
    assert str(error.value) == f"{label}: metadata vdla.score_scale must be a number, got 'wide'"


def test_queries_keys_and_values_have_the_zero_point_0():
    graph = quantised(sums="float").graph
    for node in graph.nodes:
        if node.op == "Attention":
            makers = [graph.producers[name] for name in node.inputs[:3]]
            assert [graph.constants[maker.inputs[2]] for maker in makers] == [0, 0, 0]


def test_attention_stays_in_float_by_default_and_where_it_is_kept():
    for options in ({"attention": "float"}, {"keep_float": ["blocks.0.attention", "blocks.1.attention"]}):
        model = quantised(**options)
        assert not any(SCORE_SCALE in node.attributes for node in model.graph.nodes)
        _, graph = operators(export_model(model.graph))
        assert sum(node.op == "Attention" for node in graph.nodes) == SHAPE.layers


@pytest.mark.parametrize(
    ("attribute", "rule"),
    [
        ({"softcap": 3.0}, "have neither lengths nor a bound of scores"),
        ({"left_window_size": 8}, "attend all places before a token"),
    ],
    ids=["bound scores", "windows of places"],
)
def test_attention_of_another_kind_stays_in_float_and_is_named(attribute, rule):
    model = decoder()
    for node in model.graph.node:
        if node.op_type == "Attention":
            node.attribute.extend(helper.make_attribute(name, value) for name, value in attribute.items())
    if "left_window_size" in attribute:
        model.opset_import[0].version = 26
    with pytest.warns(QuantiseWarning) as messages:
        graph = quantised(model).graph
    assert not any(SCORE_SCALE in node.attributes for node in graph.nodes)
    label = "quantise small: Attention blocks.0.attention"
    assert str(messages[0].message) == f"{label} stays in float; it must {rule}"
    assert len(messages) == SHAPE.layers


def test_other_types_are_refused():
    with pytest.raises(GenerateError) as error:
        quantised(attention="int16")
    assert str(error.value) == "generate: attention must be int8 or float, got 'int16'"
    with pytest.raises(QuantiseError) as refusal:
        vdla.quantise(decoder(), calibration={}, attention="int4")
    assert str(refusal.value) == "quantise: attention must be int8 or float, got 'int4'"
