"""The words that a shell completes: names that are not in the argument parser itself, such as presets.

Completion is by argcomplete, which asks the parser of the command; `vdla completion SHELL` prints the shell's part.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable


def complete_with(action: argparse.Action, names: Callable[[], Iterable[str]]) -> None:
    """Let shells complete the value of `action` with `names()`, which is called at completion only."""
    action.completer = lambda **_: names()  # type: ignore[attr-defined]  # where argcomplete looks for it
