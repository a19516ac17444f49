# SPDX-License-Identifier: Apache-2.0
"""`Generation`: the text that a compiled decoder continues a prompt with, as it comes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.program import Program
from vdla.runtime.executor.executor import NetworkResult
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import Plan
from vdla.runtime.executor.token_rates import TokenRates, token_rates
from vdla.runtime.generate.cache import Cache, DeviceCache, cache_of
from vdla.runtime.generate.errors import GenerateError
from vdla.runtime.generate.interface import IDS, LOGITS, MASK, DecoderInterface
from vdla.runtime.generate.sampling import Sampler
from vdla.runtime.generate.tokens import Tokens

Array = npt.NDArray[Any]
_PARTIAL = "�"  # what the bytes of half a character are decoded to


class DecoderRun:
    """A sequence in a compiled decoder: its cache, and how far it is."""

    def __init__(self, model: Model, cache_type: str = "float32") -> None:
        self.model, self.cache_type = model, cache_type
        plans = [plan for plan in model.artifact.plans if not plan.is_open]
        if not plans:
            raise GenerateError(f"generate: {model.name} must be compiled for a cache of a known size, got open shapes")
        first = plans[0]
        past = [name for name in first.inputs if name not in (IDS, MASK) and len(_shape(first, name)) == 4]
        sizes = [(_shape(plan, MASK)[1], _shape(plan, IDS)[1]) for plan in plans if {IDS, MASK} <= {*plan.inputs}]
        self.lengths = sorted({places for places, _ in sizes})
        self._lengths = {tokens: sorted(places for places, count in sizes if count == tokens) for _, tokens in sizes}
        self.places = max(self.lengths, default=0)
        in_place = bool(past) and MASK in first.inputs and _shape(first, past[0])[2] == _shape(first, MASK)[1]
        self.on_device = not past and any(is_resident(program) for program in model.artifact.programs)
        self.interface = DecoderInterface.of(
            model.name, first.inputs, first.outputs, in_place=in_place, on_device=self.on_device
        )
        self._require_type()
        self.chunks = sorted({_shape(plan, IDS)[1] for plan in plans}, reverse=True)
        if self.chunks[-1] != 1:
            got = f"plans for {' and '.join(map(str, self.chunks))} tokens"
            raise GenerateError(f"generate: {model.name} must be compiled for one token at a time, got {got}")
        self.words = int(_shape(first, LOGITS)[2])
        self._empty = {name: _shape(first, name) for name in self.interface.pairs}
        self.restart()

    def _require_type(self) -> None:
        if self.on_device and self.cache_type != "float32":
            rule = f"generate: cache_type must be left out for {self.model.name}, whose cache is on the machine"
            raise GenerateError(f"{rule}, got {self.cache_type!r}")

    def restart(self) -> None:
        """Forget the sequence."""
        self.count = 0
        if self.on_device:
            self.cache: Cache = DeviceCache(self.model.executor.residents)
            return
        shapes = {name: (1, heads, self.places, size) for name, (_, heads, _, size) in self._empty.items()}
        self.cache = cache_of(self.cache_type, shapes)

    def advance(self, tokens: Sequence[int]) -> NetworkResult:
        """Run the next tokens, as many as a plan is for; their scores are the result's logits."""
        self._require_room(len(tokens))
        if isinstance(self.cache, DeviceCache) and not self.cache.is_kept:
            rule = f"generate: a machine has the cache of one sequence of {self.model.name} at a time"
            raise GenerateError(f"{rule}, got one that began before another")
        self._require_aligned(len(tokens))
        lengths = self._lengths.get(len(tokens), self.lengths)
        places = next(length for length in lengths if length >= self.count + len(tokens))
        feed = self.interface.feed(tokens, self.count, self.cache.read(self.count), places)
        result = self.model.run(feed)
        self.cache.append(self.count, self.interface.kept(result.outputs, self.count, len(tokens)))
        self.count += len(tokens)
        return result

    def _require_room(self, count: int) -> None:
        if self.count + count > self.places:
            rule = f"generate: a sequence must fit the {self.places} places of the cache of {self.model.name}"
            raise GenerateError(f"{rule}, got {self.count + count} tokens")

    def _require_aligned(self, count: int) -> None:
        unit = self._alignment(count)
        if self.count % unit:
            rule = f"generate: a chunk of {count} tokens of {self.model.name} must begin at a multiple of {unit} places"
            raise GenerateError(f"{rule}, got {self.count}; run single tokens up to there")

    def _alignment(self, count: int) -> int:
        """What the place is a multiple of at which so many tokens begin: a machine stores a chunk
        into whole groups of places, or into one.
        """
        config = self.model.artifact.config
        return min(count, config.block_out) if self.on_device and config is not None else 1

    def pieces(self, tokens: Sequence[int]) -> Iterator[Sequence[int]]:
        """Tokens, which follow those so far, in the largest chunks that there are plans for."""
        self._require_room(len(tokens))
        first, at = self.count, 0
        while at < len(tokens):
            fits = (size for size in self.chunks if (first + at) % self._alignment(size) == 0)
            size = next(size for size in fits if size <= len(tokens) - at)
            yield tokens[at : at + size]
            at += size


