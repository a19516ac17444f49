"""The one way in which functions of the simulator are compiled: cached on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """`function` compiled by numba at its first call; the machine code is kept beside the module."""
    result: Function = njit(cache=True, nogil=True)(function)
    return result


def inlined(function: Function) -> Function:
    """As `compiled`, and merged into its compiled callers."""
    result: Function = njit(cache=True, nogil=True, inline="always")(function)
    return result
