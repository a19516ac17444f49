# SPDX-License-Identifier: Apache-2.0
"""`DecoderInterface`: what the inputs and results of a decoder are for, by exporters' names.

`input_ids`, `attention_mask` and, where there are, `position_ids` are [1, tokens]; the cache is
`past_key_values.0.key` and so on, [1, heads, places, size], its results `present.0.key`; `logits`
are [1, tokens, words]. Places are filled in one of two orders:

- models that put new keys behind those of the cache have the tokens at its end, and masked places
  before them: the mask has as many places as cache and tokens together;
- models with one buffer for past and present (GroupQueryAttention) have them at its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.runtime.generate.errors import GenerateError

Array = npt.NDArray[Any]
Shape = tuple[int | str, ...]
IDS, MASK, POSITIONS, LOGITS = "input_ids", "attention_mask", "position_ids", "logits"
_PAST = re.compile(r"(past_key_values|past)\.(\d+)\.(key|value)")


@dataclass(frozen=True, slots=True)
class DecoderInterface:
    """The inputs and results of a decoder; `pairs` has the result of each input of the cache."""

    name: str
    pairs: Mapping[str, str]
    has_positions: bool
    in_place: bool

    @staticmethod
    def of(
        name: str, inputs: Iterable[str], outputs: Iterable[str], *, in_place: bool, on_device: bool = False
    ) -> DecoderInterface:
        """The interface of a network with inputs and outputs of these names; one whose cache is
        `on_device` has none of the cache.

        Raises:
            GenerateError: it is no decoder.
        """
        inputs, outputs = list(inputs), set(outputs)
        past = {item: match for item in inputs if (match := _PAST.fullmatch(item))}
        pairs = {item: f"present.{match[2]}.{match[3]}" for item, match in past.items()}
        others = [item for item in inputs if item not in past]
        known = {IDS, MASK} <= set(others) <= {IDS, MASK, POSITIONS}
        if not (known and bool(pairs) != on_device and {LOGITS, *pairs.values()} <= outputs):
            rule = (
                f"be a decoder with the inputs {IDS}, {MASK}, past_key_values.0.key and so on, and the result {LOGITS}"
            )
            raise GenerateError(f"generate: {name} must {rule}, got the inputs {', '.join(inputs)}")
        return DecoderInterface(name=name, pairs=pairs, has_positions=POSITIONS in others, in_place=in_place)

    def shapes(self, cache: Mapping[str, Shape], places: int, tokens: int) -> dict[str, tuple[int, ...]]:
        """The shapes of all inputs for so many places and tokens, by those of the model's cache."""
        past = places if self.in_place else places - tokens
        made: dict[str, tuple[int, ...]] = {IDS: (1, tokens), MASK: (1, places)}
        if self.has_positions:
            made[POSITIONS] = (1, tokens)
        for name in self.pairs:
            _, heads, _, size = cache[name]
            if not isinstance(heads, int) or not isinstance(size, int):
                got = f"{heads} and {size}"
                raise GenerateError(f"generate: {name} must have numbers of heads and elements, got {got}")
            made[name] = (1, heads, past, size)
        return made

    def feed(self, tokens: Sequence[int], first: int, cache: Mapping[str, Array], places: int) -> dict[str, Array]:
        """The inputs for tokens from the place `first` of a sequence on, behind the keys and values
        of `cache`, [1, heads, first, size].
        """
        count = len(tokens)
        mask = np.zeros((1, places), np.int64)
        mask[:, slice(0, first + count) if self.in_place else slice(places - first - count, places)] = 1
        made: dict[str, Array] = {IDS: np.array([tokens], np.int64), MASK: mask}
        if self.has_positions:
            made[POSITIONS] = np.arange(first, first + count)[None]
        past = places if self.in_place else places - count
        for name in self.pairs:
            _, heads, _, size = cache[name].shape
            made[name] = np.zeros((1, heads, past, size), np.float32)
            at = 0 if self.in_place else past - first
            made[name][:, :, at : at + first] = cache[name]
        return made

    def kept(self, results: Mapping[str, Array], first: int, count: int) -> dict[str, Array]:
        """The keys and values of `count` tokens from the place `first` on, by the inputs' names."""
        new = {name: results[present] for name, present in self.pairs.items()}
        begin = {name: first if self.in_place else array.shape[2] - count for name, array in new.items()}
        return {name: array[:, :, begin[name] : begin[name] + count] for name, array in new.items()}
