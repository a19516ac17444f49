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
    monkeypatch.setattr(generate, "MACHINES", ("tiny",))
    monkeypatch.setattr(generate, "CACHE", 32)
    monkeypatch.setattr(generate, "held_out_texts", lambda: generate.calibration_text().split("\n\n")[:12])


def test_figures_of_small_decoders_and_a_wrong_score(monkeypatch):
    result = generate.run()
    figures, (trained, seeded) = result.figures, result.rows
    assert figures["mismatches"] == trained["mismatches"] == 0
    assert figures["perplexity_share"] == pytest.approx(1, abs=0.1)
    assert trained["weight_bytes"] == seeded["weight_bytes"] >= SHAPE.macs
    assert figures["stories15m_tiny_bound_share"] == seeded["bound_share"]
    assert 0 < seeded["bound_share"] < 1
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
