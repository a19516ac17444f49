"""Words for shell completion that the argument parser does not have, such as presets.

argcomplete asks the parser; `vdla completion SHELL` prints the script for the shell.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable


def complete_with(action: argparse.Action, names: Callable[[], Iterable[str]]) -> None:
    """Complete the value of `action` with `names()`, which is called at completion only."""
    action.completer = lambda **_: names()  # type: ignore[attr-defined]  # where argcomplete looks for it
