# SPDX-License-Identifier: Apache-2.0
"""Code generation for the accelerator: from a scheduled, tensorized loop nest to a program.

`compile_function` does it all. An intrinsic's `lower` turns a `TensorizedNest` into macro-ops with
`fold_compute` and `fold_dma`.
"""

from vdla.compiler.codegen.vdla.allocate import AllocationError
from vdla.compiler.codegen.vdla.chain import compile_chain
from vdla.compiler.codegen.vdla.compile import compile_function
from vdla.compiler.codegen.vdla.dependences import Touch, UnitOp
from vdla.compiler.codegen.vdla.fold_compute import ComputeFields, fold_compute
from vdla.compiler.codegen.vdla.fold_dma import fold_dma
from vdla.compiler.codegen.vdla.join_programs import PlacedProgram, join_programs
from vdla.compiler.codegen.vdla.lift import lift
from vdla.compiler.codegen.vdla.macro_op import BuildError
from vdla.compiler.codegen.vdla.program_tensors import AnyLink, Link, ProgramLink
from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.compiler.codegen.vdla.tokens import QUEUES, Edge, IssuedOp, Queue, assign_tokens
from vdla.compiler.codegen.vdla.uops import UopError

__all__ = [
    "QUEUES",
    "AllocationError",
    "AnyLink",
    "BuildError",
    "ComputeFields",
    "Edge",
    "IssuedOp",
    "Link",
    "LoweringError",
    "PlacedProgram",
    "ProgramLink",
    "Queue",
    "Touch",
    "UnitOp",
    "UopError",
    "assign_tokens",
    "compile_chain",
    "compile_function",
    "fold_compute",
    "fold_dma",
    "join_programs",
    "lift",
]
