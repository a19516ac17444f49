# SPDX-License-Identifier: Apache-2.0
"""Decoders with a cache: the same scores in chunks and steps on every device; text."""

import json
import math
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.graph.onnx.export import export_model
from vdla.hardware.asm import disassemble
from vdla.hardware.config import Config
from vdla.networks.decoder import decoder_model, seeded_weights
from vdla.networks.llama_shape import LlamaShape
from vdla.runtime.executor.token_rates import weight_bytes
from vdla.runtime.generate.compile_decoder import compile_decoder, has_groups, is_quantised
from vdla.runtime.generate.errors import GenerateError
from vdla.runtime.generate.generation import DecoderRun, generate
from vdla.runtime.generate.quantise_decoder import perplexity, quantise_decoder
from vdla.runtime.generate.sampling import Sampler
from vdla.runtime.generate.tokens import Tokens

SHAPE = LlamaShape(words=60, width=32, layers=1, heads=4, key_heads=2, hidden=48, positions=32)
CACHE, CHUNK = 24, 4
R = np.random.default_rng(9)
TEXT = R.integers(1, SHAPE.words, 22).tolist()


@pytest.fixture(scope="module")
def decoder():
    return decoder_model("tiny_decoder", SHAPE, seeded_weights(SHAPE))


@pytest.fixture(scope="module")
def compiled(decoder):
    with compile_decoder(decoder, cache=CACHE, chunk=CHUNK) as model:
        yield model


@pytest.fixture(scope="module")
def quantised(decoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("decoder") / "int8.onnx"
    quantise_decoder(decoder, R.integers(1, SHAPE.words, 128).tolist(), window=16).save(path)
    return path


@pytest.fixture(scope="module")
def on_sim(quantised):
    with compile_decoder(quantised, "tiny", cache=CACHE, chunk=CHUNK) as model:
        yield model


def tokenizer(path, words):
    """A file of tokens that are words w0, w1, ...; w0 ends a text."""
    names = {"</s>" if number == 0 else f"w{number}": number for number in range(words)}
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": names, "unk_token": "</s>"},
    }  # fmt: skip
    path.write_text(json.dumps(document))
    return path


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    return tokenizer(tmp_path_factory.mktemp("tokens") / "tokens.json", SHAPE.words)


def scores(model, text):
    """The logits of every token of a text, in the pieces that the plans are for."""
    run = DecoderRun(model)
    return np.concatenate([np.array(run.advance(piece).outputs["logits"][0]) for piece in run.pieces(text)])


