# SPDX-License-Identifier: Apache-2.0
"""Decoders quantised on a text, and how well they predict another one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph.quantise import GROUP
from vdla.runtime.executor.model import Model
from vdla.runtime.generate.compile_decoder import (
    input_shapes,
    interface_of,
    loaded_model,
    positions_of,
)
from vdla.runtime.generate.errors import GenerateError
from vdla.runtime.generate.generation import DecoderRun
from vdla.runtime.generate.interface import LOGITS
from vdla.runtime.network.quantise import quantise
from vdla.runtime.network.quantised_network import QuantisedNetwork

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]
WINDOW = 64
"""Tokens of a text that are calibrated with at a time."""


WEIGHTS = {"int8": None, "int4": GROUP}
"""The inputs that share a scale, by types of weights; None for all inputs of an output."""
SUMS: Mapping[str, Sequence[str]] = {"int8": (), "float": ("Add", "RotaryEmbedding")}
"""The operators that stay float, by types of the residual stream's sums."""
ATTENTION = ("int8", "float")
"""The types of attention's scores, keys and values."""


def quantise_decoder(
    source: onnx.ModelProto | str | Path,
    tokens: Sequence[int],
    *,
    weights: str = "int8",
    sums: str = "float",
    attention: str = "float",
    window: int = WINDOW,
    **options: Any,  # noqa: ANN401
) -> QuantisedNetwork:
    """A decoder in int8, calibrated with a text; `options` are those of `vdla.quantise`.

    With `weights="int4"`, weights have four bits, and groups of 32 inputs a scale each.

    By default, ranges have every value that occurs (`method="minmax"`), and sums of the residual
    stream stay in float, with norms and rotations. With `sums="int8"` all these are operators of
    integers: for machines with `norm` and `rotary`; others take some cycles more than without. With
    `attention="int8"` so is attention, whose keys and values have 8 bits and one scale each.

    Raises:
        GenerateError: the model is no decoder, the text has no tokens, or weights, sums or
            attention are of another type.
        Error: whatever `vdla.quantise` raises.
    """
    if not tokens:
        raise GenerateError("generate: calibration must have at least one token, got none")
    if weights not in WEIGHTS:
        raise GenerateError(f"generate: weights must be {' or '.join(WEIGHTS)}, got {weights!r}")
    if sums not in SUMS:
        raise GenerateError(f"generate: sums must be {' or '.join(SUMS)}, got {sums!r}")
    if attention not in ATTENTION:
        raise GenerateError(f"generate: attention must be {' or '.join(ATTENTION)}, got {attention!r}")
    model = loaded_model(source)
    given = source if isinstance(source, str | Path) else model
    kept = [node.name for node in model.graph.node if node.op_type in SUMS[sums] and node.name]
    options = {
        "method": "minmax",
        "weight_groups": WEIGHTS[weights],
        "attention": attention,
        **options,
        "keep_float": [*kept, *options.get("keep_float", ())],
    }
    return quantise(given, calibration=_windows(model, tokens, window), **options)


def _windows(model: onnx.ModelProto, tokens: Sequence[int], window: int) -> Iterator[dict[str, Array]]:
    """Parts of a text as inputs of a decoder with an empty cache."""
    interface, shapes = interface_of(model), input_shapes(model)
    size = min(window, len(tokens), positions_of(model) or window)
    for at in range(0, len(tokens) - size + 1, size):
        part = tokens[at : at + size]
        wanted = interface.shapes(shapes, 2 * size, size)
        empty = {name: np.zeros((1, wanted[name][1], 0, wanted[name][3]), np.float32) for name in interface.pairs}
        yield interface.feed(part, 0, empty, 2 * size)


def perplexity(model: Model, texts: Sequence[Sequence[int]], *, cache_type: str = "float32") -> float:
    """The exponential of the mean cross entropy of each text's tokens behind the first.

    `cache_type` is that of the cache, float32 or int8, as for `model.generate`.
    Chunks of the largest plan; tokens behind the last whole chunk, and those beyond the cache, are
    left out.
    """
    run, losses = DecoderRun(model, cache_type), []
    size = run.chunks[0]
    for text in texts:
        run.restart()
        for at in range(0, min(len(text), run.places + 1) - size, size):
            scores = np.asarray(run.advance(text[at : at + size]).outputs[LOGITS], np.float64)[0]
            wide = scores - scores.max(-1, keepdims=True)
            chosen = np.array(text[at + 1 : at + size + 1])
            losses.append(np.log(np.exp(wide).sum(-1)) - wide[np.arange(size), chosen])
    if not losses:
        raise GenerateError(f"generate: perplexity must be of texts of more than {size} tokens, got none")
    return math.exp(float(np.concatenate(losses).mean()))
