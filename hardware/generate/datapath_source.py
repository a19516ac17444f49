# SPDX-License-Identifier: Apache-2.0
"""What slang says of the SystemVerilog of a datapath, where its package pyslang is installed.

The module is read alone with the package of its machine, in milliseconds: language errors first,
then the ports, then latches and second drivers. Verilator, which builds it, sees further faults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

_FAULTS = {
    "InferredLatch": ("LATCH", "datapath must have no latch", "assign it on every path"),
    "MultipleAlwaysAssigns": ("MULTIDRIVEN", "each bit must have one driver", "assign it in one place"),
    "MultipleContAssigns": ("MULTIDRIVEN", "each bit must have one driver", "assign it in one place"),
    "MixedVarAssigns": ("MULTIDRIVEN", "each bit must have one driver", "assign it in one place"),
}
"""By slang's name: Verilator's, under which it is waived; the rule; the remedy."""
_WAIVER = re.compile(r"//\s*verilator\s+lint_(off|on)\s+(\w+)|/\*\s*verilator\s+lint_(off|on)\s+(\w+)\s*\*/")
_LONGEST = 72  # characters of a line that is quoted
_SYNTAX = "datapath must be SystemVerilog"


@dataclass(frozen=True, slots=True)
class SourceFault:
    """A fault of a datapath: its line, the rule that it breaks with what slang says, the remedy."""

    line: int
    rule: str
    said: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """The rule, the words of slang, and the remedy if there is one."""
        return f"{self.rule}, got {self.said}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class ReadSource:
    """What slang says of a datapath: errors of syntax, other faults, and the bits of its ports."""

    syntax: tuple[SourceFault, ...]
    faults: tuple[SourceFault, ...]
    port_bits: tuple[tuple[str, int], ...]


def read_source(text: str, module: str, package: str) -> ReadSource:
    """What slang says of a module, given the text of `vdla_pkg`; nothing without pyslang."""
    if find_spec("pyslang") is None:
        return ReadSource((), (), ())
    return _read(text, module, package)


@lru_cache(maxsize=64)  # a unit is made for each use of its machine
def _read(text: str, module: str, package: str) -> ReadSource:
    import pyslang
    from pyslang import analysis, ast, syntax

    manager, compilation = pyslang.SourceManager(), ast.Compilation()
    trees = [
        syntax.SyntaxTree.fromText(source, manager, name=name, path=name)
        for name, source in (("package", package), (module, text))
    ]
    engine = pyslang.DiagnosticEngine(manager)

    def faults(diagnostics: object) -> Iterator[SourceFault]:
        for one in diagnostics:  # type: ignore[attr-defined]  # pyslang has no types
            if manager.getFileName(one.location) == module:
                yield from _fault(text, one, manager.getLineNumber(one.location), engine.formatMessage(one))

    wrong = tuple(faults(trees[1].diagnostics))
    if wrong:
        return ReadSource(wrong, (), ())
    for tree in trees:
        compilation.addSyntaxTree(tree)
    errors = tuple(faults(compilation.getAllDiagnostics()))
    tops = [top for top in compilation.getRoot().topInstances if top.name == module]
    ports = tuple((port.name, port.type.bitWidth) for top in tops for port in top.body.portList)
    if errors:
        return ReadSource((), errors, ports)
    compilation.freeze()
    manager_of_drivers = analysis.AnalysisManager()
    manager_of_drivers.analyze(compilation)
    return ReadSource((), tuple(faults(manager_of_drivers.getDiagnostics())), ports)


def _fault(text: str, diagnostic: object, line: int, message: str) -> Iterator[SourceFault]:
    """An error, or a warning that names wrong hardware and is not waived."""
    source = text.splitlines()[line - 1].strip()
    source = source if len(source) <= _LONGEST else source[: _LONGEST - 3] + "..."
    code = str(diagnostic.code).removeprefix("DiagCode(").removesuffix(")")  # type: ignore[attr-defined]
    said = f"`{source}` ({message})"
    if code in _FAULTS:
        name, rule, remedy = _FAULTS[code]
        if not _is_waived(text, line, name):
            yield SourceFault(line, rule, said, f"{remedy}, or waive it with // verilator lint_off {name}")
    elif diagnostic.isError():  # type: ignore[attr-defined]
        yield SourceFault(line, _SYNTAX, said)


def _is_waived(text: str, line: int, name: str) -> bool:
    """Whether Verilator's warnings of this name are off at a line."""
    off = False
    for waiver in _WAIVER.finditer(text):
        if text.count("\n", 0, waiver.start()) >= line:
            break
        if (waiver[2] or waiver[4]) == name:
            off = (waiver[1] or waiver[3]) == "off"
    return off
