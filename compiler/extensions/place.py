"""Where a user's file makes a declaration, for messages about it."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = str(Path(__file__).parent)


def caller() -> str:
    """`file:line` of the statement outside this package that makes a declaration."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_inside(file: str) -> bool:
    """Whether code is of this package, or the generated `__init__` of a dataclass."""
    return file == "<string>" or file.startswith(_HERE)
