# SPDX-License-Identifier: Apache-2.0
"""`vdla native`: an operator to an object file and a C header for a CPU, or to PTX for a GPU."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import OK, CommandError
from vdla.commands.files import write_files
from vdla.commands.options import add_options, given

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.compiler.codegen.llvm import NativeObject
    from vdla.compiler.target import GridLimits, Target


_OPERATORS = "vdla.commands.named_operators:operator_names"
_TENSOR_CORES = 80  # the capability from which on steps of tensor cores are written


def write_ptx(arguments: argparse.Namespace) -> int:
    """Compile for a GPU; write the text, and the machine code if there is an assembler."""
    from vdla.commands.named_operators import named_operator
    from vdla.compiler.codegen.ptx import assemble_ptx, emit_ptx, find_ptxas
    from vdla.compiler.codegen.ptx.architectures import capability, target_of
    from vdla.compiler.operators.gpu import grid_schedule
    from vdla.compiler.target import GridLimits

    arch = arguments.target
    _check_gpu(arguments)
    limits = GridLimits(arch, warp=32, tensor_cores=capability(arch) >= _TENSOR_CORES)
    fn = named_operator("native", arguments.operator or "", arguments.shape)(arguments.dtype, target_of(arch))
    best = _tuned_for_gpu(fn, limits, arguments.tuned) if arguments.tuned else grid_schedule(fn, limits).fn
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


def _tuned_for_gpu(fn: ir.Function, limits: GridLimits, log: str) -> ir.Function:
    """A function with the best modelled tiles of a log: measured ones are those of one device."""
    from vdla.runtime.tune.best import TunedSchedules

    result = TunedSchedules.of(log).grid_function(fn, limits)
    if result is None:
        raise CommandError(f"native: {log} must have modelled tiles of the operator for {limits.name}, got none")
    return result


def _check_gpu(arguments: argparse.Namespace) -> None:
    """Refuse what only code for a CPU has."""
    for option, _ in given(arguments, ("threads", "assembly", "llvm")):
        raise CommandError(f"native: {option} must be left out for the GPU {arguments.target}, got it")


EXAMPLES = """\
  vdla native --list                               operators, layers, targets
  vdla native C6 -o out                            out/c6.o and out/c6.h
  vdla native dense --shape rows=4 in_features=100 \\
      out_features=10 --target cortex-a9 -o out    for the board's Arm core
  vdla native softmax --shape rows=8 columns=1000 \\
      --assembly --llvm -o out                     and out/softmax.s, .ll
  vdla native C6 --target sm_80 -o out             out/c6.ptx: kernels for
                                                   NVIDIA's GPUs
  vdla native C6 --tuned tuning.jsonl -o out       with the schedule that
                                                   vdla tune found
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The operator, the CPU, the files."""
    text = "an operator, or a layer such as C6 or D3"
    add_options(parser, {"operator OPERATOR": text}, _OPERATORS, nargs="?")
    add_options(
        parser,
        {
            "--list": "list the operators, the layers and the targets",
            "--shape KEY=N...": "the operator's extents, as --list shows them",
            "--dtype DTYPE = float32": "the element type (default float32)",
        },
    )
    text = "the CPU (default host: this one), or a GPU, as sm_80"
    add_options(parser, {"--target NAME = host": text}, _targets)
    add_options(
        parser,
        {
            "--tuned LOG": "use the best schedule in a log of vdla tune --target",
            "--threads N": "use schedules tuned for N threads (default 1)",
            "-o --output FOLDER = .": "folder of the files",
            "--assembly": "write the assembly too",
            "--llvm": "write the LLVM module as text too",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Compile, then write."""
    if arguments.list:
        return _list()
    if arguments.target.startswith("sm_"):
        return write_ptx(arguments)
    from vdla.commands.named_operators import named_operator
    from vdla.compiler.codegen.llvm import compile_native
    from vdla.compiler.target import Target

    target = Target.named(arguments.target)
    fn = named_operator("native", arguments.operator or "", arguments.shape)(arguments.dtype, target)
    scheduled = _scheduled(fn, target, arguments.tuned, arguments.threads)
    built = compile_native(replace(scheduled, name=arguments.operator.lower()), target)
    for path in _write(built, arguments):
        print(path)
    libraries = "-lm -lpthread" if built.parallel else "-lm"
    print(f"{built.name}: {len(built.object):,} bytes for {target.name} ({target.triple}); link with {libraries}")
    return OK


def _scheduled(fn: ir.Function, target: Target, log: str | None, threads: int | None) -> ir.Function:
    """A function with the best schedule that a log knows, else with the default one."""
    from vdla.compiler.operators.cpu import default_schedule

    if threads and log is None:
        raise CommandError(f"native: --tuned must be given with --threads {threads}, got none")
    if log is None:
        return default_schedule(fn, target).fn
    from vdla.compiler.tune.cpu_task import kernel_key, scheduled
    from vdla.runtime.tune.best import TunedSchedules

    return scheduled(fn, target, TunedSchedules.of(log).kernel_point(kernel_key(fn, target), threads or 1))


def _targets() -> list[str]:
    from vdla.compiler.target import PTX_ARCHITECTURES, TARGETS

    return ["host", *TARGETS, *PTX_ARCHITECTURES]


def _write(built: NativeObject, arguments: argparse.Namespace) -> list[Path]:
    """Write all files, or none if one of them cannot be written; their paths."""
    texts = {".h": built.header}
    if arguments.assembly:
        texts[".s"] = built.assembly
    if arguments.llvm:
        texts[".ll"] = built.llvm
    base = arguments.output / built.name
    files = {base.with_suffix(".o"): built.object}
    files |= {base.with_suffix(suffix): text.encode() for suffix, text in texts.items()}
    write_files("native", files)
    return list(files)


def _list() -> int:
    from vdla.commands.named_operators import OPERATORS, layer_names, operator_keys
    from vdla.compiler.target import PTX_ARCHITECTURES, TARGETS

    for name in OPERATORS:
        keys = operator_keys(name).items()
        words = [f"{key}=N" if p.default is p.empty else f"[{key}={p.default}]" for key, p in keys]
        print(f"{name}\n  {' '.join(words)}")
    print(f"layers\n  {' '.join(layer_names())}")
    print(f"targets\n  host {' '.join(TARGETS)}\nGPUs\n  {' '.join(PTX_ARCHITECTURES)}")
    return OK
