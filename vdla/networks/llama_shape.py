# SPDX-License-Identifier: Apache-2.0
"""`LlamaShape`: the sizes of a decoder of Llama's kind (Touvron et al., 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

END = "<|end|>"
"""The token between documents, with which generation begins and ends."""


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """Sizes; `positions` is the longest sequence, `key_heads` divide `heads`."""

    words: int
    width: int
    layers: int
    heads: int
    key_heads: int
    hidden: int
    positions: int
    base: float = 10_000.0
    epsilon: float = 1e-5
    tied: bool = True

    @property
    def head(self) -> int:
        """The size of a head."""
        return self.width // self.heads

    @property
    def parameters(self) -> int:
        """The number of trained values."""
        return sum(prod(extents) for extents in self.weights().values())

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the matrix products of a token, without attention."""
        matrices = (prod(extents) for name, extents in self.weights().items() if len(extents) == 2)
        return sum(matrices) - (0 if self.tied else self.words * self.width)

    def weights(self) -> dict[str, tuple[int, ...]]:
        """The extents of all weights by name, [outputs, inputs] of matrices."""
        width, keys, hidden = (self.width,), (self.key_heads * self.head,), (self.hidden,)
        parts = {"attention_norm": width, "query": width * 2, "key": keys + width, "value": keys + width}
        parts |= {"output": width * 2, "feed_norm": width, "gate": hidden + width, "up": hidden + width}
        parts["down"] = width + hidden
        made: dict[str, tuple[int, ...]] = {"embedding.weight": (self.words, self.width)}
        for layer in range(self.layers):
            made |= {f"blocks.{layer}.{name}.weight": extents for name, extents in parts.items()}
        made["norm.weight"] = width
        return made if self.tied else {**made, "logits.weight": (self.words, self.width)}

    def rotation(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Cosines and sines of rotation (Su et al., 2021), [positions, head / 2] each."""
        angles = np.outer(np.arange(self.positions), self.base ** -(np.arange(0, self.head, 2) / self.head))
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


DOCSTRINGS = LlamaShape(words=1024, width=192, layers=5, heads=6, key_heads=2, hidden=512, positions=256)
STORIES_15M = LlamaShape(words=32_000, width=288, layers=6, heads=6, key_heads=6, hidden=768, positions=256)
SMOLLM2_135M = LlamaShape(
    words=49_152, width=576, layers=30, heads=9, key_heads=3, hidden=1536, positions=2048, base=100_000.0
)
LLAMA3_8B_LAYER = LlamaShape(
    words=128, width=4096, layers=1, heads=32, key_heads=8, hidden=14_336, positions=512, base=500_000.0
)
SHAPES: Mapping[str, LlamaShape] = {
    "docstrings": DOCSTRINGS,
    "stories15m": STORIES_15M,
    "smollm2_135m": SMOLLM2_135M,
    "llama3_8b_layer": LLAMA3_8B_LAYER,
}
"""The shapes of the decoders of `vdla networks`."""