def whole(model, text):
    """The logits by ONNX Runtime, of a whole text at once."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {"input_ids": np.array([text]), "attention_mask": np.ones((1, len(text)), np.int64)}
    feed["position_ids"] = np.arange(len(text))[None]
    for value in session.get_inputs():
        if value.name.startswith("past"):
            feed[value.name] = np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
    return session.run(["logits"], {value.name: feed[value.name] for value in session.get_inputs()})[0][0]


def test_chunks_and_steps_have_the_scores_of_the_whole_text(decoder, compiled):
    assert DecoderRun(compiled).chunks == [4, 1]
    np.testing.assert_allclose(scores(compiled, TEXT), whole(decoder, TEXT), rtol=1e-3, atol=1e-4)


def test_every_step_on_the_simulator_is_that_of_the_integers_on_the_cpu(quantised, on_sim):
    assert is_quantised(quantised)
    assert all(any("vdla" in step.placement.device for step in plan.steps) for plan in on_sim.artifact.plans)
    with compile_decoder(quantised, cache=CACHE, chunk=CHUNK) as on_cpu:
        assert (scores(on_sim, TEXT) != scores(on_cpu, TEXT)).sum() == 0


@pytest.fixture(scope="module")
def in_groups(decoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("decoder") / "int4.onnx"
    quantise_decoder(decoder, R.integers(1, SHAPE.words, 128).tolist(), weights="int4", window=16).save(path)
    return path


def test_four_bit_weights_have_the_scores_of_the_integers_on_the_cpu(quantised, in_groups):
    assert (has_groups(quantised), has_groups(in_groups)) == (False, True)
    machine = vdla.extend(Config.preset("pynq_z1"), "int4_group")
    with (
        compile_decoder(in_groups, machine, cache=CACHE, chunk=CHUNK) as on_sim,
        compile_decoder(in_groups, cache=CACHE, chunk=CHUNK) as on_cpu,
    ):
        names = {word for program in on_sim.artifact.programs for word in disassemble(program).split()}
        assert {"int4_group", "int4_group_factors"} <= names
        assert (scores(on_sim, TEXT) != scores(on_cpu, TEXT)).sum() == 0
        step = DecoderRun(on_sim).advance([3])
        weights = SHAPE.macs / 2 + SHAPE.macs / 32  # a byte has two, a factor is for 32
        assert weights <= weight_bytes(on_sim.artifact, step) < 4 * weights  # blocks of so small layers are half empty


@pytest.mark.parametrize(("weights", "error"), [("int8", 0.003), ("int4", 0.05)])
def test_a_buffer_and_weights_of_a_file_are_quantised(weights, error):
    """MatMulNBits, whose scales are any, behind a cache that new keys are written into."""
    model = n_bits_model()
    text = R.integers(40, size=13).tolist()
    made = export_model(quantise_decoder(model, text * 8, weights=weights, window=16).graph)
    assert has_groups(made) == (weights == "int4")
    with compile_decoder(made, cache=CACHE, chunk=CHUNK) as compiled:
        assert DecoderRun(compiled).interface.in_place
        got, wanted = scores(compiled, text), whole(model, text)
    assert np.square(got - wanted).mean() < error * np.square(wanted).mean()


def test_perplexity_is_that_of_the_scores(decoder, compiled):
    shares = whole(decoder, TEXT).astype(np.float64)
    shares -= np.log(np.exp(shares).sum(-1, keepdims=True))
    kept = 20  # the last chunk has no token behind it
    expected = math.exp(-shares[np.arange(kept), TEXT[1 : kept + 1]].mean())
    assert perplexity(compiled, [TEXT]) == pytest.approx(expected, rel=1e-4)


def test_the_predictions_with_a_cache_of_8_bits_are_as_good(compiled):
    exact, rounded = (perplexity(compiled, [TEXT], cache_type=kind) for kind in ("float32", "int8"))
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.01)


# --- text -----------------------------------------------------------------------------------------


def test_greedy_text_takes_the_likeliest_token_each_time(decoder, compiled, tokens):
    generation = generate(compiled, "w3 w1 w4 w1 w5", tokens=tokens, length=6)
    text = "".join(generation)
    expected = [3, 1, 4, 1, 5]
    for _ in range(len(generation.new)):
        expected.append(int(whole(decoder, expected)[-1].argmax()))
    assert generation.new == expected[5:]
    assert text == generation.text == " ".join(f"w{number}" for number in generation.new)
    assert len(generation.new) == 6
    assert (generation.rates.prompt_tokens, generation.rates.steps) == (5, 5)
    assert generation.rates.bound_share is None


def test_the_same_text_comes_from_the_model(compiled, tokens):
    text = "".join(compiled.generate("w3 w1", tokens=tokens, length=4, temperature=30.0, top_k=9, seed=2))
    assert text == "".join(generate(compiled, "w3 w1", tokens=tokens, length=4, temperature=30.0, top_k=9, seed=2))
    assert text != "".join(compiled.generate("w3 w1", tokens=tokens, length=4, temperature=30.0, top_k=9, seed=3))


def test_an_accelerator_has_cycles_and_a_share_of_its_bound(on_sim, tokens):
    generation = generate(on_sim, "w3 w1", tokens=tokens, length=3)
    assert "".join(generation)
    rates, config = generation.rates, on_sim.artifact.config
    cycles = sum(run.statistics.total_cycles for run in DecoderRun(on_sim).advance([3]).steps if run.statistics)
    assert rates.cycles_a_token == cycles
    assert rates.weight_bytes >= SHAPE.macs  # blocks are whole
    assert rates.bound_share == rates.weight_bytes / (config.axi_bits // 8 * cycles)
    assert rates.accelerator_tokens_a_second == config.clock_mhz * 1e6 / cycles
    prompt = sum(result.cycles for result, _ in generation._prefill)
    assert rates.prompt_cycles_a_token == prompt / len(generation.prompt)
    assert rates.accelerator_prompt_tokens_a_second == config.clock_mhz * 1e6 * len(generation.prompt) / prompt
    assert 0 < rates.bound_share < 1


def test_a_file_has_the_tokenizer(on_sim, tokens, tmp_path):
    path = tmp_path / "decoder.vdla"
    replace(on_sim.artifact, tokens=tokens.read_bytes()).save(path)
    with vdla.load(path) as model:
        text = "".join(model.generate("w3 w1", length=4, cache_type="int8"))
    assert text == "".join(on_sim.generate("w3 w1", tokens=tokens, length=4, cache_type="int8"))


def test_text_ends_with_the_token_that_ends_it(compiled, tokens):
    generation = generate(compiled, "w3", tokens=tokens, length=5)
    drawn = iter([7, 0, 9])
    generation.sampler = lambda scores: next(drawn)
    assert "".join(generation) == "w7"
    assert generation.new == [7]


def test_draws_are_among_the_likeliest_and_as_likely_as_their_shares():
    given = np.log(np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    assert Sampler()(given) == 3
    counts = np.bincount([Sampler(1.0, None, seed)(given) for seed in range(2000)], minlength=4) / 2000
    np.testing.assert_allclose(counts, [0.1, 0.2, 0.3, 0.4], atol=0.04)
    assert {Sampler(5.0, 2, seed)(given) for seed in range(50)} == {2, 3}
    cold = [Sampler(0.05, None, seed)(given) for seed in range(50)]
    assert cold.count(3) > 45


# --- a buffer for past and present ----------------------------------------------------------------


def buffered_model():
    """A layer as onnxruntime-genai exports it: GroupQueryAttention finds places in the mask."""
    words, heads, groups, size = 40, 4, 2, 16
    angles = np.outer(np.arange(64), 10000.0 ** -(np.arange(size // 2) / (size // 2)))
    held = {
        "table": R.standard_normal((words, heads * size)), "qkv": R.standard_normal((64, 128)) / 8,
        "last": R.standard_normal((64, words)) / 8, "cos": np.cos(angles), "sin": np.sin(angles),
    }  # fmt: skip
    tensors = [numpy_helper.from_array(x.astype(np.float32), name) for name, x in held.items()]
    tensors += [numpy_helper.from_array(np.array(1, np.int64), "one"), numpy_helper.from_array(np.array([1]), "axis")]
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "input_ids"], ["x"]),
        node("MatMul", ["x", "qkv"], ["packed"]),
        node("ReduceSum", ["attention_mask", "axis"], ["sum"], keepdims=0),
        node("Sub", ["sum", "one"], ["before"]),
        node("Cast", ["before"], ["seqlens"], to=TensorProto.INT32),
        node("Shape", ["attention_mask"], ["mask_shape"]),
        node("Gather", ["mask_shape", "one"], ["wide_total"]),
        node("Cast", ["wide_total"], ["total"], to=TensorProto.INT32),
        node("GroupQueryAttention", ["packed", "", "", "past_key_values.0.key", "past_key_values.0.value", "seqlens",
             "total", "cos", "sin"], ["y", "present.0.key", "present.0.value"], domain="com.microsoft",
             num_heads=heads, kv_num_heads=groups, do_rotary=1),
        node("MatMul", ["y", "last"], ["logits"]),
    ]  # fmt: skip
    info = helper.make_tensor_value_info
    inputs = [info("input_ids", TensorProto.INT64, [1, "steps"]), info("attention_mask", TensorProto.INT64, [1, "all"])]
    inputs += [info(f"past_key_values.0.{part}", 1, [1, groups, "past", size]) for part in ("key", "value")]
    outputs = [info("logits", 1, [1, "steps", words])]
    outputs += [info(f"present.0.{part}", 1, [1, groups, "present", size]) for part in ("key", "value")]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph(nodes, "buffered", inputs, outputs, tensors), opset_imports=imports,
                             ir_version=10)  # fmt: skip


def n_bits_model():
    """The same with the last product by MatMulNBits."""
    model = buffered_model()
    weight = next(item for item in model.graph.initializer if item.name == "last")
    groups = numpy_helper.to_array(weight).T.reshape(40, 2, 32)  # words, blocks, inputs
    scale = np.abs(groups).max(axis=2) / 7
    numbers = (np.rint(groups / scale[..., None]) + 8).astype(np.uint8)
    packed = numbers[..., ::2] | numbers[..., 1::2] << 4
    model.graph.initializer.remove(weight)
    model.graph.initializer.append(numpy_helper.from_array(packed, "last"))
    model.graph.initializer.append(numpy_helper.from_array(scale.astype(np.float32), "last_scale"))
    node = model.graph.node[-1]
    node.CopyFrom(helper.make_node("MatMulNBits", ["y", "last", "last_scale"], ["logits"], domain="com.microsoft",
                                   K=64, N=40, bits=4, block_size=32))  # fmt: skip
    return model


def test_a_cache_in_one_buffer_is_filled_in_place():
    model = buffered_model()
    text = R.integers(40, size=13).tolist()
    with compile_decoder(model, cache=CACHE, chunk=CHUNK) as compiled:
        assert DecoderRun(compiled).interface.in_place
        np.testing.assert_allclose(scores(compiled, text), whole(model, text), rtol=1e-3, atol=1e-4)


# --- what is refused ------------------------------------------------------------------------------


def refused(call):
    with pytest.raises(GenerateError) as error:
        call()
    return str(error.value)


def test_what_cannot_be_generated_is_said(compiled, tokens, tmp_path):
    text = refused(lambda: generate(compiled, "w1 w2 w3", tokens=tokens, length=22))
    rule = "prompt and length must fit the 24 places of the cache of tiny_decoder"
    assert text == f"generate: {rule}, got 3 and 22 tokens"
    other = tokenizer(tmp_path / "other.json", 400)
    text = refused(lambda: generate(compiled, "w1", tokens=other))
    assert text == "generate: other.json must have the 60 tokens of tiny_decoder, got a tokenizer of 400"
    assert refused(lambda: generate(compiled, "", tokens=tokens)) == (
        "generate: prompt must have at least one token, got none"
    )
    assert refused(lambda: generate(compiled, "w1", tokens=tokens, length=0)) == (
        "generate: length must be an integer from 1, got 0"
    )
    assert refused(lambda: Sampler(-1.0)) == "generate: temperature must be a number from 0, got -1.0"
    assert refused(lambda: Sampler(1.0, 0)) == "generate: top_k must be an integer from 1, got 0"
    assert refused(lambda: Tokens(tmp_path / "none.json")) == f"generate: {tmp_path}/none.json: no such file"
    (tmp_path / "bad.json").write_text("{}")
    assert refused(lambda: Tokens(tmp_path / "bad.json")).startswith(
        f"generate: {tmp_path}/bad.json must be a file of tokenizers, got "
    )


def test_a_missing_package_is_named(monkeypatch, tokens):
    monkeypatch.setattr("vdla.runtime.generate.tokens.find_spec", lambda name: None)
    assert refused(lambda: Tokens(tokens)) == (
        'generate: the package tokenizers must be installed for text, got none (pip install "vdla[text]")'
    )


def test_a_network_that_is_no_decoder_is_refused(decoder, compiled, tokens):
    from vdla.networks.registry import NETWORKS

    digits = NETWORKS["digits"].build()
    rule = (
        "generate: digits must be a decoder with the inputs input_ids, attention_mask, past_key_values.0.key and "
        "so on, and the result logits, got the inputs image"
    )
    assert refused(lambda: compile_decoder(digits)) == rule
    with vdla.compile(digits, "host") as model:
        assert refused(lambda: model.generate("w1", tokens=tokens)) == rule
    with vdla.compile(decoder, "host") as model:
        assert refused(lambda: model.generate("w1", tokens=tokens)) == (
            "generate: tiny_decoder must be compiled for a cache of a known size, got open shapes"
        )
    assert refused(lambda: compile_decoder(decoder, cache=8, chunk=9)) == (
        "generate: chunk must be an integer from 1 to the 8 places of the cache, got 9"
    )
    assert refused(lambda: compile_decoder(decoder, cache=33)) == (
        "generate: cache must be at most the 32 positions of tiny_decoder, got 33"
    )
    assert refused(lambda: compile_decoder(buffered_model(), cache=65)) == (
        "generate: cache must be at most the 64 positions of buffered, got 65"
    )
    assert refused(lambda: quantise_decoder(decoder, [1], weights="int3")) == (
        "generate: weights must be int8 or int4, got 'int3'"
    )
    assert refused(lambda: DecoderRun(compiled, "int4")) == ("generate: cache_type must be float32 or int8, got 'int4'")
    run = DecoderRun(compiled)
    for _ in range(CACHE // CHUNK):
        run.advance([1] * CHUNK)
    assert refused(lambda: run.advance([1])) == (
        "generate: a sequence must fit the 24 places of the cache of tiny_decoder, got 25 tokens"
    )
    assert refused(lambda: compiled.generate("w1")) == (
        "generate: tokens must name the tokenizer's file of tiny_decoder, got none"
    )
    assert refused(lambda: quantise_decoder(decoder, [])) == (
        "generate: calibration must have at least one token, got none"
    )
