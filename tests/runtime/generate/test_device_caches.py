# SPDX-License-Identifier: Apache-2.0
"""Decoders whose cache stays on the machine: a program a token, with the integers of the CPU."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import vdla
from vdla.compiler.graph.accelerator import ACCELERATED, REGION
from vdla.compiler.graph.onnx.export import export_model
from vdla.compiler.graph.passes import why_not_cached
from vdla.hardware.config import Config
from vdla.networks.decoder import decoder_model, seeded_weights
from vdla.networks.llama_shape import LlamaShape
from vdla.runtime.devices import open_device
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import ProgramStep
from vdla.runtime.generate.compile_decoder import compile_decoder
from vdla.runtime.generate.errors import GenerateError
from vdla.runtime.generate.generation import DecoderRun
from vdla.runtime.generate.quantise_decoder import quantise_decoder

SHAPE = LlamaShape(words=40, width=32, layers=2, heads=2, key_heads=1, hidden=48, positions=64)
WORDS = np.random.default_rng(0).integers(0, SHAPE.words, 64).tolist()
TEXT = np.random.default_rng(4).integers(1, SHAPE.words, 22).tolist()
PLUG_INS = ("norm", "rotary", "lut", "softmax", "transpose")
MACHINE = vdla.extend(Config.preset("pynq_z1_lm"), *PLUG_INS)


@cache
def decoder(attention="int8", sums="int8"):
    model = decoder_model("small", SHAPE, seeded_weights(SHAPE))
    return export_model(quantise_decoder(model, WORDS, window=16, sums=sums, attention=attention).graph)


def compiled(model, machine=MACHINE, **options):
    """The decoder on a machine, and its graphs by the passes before them."""
    seen = {}
    given = {"cache": 32, "lengths": [16], "certify": False, **options}
    made = compile_decoder(model, machine, observe=lambda name, _, after: seen.update({name: after}), **given)
    return made, seen


def on_cpu(seen, machine=MACHINE, **options):
    """The integers of a machine on the CPU, with the cache as inputs and results."""
    places = {node.outputs[0]: "cpu" for node in seen["machine_rounding"].nodes}
    return compiled(decoder(), machine, place=places, chunk=1, **options)[0]


def scores(run, words=TEXT):
    return np.concatenate([np.array(run.advance([word]).outputs["logits"][0]) for word in words])


def test_a_step_is_one_program_for_each_length_with_the_scores_of_the_cpu():
    made, seen = compiled(decoder())
    regions = [node for node in seen["partition"].nodes if node.op == ACCELERATED]
    assert len(regions) == 1
    ops = [node.op for node, _, _ in regions[0].attributes[REGION].calls]
    assert ops.count("vdla.QCachedAttention") == SHAPE.layers
    assert len(made.artifact.programs) == len(made.artifact.plans) == 2
    assert made.outputs == ("logits",)
    assert "by softmax, transpose: keys and values stay in the accelerator's memory: 0." in str(vdla.explain(made))
    reference = on_cpu(seen)
    assert not reference.artifact.programs
    with made, reference:
        run = DecoderRun(made)
        wanted = scores(DecoderRun(reference))
        np.testing.assert_array_equal(scores(run), wanted)
        run.restart()
        np.testing.assert_array_equal(scores(run), wanted)
        assert run.cache.nbytes == sum(t.nbytes for t in made.executor.residents.tensors.values())


def test_programs_of_several_lengths_share_weights_and_cache(monkeypatch):
    artifact = compiled(decoder())[0].artifact
    (step,) = (step for step in artifact.plan.steps if isinstance(step, ProgramStep))
    read = [artifact.constants[value].nbytes for value in step.tensors.values() if value in artifact.constants]
    weights, sizes = max(read), []
    with open_device("sim", MACHINE) as device, Model(artifact, device) as made:
        allocate = device.allocate
        monkeypatch.setattr(device, "allocate", lambda nbytes: (sizes.append(nbytes), allocate(nbytes))[1])
        run = DecoderRun(made)
        run.advance(TEXT[:1])
        assert weights in sizes
        sizes.clear()
        scores(run, TEXT[1:])
        assert sizes
        assert weights not in sizes


def test_a_file_has_the_cache_too(tmp_path):
    made, _ = compiled(decoder())
    made.save(tmp_path / "small.vdla")
    with made, Model(Artifact.load(tmp_path / "small.vdla")) as loaded:
        np.testing.assert_array_equal(scores(DecoderRun(loaded)), scores(DecoderRun(made)))


def test_a_machine_has_one_sequence_at_a_time():
    made, _ = compiled(decoder())
    with made:
        first = DecoderRun(made)
        first.advance(TEXT[:1])
        DecoderRun(made).advance(TEXT[:1])
        with pytest.raises(GenerateError) as error:
            first.advance(TEXT[1:2])
        rule = "generate: a machine has the cache of one sequence of small at a time"
        assert str(error.value) == f"{rule}, got one that began before another"
        first.restart()
        first.advance(TEXT[:1])
        with pytest.raises(GenerateError) as error:
            DecoderRun(made, "int8")
        rule = "generate: cache_type must be left out for small, whose cache is on the machine"
        assert str(error.value) == f"{rule}, got 'int8'"


def test_lengths_are_powers_of_two_or_what_is_asked_for():
    run = DecoderRun(compiled(decoder(), cache=64, lengths=None)[0])
    assert run.lengths == [64]
    made, _ = compiled(decoder(), "host", chunk=4, lengths=[8, 16])
    with made:
        assert DecoderRun(made).lengths == [8, 16, 32]
    wrong = (([2], "2"), ([64], "64"), ([16.0], "16.0"), (["8"], "'8'"), ("8", "'8'"), (16, "16"), ([[8]], "[8]"))
    for lengths, got in wrong:
        with pytest.raises(GenerateError) as error:
            compiled(decoder(), chunk=4, lengths=lengths)
        rule = "lengths must be integers from 4 to the 32 places of the cache"
        assert str(error.value) == f"generate: {rule}, got {got}"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("reason", "options"),
    [
        ("attend with one token, got int8[1, 4, 32]", {"chunk": 4}),
        ("places must be a multiple of 16, got 24", {"cache": 24, "lengths": []}),
        (
            "machine must have the extensions softmax and transpose, got pynq_z1_lm without transpose",
            {"machine": 4, "chunk": 1},
        ),
    ],
)
def test_a_cache_that_the_machine_cannot_have_is_on_the_cpu(reason, options):
    machine = vdla.extend(Config.preset("pynq_z1_lm"), *PLUG_INS[: options.pop("machine", 5)])
    made, seen = compiled(decoder(), machine, **options)
    assert sum(name.startswith("past_key_values") for name in made.inputs) == 2 * SHAPE.layers
    graphs = seen["fuse_qdq"]
    nodes = [node for node in graphs.nodes if node.op == "vdla.QAttention"]
    whys = {why_not_cached(graphs, node, machine) for node in nodes}
    assert options.get("chunk") == 4 or whys == {reason}
    with made, compiled(decoder(), machine, **{"chunk": 1, **options, "place": cpu_places(seen)})[0] as reference:
        np.testing.assert_array_equal(scores(DecoderRun(made)), scores(DecoderRun(reference)))


def cpu_places(seen):
    return {node.outputs[0]: "cpu" for node in seen["machine_rounding"].nodes}


def test_float_attention_keeps_its_cache_on_the_cpu():
    made, _ = compiled(decoder("float"), chunk=1)
    assert "past_key_values.0.key" in made.inputs


def test_certificates_say_why_there_is_none():
    made, _ = compiled(decoder(), certify=True, lengths=[])
    (region,) = made.artifact.certificate.regions
    rule = "attention over a cache on the machine must be compared on devices, since its result depends"
    assert rule in str(region)


@pytest.mark.rtl
@pytest.mark.slow
def test_steps_on_the_rtl_have_the_scores_and_cycles_of_the_simulator():
    small = replace(Config.preset("tiny"), block_in=8, block_out=8, inp_kib=4, wgt_kib=8, acc_kib=16, out_kib=4)
    made, _ = compiled(decoder(), vdla.extend(small, "norm", "rotary", "softmax", "transpose"))
    with made, Model(made.artifact, "rtl") as on_rtl:
        one, other = DecoderRun(made), DecoderRun(on_rtl)
        assert one.on_device
        for word in TEXT[:18]:
            left, right = one.advance([word]), other.advance([word])
            np.testing.assert_array_equal(left.outputs["logits"], right.outputs["logits"])
            cycles = [[step.statistics.total_cycles for step in run.steps if step.statistics] for run in (left, right)]
            assert cycles[0] == cycles[1]
