"""`vdla native --target sm_80`: an operator as kernels for NVIDIA's GPUs, and what they take."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from vdla.commands import OK, CommandError
from vdla.commands.files import write_files

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.compiler.target import GridLimits

_TENSOR_CORES = 80  # the capability from which on steps of tensor cores are written


def write_ptx(arguments: argparse.Namespace) -> int:
    """Compile for a GPU; write the text, and the machine code if there is an assembler."""
    from vdla.commands.cpu_operators import named_operator
    from vdla.compiler.codegen.ptx import assemble_ptx, emit_ptx, find_ptxas
    from vdla.compiler.codegen.ptx.architectures import capability, target_of
    from vdla.compiler.operators.gpu import grid_schedule
    from vdla.compiler.target import GridLimits

    arch = arguments.target
    _check(arguments)
    limits = GridLimits(arch, warp=32, tensor_cores=capability(arch) >= _TENSOR_CORES)
    fn = named_operator("native", arguments.operator or "", arguments.shape)(arguments.dtype, target_of(arch))
    best = _tuned(fn, limits, arguments.tuned) if arguments.tuned else grid_schedule(fn, limits).fn
    scheduled = replace(best, name=arguments.operator.lower())
    source = emit_ptx(scheduled, limits, arch)
    base = arguments.output / scheduled.name
    files = {base.with_suffix(".ptx"): source.text.encode()}
    report = "ptxas is not installed: no machine code (the extra cuda has it)"
    if find_ptxas() is not None:
        assembly = assemble_ptx(source)
        files[base.with_suffix(".cubin")] = assembly.cubin
        report = str(assembly)
    write_files("native", files)
    for path in files:
        print(path)
    print(report)
    return OK


def _tuned(fn: ir.Function, limits: GridLimits, log: str) -> ir.Function:
    """A function with the best modelled tiles of a log: measured ones are those of one device."""
    from vdla.runtime.tune.best import TunedSchedules

    found = TunedSchedules.of(log).grid_function(fn, limits)
    if found is None:
        raise CommandError(f"native: {log} must have modelled tiles of the operator for {limits.name}, got none")
    return found


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what only code for a CPU has."""
    for option in ("threads", "assembly", "llvm"):
        if getattr(arguments, option):
            raise CommandError(f"native: --{option} must be left out for the GPU {arguments.target}, got it")
