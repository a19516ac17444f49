# SPDX-License-Identifier: Apache-2.0
"""The lines of assembly text as words with their positions, for errors that name line and column.

Spaces separate words; inside double quotes (JSON strings) spaces and # are part of the word.
Elsewhere # starts a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vdla.support.errors import Error

_TOKEN = re.compile(r'\s+|(?P<comment>#.*)|(?P<word>(?:[^\s"#]|"(?:[^"\\]|\\.)*")+)|(?P<bad>.)')
_PLAIN = re.compile(r"[A-Za-z0-9_./:\-]+")


class AsmError(Error, ValueError):
    """Assembly text that is not a valid program."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word, `key=value`, `key` or a bare value, with its line and column from 1."""

    text: str
    line: int
    column: int

    @property
    def key(self) -> str:
        """The text before the first =."""
        return self.text.partition("=")[0]

    @property
    def value(self) -> str | None:
        """The text after the first =; None without one."""
        _, equals, value = self.text.partition("=")
        return value if equals else None

    def error(self, message: str) -> AsmError:
        """An error at this word."""
        return AsmError(f"line {self.line}, column {self.column}: {message}")


Line = tuple[Word, ...]


def lines(text: str) -> Iterator[Line]:
    """The words of each line that has some."""
    for number, line in enumerate(text.splitlines(), start=1):
        words = tuple(_words(line, number))
        if words:
            yield words


def _words(line: str, number: int) -> Iterator[Word]:
    for match in _TOKEN.finditer(line):
        if match["bad"]:
            raise AsmError(f'line {number}, column {match.start() + 1}: a string must end with ", got {match["bad"]}')
        if match["word"]:
            yield Word(match["word"], number, match.start() + 1)


def quote(text: str) -> str:
    """A string as written in the text, without quotes if it needs none."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def unquote(word: Word, text: str) -> str:
    """The inverse of `quote`; `word` locates errors."""
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        raise word.error(f"{word.key} must be a JSON string, got {text}") from None


def integer(word: Word, what: str, text: str | None) -> int:
    """A decimal or hexadecimal number; `word` locates errors."""
    try:
        return int(text or "", 0)
    except ValueError:
        raise word.error(f"{what} must be an integer, got {text or 'nothing'}") from None


def choice(word: Word, what: str, text: str | None, choices: Iterable[str]) -> str:
    """The choice that `text` names, ignoring case; `word` locates errors."""
    names = tuple(choices)
    result = {name.lower(): name for name in names}.get((text or "").lower())
    if result is None:
        raise word.error(f"{what} must be one of {', '.join(names)}, got {text or 'nothing'}")
    return result
