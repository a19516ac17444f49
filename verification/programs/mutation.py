# SPDX-License-Identifier: Apache-2.0
"""Mutation of programs: one token bit, one operand, one bound or one micro-op is changed.

A mutant differs from its program in one field of one instruction or micro-op; the new value is one
that the field can hold. Of an extension's instruction, its number and its own fields are bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from vdla.hardware.isa import Format, Slot, decode_uops, encode_uops, isa_of, uop_layout, with_fields
from vdla.hardware.program import UOPS, Program

TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")
OPERANDS = ("sram", "dram", "acc", "src", "wgt", "out", "scl")
BOUNDS = (
    "z_size", "y_size", "x_size", "z_stride", "y_stride", "y_before", "y_after", "x_before", "x_after",
    "uop_begin", "uop_end", "loop0", "loop1",
    "acc0", "acc1", "src0", "src1", "wgt0", "wgt1", "scl0", "scl1", "init", "emit", "buffer",
)  # fmt: skip
KINDS = ("token", "operand", "bound", "micro-op")
_FIELDS = {"token": TOKENS, "operand": OPERANDS, "bound": BOUNDS}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutated program and a description of the change."""

    program: Program
    kind: str
    change: str

    def __str__(self) -> str:
        return f"{self.program.name}: {self.change}"


def mutants(program: Program, count: int, rng: Generator, among: Sequence[int] | None = None) -> list[Mutant]:
    """`count` mutants, cycling through the kinds; changes may repeat.

    One of the instructions `among` is changed, by default any; so may any micro-op.
    """
    kinds = [kind for kind in KINDS if kind != "micro-op" or any(t.name == UOPS for t in program.tensors)]
    places = range(len(program)) if among is None else among
    return [_mutant(program, kinds[number % len(kinds)], rng, places) for number in range(count if places else 0)]


def _mutant(program: Program, kind: str, rng: Generator, among: Sequence[int]) -> Mutant:
    if kind == "micro-op":
        return _changed_micro_op(program, rng)
    choices = _choices(program, _FIELDS[kind], among)
    index, slot = choices[int(rng.integers(len(choices)))]
    name = slot.field.name
    old = int(program.columns[index, isa_of(program.config).format_at(program.columns[index]).column(name)])
    new = _other(old, slot, rng)
    words = program.words.copy()
    words[index] = with_fields(program.config, words[index : index + 1], {name: np.array([new], np.int64)})[0]
    return Mutant(replace(program, words=words), kind, f"instruction {index}, {name} {old} -> {new}")


def _choices(program: Program, fields: Sequence[str], among: Sequence[int]) -> list[tuple[int, Slot]]:
    isa = isa_of(program.config)
    codes = isa.codes_of_columns(program.columns).tolist()
    formats = [(index, isa.formats[codes[index]]) for index in among]
    slots = {one.code: _slots(one, fields) for one in isa.formats.values()}
    result = [(index, slot) for index, one in formats for slot in slots[one.code]]
    return result or [(index, one.slots[1]) for index, one in formats]


def _slots(encoding: Format, fields: Sequence[str]) -> list[Slot]:
    """The slots of a format with these names; with bounds, also those of an extension alone."""
    alone = () if encoding.plug_in is None else ("extension", *(field.name for field in encoding.plug_in.fields))
    names = (*fields, *alone) if fields == BOUNDS else fields
    return [slot for slot in encoding.slots if slot.field.name in names]


def _other(old: int, slot: Slot, rng: Generator) -> int:
    """A different value: mostly close to the old one, sometimes half, double or the largest."""
    if slot.width == 1:
        return 1 - old
    candidates = [old + d for d in (-2, -1, 1, 1, 2, 7)] + [
        old // 2,
        old * 2,
        slot.high,
        int(rng.integers(slot.high + 1)),
    ]
    fitting = [value for value in candidates if value != old and slot.low <= value <= slot.high]
    return fitting[int(rng.integers(len(fitting)))]


def _changed_micro_op(program: Program, rng: Generator) -> Mutant:
    config = program.config
    tensor = program.tensor(UOPS)
    table = np.frombuffer(tensor.data or b"", np.uint8).reshape(-1, config.uop_entry_bytes)
    micro_ops = list(decode_uops(config, table))
    at = int(rng.integers(len(micro_ops)))
    slots = uop_layout(config)
    slot = slots[int(rng.integers(len(slots)))]
    name = slot.field.name
    old = int(getattr(micro_ops[at], name))
    new = _other(old, slot, rng)
    micro_ops[at] = replace(micro_ops[at], **{name: new})
    changed = replace(tensor, data=encode_uops(config, micro_ops).tobytes())
    tensors = tuple(changed if t is tensor else t for t in program.tensors)
    return Mutant(replace(program, tensors=tensors), "micro-op", f"micro-op {at}, {name} {old} -> {new}")
