# SPDX-License-Identifier: Apache-2.0
"""The benchmark of language models on small ones: its figures, and that it sees a wrong score."""

import pytest

from vdla.benchmarks import generate
from vdla.benchmarks.harness import SubjectError
from vdla.networks.decoder import decoder_model, seeded_weights
from vdla.networks.llama_shape import LlamaShape
from vdla.networks.registry import Network

SHAPE = LlamaShape(words=1024, width=16, layers=1, heads=2, key_heads=1, hidden=32, positions=64)


def small(batch=1, seed=0):
    return decoder_model("small", SHAPE, seeded_weights(SHAPE, seed))


@pytest.fixture(autouse=True)
def sizes(monkeypatch):
    decoders = {name: Network(name, name, small) for name in ("docstrings", "stories15m")}
    monkeypatch.setattr(generate, "DECODERS", decoders)
    monkeypatch.setattr(generate, "SHAPES", dict.fromkeys(decoders, SHAPE))
    two = generate.MeasuredMachine("tiny", {"inp_kib": 4, "wgt_kib": 4, "acc_kib": 8, "out_kib": 4}, "ddr3-1050-x16")
    runs = {"int8": (("tiny", generate.MeasuredMachine("tiny")),), "int4": (("two", two),)}
    monkeypatch.setattr(generate, "RUNS", runs)
    monkeypatch.setattr(generate, "CACHE", 32)
    monkeypatch.setattr(generate, "held_out_texts", lambda: generate.calibration_text().split("\n\n")[:12])


def test_figures_of_small_decoders_and_a_wrong_score(monkeypatch):
    result = generate.run()
    figures, (trained, trained_int4, seeded, seeded_int4) = result.figures, result.rows
    assert figures["mismatches"] == trained["mismatches"] == 0
    for name in ("one_program", "one_program_int4"):
        assert figures[f"{name}_mismatches"] == 0
        assert figures[f"{name}_programs"] >= 1
    assert figures["perplexity_share"] == pytest.approx(1, abs=0.1)
    assert trained["weight_bytes"] == seeded["weight_bytes"] >= SHAPE.macs
    assert figures["stories15m_tiny_bound_share"] == seeded["bound_share"]
    assert 0 < seeded["bound_share"] < 1
    assert trained_int4["mismatches"] == 0
    assert trained_int4["weight_bytes"] == seeded_int4["weight_bytes"] >= SHAPE.macs // 2
    assert figures["stories15m_two_int4_memory_share"] == seeded_int4["memory_share"]
    assert 0 < seeded_int4["memory_share"] < seeded_int4["bound_share"]
    for name in ("int8_cache", "int4", "int4_int8_cache"):
        assert figures[f"perplexity_share_{name}"] == pytest.approx(1, abs=0.2)
    monkeypatch.setattr(generate.DecoderRun, "advance", changed(generate.DecoderRun.advance))
    assert generate.run(subjects=["docstrings"]).figures["mismatches"] > 0


def changed(advance):
    """A run whose scores differ on the accelerator."""

    def wrong(self, tokens):
        result = advance(self, tokens)
        if self.model.artifact.config is not None:
            result.outputs["logits"][..., 3] += 1
        return result

    return wrong


def test_an_unknown_subject_is_refused():
    with pytest.raises(SubjectError) as error:
        generate.run(subjects=["docstring"])
    text = "bench generate: subject must be one of docstrings, stories15m, got docstring (did you mean docstrings?)"
    assert str(error.value) == text
