# SPDX-License-Identifier: Apache-2.0
"""Planted miscompilations: programs of which one instruction or micro-op computes something else.

Each kind is a mistake that a compiler can make. A fault that changes no result is none; whether it
does is decided by the certificate and by simulations, not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from vdla.hardware.isa import COL, Opcode, decode_uops, encode_uops, with_fields
from vdla.hardware.program import UOPS, Program

COMPUTE = (Opcode.GEMM, Opcode.VECTOR)

FIELDS: Mapping[str, tuple[tuple[Opcode, ...], tuple[str, ...], tuple[int, ...]]] = {
    "upper clip": (COMPUTE, ("clip_hi",), (-1,)),
    "lower clip": (COMPUTE, ("clip_lo",), (1,)),
    "zero point": (COMPUTE, ("zero_point",), (-1, 1)),
    "input base": (COMPUTE, ("src",), (-1, 1)),
    "weight base": (COMPUTE, ("wgt",), (-1, 1)),
    "scale base": (COMPUTE, ("scl",), (-1, 1)),
    "sum base": (COMPUTE, ("acc",), (-1, 1)),
    "result base": (COMPUTE, ("out",), (-1, 1)),
    "input stride": (COMPUTE, ("src0", "src1"), (-1, 1)),
    "weight stride": (COMPUTE, ("wgt0", "wgt1"), (-1, 1)),
    "scale stride": (COMPUTE, ("scl0", "scl1"), (-1, 1)),
    "sum stride": (COMPUTE, ("acc0", "acc1"), (-1, 1)),
    "loop extent": (COMPUTE, ("loop0", "loop1", "uop_end"), (-1,)),
    "sum that starts": (COMPUTE, ("init",), (-1, 1)),
    "vector operation": ((Opcode.VECTOR,), ("op",), (-1, 1)),
    "immediate": ((Opcode.VECTOR,), ("imm",), (-1, 1)),
    "address of a load": ((Opcode.LOAD,), ("dram",), (-1, 1)),
    "stride of a load": ((Opcode.LOAD,), ("y_stride", "z_stride"), (-1, 1)),
    "pad value": ((Opcode.LOAD,), ("pad_value",), (-1, 1)),
    "address of a store": ((Opcode.STORE,), ("dram",), (-1, 1)),
    "stride of a store": ((Opcode.STORE,), ("y_stride", "z_stride"), (-1, 1)),
    "stored entries": ((Opcode.STORE,), ("sram",), (-1, 1)),
    "extent of a store": ((Opcode.STORE,), ("x_size", "y_size"), (-1,)),
}
"""kind: the instructions, their fields, and what is added to one of them."""

_SIDES = (("y_before", "y_after"), ("x_before", "x_after"))
KINDS = (*FIELDS, "side of padding", "order of instructions", "repeated instruction", "micro-op")


@dataclass(frozen=True, slots=True)
class ProgramFault:
    """A program with a fault of a kind."""

    kind: str
    program: Program


def planted_faults(program: Program, kind: str, count: int, rng: Generator) -> Iterator[ProgramFault]:
    """At most `count` different programs with a fault of a kind."""
    match kind:
        case "side of padding":
            made = _padding(program)
        case "order of instructions":
            made = _orders(program)
        case "repeated instruction":
            made = _repeats(program)
        case "micro-op":
            made = _micro_ops(program)
        case _:
            made = _fields(program, kind)
    faults = list(made)
    for place in rng.permutation(len(faults))[:count]:
        yield ProgramFault(kind, faults[int(place)])


def _fields(program: Program, kind: str) -> Iterator[Program]:
    opcodes, names, amounts = FIELDS[kind]
    for index in np.flatnonzero(np.isin(program.columns[:, COL["opcode"]], opcodes)):
        for name in names:
            for amount in amounts:
                yield from _with(program, int(index), {name: int(program.columns[index, COL[name]]) + amount})


def _padding(program: Program) -> Iterator[Program]:
    """Loads that pad the other side."""
    for index in np.flatnonzero(program.columns[:, COL["opcode"]] == Opcode.LOAD):
        for pair in _SIDES:
            before, after = (int(program.columns[index, COL[name]]) for name in pair)
            if before != after:
                yield from _with(program, int(index), dict(zip(pair, (after, before), strict=True)))


def _with(program: Program, index: int, fields: Mapping[str, int]) -> Iterator[Program]:
    """The program with fields of an instruction changed, unless they cannot hold the values."""
    words = program.words.copy()
    values = {name: np.array([value], np.int64) for name, value in fields.items()}
    words[index] = with_fields(program.config, words[index : index + 1], values)[0]
    changed = replace(program, words=words)
    if all(changed.columns[index, COL[name]] == value for name, value in fields.items()):
        yield changed


def _orders(program: Program) -> Iterator[Program]:
    """Two neighbours that compute, the other way round."""
    for index in _neighbours(program):
        order = np.arange(len(program))
        order[[index, index + 1]] = index + 1, index
        yield _rearranged(program, order)


def _repeats(program: Program) -> Iterator[Program]:
    """An instruction that computes twice, in place of its neighbour."""
    for index in _neighbours(program):
        order = np.arange(len(program))
        order[index] = index + 1
        yield _rearranged(program, order)


def _neighbours(program: Program) -> Iterator[int]:
    """Instructions that compute, followed by another one."""
    computes = np.isin(program.columns[:, COL["opcode"]], COMPUTE)
    yield from map(int, np.flatnonzero(computes[:-1] & computes[1:]))


def _rearranged(program: Program, order: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Program:
    return replace(
        program,
        words=program.words[order],
        tensor_of=program.tensor_of[order],
        source_of=program.source_of[order],
    )


def _micro_ops(program: Program) -> Iterator[Program]:
    """One index of one micro-op changed."""
    table = next((tensor for tensor in program.tensors if tensor.name == UOPS), None)
    if table is None or table.data is None:
        return
    uops = decode_uops(program.config, np.frombuffer(table.data, np.uint8).reshape(-1, program.config.uop_entry_bytes))
    for index, uop in enumerate(uops):
        for name in ("acc", "src", "wgt"):
            if getattr(uop, name) > 0:
                some = [*uops[:index], replace(uop, **{name: getattr(uop, name) - 1}), *uops[index + 1 :]]
                data = encode_uops(program.config, some).tobytes()
                tensors = tuple(replace(one, data=data) if one is table else one for one in program.tensors)
                yield replace(program, tensors=tensors)
