# SPDX-License-Identifier: Apache-2.0
"""The RTL as slang reads it: a syntax tree a file, and the type of every elaborated expression.

Only what a configuration elaborates has a type: code in a generate branch that it does not take has
none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyslang
from pyslang import ast, syntax

from vdla.hardware.config import Config
from vdla.hardware.generate import svgen
from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, rtl_files
from vdla.support.errors import Error

Node: TypeAlias = Any
"""A node of a syntax tree; its attributes depend on its kind."""

_CHECKS = re.compile(r"`ifndef SYNTHESIS.*?`endif", re.DOTALL)

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

    def elaborates(self, place: Span) -> bool:
        """Whether the configuration elaborates an expression of a place."""
        return any(place[0] <= begin and end <= place[1] for begin, end in self.types)

    @property
    def module(self) -> str:
        """The module or package, by which the file is named."""
        return self.path.stem


def read_design(config: Config, folder: Path = FOLDER) -> list[SourceFile]:
    """All files of the RTL but the generated package, elaborated for a configuration."""
    paths = rtl_files(folder)
    texts = [path.read_text(encoding="utf-8") for path in paths]
    manager, trees, compilation = _elaborated(config, paths, texts)
    errors = [getAllDiagnostic for getAllDiagnostic in compilation.getAllDiagnostics() if getAllDiagnostic.isError()]
    if errors:
        raise DesignError(f"rtl: {pyslang.DiagnosticEngine.reportAll(manager, errors).strip()}")
    types = _types(compilation)
    return [
        SourceFile(path, text, tree.root, types.get(tree.root.sourceRange.start.buffer.id, {}))
        for path, text, tree in zip(paths, texts, trees, strict=True)
    ]


def selects_out_of_range(config: Config, texts: Mapping[Path, str]) -> bool:
    """Whether slang finds a constant select outside of its vector, which a lint refuses."""
    _, _, compilation = _elaborated(config, list(texts), list(texts.values()))
    return any(getAllDiagnostic.code in _OUT_OF_RANGE for getAllDiagnostic in compilation.getAllDiagnostics())


def _elaborated(
    config: Config, paths: Sequence[Path], texts: Sequence[str]
) -> tuple[pyslang.SourceManager, list[syntax.SyntaxTree], ast.Compilation]:
    manager, options = pyslang.SourceManager(), pyslang.Bag()
    compilation = ast.Compilation()
    package = syntax.SyntaxTree.fromText(svgen.render(config), manager, PACKAGE, PACKAGE, options)
    trees = [
        syntax.SyntaxTree.fromText(text, manager, path.name, str(path), options)
        for path, text in zip(paths, texts, strict=True)
    ]
    for tree in (package, *trees):
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
