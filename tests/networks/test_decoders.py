# SPDX-License-Identifier: Apache-2.0
"""Decoders by shape and by weights, and the text of the trained one."""

import numpy as np
import onnx
import pytest

from vdla.networks.counts import parameters
from vdla.networks.decoder import (
    calibration_text,
    decoder_model,
    docstrings,
    held_out_texts,
    seeded_weights,
    tokens_path,
    trained_weights,
)
from vdla.networks.docstrings_text import SHORTEST, documents, is_held_out
from vdla.networks.llama_shape import DOCSTRINGS, SMOLLM2_135M, STORIES_15M, LlamaShape

SMALL = LlamaShape(words=40, width=16, layers=2, heads=4, key_heads=2, hidden=24, positions=16)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_has_the_weights_of_its_shape(tied):
    shape = LlamaShape(words=40, width=16, layers=2, heads=4, key_heads=2, hidden=24, positions=16, tied=tied)
    weights = seeded_weights(shape)
    model = decoder_model("small", shape, weights, "N")
    onnx.checker.check_model(model, full_check=True)
    assert shape.parameters == sum(array.size for array in weights.values())
    tables = 2 * shape.positions * shape.head // 2
    assert parameters(model) == shape.parameters + tables + (shape.words * shape.width if tied else 0)
    matrices = sum(array.size for array in weights.values() if array.ndim == 2)
    assert shape.macs == matrices - (0 if tied else shape.words * shape.width)


def test_equal_seeds_give_equal_weights():
    one, same, other = (seeded_weights(SMALL, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert not np.array_equal(one["embedding.weight"], other["embedding.weight"])


def test_known_shapes_have_the_parameters_of_their_papers():
    assert (STORIES_15M.parameters, SMOLLM2_135M.parameters) == (15_191_712, 134_515_008)


def test_the_trained_decoder_is_of_its_shape():
    assert {name: array.shape for name, array in trained_weights().items()} == DOCSTRINGS.weights()
    assert [value.name for value in docstrings().graph.input][:3] == ["input_ids", "attention_mask", "position_ids"]


def test_the_text_to_measure_with_was_not_trained_on(tmp_path):
    texts = held_out_texts()
    assert all(is_held_out(text) for text in texts)
    assert calibration_text() not in texts
    (tmp_path / "page.md").write_text("# A page\n\n" + "It has a sentence. " * 4)
    known = documents(tmp_path)
    assert len(known) == len(set(known)) > 1000
    assert any(text.startswith("# A page") for text in known)
    assert min(map(len, known)) >= SHORTEST
    share = sum(map(is_held_out, known)) / len(known)
    assert 0.02 < share < 0.07


def test_the_tokens_return_every_text():
    from tokenizers import Tokenizer

    with tokens_path() as path:
        tokens = Tokenizer.from_file(str(path))
    assert tokens.get_vocab_size() == DOCSTRINGS.words
    for text in ("Return the value.", "é λ 漢 \t\n", *held_out_texts()[:3]):
        ids = tokens.encode(text).ids
        assert ids[0] == 0
        assert tokens.decode(ids) == text
