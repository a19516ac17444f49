# SPDX-License-Identifier: Apache-2.0
"""Random compute instructions with their micro-ops: short reuse distances, sums of every form.

Bases and factors are drawn over entries that were written; `RandomState.admit` decides exactly
whether an instruction reads an unwritten sum. An instruction of an extension is drawn from its
plug-in alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Format, Opcode, Operand, Source, StagedEmit, VectorOp, layout
from vdla.support.arrays import Bools, Ints
from vdla.verification.programs.random_extended import (
    draws_init,
    emit_of,
    operand_masks,
    own_values,
    reads_old_sum,
    vectors_of,
    writes_inputs,
    writes_sums,
)
from vdla.verification.programs.random_state import Drawn, RandomState

SHORT = 160
LARGEST_OFFSET = 8
KERNELS = 7
IMMEDIATES = (-32768, 32767, 0, 1, -1, 5, 31, 32)
ACC, SRC, WGT, FIRST, LAST = range(5)
COLUMN_OF = {"acc": ACC, "src": SRC, "wgt": WGT}


# --- micro-ops ------------------------------------------------------------------------------------


def random_table(config: Config, rng: Generator) -> Ints:
    """`[n, 5]`: some micro-op kernels, then single micro-ops with the largest offsets."""
    kernels = [_random_kernel(config, rng) for _ in range(KERNELS)]
    high = (config.acc_depth - 1, config.inp_depth - 1, config.wgt_depth - 1)
    ends = [(high[0], 0, 0, 1, 1), (0, high[1], 0, 1, 1), (0, 0, high[2], 0, 1), (0, config.acc_depth - 1, 0, 0, 1)]
    ends += [(0, 0, 0, 1, 1)] if any(plug_in.states for plug_in in config.extensions) else []
    table = np.concatenate([*kernels, np.array(ends, np.int64)])
    return table[: config.uop_depth]


def _random_kernel(config: Config, rng: Generator) -> Ints:
    count = int(rng.choice([1, 1, 2, 3, 4, 5, 6, 9, 12]))
    spans = [
        max(1, min(LARGEST_OFFSET, depth // 2)) for depth in (config.acc_depth, config.inp_depth, config.wgt_depth)
    ]
    period = int(rng.integers(1, min(6, spans[0]) + 1))
    kernel = np.stack([rng.integers(0, span, count) for span in spans] + [np.zeros(count, np.int64)] * 2, axis=1)
    form = rng.random()
    if form < 0.5:  # the same entry again after `period` micro-ops
        kernel[:, ACC] = np.arange(count) % period
    elif form < 0.8:  # runs of `period` micro-ops on one entry
        kernel[:, ACC] = np.arange(count) // period % spans[0]
    if rng.random() < 0.3:  # sources written just before
        kernel[:, SRC] = np.maximum(0, kernel[:, ACC] - int(rng.integers(2)))
    kernel[:, FIRST:] = _marks(kernel[:, ACC], rng)
    return np.asarray(kernel, np.int64)


def _marks(acc: Ints, rng: Generator) -> Ints:
    """The `first` and `last` flags: at the ends of each sum, always, never, or at random."""
    style = int(rng.integers(4))
    if style == 0:
        first = np.array([entry not in acc[:at] for at, entry in enumerate(acc)])
        last = np.array([entry not in acc[at + 1 :] for at, entry in enumerate(acc)])
        return np.stack([first, last], axis=1).astype(np.int64)
    if style == 3:
        return rng.integers(0, 2, (len(acc), 2))
    return np.full((len(acc), 2), style - 1, np.int64)


# --- instructions ---------------------------------------------------------------------------------


def random_core(state: RandomState, encoding: Format, most: int = SHORT, quiet: bool = False) -> Drawn | None:
    """A compute instruction of up to `most` iterations on loaded micro-ops; None if nothing fits.

    A quiet instruction emits nothing to the output buffer.
    """
    begin, end = _micro_ops(state) or (0, 0)
    if begin == end:
        return None
    part = state.uops[begin:end]
    loops = _loops(state, end - begin, most)
    emit = StagedEmit.NONE if quiet or not writes_sums(encoding) else StagedEmit(state.one(_emits(state.config)))
    form = {
        "uop_begin": begin,
        "uop_end": end,
        "loop0": loops[0],
        "loop1": loops[1],
        "emit": emit_of(state.config, emit),
    }
    form["init"] = state.one((0, 1)) if draws_init(encoding) else 0
    operation = _operation(state, encoding)
    reads = _reads_sums(encoding, operation) and not form["init"]
    sums = _sums(state, part, loops, emit, reads) if writes_sums(encoding) else _inputs(state, part, loops, encoding)
    operands = _operands(state, part, loops, encoding, operation)
    if sums is None or operands is None:
        return None
    requantises = emit in (StagedEmit.REQUANT, StagedEmit.STAGE)
    scales = _scales(state, loops, bool(part[:, LAST].any())) if requantises else {}
    if scales is None:
        return None
    fields: dict[str, Any] = {**form, **sums, **operands, **scales, **operation}
    values = own_values(state, encoding, fields, most)
    if values is None:
        return None
    fields |= values
    return Drawn(encoding.cls(**fields))


def _micro_ops(state: RandomState) -> tuple[int, int] | None:
    run = state.interval(state.written[Buffer.UOP])
    if run is None:
        return None
    begin = run[0] + state.below(run[1] - run[0])
    room = run[1] - begin
    return begin, begin + min(room, state.one((1, 1, 2, 3, 4, 5, 8, room)))


def _loops(state: RandomState, kernel: int, iterations: int) -> tuple[int, int]:
    high = _high(state, "loop0")
    most = max(1, min(iterations // kernel, high))
    if iterations > SHORT:
        config = state.config
        most = state.one((most, min(most, config.acc_depth, config.out_depth)))  # a whole buffer if it fits
        return (most, 1) if state.chance(0.5) else (1, most)
    first = min(most, state.one((1, 1, 1, 2, 3, 4, 7)))
    return first, max(1, min(most // first, state.one((1, 1, 2, 3, 5, 9))))


def _high(state: RandomState, name: str, opcode: Opcode = Opcode.GEMM) -> int:
    return next(slot.high for slot in layout(state.config)[opcode] if slot.field.name == name)


def _emits(config: Config) -> tuple[int, ...]:
    return (0, 1, 1, 2) if config.stage is None else (0, 1, 1, 2, 3, 3)


def _reads_sums(encoding: Format, operation: dict[str, Any]) -> bool:
    if encoding.plug_in is not None:
        return reads_old_sum(encoding.plug_in)
    return bool(operation.get("op", VectorOp.ADD) != VectorOp.MOV)


def _operation(state: RandomState, encoding: Format) -> dict[str, Any]:
    if encoding.code != Opcode.VECTOR:
        return {}
    op, operand = VectorOp(int(state.rng.integers(len(VectorOp)))), Operand(int(state.rng.integers(len(Operand))))
    reads = operand == Operand.SRC or op == VectorOp.MAC
    source = Source(state.one((0, 1)) if reads else 0)
    half = int(state.rng.integers(-(1 << 15), 1 << 15))
    imm = state.one((*IMMEDIATES, half)) if operand == Operand.IMM else 0
    return {"op": op, "operand": operand, "source": source, "imm": imm}


def _sums(
    state: RandomState, part: Ints, loops: tuple[int, int], emit: StagedEmit, reads: bool
) -> dict[str, int] | None:
    """Accumulator and output indices, which advance together."""
    config = state.config
    results = {StagedEmit.NONE: None, StagedEmit.RAW: config.out_slots}.get(emit, config.out_depth)
    limit = config.acc_depth if results is None else min(config.acc_depth, results)
    if results is not None and state.chance(0.5):
        limit = min(limit, int(part[:, ACC].max()) + 1 + loops[0] * loops[1])
    high = _high(state, "acc0")
    allowed = state.written[Buffer.ACC] if reads or state.chance(0.5) else None
    spread = state.place(part[:, ACC], loops, limit, high, None)
    if spread is None:
        return None
    _, acc0, acc1 = spread
    offsets = _moved(part[:, ACC], loops, acc0, acc1)
    base = state.place(offsets, (1, 1), config.acc_depth, 0, allowed)
    if base is None:
        return None
    fields = {"acc": base[0], "acc0": acc0, "acc1": acc1}
    if results is None:
        return fields
    return {**fields, "out": state.below(min(results - int(offsets.max()), _high(state, "out") + 1))}


def _inputs(state: RandomState, part: Ints, loops: tuple[int, int], encoding: Format) -> dict[str, int] | None:
    """The index of results in the input buffer, of an instruction that has it."""
    if not writes_inputs(encoding):
        return {}
    limit = min(state.config.inp_depth, state.config.acc_depth)
    place = state.place(part[:, ACC], loops, limit, _high(state, "acc0"), None)
    return None if place is None else {"acc": place[0], "acc0": place[1], "acc1": place[2]}


def _moved(offsets: Ints, loops: tuple[int, int], first: int, second: int) -> Ints:
    outer = np.arange(loops[0] if first else 1, dtype=np.int64) * first
    inner = np.arange(loops[1] if second else 1, dtype=np.int64) * second
    return np.unique(np.add.outer(np.add.outer(outer, inner), np.unique(offsets)))


def _operands(
    state: RandomState, part: Ints, loops: tuple[int, int], encoding: Format, operation: dict[str, Any]
) -> dict[str, int] | None:
    """`src` and `wgt` with their factors, if the operation uses them."""
    fields: dict[str, int] = {}
    for name, column, view in _views(state, encoding, operation):
        offsets = np.unique(part[:, column])
        placed = state.place(offsets, loops, len(view), _high(state, name), view)
        if placed is None:
            return None
        fields |= {name: placed[0], f"{name}0": placed[1], f"{name}1": placed[2]}
    return fields


def _views(state: RandomState, encoding: Format, operation: dict[str, Any]) -> list[tuple[str, int, Bools]]:
    """The indices in use: field, micro-op column, and a mask of the entries that were written."""
    written = state.written
    if encoding.plug_in is not None:
        return [(name, COLUMN_OF[name], mask) for name, mask in operand_masks(state, encoding.plug_in)]
    if encoding.code == Opcode.GEMM:
        return [("src", SRC, written[Buffer.INP]), ("wgt", WGT, written[Buffer.WGT])]
    views: list[tuple[str, int, Bools]] = []
    if operation["operand"] == Operand.SRC or operation["op"] == VectorOp.MAC:
        from_inp = operation["source"] == Source.INP
        views.append(("src", SRC, vectors_of(state, Buffer.INP) if from_inp else written[Buffer.ACC]))
    if operation["operand"] == Operand.WGT:
        views.append(("wgt", WGT, vectors_of(state, Buffer.WGT)))
    return views


def _scales(state: RandomState, loops: tuple[int, int], used: bool) -> dict[str, int] | None:
    config = state.config
    half = 1 << (config.out_bits - 1)
    allowed = state.written[Buffer.SCL] if used else None
    placed = state.place(np.zeros(1, np.int64), loops, config.scl_depth, _high(state, "scl0"), allowed)
    if placed is None:
        return None
    extremes = (-half, half - 1, 0, -1, 1, int(state.rng.integers(-half, half)))
    full = state.chance(0.5)  # otherwise most results are clipped
    low, high = (-half, half - 1) if full else sorted((state.one(extremes), state.one(extremes)))
    fields = {"scl": placed[0], "scl0": placed[1], "scl1": placed[2]}
    return {**fields, "zero_point": state.one(extremes), "clip_lo": low, "clip_hi": high}
