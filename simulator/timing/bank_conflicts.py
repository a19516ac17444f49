"""The bank conflicts of VECTOR instructions: iterations that read two entries of one accumulator
half.

Only these depend on more than an instruction's fields: on the micro-ops in the buffer at that time,
which come from the program's constants.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, Opcode, Operand, Source, VectorOp, uop_columns
from vdla.hardware.program import Program
from vdla.simulator.support.jit import entry_point

Ints = NDArray[np.int64]


def bank_conflicts(program: Program) -> Ints:
    """The extra cycles of each instruction."""
    extra = np.zeros(len(program), np.int64)
    columns = program.columns
    if not _candidates(columns).any():
        return extra
    config = program.config
    uops = np.zeros((config.uop_depth, 5), np.int64)
    for k in np.flatnonzero(_candidates(columns) | _uop_loads(columns)).tolist():
        if columns[k, COL["opcode"]] == Opcode.LOAD:
            load_uops(program, columns[k], int(program.tensor_of[k]), uops)
        else:
            extra[k] = _vector_conflicts(config, columns[k], uops)
    return extra


def _candidates(columns: Ints) -> NDArray[np.bool_]:
    reads = (columns[:, COL["operand"]] == Operand.SRC) | (columns[:, COL["op"]] == VectorOp.MAC)
    vectors = (columns[:, COL["opcode"]] == Opcode.VECTOR) & (columns[:, COL["source"]] == Source.ACC)
    return np.asarray(vectors & reads & (columns[:, COL["op"]] != VectorOp.MOV), np.bool_)


def _uop_loads(columns: Ints) -> NDArray[np.bool_]:
    loads = (columns[:, COL["opcode"]] == Opcode.LOAD) & (columns[:, COL["buffer"]] == Buffer.UOP)
    return np.asarray(loads, np.bool_)


def load_uops(program: Program, row: Ints, tensor: int, uops: Ints) -> None:
    """Execute a LOAD of micro-ops from a constant; bounds are left to the verifier."""
    data = program.tensors[tensor].data if tensor >= 0 else None
    if data is None:
        return
    config = program.config
    beats = config.uop_entry_bytes // config.axi_bytes
    table = np.frombuffer(data, np.uint8)
    sram, x = int(row[COL["sram"]]), int(row[COL["x_size"]])
    for z in range(int(row[COL["z_size"]])):
        for y in range(int(row[COL["y_size"]])):
            beat = int(row[COL["dram"]] + z * row[COL["z_stride"]] + y * row[COL["y_stride"]])
            entries = table[beat * config.axi_bytes : (beat + x * beats) * config.axi_bytes]
            room = max(0, min(len(entries) // config.uop_entry_bytes, config.uop_depth - sram))
            used = entries[: room * config.uop_entry_bytes].reshape(room, -1)
            uops[sram : sram + room] = uop_columns(config, used)
            sram += x


def _vector_conflicts(config: Config, row: Ints, uops: Ints) -> int:
    """The bank conflicts of one VECTOR with an accumulator source."""
    kernel = uops[row[COL["uop_begin"]] : row[COL["uop_end"]]]
    loops = np.array([row[COL[name]] for name in ("loop0", "loop1", "acc", "acc0", "acc1", "src", "src0", "src1")])
    return int(_count(kernel, loops, bool(row[COL["init"]]), config.acc_depth // 2))


@entry_point
def _count(kernel: Ints, loops: Ints, init: bool, half: int) -> int:
    conflicts = 0
    for i in range(loops[0]):
        for j in range(loops[1]):
            acc = loops[2] + i * loops[3] + j * loops[4]
            src = loops[5] + i * loops[6] + j * loops[7]
            for u in range(len(kernel)):
                reads = not (init and kernel[u, 3] != 0)
                if reads and (acc + kernel[u, 0]) // half == (src + kernel[u, 1]) // half:
                    conflicts += 1
    return conflicts
