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
from vdla.runtime.network.evaluate_nodes import evaluate_node

SHAPE = LlamaShape(words=40, width=32, layers=2, heads=2, key_heads=1, hidden=48, positions=64)
WORDS = np.random.default_rng(0).integers(0, SHAPE.words, 64).tolist()
TEXT = np.random.default_rng(4).integers(1, SHAPE.words, 22).tolist()
PLUG_INS = ("norm", "rotary", "lut", "softmax", "transpose")
MACHINE = vdla.extend(Config.preset("pynq_z1_lm"), *PLUG_INS)
BATCHED = vdla.extend(Config.preset("kv260_lm"), *PLUG_INS, "int4_group")


@cache
def decoder(attention="int8", sums="int8", weights="int8"):
    model = decoder_model("small", SHAPE, seeded_weights(SHAPE))
    made = quantise_decoder(model, WORDS, window=16, sums=sums, attention=attention, weights=weights)
    return export_model(made.graph)


def compiled(model, machine=MACHINE, **options):
    """The decoder on a machine, and its graphs by the passes before them."""
    seen = {}
    given = {"cache": 32, "lengths": [16], "certify": False, "chunk": 1, **options}
    made = compile_decoder(model, machine, observe=lambda name, _, after: seen.update({name: after}), **given)
    return made, seen


@cache
def known(chunk, machine=MACHINE, weights="int8"):
    """The decoder compiled with the options of `compiled` and a chunk, and its graphs."""
    made, seen = compiled(decoder(weights=weights), machine, chunk=chunk)
    return made.artifact, seen


def on_cpu(seen, machine=MACHINE, model=None, **options):
    """The integers of a machine on the CPU, with the cache as inputs and results."""
    places = {node.outputs[0]: "cpu" for node in seen["machine_rounding"].nodes}
    return compiled(model or decoder(), machine, place=places, **options)[0]


def scores(run, words=TEXT):
    return np.concatenate([np.array(run.advance([word]).outputs["logits"][0]) for word in words])


@pytest.mark.parametrize(
    ("machine", "weights"), [(MACHINE, "int8"), (BATCHED, "int4")], ids=["int8", "int4 and a batch"]
)
def test_a_step_is_one_program_for_each_length_with_the_scores_of_the_cpu(machine, weights):
    artifact, seen = known(1, machine, weights)
    made = Model(artifact)
    regions = [node for node in seen["partition"].nodes if node.op == ACCELERATED]
    assert len(regions) == 1
    ops = [node.op for node, _, _ in regions[0].attributes[REGION].calls]
    assert ops.count("vdla.QCachedAttention") == SHAPE.layers
    assert len(made.artifact.programs) == len(made.artifact.plans) == 2
    assert made.outputs == ("logits",)
    assert "by softmax, transpose: keys and values stay in the accelerator's memory: 0." in str(vdla.explain(made))
    reference = on_cpu(seen, machine, decoder(weights=weights))
    assert not reference.artifact.programs
    with made, reference:
        run = DecoderRun(made)
        wanted = scores(DecoderRun(reference))
        np.testing.assert_array_equal(scores(run), wanted)
        run.restart()
        np.testing.assert_array_equal(scores(run), wanted)
        assert run.cache.nbytes == sum(t.nbytes for t in made.executor.residents.tensors.values())


def ran(run, words):
    """The scores of words in the chunks that there are, and the sizes of these."""
    pieces = [run.advance(piece) for piece in run.pieces(words)]
    logits = [np.array(piece.outputs["logits"][0]) for piece in pieces]
    return np.concatenate(logits), [len(rows) for rows in logits]


def caches(run):
    residents = run.model.executor.residents
    names = [name for name in residents.tensors if name.rpartition(".")[2] in ("keys", "rows", "values")]
    return {name: residents.read(name) for name in names}


def test_a_prompt_in_chunks_has_the_scores_and_the_cache_of_its_tokens_one_by_one():
    (artifact, seen), (alone, _) = known(4), known(1)
    assert len(artifact.programs) == len(artifact.plans) == 4
    regions = [node for node in seen["partition"].nodes if node.op == ACCELERATED]
    assert len(regions) == 1
    made, single, reference = Model(artifact), Model(alone), on_cpu(seen)
    for count, sizes in {1: [1], 3: [1] * 3, 4: [4], 5: [4, 1], 19: [4] * 4 + [1] * 3, 32: [4] * 8}.items():
        words = (TEXT + TEXT)[:count]
        run, one = DecoderRun(made), DecoderRun(single)
        got, chunks = ran(run, words)
        assert chunks == sizes
        np.testing.assert_array_equal(got, scores(one, words))
        for name, array in caches(one).items():
            np.testing.assert_array_equal(caches(run)[name], array)
        if count == 19:
            np.testing.assert_array_equal(got, scores(DecoderRun(reference), words))
    run.restart()
    assert sum(step.statistics is not None for step in run.advance(TEXT[:4]).steps) == 1


