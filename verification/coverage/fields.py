# SPDX-License-Identifier: Apache-2.0
"""Coverage of fields: zero, one, and the extremes that a verified program can hold, in instructions
and micro-ops whose results are compared.

The largest value is limited by the encoding or by the buffer that the field indexes: a base at the
last entry, a size of the whole buffer; that of a place in DRAM is an address, the others are before
linking. Bins are named `FORMAT.field value`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, FORMATS, UOP_FORMAT, Emit, Opcode, Source, layout
from vdla.hardware.program import Program
from vdla.support.arrays import Ints
from vdla.verification.coverage.liveness import ComparedData

TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")
FROM_ONE = {
    Opcode.LOAD: ("z_size",),
    Opcode.STORE: ("z_size", "y_size", "x_size"),
    Opcode.GEMM: ("uop_end", "loop0", "loop1"),
    Opcode.VECTOR: ("uop_end", "loop0", "loop1"),
}
SIZES = ("z_size", "y_size", "x_size")
OF_RESULT = ("zero_point", "clip_lo", "clip_hi")


def _values(opcode: Opcode) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The numeric fields of a format with the values to cover."""
    for field in FORMATS[opcode]:
        if field.enum is not None or field.name in TOKENS:
            continue
        values: tuple[str, ...] = ("min", "zero", "one", "max") if field.signed else ("zero", "one", "max")
        if field.name in ("init", "widen"):
            values = ("zero", "one")
        yield field.name, values[1:] if field.name in FROM_ONE.get(opcode, ()) else values


BINS: tuple[str, ...] = (
    *(f"{op.name}.{name} {value}" for op in Opcode for name, values in _values(op) for value in values),
    *(f"MICRO-OP.{f.name} {value}" for f in UOP_FORMAT[:3] for value in ("zero", "one", "max")),
    *(f"MICRO-OP.{f.name} {value}" for f in UOP_FORMAT[3:] for value in ("zero", "one")),
)


def count(program: Program, linked: Ints, compared: ComparedData) -> Counter[str]:
    """Instructions, and micro-ops that they execute, in each bin; `linked`: at their addresses."""
    counts: Counter[str] = Counter()
    for opcode in Opcode:
        chosen = compared.instructions & (program.columns[:, COL["opcode"]] == opcode)
        rows = program.columns[chosen]
        for name, values in _values(opcode) if len(rows) else ():
            ends = _ends(program.config, opcode, name, rows)
            for value in values:
                column = linked[chosen, COL[name]] if value == "max" else rows[:, COL[name]]
                sought = {"zero": 0, "one": 1, **ends}[value]
                counts[f"{opcode.name}.{name} {value}"] += int((column == sought).sum())
    counts.update(_micro_op_bins(program.config, compared.micro_ops))
    return +counts


def _ends(config: Config, opcode: Opcode, name: str, rows: Ints) -> dict[str, int | Ints]:
    """The smallest and the largest value of a field, per row where they depend on the row."""
    slot = next(slot for slot in layout(config)[opcode] if slot.field.name == name)
    limits = _limits(config, opcode, rows)
    if name in limits:
        return {"min": slot.low, "max": limits[name]}
    if name == "pad_value":  # limited by the width of an element
        half = np.where(rows[:, COL["buffer"]] == Buffer.INP, 1 << (config.inp_bits - 1), 1 << 31)
        return {"min": -half, "max": half - 1}
    return {"min": slot.low, "max": slot.high}


def _limits(config: Config, opcode: Opcode, rows: Ints) -> dict[str, int | Ints]:
    """The largest values that the buffers allow."""
    if opcode in (Opcode.LOAD, Opcode.STORE):
        buffers = rows[:, COL["buffer"]] if opcode == Opcode.LOAD else np.full(len(rows), int(Buffer.OUT))
        depth = np.array(config.depths, np.int64)[buffers]
        return {"sram": depth - 1, **dict.fromkeys(SIZES, depth)}
    gemm = opcode == Opcode.GEMM
    from_inp = rows[:, COL["source"]] == Source.INP
    vectors = np.where(from_inp, config.inp_vectors, config.acc_depth)
    raw = rows[:, COL["emit"]] == Emit.RAW
    return {
        "uop_begin": config.uop_depth - 1,
        "uop_end": config.uop_depth,
        "src": (np.full(len(rows), config.inp_depth) if gemm else vectors) - 1,
        "wgt": (config.wgt_depth if gemm else config.wgt_vectors) - 1,
        "out": np.where(raw, config.out_slots, config.out_depth) - 1,
    }


def _micro_op_bins(config: Config, table: Ints) -> Iterator[str]:
    high = (config.acc_depth - 1, max(config.inp_depth, config.acc_depth) - 1, config.wgt_depth - 1)
    for at, field in enumerate(UOP_FORMAT):
        sought = {"zero": 0, "one": 1} | ({"max": high[at]} if at < len(high) else {})
        for value, number in sought.items():
            if (table[:, at] == number).any():
                yield f"MICRO-OP.{field.name} {value}"
