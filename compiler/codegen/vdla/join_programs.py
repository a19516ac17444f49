# SPDX-License-Identifier: Apache-2.0
"""Programs behind one another as one program: a program of a chain between those of authors.

A program begins once all units have finished the one before, by a token from each unit to the
compute unit and back. Micro-op tables lie behind one another in one constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

import numpy as np

from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, Opcode, Sync, Unit, encode, with_fields
from vdla.hardware.program import UOPS, Program, ProgramTensor

_BARRIER = (
    Sync(Unit.LOAD, push_next=1),
    Sync(Unit.STORE, push_prev=1),
    Sync(Unit.COMPUTE, pop_prev=1, pop_next=1, push_prev=1, push_next=1),
    Sync(Unit.LOAD, pop_next=1),
    Sync(Unit.STORE, pop_prev=1),
)


@dataclass(frozen=True, eq=False, slots=True)
class PlacedProgram:
    """A program, and the names in the whole of those tensors that others know."""

    program: Program
    names: Mapping[str, str]


def join_programs(config: Config, name: str, parts: Sequence[PlacedProgram], outputs: Sequence[str]) -> Program:
    """One program that runs the parts in order.

    A tensor that a part writes is an output of the whole if `outputs` names it, else scratch;
    tensors without a name in the whole get one of their own, but resident tensors keep theirs.

    Raises:
        LoweringError: two parts disagree on the bytes of a tensor, or one reads it before it is
            written.
    """
    tensors: dict[str, ProgramTensor] = {}
    words, tensor_of, source_of, lines = [], [], [], list[str]()
    tables = [_table(config, part.program) for part in parts]
    barrier = encode(config, _BARRIER)
    for position, part in enumerate(parts):
        if position:
            words.append(barrier)
            tensor_of.append(np.full(len(barrier), -1, np.int32))
            source_of.append(np.full(len(barrier), -1, np.int32))
        names = [_name(position, tensor, part.names) for tensor in part.program.tensors]
        in_whole = dict(zip([tensor.name for tensor in part.program.tensors], names, strict=True))
        for tensor in part.program.tensors:
            renamed = replace(tensor, name=in_whole[tensor.name], whole=in_whole.get(tensor.whole, ""))
            _add(name, tensors, renamed, outputs)
        places = {whole: place for place, whole in enumerate(tensors)}
        words.append(_words(config, part.program, sum(map(len, tables[:position]))))
        tensor_of.append(np.array([*map(places.__getitem__, names), -1], np.int32)[part.program.tensor_of])
        source = part.program.source_of
        source_of.append(np.where(source < 0, source, source + len(lines)).astype(np.int32))
        lines += part.program.source_lines
    if UOPS in tensors:
        tensors[UOPS] = _uops(config, b"".join(tables))
    return Program(
        config=config,
        name=name,
        words=np.concatenate(words),
        tensors=tuple(tensors.values()),
        tensor_of=np.concatenate(tensor_of),
        source_lines=tuple(lines),
        source_of=np.concatenate(source_of),
    )


def _name(position: int, tensor: ProgramTensor, names: Mapping[str, str]) -> str:
    """The name of a part's tensor in the whole."""
    if tensor.name == UOPS:
        return UOPS
    alone = tensor.name if tensor.role == "resident" else f"part{position}.{tensor.name}"
    return names.get(tensor.name, alone)


def _add(where: str, tensors: dict[str, ProgramTensor], tensor: ProgramTensor, outputs: Sequence[str]) -> None:
    """Add a tensor of a part to those of the whole."""
    known = tensors.get(tensor.name)
    if tensor.role == "output" and tensor.name not in outputs:
        tensor = replace(tensor, role="scratch")
    if known is None:
        tensors[tensor.name] = tensor
    elif tensor.name != UOPS:
        _require_same(where, known, tensor)


def _require_same(where: str, known: ProgramTensor, tensor: ProgramTensor) -> None:
    """LoweringError unless a part may read what is known already."""
    rule = f"join_programs {where}: tensor {tensor.name}"
    if known.nbytes != tensor.nbytes:
        raise LoweringError(f"{rule} must have {known.nbytes} bytes in every program, got {tensor.nbytes}")
    if tensor.role not in ("input", "weight") and (tensor.role not in ("resident", "part") or tensor != known):
        raise LoweringError(f"{rule} must be written by one program, before others read it, got {known.role}")


def _table(config: Config, program: Program) -> bytes:
    """The micro-ops of a program, with zeros up to a whole number of beats and of entries."""
    data = next((tensor.data for tensor in program.tensors if tensor.name == UOPS), None) or b""
    unit = lcm(config.axi_bytes, config.uop_entry_bytes)
    return data + bytes(-len(data) % unit)


def _uops(config: Config, data: bytes) -> ProgramTensor:
    shape = len(data) // config.uop_entry_bytes, config.uop_entry_bytes
    return ProgramTensor(name=UOPS, role="constant", shape=shape, dtype="uint8", layout="", nbytes=len(data), data=data)


def _words(config: Config, program: Program, table_begin: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The words of a program whose micro-ops begin at a byte of the whole table."""
    columns = program.columns
    loads = (columns[:, COL["opcode"]] == Opcode.LOAD) & (columns[:, COL["buffer"]] == Buffer.UOP)
    dram = columns[:, COL["dram"]] + loads * (program.tensor_of >= 0) * (table_begin // config.axi_bytes)
    return with_fields(config, program.words, {"dram": dram})
