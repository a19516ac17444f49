# SPDX-License-Identifier: Apache-2.0
"""The generator of random programs, for any configuration: all instructions and field extremes.

Instructions of extensions are kinds as GEMM and VECTOR are. A program of a machine without any does
not depend on what is drawn for them.

    program = random_verified_program(config, seed=7, count=40)

The same configuration, seed and count give the same program. Every entry and beat that is read was
written before. A `Draft` has the instructions before tokens are chosen: `random_verified_program`
adds tokens beyond those that the dependences need, so that queues fill and units block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vdla.compiler.codegen.vdla import IssuedOp, assign_tokens
from vdla.hardware.config import MIN_TOKEN_DEPTH, Buffer, Config
from vdla.hardware.isa import Load, MicroOp, Sync, Unit, encode, encode_uops, isa_of
from vdla.hardware.program import UOPS, Program, ProgramTensor
from vdla.hardware.timing import PAGE_BYTES
from vdla.verification.programs.random_core import random_core, random_table
from vdla.verification.programs.random_data import bytes_of, random_scales, random_words
from vdla.verification.programs.random_dma import random_load, random_store, window_loads
from vdla.verification.programs.random_extended import fill_states
from vdla.verification.programs.random_state import Drawn, RandomState
from vdla.verification.programs.random_tokens import ExtraTokens, with_extra_tokens, with_tokens

ROLES = {
    "data": "input",
    "weight": "weight",
    "scale": "weight",
    UOPS: "constant",
    "bias": "input",
    "out": "output",
    "tmp": "scratch",
}
STORED = ("out", "tmp")
WINDOW_BEATS = 64
WINDOW_ENTRIES = (4, 28)
TINY, SHORT, MEDIUM, LONG = 4, 96, 500, 1 << 13
"""Upper bounds of the beats or iterations of an instruction."""
LEAST_TO_FILL_A_QUEUE = 50
DRAWS = 12
"""Failed draws of an instruction after which another kind is drawn."""


@dataclass(frozen=True, slots=True)
class Mix:
    """The mix of a program: weights of instruction kinds, share of tokens, chance of long ones."""

    weights: Mapping[str, float]
    tokens: float
    long: float


KINDS = ("inp", "wgt", "scl", "uop", "acc", "gemm", "vector", "store", "sync_load", "sync_compute", "sync_store")
QUIET = " quiet"
EXTENDED = "extension "
LOADED = {buffer.name.lower(): buffer for buffer in Buffer if buffer != Buffer.OUT}
LOADS, COMPUTES, STORES = Unit
FULL_QUEUES = (  # a queue; what pushes to it, and what is slow to pop from it and mostly depends on nothing that pushes
    ((LOADS, COMPUTES), "scl", "gemm quiet"),
    ((LOADS, COMPUTES), "sync_load", "vector quiet"),
    ((COMPUTES, LOADS), "gemm quiet", "scl"),
    ((COMPUTES, LOADS), "gemm quiet", "scl"),
    ((COMPUTES, LOADS), "vector quiet", "wgt"),
    ((COMPUTES, LOADS), "vector quiet", "inp"),
    ((COMPUTES, STORES), "gemm quiet", "store"),
    ((COMPUTES, STORES), "gemm quiet", "store"),
    ((COMPUTES, STORES), "gemm quiet", "store"),
    ((COMPUTES, STORES), "vector quiet", "store"),
    ((STORES, COMPUTES), "store", "gemm quiet"),
    ((STORES, COMPUTES), "store", "vector quiet"),
)
MIXES = (
    Mix(dict(zip(KINDS, (3, 2, 1, 0.5, 1, 5, 5, 4, 0.3, 0.3, 0.3), strict=True)), 0.3, 0.05),
    Mix(dict(zip(KINDS, (0.5, 0.3, 0.3, 0.2, 0.5, 6, 8, 1, 0.2, 0.2, 0.2), strict=True)), 0.0, 0.03),
    Mix(dict(zip(KINDS, (6, 4, 3, 2, 5, 1, 1, 1, 0.3, 0.3, 0.3), strict=True)), 0.5, 0.05),
    Mix(dict(zip(KINDS, (4, 1, 1, 0.2, 1.5, 4, 4, 3, 3, 2, 3), strict=True)), 1.0, 0.1),
    Mix(dict(zip(KINDS, (0.5, 0.2, 0.2, 0, 0.2, 3, 3, 8, 0.5, 0.5, 1), strict=True)), 0.8, 0.08),
    Mix(dict(zip(KINDS, (1, 0.2, 0.2, 0.3, 2, 1, 3, 0.5, 6, 4, 6), strict=True)), 1.0, 0.15),
)


@dataclass(frozen=True, eq=False)
class Draft:
    """Random instructions that read only what was written before; tokens are still open."""

    name: str
    state: RandomState
    extra: ExtraTokens

    @cached_property
    def needed_tokens(self) -> tuple[IssuedOp, ...]:
        """The fewest tokens that order the instructions, with the SYNCs that they need."""
        return assign_tokens(self.state.steps)

    @cached_property
    def tensors(self) -> tuple[ProgramTensor, ...]:
        """The tensors, with random weights and scales."""
        return _tensors(self.state)

    def program(self, places: Sequence[IssuedOp]) -> Program:
        """The program with the tokens of `places`."""
        return _program(self, places)


def random_verified_program(config: Config, seed: int, count: int, longest: int = LONG) -> Program:
    """The draft of these arguments with more tokens than it needs."""
    draft = random_draft(config, seed, count, longest)
    return draft.program(with_extra_tokens(draft.needed_tokens, draft.state.rng, draft.extra))


def random_draft(config: Config, seed: int, count: int, longest: int = LONG) -> Draft:
    """`count` random instructions for `config`, each of at most `longest` beats or iterations.

    The first instructions fill parts of every buffer, as far as `count` goes.
    """
    rng = np.random.default_rng(seed)
    mix = MIXES[int(rng.integers(len(MIXES)))]
    table = random_table(config, rng)
    state = RandomState(config=config, rng=rng, sizes=buffer_sizes(config, len(table)), table=table)
    state.stored = {name: np.zeros(state.sizes[name], np.bool_) for name in STORED}
    for drawn in _fill(state)[: count if count > 1 else 0]:
        if not state.admit(drawn):
            raise AssertionError(f"random program {seed}: {drawn} must be sound")
    fill_states(state, count)
    extra = ExtraTokens(mix.tokens)
    if count >= LEAST_TO_FILL_A_QUEUE and state.chance(0.5):
        extra = _fill_queue(state, count)
    _draw(state, mix, count, longest)
    return Draft(f"random_{config.name}_{seed}_{count}", state, extra)


def buffer_sizes(config: Config, micro_ops: int) -> dict[str, int]:
    """Beats of each tensor: a few pages, and space for some entries of the largest buffers."""
    page, beat = PAGE_BYTES, config.axi_bytes
    entries = {
        "data": 40 * config.inp_entry_bytes,
        "weight": 12 * config.wgt_entry_bytes,
        "scale": 12 * config.scl_entry_bytes,
        "bias": 12 * config.acc_entry_bytes,
        **{name: 24 * config.out_entry_bytes for name in STORED},
    }
    sizes = {name: max(3 * page, -(-nbytes // page) * page) // beat for name, nbytes in entries.items()}
    return {**sizes, UOPS: micro_ops * config.uop_entry_bytes // beat}


# --- instructions ---------------------------------------------------------------------------------


def _fill(state: RandomState) -> list[Drawn]:
    """LOADs of some micro-ops and of some entries of each buffer, in random order."""
    config = state.config
    table = len(state.table)
    at = state.one((0, config.uop_depth - table))
    fill = [Drawn(Load(Buffer.UOP, at, x_size=table), UOPS)]
    for buffer in (Buffer.INP, Buffer.WGT, Buffer.SCL, Buffer.ACC):
        beats = config.entry_bytes[buffer] // config.axi_bytes
        low, high = WINDOW_ENTRIES
        fill += window_loads(config, state.rng, buffer, max(low, min(high, WINDOW_BEATS // beats)))
    return [fill[at] for at in state.rng.permutation(len(fill)).tolist()]


def _draw(state: RandomState, mix: Mix, count: int, longest: int) -> None:
    chances = _weights(state.config, mix)
    kinds, weights = tuple(chances), np.array(list(chances.values()))
    weights /= weights.sum()
    favourite, again = kinds[0], 0
    while len(state.drawn) < count:
        if again == 0:
            favourite = kinds[int(state.rng.choice(len(kinds), p=weights))]
            again = state.one((1, 1, 2, 4, 9))  # runs of one kind overlap in their unit
        again -= 1
        most = LONG if state.chance(0.3 if favourite == "store" else mix.long) else SHORT
        if not _admitted(state, favourite, min(most, longest)):
            again = 0


def _weights(config: Config, mix: Mix) -> dict[str, float]:
    """The chance of each kind; those of extensions together have that of GEMM and VECTOR."""
    weight = (mix.weights["gemm"] + mix.weights["vector"]) / max(1, len(config.extensions))
    return {**mix.weights, **{EXTENDED + plug_in.name: weight for plug_in in config.extensions}}


def _fill_queue(state: RandomState, count: int) -> ExtraTokens:
    """Draws many instructions of one unit for each slow one of its neighbour: tokens pile up.

    As many tokens are wished for as the neighbour takes.
    """
    queue, many, slow = FULL_QUEUES[int(state.rng.integers(len(FULL_QUEUES)))]
    many, slow = _or_extended(state, many), _or_extended(state, slow)
    source, target = queue
    repeats = state.one((1, 2, 2))
    room = count - len(state.drawn) - MIN_TOKEN_DEPTH * (repeats + 1)
    for _ in range(2 if STORES in queue else 0):
        _admitted(state, "vector", MEDIUM)  # results to store
    rounds = [slow, *[many] * repeats] * max(1, room // (repeats + 1))
    for kind in [*[many] * (repeats * MIN_TOKEN_DEPTH), *rounds, *[slow] * MIN_TOKEN_DEPTH]:
        most = MEDIUM if kind == slow else TINY
        if len(state.drawn) < count and not _admitted(state, kind, most):
            _admitted(state, f"sync_{(target if kind == slow else source).name.lower()}", most)
    return ExtraTokens(1 / repeats, queue)


def _or_extended(state: RandomState, kind: str) -> str:
    """A kind, or in place of a compute instruction that of an extension, with the same chance."""
    plug_ins = state.config.extensions
    if not plug_ins or not kind.endswith(QUIET) or state.chance(0.5):
        return kind
    return f"{EXTENDED}{plug_ins[int(state.rng.integers(len(plug_ins)))].name}{QUIET}"


def _admitted(state: RandomState, kind: str, most: int) -> bool:
    drafts = (random_instruction(state, kind, most) for _ in range(DRAWS))
    return any(draft is not None and state.admit(draft) for draft in drafts)


def random_instruction(state: RandomState, kind: str, most: int) -> Drawn | None:
    """An instruction of a kind, of at most `most` beats or iterations; None if no draw fits."""
    if kind.startswith("sync_"):
        return Drawn(Sync(Unit[kind.removeprefix("sync_").upper()]))
    if kind == "store":
        return random_store(state, most)
    if kind in LOADED:
        return random_load(state, LOADED[kind], most)
    encoding = isa_of(state.config).format_named(kind.removeprefix(EXTENDED).removesuffix(QUIET))
    assert encoding is not None, "every other kind is a compute instruction of the machine"
    return random_core(state, encoding, most, kind.endswith(QUIET))


# --- the program ----------------------------------------------------------------------------------


def _program(draft: Draft, places: Sequence[IssuedOp]) -> Program:
    state, tensors = draft.state, draft.tensors
    drawn = [Drawn(Sync(Unit(place.unit))) if place.op is None else state.drawn[place.op] for place in places]
    instructions = [with_tokens(one.instruction, place) for one, place in zip(drawn, places, strict=True)]
    number = {tensor.name: index for index, tensor in enumerate(tensors)}
    tensor_of = np.array([-1 if one.tensor is None else number[one.tensor] for one in drawn], np.int32)
    no_source = np.full(len(drawn), -1, np.int32)
    return Program(
        config=state.config,
        name=draft.name,
        words=encode(state.config, instructions),
        tensors=tensors,
        tensor_of=tensor_of,
        source_lines=(),
        source_of=no_source,
    )


def _tensors(state: RandomState) -> tuple[ProgramTensor, ...]:
    config = state.config
    data = {
        "weight": bytes_of(random_words(state.rng, state.sizes["weight"] * config.axi_bytes, np.int8)),
        "scale": bytes_of(random_scales(state.rng, state.sizes["scale"] * config.axi_bytes // 8)),
        UOPS: encode_uops(config, [MicroOp(*row) for row in state.table.tolist()]).tobytes(),
    }
    return tuple(_tensor(config, name, role, state.sizes[name], data.get(name)) for name, role in ROLES.items())


def _tensor(config: Config, name: str, role: str, beats: int, data: bytes | None) -> ProgramTensor:
    nbytes = beats * config.axi_bytes
    if name == UOPS:
        return ProgramTensor(
            name=name,
            role=role,
            shape=(nbytes // config.uop_entry_bytes,),
            dtype="uop",
            layout="",
            nbytes=nbytes,
            data=data,
        )
    if name == "bias":
        return ProgramTensor(
            name=name, role=role, shape=(nbytes // 4,), dtype="int32", layout="", nbytes=nbytes, data=data
        )
    return ProgramTensor(name=name, role=role, shape=(nbytes,), dtype="int8", layout="", nbytes=nbytes, data=data)
