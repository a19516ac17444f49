# SPDX-License-Identifier: Apache-2.0
"""The RTL as slang reads it: a syntax tree a file, and the type of every elaborated expression.

Only what a configuration elaborates has a type: code in a generate branch that it does not take has
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyslang
from pyslang import ast, parsing, syntax

from vdla.hardware.config import Config
from vdla.hardware.generate import svgen
from vdla.hardware.generate.extension_files import DEFINE, extension_rtl_files, generated_files
from vdla.hardware.generate.extension_package import EXTENSION_PACKAGE
from vdla.hardware.generate.rtl_files import EXTENSION_FOLDER, FOLDER, PACKAGE, rtl_files
from vdla.support.errors import Error

Node: TypeAlias = Any
"""A node of a syntax tree; its attributes depend on its kind."""

_CHECKS = re.compile(r"`ifndef SYNTHESIS.*?`endif", re.DOTALL)
_OF_EXTENSIONS = re.compile(rf"^`ifdef {DEFINE}\b.*?^`endif", re.DOTALL | re.MULTILINE)

_OUT_OF_RANGE = (pyslang.Diags.IndexOOB, pyslang.Diags.RangeOOB)

Span = tuple[int, int]
"""A range of characters in a file."""


class DesignError(Error, RuntimeError):
    """slang finds an error in the RTL."""


@dataclass(frozen=True, slots=True)
class ExprType:
    """A vector: its least width over all instances of its module, whether it is signed."""

    width: int
    signed: bool


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the RTL; `types` has None for an expression that is not a plain vector."""

    path: Path
    text: str
    root: Node
    types: Mapping[Span, ExprType | None]

    @property
    def checks(self) -> list[Span]:
        """Where the assertions are, which are not part of the machine."""
        return [match.span() for match in _CHECKS.finditer(self.text)]

    @property
    def of_extensions(self) -> list[Span]:
        """What machines with extensions have, and what others have in its place."""
        return [match.span() for match in _OF_EXTENSIONS.finditer(self.text)]

    @property
    def place(self) -> Path:
        """The path in a folder of the RTL."""
        return Path(*self.path.parts[-2:]) if _is_of_extensions(self.path) else Path(self.path.name)

    def elaborates(self, place: Span) -> bool:
        """Whether the configuration elaborates an expression of a place."""
        return any(place[0] <= begin and end <= place[1] for begin, end in self.types)

    @property
    def module(self) -> str:
        """The module or package, by which the file is named."""
        return self.path.stem


def read_design(config: Config, folder: Path = FOLDER) -> list[SourceFile]:
    """All files of the RTL that a machine has but generated ones, elaborated for it."""
    paths = [*rtl_files(folder), *(extension_rtl_files(folder) if generated_files(config) else [])]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    manager, trees, compilation = _elaborated(config, texts)
    errors = [diagnostic for diagnostic in compilation.getAllDiagnostics() if diagnostic.isError()]
    if errors:
        raise DesignError(f"rtl: {pyslang.DiagnosticEngine.reportAll(manager, errors).strip()}")
    types = _types(compilation)
    return [
        SourceFile(path, texts[path], tree.root, types.get(tree.root.sourceRange.start.buffer.id, {}))
        for path, tree in trees.items()
    ]


def read_designs(configs: Iterable[Config]) -> list[SourceFile]:
    """All files of the RTL that one of the machines has, as the first of them elaborates each."""
    files: dict[Path, SourceFile] = {}
    for config in configs:
        for file in read_design(config):
            files.setdefault(file.path, file)
    return list(files.values())


def selects_out_of_range(config: Config, texts: Mapping[Path, str]) -> bool:
    """Whether slang finds a constant select outside of its vector, which a lint refuses."""
    plain = not generated_files(config)
    mine = {path: text for path, text in texts.items() if not (plain and _is_of_extensions(path))}
    _, _, compilation = _elaborated(config, mine)
    return any(diagnostic.code in _OUT_OF_RANGE for diagnostic in compilation.getAllDiagnostics())


def _is_of_extensions(path: Path) -> bool:
    return path.parent.name == EXTENSION_FOLDER


def _elaborated(
    config: Config, texts: Mapping[Path, str]
) -> tuple[pyslang.SourceManager, dict[Path, syntax.SyntaxTree], ast.Compilation]:
    """The compilation of the RTL with what is generated for a machine; the trees of the RTL.

    A machine with extensions has a package of its own in place of the one in the RTL, whose tree
    remains without types.
    """
    manager, options = pyslang.SourceManager(), pyslang.Bag()
    compilation = ast.Compilation()
    generated = generated_files(config)
    if generated:
        defined = parsing.PreprocessorOptions()
        defined.predefines = [DEFINE]
        options.preprocessorOptions = defined

    def parsed(text: str, name: str, path: str) -> syntax.SyntaxTree:
        return syntax.SyntaxTree.fromText(text, manager, name, path, options)

    trees = {path: parsed(text, path.name, str(path)) for path, text in texts.items()}
    of_rtl = [tree for path, tree in trees.items() if not (generated and path.name == EXTENSION_PACKAGE)]
    others = {PACKAGE: svgen.render(config), **generated}
    for tree in (*(parsed(text, name, name) for name, text in others.items()), *of_rtl):
        compilation.addSyntaxTree(tree)
    return manager, trees, compilation


def span(node: Node) -> Span:
    """Where a node is in its file, without the white space and comments around it."""
    return node.sourceRange.start.offset, node.sourceRange.end.offset


def _types(compilation: ast.Compilation) -> dict[int, dict[Span, ExprType | None]]:
    """The types by buffer and place; of nested expressions of one place, the innermost."""
    result: dict[int, dict[Span, ExprType | None]] = {}
    widths: dict[tuple[int, Span], int] = {}

    def visit(node: object) -> ast.VisitAction:
        if isinstance(node, ast.GenerateBlockSymbol) and node.isUninstantiated:
            return ast.VisitAction.Skip
        if isinstance(node, ast.Expression):
            note(node)
        return ast.VisitAction.Advance

    def note(node: ast.Expression) -> None:
        begin, end = node.sourceRange.start, node.sourceRange.end
        place = begin.offset, end.offset
        kind = node.type
        known = None
        if kind.isIntegral and not (kind.isStruct or kind.isEnum):
            least = min(kind.bitWidth, widths.get((begin.buffer.id, place), kind.bitWidth))
            widths[begin.buffer.id, place] = least
            known = ExprType(least, kind.isSigned)
        result.setdefault(begin.buffer.id, {})[place] = known

    compilation.getRoot().visit(visit)
    return result
