# SPDX-License-Identifier: Apache-2.0
"""Programs whose results go through the machine's stage on their way out, by a table or without.

A table is copied to the stage before the program begins, as `join_programs` puts one behind the
other.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from vdla.compiler.codegen.vdla import PlacedProgram, join_programs
from vdla.compiler.codegen.vdla.intrinsics.stage_intrinsic import state_copy
from vdla.compiler.ir import INTEGER_BITS
from vdla.compiler.operators.vdla.roles import OUTPUT, TABLE
from vdla.compiler.tensorize import IntrinsicError
from vdla.hardware.config import Config
from vdla.hardware.isa import (
    COL,
    Buffer,
    Emit,
    Instruction,
    Load,
    MicroOp,
    StagedEmit,
    encode,
    encode_uops,
    with_fields,
)
from vdla.hardware.program import UOPS, Program, ProgramTensor


def through_stage(program: Program) -> Program:
    """The program with all requantised results through the stage, by the tensor `TABLE`.

    Raises:
        IntrinsicError: results leave in 32 bits, or the stage is not one of one table.
    """
    whole = all_staged(program)
    table = table_program(program.config)
    names = {tensor.name: tensor.name for tensor in (*program.tensors, *table.tensors) if tensor.name != UOPS}
    parts = [PlacedProgram(part, names) for part in (table, whole)]
    return join_programs(program.config, program.name, parts, [str(OUTPUT)])


def all_staged(program: Program) -> Program:
    """The program with all requantised results through the stage.

    Raises:
        IntrinsicError: results leave in 32 bits.
    """
    emits = program.columns[:, COL["emit"]]
    if np.any(emits == Emit.RAW):
        raise IntrinsicError(f"program {program.name} must requantise all results, got sums of 32 bits")
    staged = np.where(emits == Emit.REQUANT, StagedEmit.STAGE, emits)
    return replace(program, words=with_fields(program.config, program.words, {"emit": staged}))


def table_program(config: Config) -> Program:
    """What copies the tensor `TABLE` to the stage.

    Raises:
        IntrinsicError: the stage is not one of one table that fills entries of the weight buffer.
    """
    state, copy = state_copy(config)
    dims = state.rows, *state.shape
    nbytes = prod(dims) * INTEGER_BITS[state.dtype] // 8
    entries, more = divmod(nbytes, config.entry_bytes[Buffer.WGT])
    if more or entries > config.wgt_depth:
        rule = f"a table must fill entries of {config.entry_bytes[Buffer.WGT]} bytes of the weight buffer"
        raise IntrinsicError(f"stage {state.name}: {rule}, got {nbytes} bytes")
    waiting: dict[str, Any] = {"pop_prev": 1}
    uops = encode_uops(config, [MicroOp()]).tobytes()
    steps: list[tuple[Instruction, int]] = [
        (Load(Buffer.UOP, x_size=1), 1),
        (Load(Buffer.WGT, x_size=entries, push_next=1), 0),
        (replace(copy, **waiting), -1),
    ]
    return Program(
        config=config,
        name="table",
        words=encode(config, [step for step, _ in steps]),
        tensors=(
            ProgramTensor(name=str(TABLE), role="weight", shape=dims, dtype=state.dtype, layout="", nbytes=nbytes),
            ProgramTensor(name=UOPS, role="constant", shape=(1,), dtype="uop", layout="", nbytes=len(uops), data=uops),
        ),
        tensor_of=np.array([tensor for _, tensor in steps], np.int32),
        source_lines=(),
        source_of=np.full(len(steps), -1, np.int32),
    )
