# SPDX-License-Identifier: Apache-2.0
"""Decoders whose residual stream is integers: what runs on machines with plug-ins, exactly."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from helpers.seeds import ALL
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.graph.accelerator import ACCELERATED, REGION
from vdla.compiler.graph.onnx.export import export_model
from vdla.hardware.config import Config
from vdla.networks.decoder import decoder_model, seeded_weights
from vdla.networks.llama_shape import LlamaShape
from vdla.runtime.executor.model import Model
from vdla.runtime.generate.compile_decoder import compile_decoder
from vdla.runtime.generate.errors import GenerateError
from vdla.runtime.generate.generation import DecoderRun
from vdla.runtime.generate.quantise_decoder import quantise_decoder

SHAPE = LlamaShape(words=40, width=32, layers=2, heads=2, key_heads=1, hidden=48, positions=32)
PLUG_INS = ("norm", "rotary", "lut")
MACHINE = vdla.extend(Config.preset("pynq_z1"), *PLUG_INS)
TEXT = np.random.default_rng(4).integers(1, SHAPE.words, 22).tolist()


def decoder(interleaved=0, turned=0):
    """A decoder whose rotations have other attributes."""
    model = decoder_model("small", SHAPE, seeded_weights(SHAPE))
    for node in model.graph.node:
        if node.op_type == "RotaryEmbedding":
            options = {"interleaved": interleaved, "rotary_embedding_dim": turned}
            node.attribute.extend(helper.make_attribute(name, value) for name, value in options.items())
    for tensor in model.graph.initializer:
        if turned and tensor.name in ("cosines", "sines"):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[:, : turned // 2], tensor.name))
    return model


def quantised(**options):
    words = np.random.default_rng(0).integers(0, SHAPE.words, 64).tolist()
    return export_model(quantise_decoder(decoder(**options), words, window=16, sums="int8").graph)


def compiled(model, machine, **options):
    """The decoder on a machine, and its graphs by the passes before them."""
    seen = {}
    given = {"cache": 24, "chunk": 4, "certify": False, **options}
    made = compile_decoder(model, machine, observe=lambda name, _, after: seen.update({name: after}), **given)
    return made, seen


def scores(model):
    run = DecoderRun(model)
    return np.concatenate([np.array(run.advance(piece).outputs["logits"][0]) for piece in run.pieces(TEXT)])


ROTATIONS = [{}, {"interleaved": 1, "turned": 4}, {"interleaved": 1}, {"turned": 12}]


@pytest.mark.parametrize("rotation", ROTATIONS if ALL else ROTATIONS[:2])
def test_all_but_attention_runs_on_the_machine_with_the_scores_of_the_cpu(rotation):
    model = quantised(**rotation)
    on_machine, seen = compiled(model, MACHINE)
    programs = [node for node in seen["partition"].nodes if node.op == ACCELERATED]
    assert len(programs) == SHAPE.layers + 1
    ops = Counter(node.op for program in programs for node, _, _ in program.attributes[REGION].calls)
    norms, products = 2 * SHAPE.layers + 1, 7 * SHAPE.layers + 1
    assert (ops["vdla.QRowNorm"], ops["vdla.QRotary"], ops["vdla.QDense"]) == (norms, 2 * SHAPE.layers, products)
    assert (ops["vdla.QAdd"], ops["vdla.QMul"], ops["vdla.QTable"]) == (2 * SHAPE.layers,) + (SHAPE.layers,) * 2
    on_host = Counter(node.op for node in seen["partition"].nodes)
    assert on_host["Attention"] == SHAPE.layers
    assert not {"RotaryEmbedding", "Sqrt", "Add", "Mul"} & on_host.keys()
    assert sum(node.op == "Gather" and "table" in node.inputs[0] for node in seen["partition"].nodes) == 1
    places = {node.outputs[0]: "cpu" for node in seen["machine_rounding"].nodes}
    on_cpu, _ = compiled(model, MACHINE, place=places)
    assert not on_cpu.artifact.programs
    with on_machine, on_cpu:
        np.testing.assert_array_equal(scores(on_machine), scores(on_cpu))


def exported():
    """Rotation within GroupQueryAttention, whose heads are split before it; nodes have no names."""
    words, heads, groups, size = SHAPE.words, 2, 1, 16
    rng, width = np.random.default_rng(3), heads * size
    angles = np.outer(np.arange(64), 10000.0 ** -(np.arange(size // 2) / (size // 2)))
    held = {"table": (words, width), "w0": (width, width), "w1": (width, size), "w2": (width, size)}
    arrays = {name: rng.standard_normal(shape) / 4 for name, shape in {**held, "last": (width, words)}.items()}
    arrays |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    tensors = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    tensors += [numpy_helper.from_array(np.array(1, np.int64), "one"), numpy_helper.from_array(np.array([1]), "axis")]
    node, past = helper.make_node, ["past_key_values.0.key", "past_key_values.0.value"]
    nodes = [
        node("Gather", ["table", "input_ids"], ["x"]),
        *(node("MatMul", ["x", f"w{i}"], [name]) for i, name in enumerate("qkv")),
        node("ReduceSum", ["attention_mask", "axis"], ["sum"], keepdims=0),
        node("Sub", ["sum", "one"], ["before"]),
        node("Cast", ["before"], ["seqlens"], to=TensorProto.INT32),
        node("Shape", ["attention_mask"], ["mask_shape"]),
        node("Gather", ["mask_shape", "one"], ["wide_total"]),
        node("Cast", ["wide_total"], ["total"], to=TensorProto.INT32),
        node("GroupQueryAttention", ["q", "k", "v", *past, "seqlens", "total", "cos", "sin"],
             ["y", "present.0.key", "present.0.value"], domain="com.microsoft", num_heads=heads, kv_num_heads=groups,
             do_rotary=1),
        node("MatMul", ["y", "last"], ["logits"]),
    ]  # fmt: skip
    info = helper.make_tensor_value_info
    inputs = [info("input_ids", TensorProto.INT64, [1, "steps"]), info("attention_mask", TensorProto.INT64, [1, "all"])]
    inputs += [info(name, 1, [1, groups, "past", size]) for name in past]
    outputs = [info("logits", 1, [1, "steps", words])]
    outputs += [info(f"present.0.{part}", 1, [1, groups, "present", size]) for part in ("key", "value")]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "exported", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def test_heads_that_are_split_are_rotated_before():
    model = export_model(quantise_decoder(exported(), TEXT * 3, window=16, sums="int8").graph)
    on_machine, seen = compiled(model, vdla.extend(Config.preset("pynq_z1"), "rotary"))
    first = next(node for node in seen["partition"].nodes if node.op == ACCELERATED)
    ops = Counter(node.op for node, _, _ in first.attributes[REGION].calls)
    assert ops == {"vdla.QDense": 3, "vdla.QRotary": 2}
    on_cpu, _ = compiled(model, MACHINE, place={node.outputs[0]: "cpu" for node in seen["machine_rounding"].nodes})
    with on_machine, on_cpu:
        np.testing.assert_array_equal(scores(on_machine), scores(on_cpu))


def test_a_machine_without_plug_ins_has_the_scores_of_the_cpu():
    model = quantised()
    on_machine, seen = compiled(model, Config.preset("pynq_z1"))
    assert not any(node.op in ("vdla.QRotary", "vdla.QRowNorm") for node in seen["for_machine"].nodes)
    with on_machine, compile_decoder(model, cache=24, chunk=4) as on_cpu:
        np.testing.assert_array_equal(scores(on_machine), scores(on_cpu))


def test_what_norms_and_rotations_read_has_the_zero_point_0():
    graph = quantise_decoder(decoder(), TEXT, window=16, sums="int8").graph
    readers = [node for node in graph.nodes if node.op in ("RMSNormalization", "RotaryEmbedding")]
    for node in readers:
        maker = graph.producers[node.inputs[0]]
        assert maker.op == "DequantizeLinear"
        assert graph.constants[maker.inputs[2]] == 0
    assert len(readers) == 4 * SHAPE.layers + 1


def test_sums_stay_in_float_by_default():
    graph = quantise_decoder(decoder(), TEXT, window=16).graph
    for node in graph.nodes:
        if node.op in ("RMSNormalization", "RotaryEmbedding", "Add"):
            readers = graph.consumers[node.outputs[0]]
            assert node.op == "RMSNormalization" or all(reader.op != "QuantizeLinear" for reader in readers)
    with pytest.raises(GenerateError) as error:
        quantise_decoder(decoder(), TEXT, sums="int16")
    assert str(error.value) == "generate: sums must be int8 or float, got 'int16'"


@pytest.mark.rtl
@pytest.mark.slow
def test_steps_on_the_rtl_have_the_scores_and_cycles_of_the_simulator():
    tiny = replace(Config.preset("tiny"), inp_kib=4, wgt_kib=4, acc_kib=8, out_kib=4)
    on_sim, seen = compiled(quantised(), vdla.extend(tiny, "norm", "rotary"), cache=16, chunk=1)
    assert any(node.op == "vdla.QRotary" for node in seen["for_machine"].nodes)
    with on_sim, Model(on_sim.artifact, "rtl") as on_rtl:
        one, other = DecoderRun(on_sim), DecoderRun(on_rtl)
        for word in TEXT[:16]:
            left, right = one.advance([word]), other.advance([word])
            np.testing.assert_array_equal(left.outputs["logits"], right.outputs["logits"])
            cycles = [[step.statistics.total_cycles for step in run.steps if step.statistics] for run in (left, right)]
            assert cycles[0] == cycles[1]
