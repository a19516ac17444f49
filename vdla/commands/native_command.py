"""`vdla native`: an operator to an object file and a C header for a CPU."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import OK, CommandError
from vdla.commands.completion import complete_with
from vdla.commands.files import make_folder
from vdla.support.atomic import write_with
from vdla.support.suggest import did_you_mean

if TYPE_CHECKING:
    from vdla.commands.cpu_operators import Build
    from vdla.compiler.codegen.llvm import NativeObject

EXAMPLES = """\
  vdla native --list                               operators, layers, targets
  vdla native C6 -o out                            out/c6.o and out/c6.h
  vdla native dense --shape rows=4 in_features=100 \\
      out_features=10 --target cortex-a9 -o out    for the board's Arm core
  vdla native softmax --shape rows=8 columns=1000 \\
      --assembly --llvm -o out                     and out/softmax.s, .ll
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
    target = parser.add_argument("--target", default="host", metavar="NAME", help="the CPU (default host: this one)")
    complete_with(target, _targets)
    parser.add_argument("-o", "--output", type=Path, default=Path(), metavar="FOLDER", help="where the files go")
    parser.add_argument("--assembly", action="store_true", help="write the assembly too")
    parser.add_argument("--llvm", action="store_true", help="write the LLVM module as text too")


def run(arguments: argparse.Namespace) -> int:
    """Compile, then write."""
    if arguments.list:
        return _list()
    from vdla.compiler.codegen.llvm import compile_native
    from vdla.compiler.operators.cpu import default_schedule
    from vdla.compiler.target import Target

    target = Target.named(arguments.target)
    fn = _operator(arguments)(arguments.dtype, target)
    fn = replace(fn, name=arguments.operator.lower())
    built = compile_native(default_schedule(fn, target).fn, target)
    for path in _write(built, arguments):
        print(path)
    libraries = "-lm -lpthread" if built.parallel else "-lm"
    print(f"{built.name}: {len(built.object):,} bytes for {target.name} ({target.triple}); link with {libraries}")
    return OK


def _operator(arguments: argparse.Namespace) -> Build:
    from vdla.commands.cpu_operators import OPERATORS, from_settings, from_workload
    from vdla.compiler.operators.workloads import workload, workloads

    name = arguments.operator or ""
    if name in OPERATORS:
        return from_settings(name, arguments.shape)
    if name.upper() not in workloads():
        got = f"{name}{did_you_mean(name, _names())}" if name else "nothing"
        raise CommandError(f"native: operator must be one of {', '.join(_names())}, got {got}")
    if arguments.shape:
        raise CommandError(f"native {name}: --shape must be left out for a named layer, got {arguments.shape[0]}")
    return from_workload(workload(name))


def _names() -> list[str]:
    """The operators and the layers."""
    from vdla.commands.cpu_operators import OPERATORS
    from vdla.compiler.operators.workloads import workloads

    return [*OPERATORS, *workloads()]


def _targets() -> list[str]:
    from vdla.compiler.target import TARGETS

    return ["host", *TARGETS]


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
    make_folder(base.parent)
    folder = next((path for path in files if path.is_dir()), None)
    if folder is not None:
        raise CommandError(f"native: output must be a file, got the folder {folder}")
    _write_all(list(files.items()))
    return list(files)


def _write_all(files: list[tuple[Path, bytes]]) -> None:
    """Write the files; each replaces its old content after all that follow have been written."""
    if not files:
        return
    (path, content), *others = files

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)
        _write_all(others)

    write_with(path, write)


def _list() -> int:
    from vdla.commands.cpu_operators import OPERATORS, keys
    from vdla.compiler.operators.workloads import workloads

    for name in OPERATORS:
        words = [f"{key}=N" if p.default is p.empty else f"[{key}={p.default}]" for key, p in keys(name).items()]
        print(f"{name}\n  {' '.join(words)}")
    print(f"layers\n  {' '.join(workloads())}")
    print(f"targets\n  {' '.join(_targets())}")
    return OK
