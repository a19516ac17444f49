# SPDX-License-Identifier: Apache-2.0
"""Decoders of Llama's kind as ONNX models: RMSNorm, rotation, grouped attention, SwiGLU.

Inputs and results have the names that Hugging Face's exporters give them. The cache is an input,
`past_key_values.0.key` and so on, [batch, heads of keys, past, size]; results `present.0.key` have
the new keys behind the past ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vdla.networks.digits_images import load_arrays
from vdla.networks.docstrings_text import held_out_documents
from vdla.networks.llama_shape import DOCSTRINGS, LLAMA3_8B_LAYER, SMOLLM2_135M, STORIES_15M, LlamaShape
from vdla.networks.network_builder import Dimension, NetworkBuilder
from vdla.support.arrays import Array

if TYPE_CHECKING:
    from onnx import ModelProto

TRAINED = "docstrings"
"""The name of the trained decoder, whose tokens are here too."""
_HELD_OUT = 40_000  # characters of text to measure with
_RESIDUAL = ("output.weight", "down.weight")
"""Weights whose products are added to the residual stream."""


def docstrings(batch: Dimension = 1, seed: int = 0) -> ModelProto:
    """The trained decoder, whose tokens are in `docstrings_tokens.json`; `seed` is ignored."""
    return decoder_model(TRAINED, DOCSTRINGS, trained_weights(), batch)


def stories15m(batch: Dimension = 1, seed: int = 0) -> ModelProto:
    """The shape of stories15M (Karpathy, 2023)."""
    return decoder_model("stories15m", STORIES_15M, seeded_weights(STORIES_15M, seed), batch)


def smollm2_135m(batch: Dimension = 1, seed: int = 0) -> ModelProto:
    """The shape of SmolLM2-135M (Allal et al., 2025)."""
    return decoder_model("smollm2_135m", SMOLLM2_135M, seeded_weights(SMOLLM2_135M, seed), batch)


def llama3_8b_layer(batch: Dimension = 1, seed: int = 0) -> ModelProto:
    """One layer of the shape of Llama 3 8B (Grattafiori et al., 2024), with few words."""
    weights = seeded_weights(LLAMA3_8B_LAYER, seed)
    return decoder_model("llama3_8b_layer", LLAMA3_8B_LAYER, weights, batch)


def trained_weights() -> dict[str, Array]:
    """The weights of `docstrings` by name, in float32."""
    return {name: array.astype(np.float32) for name, array in load_arrays("docstrings_weights.npz").items()}


def tokens_path() -> AbstractContextManager[Path]:
    """The file of the tokens of `docstrings`, for the package `tokenizers`."""
    return as_file(files("vdla.networks").joinpath("docstrings_tokens.json"))


def calibration_text() -> str:
    """Text of the kind that `docstrings` was trained on, the same in every installation."""
    return files("vdla.networks").joinpath("docstrings_calibration.txt").read_text("utf-8")


def held_out_texts() -> list[str]:
    """Documentation strings of this installation that it was not trained on, for its perplexity."""
    return list(held_out_documents(_HELD_OUT))


def seeded_weights(shape: LlamaShape, seed: int = 0) -> dict[str, Array]:
    """Random weights by name, such that activations keep their variance."""
    rng = np.random.default_rng([seed, shape.words, shape.width])
    weights: dict[str, Array] = {}
    for name, extents in shape.weights().items():
        if len(extents) == 1:
            weights[name] = rng.uniform(0.8, 1.2, extents).astype(np.float32)
            continue
        part = (2 * shape.layers) ** -0.5 if name.endswith(_RESIDUAL) else 1.0
        scale = 1.0 if name == "embedding.weight" else part * extents[1] ** -0.5
        weights[name] = rng.standard_normal(extents, np.float32) * np.float32(scale)
    return weights


def decoder_model(
    name: str, shape: LlamaShape, weights: Mapping[str, Array], batch: Dimension = 1, steps: Dimension = "steps",
    past: Dimension = "past",
) -> ModelProto:  # fmt: skip
    """A decoder: `input_ids` [batch, steps] and a cache to `logits` [batch, steps, words].

    `attention_mask` [batch, past + steps] is 0 for places of the cache that have no key.
    """
    total = past + steps if isinstance(past, int) and isinstance(steps, int) else "total"
    net = NetworkBuilder(name, 0)
    net.input("input_ids", (batch, steps), "int64")
    net.input("attention_mask", (batch, total), "int64")
    net.input("position_ids", (batch, steps), "int64")
    for key, array in zip(("cosines", "sines"), shape.rotation(), strict=True):
        net.constant(key, array)
    net.constant("mask.axes", np.array([1, 2], np.int64))
    net.node("Cast", ["attention_mask"], "mask.seen", to=9)
    net.node("Unsqueeze", ["mask.seen", "mask.axes"], "mask")
    net.constant("embedding.weight", weights["embedding.weight"])
    x = net.node("Gather", ["embedding.weight", "input_ids"], "embedding", axis=0)
    results: dict[str, tuple[Dimension, ...]] = {}
    for layer in range(shape.layers):
        for part in ("key", "value"):
            net.input(f"past_key_values.{layer}.{part}", (batch, shape.key_heads, past, shape.head))
            results[f"present.{layer}.{part}"] = (batch, shape.key_heads, total, shape.head)
        x = _block(net, shape, weights, x, layer)
    x = _norm(net, shape, weights, x, "norm")
    last = weights["embedding.weight" if shape.tied else "logits.weight"]
    net.node("MatMul", [x, net.constant("logits.weight", last.T)], "logits")
    return net.model({"logits": (batch, steps, shape.words), **results})


def _block(net: NetworkBuilder, shape: LlamaShape, weights: Mapping[str, Array], x: str, layer: int) -> str:
    name = f"blocks.{layer}"
    normal = _norm(net, shape, weights, x, f"{name}.attention_norm")
    query, key, value = (_product(net, weights, normal, f"{name}.{part}") for part in ("query", "key", "value"))
    query, key = (
        net.node("RotaryEmbedding", [y, "cosines", "sines", "position_ids"], f"{y}.rotated", num_heads=heads)
        for y, heads in ((query, shape.heads), (key, shape.key_heads))
    )
    past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
    net.nodes(
        "Attention",
        [query, key, value, "mask", *past],
        f"{name}.attention",
        [f"{name}.attention", *(f"present.{layer}.{part}" for part in ("key", "value"))],
        q_num_heads=shape.heads,
        kv_num_heads=shape.key_heads,
        is_causal=1,
    )
    y = _product(net, weights, f"{name}.attention", f"{name}.output")
    x = net.node("Add", [x, y], f"{name}.attended")
    normal = _norm(net, shape, weights, x, f"{name}.feed_norm")
    gate, up = (_product(net, weights, normal, f"{name}.{part}") for part in ("gate", "up"))
    swish = net.node("Mul", [gate, net.node("Sigmoid", [gate], f"{name}.sigmoid")], f"{name}.swish")
    y = net.node("Mul", [swish, up], f"{name}.gated")
    return net.node("Add", [x, _product(net, weights, y, f"{name}.down")], f"{name}.fed")


def _norm(net: NetworkBuilder, shape: LlamaShape, weights: Mapping[str, Array], x: str, name: str) -> str:
    scale = net.constant(f"{name}.weight", weights[f"{name}.weight"])
    return net.node("RMSNormalization", [x, scale], name, axis=-1, epsilon=shape.epsilon)


def _product(net: NetworkBuilder, weights: Mapping[str, Array], x: str, name: str) -> str:
    """Rows times the transpose of a weight [outputs, inputs]."""
    return net.node("MatMul", [x, net.constant(f"{name}.weight", weights[f"{name}.weight"].T)], name)