def test_a_conversation_goes_on_at_any_place():
    with Model(known(4)[0]) as made, Model(known(1)[0]) as single:
        run, one = DecoderRun(made), DecoderRun(single)
        first = scores(run, TEXT[:6])
        later, sizes = ran(run, TEXT[6:])
        assert sizes == [1, 1, 4, 4, 4, 1, 1]
        np.testing.assert_array_equal(np.concatenate([first, later]), scores(one, TEXT))
        run.restart()
        scores(run, TEXT[:2])
        with pytest.raises(GenerateError) as error:
            run.advance(TEXT[:4])
        rule = "generate: a chunk of 4 tokens of small must begin at a multiple of 4 places"
        assert str(error.value) == f"{rule}, got 2; run single tokens up to there"
        with pytest.raises(GenerateError) as error:
            ran(run, [*TEXT, *TEXT])
        rule = "generate: a sequence must fit the 32 places of the cache of small"
        assert str(error.value) == f"{rule}, got 46 tokens"
        assert run.count == 2


def test_a_chunk_has_as_many_tokens_as_lanes_where_all_lengths_have_more():
    made, _ = compiled(decoder(), chunk=None, lengths=[])
    with made:
        run = DecoderRun(made)
        assert (run.chunks, run.on_device) == ([16, 1], True)
    made, _ = compiled(decoder(), chunk=None, cache=48, lengths=[16, 32])
    with made:
        run = DecoderRun(made)
        assert (run.chunks, run.on_device) == ([16, 1], True)
        assert len(made.artifact.plans) == 5  # 16 tokens have no past among 16 places
        assert run.advance(TEXT[:16]).plan.values["attention_mask"].shape == (1, 32)


def test_programs_of_several_lengths_share_weights_and_cache(monkeypatch):
    artifact, _ = known(1)
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
    made = Model(known(1)[0])
    made.save(tmp_path / "small.vdla")
    with made, Model(Artifact.load(tmp_path / "small.vdla")) as loaded:
        np.testing.assert_array_equal(scores(DecoderRun(loaded)), scores(DecoderRun(made)))


def test_a_machine_has_one_sequence_at_a_time():
    with Model(known(1)[0]) as made:
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
        ("tokens must divide 16 or be a multiple of it, up to the 32 places, got 3", {"chunk": 3, "lengths": []}),
        ("places must be a multiple of 16, got 24", {"cache": 24, "lengths": []}),
        (
            "machine must have the extensions softmax and transpose, got pynq_z1_lm without transpose",
            {"machine": 4},
        ),
    ],
)
def test_a_cache_that_the_machine_cannot_have_is_on_the_cpu(reason, options):
    machine = vdla.extend(Config.preset("pynq_z1_lm"), *PLUG_INS[: options.pop("machine", 5)])
    made, seen = compiled(decoder(), machine, **options)
    assert sum(name.startswith("past_key_values") for name in made.inputs) == 2 * SHAPE.layers
    graphs = seen["fuse_qdq"]
    nodes = [node for node in graphs.nodes if node.op == "vdla.QAttention"]
    whys = {why_not_cached(graphs, node, machine, evaluate_node) for node in nodes}
    assert whys == {reason}
    with made, compiled(decoder(), machine, **{**options, "place": cpu_places(seen)})[0] as reference:
        np.testing.assert_array_equal(scores(DecoderRun(made)), scores(DecoderRun(reference)))


def cpu_places(seen):
    return {node.outputs[0]: "cpu" for node in seen["machine_rounding"].nodes}


def test_float_attention_keeps_its_cache_on_the_cpu():
    made, _ = compiled(decoder("float"))
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
    made, _ = compiled(decoder(), vdla.extend(small, "norm", "rotary", "softmax", "transpose"), chunk=4)
    with made, Model(made.artifact, "rtl") as on_rtl:
        one, other = DecoderRun(made), DecoderRun(on_rtl)
        assert one.on_device
        for piece in one.pieces(TEXT[:18]):
            left, right = one.advance(piece), other.advance(piece)
            np.testing.assert_array_equal(left.outputs["logits"], right.outputs["logits"])
            cycles = [[step.statistics.total_cycles for step in run.steps if step.statistics] for run in (left, right)]
            assert cycles[0] == cycles[1]
