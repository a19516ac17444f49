"""`vdla native`: an operator to an object file and a C header for a CPU, or to PTX for a GPU."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import OK, CommandError
from vdla.commands.completion import complete_with
from vdla.commands.files import write_files
from vdla.commands.machine_options import positive
from vdla.commands.ptx_files import write_ptx

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.compiler.codegen.llvm import NativeObject
    from vdla.compiler.target import Target

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
    name = parser.add_argument(
        "operator", nargs="?", metavar="OPERATOR", help="an operator, or a layer such as C6 or D3"
    )
    complete_with(name, _names)
    parser.add_argument("--list", action="store_true", help="list the operators, the layers and the targets")
    parser.add_argument(
        "--shape", nargs="+", default=[], metavar="KEY=N", help="the operator's extents, as --list shows them"
    )
    parser.add_argument("--dtype", default="float32", metavar="DTYPE", help="the element type (default float32)")
    target = parser.add_argument(
        "--target", default="host", metavar="NAME", help="the CPU (default host: this one), or a GPU, as sm_80"
    )
    complete_with(target, _targets)
    parser.add_argument("--tuned", metavar="LOG", help="use the best schedule in a log of vdla tune --target")
    parser.add_argument("--threads", type=positive, metavar="N", help="of those tuned for N threads (default 1)")
    parser.add_argument("-o", "--output", type=Path, default=Path(), metavar="FOLDER", help="where the files go")
    parser.add_argument("--assembly", action="store_true", help="write the assembly too")
    parser.add_argument("--llvm", action="store_true", help="write the LLVM module as text too")


def run(arguments: argparse.Namespace) -> int:
    """Compile, then write."""
    if arguments.list:
        return _list()
    if arguments.target.startswith("sm_"):
        return write_ptx(arguments)
    from vdla.commands.cpu_operators import named_operator
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


def _names() -> list[str]:
    from vdla.commands.cpu_operators import operator_names

    return operator_names()


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
    from vdla.commands.cpu_operators import OPERATORS, keys
    from vdla.compiler.operators.workloads import workloads
    from vdla.compiler.target import PTX_ARCHITECTURES, TARGETS

    for name in OPERATORS:
        words = [f"{key}=N" if p.default is p.empty else f"[{key}={p.default}]" for key, p in keys(name).items()]
        print(f"{name}\n  {' '.join(words)}")
    print(f"layers\n  {' '.join(workloads())}")
    print(f"targets\n  host {' '.join(TARGETS)}\nGPUs\n  {' '.join(PTX_ARCHITECTURES)}")
    return OK
