# SPDX-License-Identifier: Apache-2.0
"""Work counted instead of timed: how busy a computer is does not change it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_executed(function: Callable[[], object]) -> int:
    """The lines of Python that a call executes, those of what it calls included.

    What NumPy does inside a call counts as one line: pass sizes at which that is not the question.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
