"""The lines of assembly text: words with their columns, and the errors that point at them.

A word is a run without spaces; spaces and # may stand inside double quotes (JSON strings). A # begins a comment.
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
    """Assembly text that is not a program."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a line: `key=value`, `key` or a bare value, and where it stands (from 1)."""

    text: str
    line: int
    column: int

    @property
    def key(self) -> str:
        """What stands before the first =."""
        return self.text.partition("=")[0]

    @property
    def value(self) -> str | None:
        """What stands after the first =; None without one."""
        _, equals, value = self.text.partition("=")
        return value if equals else None

    def error(self, message: str) -> AsmError:
        """The error that points at this word."""
        return AsmError(f"line {self.line}, column {self.column}: {message}")


Line = tuple[Word, ...]


def lines(text: str) -> Iterator[Line]:
    """The lines that say something, as words."""
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


def quoted(text: str) -> str:
    """A string as it stands in the text: bare where it can be."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def unquoted(word: Word, text: str) -> str:
    """The inverse of `quoted`, for a value that stands in `word`."""
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        raise word.error(f"{word.key} must be a JSON string, got {text}") from None


def integer(word: Word, what: str, text: str | None) -> int:
    """A decimal or 0x number."""
    try:
        return int(text or "", 0)
    except ValueError:
        raise word.error(f"{what} must be an integer, got {text or 'nothing'}") from None


def choice(word: Word, what: str, text: str | None, choices: Iterable[str]) -> str:
    """One of the names, in any case of letters; returned as the choices have it."""
    names = tuple(choices)
    found = {name.lower(): name for name in names}.get((text or "").lower())
    if found is None:
        raise word.error(f"{what} must be one of {', '.join(names)}, got {text or 'nothing'}")
    return found
