# SPDX-License-Identifier: Apache-2.0
"""What a step of a compute instruction reads and writes: GEMM, VECTOR and plug-ins alike."""

from __future__ import annotations

from functools import cache
from typing import Any

from vdla.hardware.isa.instruction_set import COL, plug_in_of
from vdla.hardware.isa.instructions import (
    Buffer,
    Extended,
    Gemm,
    Instruction,
    Opcode,
    Operand,
    Source,
    Vector,
    VectorOp,
)
from vdla.hardware.isa.plug_in import OldSum, Port, StepPorts
from vdla.hardware.isa.sizes import Sizes

GEMM_PORTS = StepPorts(OldSum.ACCUMULATE, Port("inp", Buffer.INP), Port("wgt", Buffer.WGT))
"""Those of GEMM."""


@cache
def vector_ports(op: int, source: int, operand: int) -> StepPorts:
    """Those of a VECTOR of an operation, a source and a second operand."""
    reads_source = operand == Operand.SRC or op == VectorOp.MAC
    x = Port("x", Buffer.INP, vector=True) if source == Source.INP else Port("x", Buffer.ACC)
    return StepPorts(
        old=OldSum.OVERWRITE if op == VectorOp.MOV else OldSum.ACCUMULATE,
        src=x if reads_source else None,
        wgt=Port("wgt", Buffer.WGT, vector=True) if operand == Operand.WGT else None,
    )


def ports_of(config: Sizes, row: Any) -> StepPorts:  # noqa: ANN401  a row of columns, an array or a list
    """Those of the compute instruction that a row of valid columns is."""
    plug_in = plug_in_of(config, row)
    if plug_in is not None:
        return plug_in.ports
    if row[COL["opcode"]] == Opcode.GEMM:
        return GEMM_PORTS
    return vector_ports(row[COL["op"]], row[COL["source"]], row[COL["operand"]])


def instruction_ports(instruction: Instruction) -> StepPorts | None:
    """Those of an instruction; None if it computes nothing."""
    match instruction:
        case Gemm():
            return GEMM_PORTS
        case Vector(op=op, source=source, operand=operand):
            return vector_ports(op, source, operand)
        case Extended(plug_in=plug_in):
            ports: StepPorts = plug_in.ports
            return ports
    return None
