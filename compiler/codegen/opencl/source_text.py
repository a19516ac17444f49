"""C expressions as text with the precedence of their outermost operator, for few parentheses."""

from __future__ import annotations

from dataclasses import dataclass

PRIMARY, UNARY, PRODUCT, SUM, SHIFT, RELATION, EQUALITY, BIT_AND, BIT_XOR, BIT_OR, AND, OR, CONDITIONAL, LOWEST = range(
    13, -1, -1
)
_CLEARER_WITH = (SHIFT, BIT_AND, BIT_XOR, BIT_OR)
"""Levels between which readers expect parentheses, whatever the language says."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """An expression of C and its level; a higher level binds tighter."""

    text: str
    level: int = PRIMARY

    def at(self, level: int) -> str:
        """The text, in parentheses where the context binds tighter."""
        return f"({self.text})" if self.level < level else self.text


def infix(symbol: str, level: int, a: SourceText, b: SourceText) -> SourceText:
    """`a symbol b`, left-associative but for comparisons."""
    least = PRODUCT if level in _CLEARER_WITH else level
    chains = a.level == level and level not in (RELATION, EQUALITY)
    left = a.at(level) if chains else a.at(max(level + 1, least))
    return SourceText(f"{left} {symbol} {b.at(max(level + 1, least))}", level)


def call(name: str, *args: SourceText) -> SourceText:
    """`name(a, b)`."""
    return SourceText(f"{name}({', '.join(arg.text for arg in args)})")


def converted(kind: str, value: SourceText) -> SourceText:
    """`(kind)value`."""
    return SourceText(f"({kind}){value.at(UNARY)}", UNARY)


def conditional(cond: SourceText, a: SourceText, b: SourceText) -> SourceText:
    """`cond ? a : b`."""
    return SourceText(f"{cond.at(OR)} ? {a.at(OR)} : {b.at(CONDITIONAL)}", CONDITIONAL)


def subscript(array: str, index: SourceText) -> SourceText:
    """`array[index]`."""
    return SourceText(f"{array}[{index.text}]")
