# SPDX-License-Identifier: Apache-2.0
"""Suggestions for unknown names in error messages."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """` (did you mean C6?)` for the known name closest to `name`, ignoring case; else empty."""
    if not isinstance(name, str):
        return ""
    from difflib import get_close_matches

    by_folded = {choice.casefold(): choice for choice in known}
    close = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f" (did you mean {by_folded[close[0]]}?)" if close else ""


def one_of(name: object, known: Iterable[str], others: str = "") -> str:
    """The rule and the value of an unknown name: "one of a, b, got c (did you mean a?)".

    `others` is what may be given besides.
    """
    names = list(known)
    return f"one of {', '.join(names)}{others}, got {name}{did_you_mean(name, names)}"
