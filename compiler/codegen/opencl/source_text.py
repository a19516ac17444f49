# SPDX-License-Identifier: Apache-2.0
"""C expressions as text with the precedence of their outermost operator, for few parentheses."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.support.errors import Error


class OpenClError(Error, ValueError):
    """A function that cannot be expressed in OpenCL C."""


_INFIX = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")  # the loosest first
_LEVELS = {symbol: level for level, symbols in enumerate(_INFIX, 1) for symbol in symbols.split()}
CONDITIONAL, OR, SUM, _PRODUCT, UNARY, PRIMARY = 0, _LEVELS["||"], _LEVELS["+"], _LEVELS["*"], 11, 12
_COMPARISONS = (_LEVELS["=="], _LEVELS["<"])
_CLEARER_WITH = tuple(_LEVELS[symbol] for symbol in ("<<", "&", "^", "|"))
"""Levels between which readers expect parentheses, whatever the language says."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """An expression of C and its level; a higher level binds tighter.

    `converts` is the operand of a conversion.
    """

    text: str
    level: int = PRIMARY
    converts: SourceText | None = None

    def at(self, level: int) -> str:
        """The text, in parentheses where the context binds tighter."""
        return f"({self.text})" if self.level < level else self.text


def infix(symbol: str, a: SourceText, b: SourceText) -> SourceText:
    """`a symbol b`, left-associative except for comparisons."""
    level = _LEVELS[symbol]
    least = _PRODUCT if level in _CLEARER_WITH else level
    chains = a.level == level and level not in _COMPARISONS
    lhs = a.at(level) if chains else a.at(max(level + 1, least))
    return SourceText(f"{lhs} {symbol} {b.at(max(level + 1, least))}", level)


def call(name: str, *args: SourceText) -> SourceText:
    """`name(a, b)`."""
    return SourceText(f"{name}({', '.join(arg.text for arg in args)})")


def converted(kind: str, value: SourceText) -> SourceText:
    """`(kind)value`."""
    return SourceText(f"({kind}){value.at(UNARY)}", UNARY, value)


def conditional(cond: SourceText, a: SourceText, b: SourceText) -> SourceText:
    """`cond ? a : b`."""
    return SourceText(f"{cond.at(OR)} ? {a.at(OR)} : {b.at(CONDITIONAL)}", CONDITIONAL)


def subscript(array: str, index: SourceText) -> SourceText:
    """`array[index]`."""
    return SourceText(f"{array}[{index.text}]")
