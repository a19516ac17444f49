# SPDX-License-Identifier: Apache-2.0
"""The stalls of VECTOR instructions: iterations that read two entries of one accumulator half, or
multiply the entry that the iteration before them wrote.

Only these depend on more than an instruction's fields: on the micro-ops in the buffer at that time,
which come from the program's constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, Opcode, Operand, Source, VectorOp, uop_columns
from vdla.hardware.program import Program
from vdla.simulator.support.jit import entry_point
from vdla.support.arrays import Bools, Bytes, Ints


def vector_stalls(program: Program) -> Ints:
    """The extra cycles of each instruction."""
    tables = [np.frombuffer(tensor.data or b"", np.uint8) for tensor in program.tensors]
    nothing = np.zeros(0, np.uint8)

    def source(k: int) -> Bytes:
        tensor = int(program.tensor_of[k])
        return tables[tensor] if tensor >= 0 else nothing

    return column_stalls(program.config, program.columns, source)


def column_stalls(config: Config, columns: Ints, source: Callable[[int], Bytes]) -> Ints:
    """The extra cycles of each instruction; `source(k)` has the bytes that LOAD k of micro-ops
    reads, and the beats in its fields count from their begin.
    """
    extra = np.zeros(len(columns), np.int64)
    if not _candidates(columns).any():
        return extra
    uops = np.zeros((config.uop_depth, 5), np.int64)
    for k in np.flatnonzero(_candidates(columns) | _uop_loads(columns)).tolist():
        if columns[k, COL["opcode"]] == Opcode.LOAD:
            _load_uops(config, columns[k], source(k), uops)
        else:
            extra[k] = _stalls(config, columns[k], uops)
    return extra


def _candidates(columns: Ints) -> Bools:
    op = columns[:, COL["op"]]
    reads = (columns[:, COL["operand"]] == Operand.SRC) | (op == VectorOp.MAC)
    reads &= (columns[:, COL["source"]] == Source.ACC) & (op != VectorOp.MOV)
    vectors = columns[:, COL["opcode"]] == Opcode.VECTOR
    return np.asarray(vectors & (reads | (op == VectorOp.MUL)), np.bool_)


def _uop_loads(columns: Ints) -> Bools:
    loads = (columns[:, COL["opcode"]] == Opcode.LOAD) & (columns[:, COL["buffer"]] == Buffer.UOP)
    return np.asarray(loads, np.bool_)


def load_uops(program: Program, row: Ints, tensor: int, uops: Ints) -> None:
    """Execute a LOAD of micro-ops from a constant; bounds are left to the verifier."""
    data = program.tensors[tensor].data if tensor >= 0 else None
    if data is not None:
        _load_uops(program.config, row, np.frombuffer(data, np.uint8), uops)


def _load_uops(config: Config, row: Ints, table: Bytes, uops: Ints) -> None:
    """Execute a LOAD of micro-ops from these bytes; those beyond the buffer are ignored."""
    places, contents = [np.zeros(0, np.intp)], [np.zeros((0, config.uop_entry_bytes), np.uint8)]
    for sram, entries in _rows_of_uops(config, row, table):
        places.append(np.arange(sram, sram + len(entries)))
        contents.append(entries)
    uops[np.concatenate(places)] = uop_columns(config, np.concatenate(contents))


def _rows_of_uops(config: Config, row: Ints, table: Bytes) -> Iterator[tuple[int, Bytes]]:
    """The first place of each row of a LOAD in the buffer, and its entries."""
    beats = config.uop_entry_bytes // config.axi_bytes
    sram, x = int(row[COL["sram"]]), int(row[COL["x_size"]])
    for z in range(int(row[COL["z_size"]])):
        for y in range(int(row[COL["y_size"]])):
            if x == 0 or sram >= config.uop_depth:
                return
            beat = int(row[COL["dram"]] + z * row[COL["z_stride"]] + y * row[COL["y_stride"]])
            entries = table[beat * config.axi_bytes : (beat + x * beats) * config.axi_bytes]
            room = max(0, min(len(entries) // config.uop_entry_bytes, config.uop_depth - sram))
            yield sram, entries[: room * config.uop_entry_bytes].reshape(room, config.uop_entry_bytes)
            sram += x


def _stalls(config: Config, row: Ints, uops: Ints) -> int:
    """The stalls of one VECTOR that reads an accumulator source or is a MUL."""
    kernel = uops[row[COL["uop_begin"]] : row[COL["uop_end"]]]
    loops = np.array([row[COL[name]] for name in ("loop0", "loop1", "acc", "acc0", "acc1", "src", "src0", "src1")])
    op = row[COL["op"]]
    source = row[COL["source"]] == Source.ACC and (row[COL["operand"]] == Operand.SRC or op == VectorOp.MAC)
    muls, macs = op == VectorOp.MUL, op == VectorOp.MAC
    half = config.acc_depth // 2
    return int(_count(kernel, loops, bool(row[COL["init"]]), half, bool(source), bool(muls), bool(macs)))


@entry_point
def _count(kernel: Ints, loops: Ints, init: bool, half: int, source: bool, muls: bool, macs: bool) -> int:
    """The iterations with two reads of a half or a product of the entry written just before."""
    stalls, written = 0, -1
    for i in range(loops[0]):
        for j in range(loops[1]):
            acc = loops[2] + i * loops[3] + j * loops[4]
            src = loops[5] + i * loops[6] + j * loops[7]
            for u in range(len(kernel)):
                a, s = acc + kernel[u, 0], src + kernel[u, 1]
                reads = not (init and kernel[u, 3] != 0)
                conflict = source and reads and a // half == s // half
                dependent = muls and reads and a == written
                dependent |= source and s == written and (macs or (muls and reads))
                if conflict or dependent:
                    stalls += 1
                written = a
    return stalls
