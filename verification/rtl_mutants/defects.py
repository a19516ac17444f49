# SPDX-License-Identifier: Apache-2.0
"""The defects that can be planted in a file of the RTL: each a small mistake of a designer.

A defect replaces an expression or a statement. A model holds many of them, each behind the number
that makes it active (`guarded`), so no defect is in an expression that must be constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyslang.syntax import SyntaxNode

from vdla.hardware.generate.extension_package import EXTENSION_PACKAGE
from vdla.verification.rtl_mutants.design import Node, SourceFile, Span, span
from vdla.verification.rtl_mutants.rules import RULES, Change, Code

# Subtrees without logic: what they hold is constant, a type, a name or a clock edge.
_NO_LOGIC = frozenset((
    "ParameterDeclaration", "ParameterPortList", "ParameterValueAssignment", "VariableDimension", "TypedefDeclaration",
    "DataDeclaration", "AttributeInstance", "EventControlWithExpression", "ImplicitAnsiPort", "FunctionPrototype",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Defect:
    """A text of a file that another replaces; `number` counts equal replacements in the file, apart
    in what depends on extensions.

    `line` is for readers: where the code around a defect changes, the other names of the defect
    stay.
    """

    module: str
    kind: str
    before: str
    after: str
    number: int
    line: int
    span: Span
    is_statement: bool
    of_extensions: bool

    @property
    def key(self) -> str:
        """What a defect keeps while the code around it moves."""
        again = (" with extensions" if self.of_extensions else "") + (f" #{self.number}" if self.number else "")
        return f"{self.module}: {self.kind}: {_one_line(self.before)} -> {_one_line(self.after)}{again}"

    def __str__(self) -> str:
        return f"{self.module}.sv:{self.line}: {self.kind}: {_one_line(self.before)} -> {_one_line(self.after)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def defects(file: SourceFile) -> list[Defect]:
    """All defects of a file, in the order of its text; a generated one has none."""
    if file.path.name == EXTENSION_PACKAGE:
        return []
    code = Code(file.text, file.types)
    constant = _constant_functions(file.root)
    changes = _changes(code, file.root, constant, clocked=False)
    checks, of_extensions = file.checks, file.of_extensions
    made = (_defect(file, change, of_extensions) for change in changes)
    changed = [defect for defect in made if not _is_in(checks, defect.span)]
    changed.sort(key=lambda defect: (defect.span, defect.kind, defect.after))
    seen: Counter[tuple[object, ...]] = Counter()
    numbered = []
    for defect in changed:
        name = defect.kind, _one_line(defect.before), _one_line(defect.after), defect.of_extensions
        numbered.append(replace(defect, number=seen[name]))
        seen[name] += 1
    return numbered


def _is_in(places: Sequence[Span], place: Span) -> bool:
    return any(begin <= place[0] < end for begin, end in places)


def _defect(file: SourceFile, change: Change, of_extensions: Sequence[Span]) -> Defect:
    begin, end = span(change.node)
    line = file.text.count("\n", 0, begin) + 1
    before = file.text[begin:end]
    return Defect(
        module=file.module,
        kind=change.kind,
        before=before,
        after=change.after,
        number=0,
        line=line,
        span=(begin, end),
        is_statement=change.is_statement,
        of_extensions=_is_in(of_extensions, (begin, end)),
    )


def _changes(code: Code, node: Node, constant: set[str], clocked: bool) -> Iterator[Change]:
    """The changes of a node and of all below it; `clocked`: it is in an always_ff."""
    kind = node.kind.name
    if kind in _NO_LOGIC or _drives_nothing(code, node):
        return
    if kind == "FunctionDeclaration" and _function_name(node) in constant:
        return
    clocked = clocked or kind == "AlwaysFFBlock"
    for rule in RULES.get(kind, ()):
        yield from rule(code, node, clocked)
    for child in _logic(node):
        yield from _changes(code, child, constant, clocked)


def _drives_nothing(code: Code, node: Node) -> bool:
    """Whether a node drives a signal that exists to be unused."""
    return node.kind.name == "AssignmentExpression" and code.text(node).startswith("unused")


def _logic(node: Node) -> Sequence[Node]:
    """The children that are read or executed when the machine runs."""
    children = [child for child in node if isinstance(child, SyntaxNode)]
    match node.kind.name:
        case "AssignmentExpression" | "NonblockingAssignmentExpression" | "ScopedName":
            return [node.right]
        case "NamedPortConnection":
            return children if node.name.valueText.endswith("i") else []  # what the instance reads
        case "SimpleRangeSelect":
            return []
        case "AscendingRangeSelect" | "DescendingRangeSelect":
            return [node.left]
        case "CastExpression" | "MultipleConcatenationExpression" | "AssignmentPatternItem":
            return children[-1:]
        case "InsideExpression":
            return [node.expr]
        case "ForLoopStatement":
            return [node.statement]
        case "LoopGenerate":
            return [node.block]
        case "IfGenerate":
            return [child for child in (node.block, node.elseClause) if child is not None]
        case "StandardCaseItem":
            return [node.clause]
        case "InvocationExpression":
            return [] if node.left.kind.name == "SystemName" else children[1:]
        case _:
            return children


# --- functions that are called in constant expressions --------------------------------------------


def _constant_functions(root: Node) -> set[str]:
    """The functions that parameters call, directly or not."""
    functions = {_function_name(node): node for node in _nodes(root, "FunctionDeclaration")}
    result: set[str] = set()
    pending = [name for node in _nodes(root, "ParameterDeclaration") for name in _calls(node)]
    while pending:
        name = pending.pop()
        if name not in result:
            result.add(name)
            pending += _calls(functions[name]) if name in functions else []
    return result


def _nodes(node: Node, kind: str) -> Iterator[Node]:
    if node.kind.name == kind:
        yield node
    for child in node:
        if isinstance(child, SyntaxNode):
            yield from _nodes(child, kind)


def _calls(node: Node) -> list[str]:
    return [str(call.left).strip() for call in _nodes(node, "InvocationExpression")]


def _function_name(node: Node) -> str:
    return str(node.prototype.name).strip()
