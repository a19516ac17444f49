# SPDX-License-Identifier: Apache-2.0
"""Where there is no Numba, as in a browser, what it would compile runs as the Python that it is.

Compiled code reads fields of structured arrays as attributes, and its integers wrap. So does a
plain function, on views of its arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

PLAIN = sys.platform in ("wasi", "emscripten")
"""Whether this Python is one of WebAssembly, which has neither Numba nor LLVM."""

Function = TypeVar("Function", bound=Callable[..., object])


def plain(function: Function) -> Function:
    """A function as an entry point that is not compiled; it takes the same arguments."""

    @wraps(function)
    def entry(*arguments: object) -> object:
        with np.errstate(over="ignore"):
            return function(*map(_with_attributes, arguments))

    return cast(Function, entry)


def _with_attributes(argument: object) -> object:
    """Structured arrays, also those of a tuple, with their fields as attributes of elements."""
    if isinstance(argument, tuple):
        return tuple(map(_with_attributes, argument))
    array: Any = argument
    return array.view(np.recarray) if isinstance(array, np.ndarray) and array.dtype.names else argument