def is_resident(program: Program) -> bool:
    """Whether a program has tensors that stay on the machine."""
    return any(tensor.role == "resident" for tensor in program.tensors)


def _tokens(model: Model, given: str | PathLike[str] | None) -> Tokens:
    """The tokenizer of a file, or that of a model."""
    if given is not None:
        return Tokens(given)
    if not model.artifact.tokens:
        raise GenerateError(f"generate: tokens must name the tokenizer's file of {model.name}, got none")
    return Tokens(model.artifact.tokens, f"tokens of {model.name}")


def _shape(plan: Plan, name: str) -> tuple[int, ...]:
    return plan.values[name].shape or ()


@dataclass(eq=False)
class Generation:
    """An iterator of pieces of text; `rates` and `text` are those of what has come so far."""

    decoder: DecoderRun
    tokens: Tokens
    prompt: tuple[int, ...]
    length: int
    sampler: Sampler
    new: list[int] = field(default_factory=list)
    _prefill: list[tuple[NetworkResult, float]] = field(default_factory=list)
    _steps: list[tuple[NetworkResult, float]] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        """The text, a piece for each token that completes one."""
        self.decoder.restart()
        self.new.clear()
        self._prefill.clear()
        self._steps.clear()
        scores: Array = np.zeros(0)
        for piece in self.decoder.pieces(self.prompt):
            scores = self._ran(piece, self._prefill)
        shown = ""
        while True:
            token = self.sampler(scores)
            if token in self.tokens.ends:
                return
            self.new.append(token)
            text = self.text
            if not text.endswith(_PARTIAL):
                yield text[len(shown) :]
                shown = text
            if len(self.new) == self.length:
                return
            scores = self._ran([token], self._steps)

    def _ran(self, tokens: Sequence[int], into: list[tuple[NetworkResult, float]]) -> Array:
        begin = time.perf_counter()
        result = self.decoder.advance(tokens)
        into.append((result, time.perf_counter() - begin))
        scores: Array = result.outputs[LOGITS][0, -1]
        return scores

    @property
    def text(self) -> str:
        """What was generated so far."""
        return self.tokens.decode(self.new)

    @property
    def last_step(self) -> NetworkResult | None:
        """The run of the last token, None where the prompt alone was run."""
        return self._steps[-1][0] if self._steps else None

    @property
    def rates(self) -> TokenRates:
        """How fast it came."""
        return token_rates(self.decoder.model.artifact, len(self.prompt), self._prefill, self._steps)


def generate(
    model: Model,
    prompt: str,
    *,
    tokens: str | PathLike[str] | Tokens | None = None,
    length: int = 64,
    temperature: float = 0.0,
    top_k: int | None = None,
    seed: int = 0,
    cache_type: str = "float32",
) -> Generation:
    """Text that continues `prompt`, at most `length` tokens, by a tokenizer's file, or by that of
    the model.

    With `cache_type="int8"`, keys and values are kept in 8 bits, with a scale a head and token.

    Raises:
        GenerateError: the model is no decoder, the tokenizer not its own, or the cache too small.
    """
    decoder = DecoderRun(model, cache_type)
    known = tokens if isinstance(tokens, Tokens) else _tokens(model, tokens)
    known.require(model.name, decoder.words)
    ids = known.encode(prompt)
    if not ids:
        raise GenerateError("generate: prompt must have at least one token, got none")
    if length < 1:
        raise GenerateError(f"generate: length must be an integer from 1, got {length}")
    if len(ids) + length > decoder.places:
        rule = f"generate: prompt and length must fit the {decoder.places} places of the cache of {model.name}"
        raise GenerateError(f"{rule}, got {len(ids)} and {length} tokens")
    sampler = Sampler(temperature, top_k, seed)
    return Generation(decoder=decoder, tokens=known, prompt=tuple(ids), length=length, sampler=sampler)
