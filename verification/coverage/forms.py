# SPDX-License-Identifier: Apache-2.0
"""Coverage of instruction forms: enumerations and their crosses, padding, runs, bursts, tokens.

All of it follows from the words of a program, its constants and addresses. Of instructions whose
results are not compared, only the tokens count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, EXTENSION, Emit, Footprints, Opcode, Operand, Source, StagedEmit, Unit, VectorOp
from vdla.hardware.numerics import MULT_BITS, SHIFT_MAX, unpack_scale
from vdla.hardware.program import Program
from vdla.hardware.timing import page_beats
from vdla.support.arrays import Ints
from vdla.verification.coverage.fields import TOKENS
from vdla.verification.coverage.liveness import ComparedData

Row = Sequence[int]

LOADED = ("INP", "WGT", "SCL", "UOP", "ACC", "ACC widened")
LOOPED = (Opcode.GEMM, Opcode.VECTOR)
FACTORS = ("acc0", "acc1", "src0", "src1", "wgt0", "wgt1", "scl0", "scl1")
PADDINGS = ("none", "columns", "rows", "rows and columns", "no rows of data", "no columns of data", "no data")
LYING = ("single", "dense", "apart", "overlapping", "repeated")
CUTS = ("one beat", "at burst_beats", "at 4 KiB", "one burst of burst_beats")
COUNTS = ("1", "2 to 4", "5 or more")
SHIFTS, MULTS = (0, 1, 31, 32, SHIFT_MAX), (0, 1, (1 << MULT_BITS) - 1)
BIASES = (-(1 << 31), 0, (1 << 31) - 1)
SCALES: tuple[tuple[str, tuple[int, ...]], ...] = (("shift", SHIFTS), ("mult", MULTS), ("bias", BIASES))
PASSED = {  # unit of an instruction -> the token bits it can have
    "LOAD in load": ("pop_next", "push_next"),
    "LOAD in compute": TOKENS,
    "GEMM": TOKENS,
    "VECTOR": TOKENS,
    "STORE": ("pop_prev", "push_prev"),
    "SYNC in load": ("pop_next", "push_next"),
    "SYNC in compute": TOKENS,
    "SYNC in store": ("pop_prev", "push_prev"),
}

BINS: tuple[str, ...] = (
    *(f"LOAD {buffer}" for buffer in LOADED),
    *(f"VECTOR {op.name} {operand.name} {source.name}" for op, operand, source in product(VectorOp, Operand, Source)),
    *(f"VECTOR {op.name} {start}" for op in VectorOp for start in ("on the old sum", "started")),
    *(f"{op.name} {emit.name} init={init}" for op in LOOPED for emit in Emit for init in (0, 1)),
    *(f"{op.name} {name} moves" for op in LOOPED for name in FACTORS),
    *(f"{op.name} of {count} {what}" for op in LOOPED for count in COUNTS for what in ("micro-ops", "iterations")),
    *(f"{op.name} two loops over several micro-ops" for op in LOOPED),
    *(f"{buffer} padding: {kind}" for buffer in ("INP", "ACC", "ACC widened") for kind in PADDINGS),
    *(f"{buffer} padding in several planes" for buffer in ("INP", "ACC", "ACC widened")),
    *(f"{op} {what} {lying}" for op in ("LOAD", "STORE") for what in ("rows", "planes") for lying in LYING),
    *(f"{op} burst: {cut}" for op in ("LOAD", "STORE") for cut in CUTS),
    *(f"LOAD {buffer} of what was stored" for buffer in LOADED if buffer != "UOP"),
    *(f"{what} {bit}" for what, bits in PASSED.items() for bit in bits),
    *(f"{what} all tokens" for what in PASSED),
    *(f"scale {name} {value}" for name, values in SCALES for value in values),
    *(f"program of {length} instructions" for length in ("0", "1", "more")),
)  # fmt: skip


def count(program: Program, linked: Ints, compared: ComparedData) -> Counter[str]:
    """Instructions in each bin; `linked`: at their addresses."""
    counts: Counter[str] = Counter([f"program of {len(program) if len(program) < 2 else 'more'} instructions"])
    footprints = Footprints(program.config)
    for index, row in enumerate(linked.tolist()):
        if row[COL["opcode"]] == EXTENSION:
            continue  # see `plug_ins`
        counts.update(_tokens(row))
        if not compared.instructions[index]:
            continue
        match row[COL["opcode"]]:
            case Opcode.LOAD:
                counts.update(_load(program, index, row, footprints))
            case Opcode.STORE:
                counts.update(_lying("STORE", row, footprints.entry_beats(row)))
                counts.update(_bursts("STORE", program.config, row, footprints.entry_beats(row)))
            case Opcode.GEMM | Opcode.VECTOR:
                counts.update(_looped(row))
    counts.update(_scales(compared.scales))
    return counts


# --- loads and stores -----------------------------------------------------------------------------


def _load(program: Program, index: int, row: Row, footprints: Footprints) -> Iterator[str]:
    name = Buffer(row[COL["buffer"]]).name + (" widened" if row[COL["widen"]] else "")
    yield f"LOAD {name}"
    if name in ("INP", "ACC", "ACC widened"):
        yield from _padding(name, row)
    if row[COL["y_size"]] and row[COL["x_size"]]:
        beats = footprints.entry_beats(row)
        yield from _lying("LOAD", row, beats)
        yield from _bursts("LOAD", program.config, row, beats)
        tensor = program.tensors[int(program.tensor_of[index])]
        if tensor.role in ("output", "scratch"):
            yield f"LOAD {name} of what was stored"


def _padding(name: str, row: Row) -> Iterator[str]:
    rows = row[COL["y_before"]] + row[COL["y_after"]] > 0
    columns = row[COL["x_before"]] + row[COL["x_after"]] > 0
    y, x = row[COL["y_size"]] > 0, row[COL["x_size"]] > 0
    kinds = {(False, False): "no data", (False, True): "no rows of data", (True, False): "no columns of data"}
    padded = {(False, False): "none", (False, True): "columns", (True, False): "rows", (True, True): "rows and columns"}
    yield f"{name} padding: {kinds.get((y, x)) or padded[rows, columns]}"
    if row[COL["z_size"]] > 1 and (rows or columns):
        yield f"{name} padding in several planes"


def _lying(opcode: str, row: Row, beats: int) -> Iterator[str]:
    run = row[COL["x_size"]] * beats
    plane = row[COL["y_size"]] * run
    for what, size, stride, dense in (("rows", "y_size", "y_stride", run), ("planes", "z_size", "z_stride", plane)):
        yield f"{opcode} {what} {_how(row[COL[size]], row[COL[stride]], dense)}"


def _how(size: int, stride: int, dense: int) -> str:
    if size == 1:
        return "single"
    if stride in (0, dense):
        return "dense" if stride else "repeated"
    return "apart" if stride > dense else "overlapping"


def _bursts(opcode: str, config: Config, row: Row, beats: int) -> Iterator[str]:
    """How the first row is cut into bursts."""
    page, most = page_beats(config), config.burst_beats
    start, end = row[COL["dram"]], row[COL["dram"]] + row[COL["x_size"]] * beats
    room = page - start % page
    if end - start == 1:
        yield f"{opcode} burst: one beat"
    if room < end - start and room % most:
        yield f"{opcode} burst: at 4 KiB"
    if min(room, end - start) > most:
        yield f"{opcode} burst: at burst_beats"
    if end - start == most <= room:
        yield f"{opcode} burst: one burst of burst_beats"


def _scales(words: NDArray[np.uint64]) -> Iterator[str]:
    bias, mult, shift = (set(part.tolist()) for part in unpack_scale(words))
    for (name, values), column in zip(SCALES, (shift, mult, bias), strict=True):
        yield from (f"scale {name} {value}" for value in values if value in column)


# --- compute --------------------------------------------------------------------------------------


def _looped(row: Row) -> Iterator[str]:
    opcode = Opcode(row[COL["opcode"]]).name
    loops, kernel = (row[COL["loop0"]], row[COL["loop1"]]), row[COL["uop_end"]] - row[COL["uop_begin"]]
    yield f"{opcode} {StagedEmit(row[COL['emit']]).name} init={row[COL['init']]}"
    yield from (f"{opcode} {name} moves" for name in FACTORS if row[COL[name]] and loops[int(name[-1])] > 1)
    yield f"{opcode} of {_count(kernel)} micro-ops"
    yield f"{opcode} of {_count(kernel * loops[0] * loops[1])} iterations"
    if min(*loops, kernel) > 1:
        yield f"{opcode} two loops over several micro-ops"
    if opcode == "VECTOR":
        op = VectorOp(row[COL["op"]]).name
        yield f"VECTOR {op} {Operand(row[COL['operand']]).name} {Source(row[COL['source']]).name}"
        yield f"VECTOR {op} {'started' if row[COL['init']] else 'on the old sum'}"


def _count(number: int) -> str:
    return "1" if number == 1 else "2 to 4" if number < 5 else "5 or more"


# --- tokens ---------------------------------------------------------------------------------------


def _tokens(row: Row) -> Iterator[str]:
    opcode = Opcode(row[COL["opcode"]]).name
    name = f"{opcode} in {Unit(row[COL['unit']]).name.lower()}" if opcode in ("LOAD", "SYNC") else opcode
    carried = [bit for bit in PASSED[name] if row[COL[bit]]]
    yield from (f"{name} {bit}" for bit in carried)
    if len(carried) == len(PASSED[name]):
        yield f"{name} all tokens"
