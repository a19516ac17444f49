# SPDX-License-Identifier: Apache-2.0
"""Decoders as exporters write them, whose cache stays on the machine: GroupQueryAttention with one
buffer for past and present, and Attention of heads that are split before it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.graph.accelerator import ACCELERATED, REGION
from vdla.compiler.graph.integer.attention import SCORE_SCALE
from vdla.compiler.graph.onnx.export import export_model
from vdla.compiler.graph.passes import why_not_cached
from vdla.hardware.config import Config
from vdla.runtime.executor.model import Model
from vdla.runtime.generate.compile_decoder import compile_decoder
from vdla.runtime.generate.generation import DecoderRun
from vdla.runtime.generate.quantise_decoder import quantise_decoder
from vdla.runtime.network.evaluate_nodes import evaluate_node

WORDS, SIZE, PLACES = 40, 16, 48
TEXT = np.random.default_rng(4).integers(0, WORDS, 22).tolist()
PLUG_INS = ("norm", "rotary", "lut", "softmax", "transpose")
MACHINE = vdla.extend(Config.preset("pynq_z1_lm"), *PLUG_INS)


def constants(heads, groups, layers):
    rng, width = np.random.default_rng(3), heads * SIZE
    angles = np.outer(np.arange(64), 10000.0 ** -(np.arange(SIZE // 2) / (SIZE // 2)))
    shapes = {"table": (WORDS, width), "last": (width, WORDS)}
    for layer in range(layers):
        shapes |= {f"{layer}.{part}": (width, n * SIZE) for part, n in zip("qkv", (heads, groups, groups), strict=True)}
    arrays = {name: 3 * rng.standard_normal(shape) / np.sqrt(shape[0]) for name, shape in shapes.items()}
    arrays |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    tensors = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    integers = {"one": np.array(1), "axis": np.array([1]), "heads": np.array([0, 0, heads, SIZE])}
    integers |= {"groups": np.array([0, 0, groups, SIZE]), "rows": np.array([0, 0, width])}
    integers["mask_axes"] = np.array([1, 2])
    return [*tensors, *(numpy_helper.from_array(array.astype(np.int64), name) for name, array in integers.items())]


def model_of(nodes, tensors, groups, layers, *, positions):
    info = helper.make_tensor_value_info
    names = [f"{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    inputs = [info(name, TensorProto.INT64, [1, "steps"]) for name in ("input_ids", *["position_ids"] * positions)]
    inputs += [info("attention_mask", TensorProto.INT64, [1, "all"])]
    inputs += [info(f"past_key_values.{name}", 1, [1, groups, "past", SIZE]) for name in names]
    outputs = [info("logits", 1, [1, "steps", WORDS])]
    outputs += [info(f"present.{name}", 1, [1, groups, "present", SIZE]) for name in names]
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "grouped", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=imports, ir_version=11)


def buffered(heads=4, groups=2, layers=2, **attributes):
    """GroupQueryAttention, which finds its place in the mask, and rotates."""
    node, x = helper.make_node, "x0"
    nodes = [
        node("Gather", ["table", "input_ids"], [x]),
        node("ReduceSum", ["attention_mask", "axis"], ["sum"], keepdims=0),
        node("Sub", ["sum", "one"], ["before"]),
        node("Cast", ["before"], ["seqlens"], to=TensorProto.INT32),
        node("Shape", ["attention_mask"], ["mask_shape"]),
        node("Gather", ["mask_shape", "one"], ["wide_total"]),
        node("Cast", ["wide_total"], ["total"], to=TensorProto.INT32),
    ]
    for layer in range(layers):
        parts = [f"{layer}.{part}_rows" for part in "qkv"]
        nodes += [node("MatMul", [x, f"{layer}.{part}"], [name]) for part, name in zip("qkv", parts, strict=True)]
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        present = [f"present.{layer}.{part}" for part in ("key", "value")]
        nodes += [
            node("GroupQueryAttention", [*parts, *past, "seqlens", "total", "cos", "sin"], [f"y{layer}", *present],
                 domain="com.microsoft", num_heads=heads, kv_num_heads=groups, do_rotary=1, **attributes),
            node("Add", [x, f"y{layer}"], [f"x{layer + 1}"]),
        ]  # fmt: skip
        x = f"x{layer + 1}"
    nodes.append(node("MatMul", [x, "last"], ["logits"]))
    return model_of(nodes, constants(heads, groups, layers), groups, layers, positions=False)


def split(heads=4, groups=2, layers=2):
    """ONNX's Attention of heads [1, heads, steps, size], with a past that it continues."""
    node, x = helper.make_node, "x0"
    nodes = [
        node("Gather", ["table", "input_ids"], [x]),
        node("Cast", ["attention_mask"], ["seen"], to=TensorProto.BOOL),
        node("Unsqueeze", ["seen", "mask_axes"], ["mask"]),
    ]
    for layer in range(layers):
        name = f"{layer}."
        for part, shape in zip("qkv", ("heads", "groups", "groups"), strict=True):
            nodes += [
                node("MatMul", [x, name + part], [f"{name}{part}_rows"]),
                node("Reshape", [f"{name}{part}_rows", shape], [f"{name}{part}_apart"]),
                node("Transpose", [f"{name}{part}_apart"], [f"{name}{part}_heads"], perm=[0, 2, 1, 3]),
            ]
        nodes += [
            node("RotaryEmbedding", [f"{name}{part}_heads", "cos", "sin", "position_ids"], [f"{name}{part}_turned"])
            for part in "qk"
        ]
        past = [f"past_key_values.{name}{part}" for part in ("key", "value")]
        present = [f"present.{name}{part}" for part in ("key", "value")]
        nodes += [
            node("Attention", [f"{name}q_turned", f"{name}k_turned", f"{name}v_heads", "mask", *past],
                 [f"{name}y_heads", *present], is_causal=1),
            node("Transpose", [f"{name}y_heads"], [f"{name}y_apart"], perm=[0, 2, 1, 3]),
            node("Reshape", [f"{name}y_apart", "rows"], [f"y{layer}"]),
            node("Add", [x, f"y{layer}"], [f"x{layer + 1}"]),
        ]  # fmt: skip
        x = f"x{layer + 1}"
    nodes.append(node("MatMul", [x, "last"], ["logits"]))
    return model_of(nodes, constants(heads, groups, layers), groups, layers, positions=True)


