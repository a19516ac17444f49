# SPDX-License-Identifier: Apache-2.0
"""What slang says of the SystemVerilog of a datapath, where its package pyslang is installed.

The module is read with the package of its machine and the modules that it uses, in milliseconds:
errors of the language first, then ports, then latches and second drivers. Verilator, which builds
it, sees further faults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from vdla.hardware.generate.rtl_files import EXTENSION_FOLDER, FOLDER, PACKAGE, needed_files

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
    sources = {PACKAGE: package, **_modules_named(text), module: text}
    trees = [syntax.SyntaxTree.fromText(source, manager, name=name, path=name) for name, source in sources.items()]
    engine = pyslang.DiagnosticEngine(manager)

    def faults(diagnostics: Any) -> Iterator[SourceFault]:  # noqa: ANN401  pyslang has no types
        for diagnostic in diagnostics:
            if manager.getFileName(diagnostic.location) == module:
                line = manager.getLineNumber(diagnostic.location)
                yield from _fault(text, diagnostic, line, engine.formatMessage(diagnostic))

    wrong = tuple(faults(trees[-1].diagnostics))
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


def _modules_named(text: str) -> dict[str, str]:
    """The files of the machine's modules that a datapath uses, by name."""
    named = {
        FOLDER / home / f"{name}.sv" for name in re.findall(r"\bvdla_\w+", text) for home in ("", EXTENSION_FOLDER)
    }
    files = needed_files(*(path for path in named if path.name != PACKAGE and path.exists()))
    return {path.name: path.read_text(encoding="utf-8") for path in files}


def _is_of_any_row(source: str, message: str) -> bool:
    """Whether the source has the variable of a message with an index more, which is a signal: slang
    takes all of its elements as written, of which each lane may write its own.
    """
    name = re.search(r"'(\w+)((?:\[[^\]]*\])*)'", message)
    at = name and re.match(rf"{name[1]}((?:\s*\[[^\]]*\])*)", source)
    return bool(name and at and at[1].count("[") > name[2].count("["))


def _fault(text: str, diagnostic: Any, line: int, message: str) -> Iterator[SourceFault]:  # noqa: ANN401  as above
    """An error, or a warning that names wrong hardware and is not waived."""
    source = text.splitlines()[line - 1].strip()
    source = source if len(source) <= _LONGEST else source[: _LONGEST - 3] + "..."
    code = str(diagnostic.code).removeprefix("DiagCode(").removesuffix(")")
    said = f"`{source}` ({message})"
    if code in _FAULTS:
        name, rule, remedy = _FAULTS[code]
        of_any_row = name == "MULTIDRIVEN" and _is_of_any_row(text[diagnostic.location.offset :], message)
        if not of_any_row and not _is_waived(text, line, name):
            yield SourceFault(line, rule, said, f"{remedy}, or waive it with // verilator lint_off {name}")
    elif diagnostic.isError():
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
