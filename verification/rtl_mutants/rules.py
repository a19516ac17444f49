# SPDX-License-Identifier: Apache-2.0
"""What a defect does to each kind of syntax: operators, constants, widths, terms, resets and so on.

A replaced expression keeps its width and its signedness where it is selected beside the original,
which must not change: `(active ? replaced : original)` is signed only if both are, and as wide as
the wider.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from vdla.verification.rtl_mutants.design import ExprType, Node, Span, span

KINDS = (
    "operator", "comparison", "constant", "width", "term", "swap", "negation", "sign", "reset", "enable", "assignment",
    "case", "connection",
)  # fmt: skip

_OPERATORS = {
    "+": "-", "-": "+", "*": "+", "&": "|", "|": "&", "^": "|", "&&": "||", "||": "&&", "==": "!=", "!=": "==",
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "<<": ">>", ">>": "<<", ">>>": ">>", "%": "/",
}  # fmt: skip
_NEUTRAL = {"&&": "1'b1", "||": "1'b0"}
_REDUCTIONS = {"|": "&", "&": "|", "~|": "~&"}
_RESET = "!rst_ni"
_LITERALS = ("IntegerLiteralExpression", "IntegerVectorExpression", "UnbasedUnsizedLiteralExpression")
_SIGNAL = re.compile(r"(?<!')\b[a-z]\w*")  # a name of a signal; those of constants begin with a capital
_SIZED = re.compile(r"(\d+)'([bdh])([0-9a-fA-F_]+)")
_BASES = {"b": 2, "d": 10, "h": 16}
_FORMATS = {"b": "b", "d": "d", "h": "x"}


@dataclass(frozen=True, slots=True)
class Change:
    """The text that replaces a node."""

    node: Node
    kind: str
    after: str
    is_statement: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """The text of a file and the types of the expressions that the configuration elaborates."""

    source: str
    types: Mapping[Span, ExprType | None]

    def text(self, node: Node) -> str:
        """The text of a node."""
        begin, end = span(node)
        return self.source[begin:end]

    def type_of(self, node: Node) -> ExprType | None:
        """The type of an elaborated vector, or None."""
        return self.types.get(span(node))

    def elaborates(self, node: Node) -> bool:
        """Whether the configuration elaborates an expression."""
        return span(node) in self.types

    def is_wide(self, node: Node) -> bool:
        """Whether an expression is a vector of more than one bit in every instance."""
        known = self.type_of(node)
        return known is not None and known.width > 1


Rule = Callable[[Code, Node, bool], Iterator[Change]]


# --- operators ------------------------------------------------------------------------------------


def _binary(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """`a + b` -> `a - b`, `b`, `a`; `a == b` -> `a == b + 1`; `a - b` -> `b - a`."""
    operator = node.operatorToken.valueText
    if not code.elaborates(node) or operator not in _OPERATORS:
        return
    left, right = f"({code.text(node.left)})", f"({code.text(node.right)})"
    yield Change(node, "operator", f"{left} {_OPERATORS[operator]} {right}")
    if operator in ("==", "!=") and not _is_literal(node.right) and code.type_of(node.right) is not None:
        yield Change(node, "comparison", f"{left} {operator} ({right} + 1'b1)")
    if operator in ("-", "<", "<=", ">", ">="):
        yield Change(node, "swap", f"{right} {operator} {left}")
    if operator in _NEUTRAL:
        yield Change(node, "term", f"{left} {operator} {_NEUTRAL[operator]}")
        yield Change(node, "term", f"{_NEUTRAL[operator]} {operator} {right}")
    if operator in ("+", "&", "|", "^"):
        yield Change(node, "term", right)
    if operator in ("+", "-", "&", "|", "^", "<<", ">>", ">>>"):
        yield Change(node, "term", left)
    for operand in (node.left, node.right):
        yield from _extended(code, operand, code.type_of(node))


def _extended(code: Code, operand: Node, wide: ExprType | None) -> Iterator[Change]:
    """A signed name in a wider sum or product, without its sign."""
    known = code.type_of(operand) if operand.kind.name == "IdentifierName" else None
    if known is not None and wide is not None and known.signed and known.width < wide.width:
        yield Change(operand, "sign", f"$signed({{1'b0, {code.text(operand)}}})")


def _unary(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """`!a` -> `a`, `~a` -> `a`, `|a` -> `&a`."""
    operator, operand = node.operatorToken.valueText, code.text(node.operand)
    if not code.elaborates(node) or code.text(node) == _RESET:
        return
    if operator == "!":
        yield Change(node, "negation", f"1'b0 || ({operand})")
    if operator in ("~", "-"):
        yield Change(node, "negation", f"({operand})")
    if operator in _REDUCTIONS:
        yield Change(node, "operator", f"{_REDUCTIONS[operator]}({operand})")


def _choice(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """`c ? a : b` -> `c ? b : a`, `a`, `b`."""
    left, right = code.text(node.left), code.text(node.right)
    if not code.elaborates(node) or "'{" in left + right:
        return
    yield Change(node, "swap", f"({code.text(node.predicate)}) ? ({right}) : ({left})")
    yield Change(node, "term", f"({left})")
    yield Change(node, "term", f"({right})")


# --- constants ------------------------------------------------------------------------------------


def _is_literal(node: Node) -> bool:
    return node.kind.name in _LITERALS


def _literal(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """`3` -> `4`, `2'd3` -> `2'd0`, `'0` -> `'1`."""
    text = code.text(node)
    if not code.elaborates(node):
        return
    if text in ("'0", "'1"):
        yield Change(node, "constant", "'1" if text == "'0" else "'0")
    elif text.isdigit():
        yield Change(node, "constant", str(int(text) + 1))
    elif sized := _SIZED.fullmatch(text):
        bits, base, digits = sized.groups()
        value = (int(digits, _BASES[base]) + 1) % (1 << int(bits))
        yield Change(node, "constant", f"{bits}'{base}{value:{_FORMATS[base]}}")


# --- widths and signs -----------------------------------------------------------------------------


def _without_top(text: str, of: str) -> str:
    """The text of an expression without the top bit of `of`."""
    return f"$bits({of})'({text}) & ($bits({of})'('1) >> 1)"


def _cast(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """`8'(a)` -> its low 7 bits; -> zeros above a signed `a`. A constant seldom has a top bit."""
    known, text = code.type_of(node), code.text(node)
    if known is None or not _SIGNAL.search(code.text(node.right)):
        return
    inner = code.type_of(node.right.expression) if node.right.kind.name == "ParenthesizedExpression" else None
    extends = inner is not None and inner.width < known.width and not inner.signed  # its top bit is 0
    if known.width > 1 and not extends:
        cut = _without_top(text, text)
        yield Change(node, "width", f"$signed({cut})" if known.signed else f"({cut})")
    if inner is not None and inner.signed and inner.width < known.width and not _is_literal(node.right.expression):
        yield Change(node, "sign", f"$signed({code.text(node.left)}'($unsigned{code.text(node.right)}))")


def _select(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """`a[7:0]` -> `a[6:0]`, `a[7:1]`; `a[i+:8]` -> `a[i+:7]`."""
    name = node.right if node.kind.name == "ScopedName" else node
    if name.kind.name != "IdentifierSelectName" or not code.is_wide(node):
        return
    brackets = list(name.selectors)[-1]
    select = brackets.selector
    if select is None or not select.kind.name.endswith("RangeSelect"):
        return
    prefix = code.source[span(node)[0] : span(brackets)[0]]
    left, right = code.text(select.left), code.text(select.right)
    if select.kind.name == "SimpleRangeSelect":
        yield Change(node, "width", f"{prefix}[({left}) - 1:{right}]")
        yield Change(node, "width", f"{prefix}[{left}:({right}) + 1]")
    elif select.kind.name == "AscendingRangeSelect":
        yield Change(node, "width", f"{prefix}[{left}+:({right}) - 1]")


def _assigned(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """`q <= a` -> `q <= a` without the top bit of `q`."""
    target, value = node.left, node.right
    if target.kind.name != "IdentifierName" or not code.is_wide(target) or not _SIGNAL.search(code.text(value)):
        return
    if code.elaborates(value) and "'{" not in code.text(value):
        yield Change(value, "width", f"$signed({_without_top(code.text(value), code.text(target))})")


# --- statements -----------------------------------------------------------------------------------


def _conditional(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """`if (a)` -> `if (!a)`, always or never; a reset -> never."""
    condition, text = node.predicate, code.text(node.predicate)
    if not code.elaborates(condition):
        return
    if text == _RESET:
        yield Change(condition, "reset", "1'b0")
        return
    yield Change(condition, "negation", f"!({text})")
    if node.elseClause is None:
        yield Change(condition, "enable", "1'b1")
        if not clocked:
            yield Change(condition, "assignment", "1'b0")


def _statement(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """`q <= a;` -> `;`."""
    if node.expr.kind.name == "NonblockingAssignmentExpression" and code.elaborates(node.expr):
        yield Change(node, "assignment", ";", is_statement=True)


def _case(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """An item of a case with a default -> the default."""
    items = list(node.items)
    default = next((code.text(item.clause) for item in items if item.kind.name == "DefaultCaseItem"), None)
    for item in items:
        if item.kind.name != "StandardCaseItem" or default is None or not code.elaborates(item.expressions[0]):
            continue
        if default != code.text(item.clause):
            yield Change(item.clause, "case", default, is_statement=True)


def _connection(code: Code, node: Node, clocked: bool) -> Iterator[Change]:
    """`.a_i(b)` -> `.a_i('0)`; of a reset -> never."""
    name, value = node.name.valueText, node.expr
    if value is None or code.type_of(value) is None or code.source[span(value)[0]] in "'0123456789":
        return
    if name == "rst_ni":
        yield Change(value, "reset", "1'b1")
    elif name.endswith("_i"):
        yield Change(value, "connection", "$signed(1'b0)")


_BINARY = (
    "Add", "Subtract", "Multiply", "Mod", "Equality", "Inequality", "LessThan", "LessThanEqual", "GreaterThan",
    "GreaterThanEqual", "LogicalAnd", "LogicalOr", "BinaryAnd", "BinaryOr", "BinaryXor", "LogicalShiftLeft",
    "LogicalShiftRight", "ArithmeticShiftRight",
)  # fmt: skip
_UNARY = ("LogicalNot", "BitwiseNot", "Minus", "BitwiseOr", "BitwiseAnd", "BitwiseNor")

RULES: Mapping[str, tuple[Rule, ...]] = {
    **{f"{name}Expression": (_binary,) for name in _BINARY},
    **{f"Unary{name}Expression": (_unary,) for name in _UNARY},
    **dict.fromkeys(_LITERALS, (_literal,)),
    "ConditionalExpression": (_choice,),
    "CastExpression": (_cast,),
    "IdentifierSelectName": (_select,),
    "ScopedName": (_select,),
    "AssignmentExpression": (_assigned,),
    "NonblockingAssignmentExpression": (_assigned,),
    "ConditionalStatement": (_conditional,),
    "ExpressionStatement": (_statement,),
    "CaseStatement": (_case,),
    "NamedPortConnection": (_connection,),
}
"""The rules by kind of syntax; their docstrings show before -> after."""