MODELS = {
    "one buffer": buffered,
    "heads of their own": lambda: buffered(heads=2, groups=2),
    "heads that are split": split,
}


@cache
def quantised(name):
    return export_model(quantise_decoder(MODELS[name](), TEXT * 4, window=16, sums="int8", attention="int8").graph)


def compiled(model, machine=MACHINE, **options):
    seen = {}
    given = {"cache": PLACES, "lengths": [], "certify": False, "chunk": 4, **options}
    made = compile_decoder(model, machine, observe=lambda name, _, after: seen.update({name: after}), **given)
    return made, seen


def scores(run, words=TEXT):
    return np.concatenate([np.array(run.advance(piece).outputs["logits"][0]) for piece in run.pieces(words)])


@pytest.mark.parametrize("name", MODELS)
def test_a_token_and_a_chunk_are_one_program_with_the_scores_of_the_cpu(name):
    made, seen = compiled(quantised(name))
    (region,) = [node for node in seen["partition"].nodes if node.op == ACCELERATED]
    ops = [node.op for node, _, _ in region.attributes[REGION].calls]
    assert ops.count("vdla.QCachedAttention") == 2
    places = {node.outputs[0]: "cpu" for node in seen["machine_rounding"].nodes}
    on_cpu, _ = compiled(quantised(name), place=places, chunk=1)
    assert not on_cpu.artifact.programs
    with made, on_cpu, compile_decoder(MODELS[name](), cache=PLACES, chunk=1) as exact:
        run = DecoderRun(made)
        assert (run.on_device, run.chunks, made.outputs) == (True, [4, 1], ("logits",))
        assert len(made.artifact.programs) == len(made.artifact.plans) == 2
        got, wanted = scores(run), scores(DecoderRun(exact))
        np.testing.assert_array_equal(got, scores(DecoderRun(on_cpu)))
        assert np.abs(got - wanted).max() < 0.2 * np.abs(wanted).max()
        run.restart()
        np.testing.assert_array_equal(np.concatenate([scores(run, TEXT[:1]), scores(run, TEXT[1:])]), got)


def test_new_keys_and_values_have_the_parameters_of_their_buffer():
    graph = quantise_decoder(buffered(), TEXT * 4, window=16, sums="int8", attention="int8").graph
    nodes = [node for node in graph.nodes if node.op == "TensorScatter"]
    assert len(nodes) == 4
    for node in nodes:
        before, (after,) = graph.producers[node.inputs[1]], graph.consumers[node.outputs[0]]
        assert (before.op, after.op) == ("DequantizeLinear", "QuantizeLinear")
        scales = [graph.constants[item.inputs[1]] for item in (before, after)]
        assert scales[0] == scales[1]
        assert graph.constants[before.inputs[2]] == 0


def test_the_cpu_has_the_same_scores_in_chunks():
    made, single = (compile_decoder(quantised("one buffer"), cache=PLACES, chunk=chunk) for chunk in (4, 1))
    with made, single:
        np.testing.assert_array_equal(scores(DecoderRun(made)), scores(DecoderRun(single)))


def test_a_window_of_places_keeps_the_cache_on_the_cpu():
    model = export_model(
        quantise_decoder(buffered(local_window_size=5), TEXT * 4, window=16, sums="int8", attention="int8").graph
    )
    made, seen = compiled(model)
    graph = seen["machine_rounding"]
    nodes = [node for node in graph.nodes if node.op == "vdla.QAttention"]
    whys = {why_not_cached(graph, node, MACHINE, evaluate_node) for node in nodes}
    assert whys == {"attend the places of its buffer up to that of each token"}
    with made, compiled(model, place={node.outputs[0]: "cpu" for node in graph.nodes})[0] as on_cpu:
        assert not DecoderRun(made).on_device
        np.testing.assert_array_equal(scores(DecoderRun(made)), scores(DecoderRun(on_cpu)))


def test_attention_that_is_kept_in_float_has_a_cache_of_floats():
    graph = quantise_decoder(buffered(), TEXT * 4, window=16, sums="int8").graph
    assert not any(SCORE_SCALE in node.attributes for node in graph.nodes)
    for node in graph.nodes:
        if node.op == "TensorScatter":
            assert all(reader.op != "QuantizeLinear" for reader in graph.consumers[node.outputs[0]])


@pytest.mark.rtl
@pytest.mark.slow
def test_steps_on_the_rtl_have_the_scores_and_cycles_of_the_simulator():
    made, _ = compiled(quantised("one buffer"))
    with made, Model(made.artifact, "rtl") as on_rtl:
        one, other = DecoderRun(made), DecoderRun(on_rtl)
        for piece in one.pieces(TEXT[:6]):
            left, right = one.advance(piece), other.advance(piece)
            np.testing.assert_array_equal(left.outputs["logits"], right.outputs["logits"])
            assert left.cycles == right.cycles
