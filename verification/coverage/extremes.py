# SPDX-License-Identifier: Apache-2.0
"""Coverage of extremes: both ends of every field of every format of one machine.

A LOAD has a form for each buffer, since each limits the fields in its own way. An end is the last
value that a verified program can hold: that of the encoding, or of the buffer that the field
indexes. It counts in an instruction whose result a comparison sees; a factor only in a loop that
repeats, the padding of planes only in several of them. Bins are named `MACHINE: FORM.field value`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    COL,
    UOP_FORMAT,
    Format,
    Opcode,
    StagedEmit,
    Unit,
    isa_of,
)
from vdla.hardware.program import BEATS, Program
from vdla.support.arrays import Bools, Ints
from vdla.verification.coverage.fields import OF_RESULT, TOKENS
from vdla.verification.coverage.forms import FACTORS, PASSED
from vdla.verification.coverage.liveness import ComparedData
from vdla.verification.coverage.plug_ins import index_limits, is_valid

PLANES = " in planes"
"""Behind the name of a padding that is repeated in each of several planes."""
PADDINGS = ("y_before", "y_after", "x_before", "x_after")
STRIDES = {"y_stride": "y_size", "z_stride": "z_size"}
"""The strides of a transfer, and what must be more than 1 for them to have an effect."""
FAR_BYTES = 1 << 27
"""The most bytes between two rows of a STORE, or of a LOAD of each unit."""
FAR_FORMS = ("LOAD INP", "LOAD ACC", "STORE")
MICRO_OP = "MICRO-OP"
BEHIND = "SYNC in {unit} pushes for the instruction before it"

LOADED = {f"LOAD {buffer.name}": (buffer, 0) for buffer in Buffer if buffer != Buffer.OUT} | {
    "LOAD ACC widened": (Buffer.ACC, 1)
}
_PADDED = (Buffer.INP, Buffer.ACC)

Ends = tuple[int, int]

OF_REQUANT = ("out", "scl", "scl0", "scl1", *OF_RESULT)
"""The fields that an instruction has only if it sends results."""


@dataclass(frozen=True, slots=True)
class Extreme:
    """A value of a field of a form of instruction, at an end of what programs can hold."""

    form: str
    field: str
    value: int

    def __str__(self) -> str:
        return f"{self.form}.{self.field} {self.value}"


def bins(config: Config) -> tuple[str, ...]:
    """The goals of a machine."""
    return (
        *(f"{config.name}: {extreme}" for extreme in extremes(config)),
        *(f"{config.name}: {BEHIND.format(unit=unit.label)}" for unit in Unit),
    )


def extremes(config: Config) -> tuple[Extreme, ...]:
    """Both ends of every field of every form, in the order of the table of formats."""
    forms = (*_forms(config), MICRO_OP)
    return tuple(
        Extreme(form, field, value)
        for form in forms
        for field, ends in limits(config, form).items()
        for value in dict.fromkeys(ends)
    )


def _forms(config: Config) -> Iterator[str]:
    for encoding in isa_of(config).formats.values():
        if encoding.code == Opcode.LOAD:
            yield from LOADED
        elif encoding.code == Opcode.SYNC:
            yield from (f"SYNC in {unit.label}" for unit in Unit)
        elif encoding.plug_in is None or encoding.plug_in.has_result:  # no comparison sees private state
            yield encoding.name


def format_of(config: Config, form: str) -> Format:
    """The format of a form, whose name it begins with."""
    encoding = isa_of(config).format_named(form.split()[0].lower())
    assert encoding is not None, f"{form} must be a form of {config.name}"
    return encoding


# --- limits ---------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def limits(config: Config, form: str) -> Mapping[str, Ends]:
    """The ends of each field of a form; a field with one value only has it twice."""
    if form == MICRO_OP:
        return _of_micro_op(config)
    encoding = format_of(config, form)
    ends = {slot.field.name: (slot.low, slot.high) for slot in encoding.values}
    if encoding.plug_in is not None:
        return _of_plug_in(config, encoding, ends)
    match Opcode(encoding.code):
        case Opcode.LOAD:
            ends = _of_load(config, form, ends)
        case Opcode.STORE:
            ends |= _of_transfer(config, form, Buffer.OUT)
        case Opcode.SYNC:
            ends = {name: ends[name] for name in TOKENS}
        case _:
            ends |= _of_loops(config, encoding)
    return ends | {name: (0, int(name in _tokens(form))) for name in TOKENS}


def _tokens(form: str) -> tuple[str, ...]:
    """The tokens that an instruction of a form can have."""
    if not form.startswith("LOAD"):
        return PASSED.get(form, TOKENS)
    return PASSED["LOAD in compute" if form.split()[1] in ("ACC", "UOP") else "LOAD in load"]


def _of_transfer(config: Config, form: str, buffer: Buffer, widened: bool = False) -> dict[str, Ends]:
    depth = config.depths[buffer]
    beats = config.entry_bytes[Buffer.OUT if widened else buffer] // config.axi_bytes
    unit = beats if buffer == Buffer.UOP else 1  # rows of micro-ops begin with one
    most = (1 << 24) - 1 if form not in FAR_FORMS else min((1 << 24) - 1, FAR_BYTES // config.axi_bytes - 1)
    return {
        "sram": (0, depth - 1),
        "dram": (0, BEATS - beats),
        **dict.fromkeys(("z_size", "y_size", "x_size"), (1, depth)),
        **dict.fromkeys(STRIDES, (0, most // unit * unit)),
    }


def _of_load(config: Config, form: str, ends: Mapping[str, Ends]) -> dict[str, Ends]:
    buffer, widened = LOADED[form]
    result = dict(ends) | _of_transfer(config, form, buffer, bool(widened))
    del result["buffer"], result["widen"]  # the form has them
    if buffer not in _PADDED:
        return result | dict.fromkeys((*PADDINGS, "pad_value"), (0, 0))
    depth = config.depths[buffer]
    half = 1 << ((config.inp_bits if buffer == Buffer.INP else 32) - 1)
    result |= {"y_size": (0, depth), "x_size": (0, depth), "pad_value": (-half, half - 1)}
    result |= {name: (0, min(ends[name][1], depth)) for name in PADDINGS}
    return result | {name + PLANES: (min(ends[name][1], depth // 2 - 1),) * 2 for name in PADDINGS}


def _of_loops(config: Config, encoding: Format) -> dict[str, Ends]:
    vector = encoding.code == Opcode.VECTOR
    return {
        **_of_kernel(config),
        **_indexed("acc", config.acc_depth),
        **_indexed("src", max(config.inp_vectors, config.acc_depth) if vector else config.inp_depth),
        **_indexed("wgt", config.wgt_vectors if vector else config.wgt_depth),
        **_indexed("scl", config.scl_depth),
        "out": (0, config.out_depth - 1),
        **_enumerated(encoding),
    }


def _of_kernel(config: Config) -> dict[str, Ends]:
    high = {slot.field.name: slot.high for slot in isa_of(config).formats[Opcode.GEMM].values}
    return {
        "uop_begin": (0, config.uop_depth - 1),
        "uop_end": (1, config.uop_depth),
        "loop0": (1, high["loop0"]),
        "loop1": (1, high["loop1"]),
    }


def _indexed(name: str, count: int) -> dict[str, Ends]:
    """The ends of an index and of its factors, in a loop of at least two iterations."""
    return dict.fromkeys((name, f"{name}0", f"{name}1"), (0, count - 1))


def _of_plug_in(config: Config, encoding: Format, ends: Mapping[str, Ends]) -> dict[str, Ends]:
    """As the rules of the plug-in allow; what an index counts decides how far it reaches."""
    assert encoding.plug_in is not None, "the format of an extension"
    result = {**ends, **_of_kernel(config), **_enumerated(encoding)}
    for name, count in index_limits(config, encoding.plug_in).items():
        result |= _indexed(name, count)
    result |= _indexed("scl", config.scl_depth) | {"out": (0, config.out_depth - 1)}
    return {name: _allowed(config, encoding, name, pair) for name, pair in result.items()}


def _enumerated(encoding: Format) -> dict[str, Ends]:
    """The ends of fields whose values have names."""
    named = ((slot.field.name, slot.field.enum) for slot in encoding.values)
    return {name: (min(enum), max(enum)) for name, enum in named if enum is not None}


def _allowed(config: Config, encoding: Format, name: str, ends: Ends) -> Ends:
    """The ends that some instruction of the format can have; the first one twice if only that."""
    valid = [value for value in ends if is_valid(config, encoding, loop_fields(encoding, name, value))]
    return (valid[0], valid[-1]) if valid else (0, 0)


def loop_fields(encoding: Format, name: str, value: int) -> dict[str, int]:
    """The fields of a compute instruction with a value, and with what others must be for it."""
    slots = {slot.field.name: slot for slot in encoding.values}
    fields = {"uop_begin": 0, "uop_end": 1}
    if name in FACTORS and value:
        fields[f"loop{name[-1]}"] = 2
    if name == "uop_begin":
        fields["uop_end"] = value + 1
    if name in OF_REQUANT and (value or name in OF_RESULT):
        low, high = slots["clip_lo"].low, slots["clip_hi"].high
        fields |= {"emit": int(StagedEmit.REQUANT), "clip_lo": low, "clip_hi": high}
    return {**fields, name: value}


def _of_micro_op(config: Config) -> dict[str, Ends]:
    counts = (
        config.acc_depth,
        max(config.inp_depth, config.inp_vectors, config.acc_depth),
        max(config.wgt_depth, config.wgt_vectors),
        2,
        2,
    )
    return {field.name: (0, count - 1) for field, count in zip(UOP_FORMAT, counts, strict=True)}


# --- counting -------------------------------------------------------------------------------------


def count(program: Program, linked: Ints, compared: ComparedData) -> Counter[str]:
    """Instructions in each bin, micro-ops that they execute; `linked`: at their addresses."""
    config = program.config
    counts = Counter(hits_of(program, linked, compared))
    hits = Counter({f"{config.name}: {extreme}": number for extreme, number in counts.items()})
    hits.update(
        f"{config.name}: {BEHIND.format(unit=unit.label)}" for unit in Unit if _pushes_behind(program, unit, compared)
    )
    return hits


def hits_of(program: Program, linked: Ints, compared: ComparedData) -> dict[Extreme, int]:
    """How many compared instructions or micro-ops have a field at an end, where it is any."""
    config, counts = program.config, dict[Extreme, int]()
    for form in _forms(config):
        counts.update(_form_hits(config, form, program.columns, linked, compared.instructions))
    for column, (name, ends) in zip(compared.micro_ops.T, _of_micro_op(config).items(), strict=True):
        counts.update({Extreme(MICRO_OP, name, value): int((column == value).sum()) for value in ends})
    return {extreme: number for extreme, number in counts.items() if number}


def _form_hits(config: Config, form: str, rows: Ints, linked: Ints, compared: Bools) -> dict[Extreme, int]:
    """Of the instructions of a form; tokens count where no comparison sees the result, too."""
    mine = _are_of(config, form, rows)
    seen = mine & compared
    encoding = format_of(config, form)
    hits: dict[Extreme, int] = {}
    for name, ends in limits(config, form).items():
        field = name.removesuffix(PLANES)
        chosen = mine if field in TOKENS else seen
        for value in dict.fromkeys(ends):
            table = linked if value else rows  # the last address, not that in the tensor
            at_end = table[chosen, encoding.column(field)] == value
            if number := int((at_end & _has_effect(form, name, rows[chosen], value)).sum()):
                hits[Extreme(form, name, value)] = number
    return hits


def _are_of(config: Config, form: str, rows: Ints) -> Bools:
    """Which instructions are of a form."""
    encoding = format_of(config, form)
    mine = isa_of(config).codes_of_columns(rows) == encoding.code
    if form in LOADED:
        buffer, widened = LOADED[form]
        mine &= (rows[:, COL["buffer"]] == buffer) & (rows[:, COL["widen"]] == widened)
    if encoding.code == Opcode.SYNC:
        mine &= rows[:, COL["unit"]] == Unit[form.split()[-1].upper()]
    return np.asarray(mine, np.bool_)


def _has_effect(form: str, name: str, rows: Ints, value: int) -> Bools:
    """Whether rows and planes, or iterations, are repeated, so that a field matters."""
    if name.endswith(PLANES):
        return np.asarray(rows[:, COL["z_size"]] > 1, np.bool_)
    if value and name in FACTORS:
        return np.asarray(rows[:, COL[f"loop{name[-1]}"]] > 1, np.bool_)
    if value and name in STRIDES and form in FAR_FORMS:
        return np.asarray(rows[:, COL[STRIDES[name]]] > 1, np.bool_)
    return np.ones(len(rows), np.bool_)


def _pushes_behind(program: Program, unit: Unit, compared: ComparedData) -> bool:
    """Whether a SYNC pushes a token that an instruction of its unit just before it does not."""
    order = np.flatnonzero(program.columns[:, COL["unit"]] == unit)
    rows = program.columns[order]
    pushes = rows[:, [COL["push_prev"], COL["push_next"]]] > 0
    sync = rows[:, COL["opcode"]] == Opcode.SYNC
    before = compared.instructions[order][:-1] & ~sync[:-1]
    return bool((before[:, None] & sync[1:, None] & pushes[1:] & ~pushes[:-1]).any())
