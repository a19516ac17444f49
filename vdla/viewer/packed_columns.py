# SPDX-License-Identifier: Apache-2.0
"""Columns of integers as compressed text, which the script of the page unpacks.

Every column is stored in the narrowest type that holds it, or its differences where those are
narrower; all columns together are one zlib stream in base64.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.support.arrays import Ints

_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float64")
_LEVEL = 6  # of compression; 9 takes several times as long for a few percent


def pack_columns(columns: Mapping[str, Ints]) -> tuple[list[dict[str, Any]], str]:
    """A description of every column, in order, and the text of all."""
    described, parts, place = [], [], 0
    for name, values in columns.items():
        plain, stored, array = _stored(np.asarray(values, np.int64))
        content = array.tobytes()
        described.append({"name": name, "type": plain, "stored": stored, "count": len(values), "place": place})
        content += b"\0" * (-len(content) % 8)  # typed arrays begin at a multiple of their elements
        parts.append(content)
        place += len(content)
    return described, base64.b64encode(zlib.compress(b"".join(parts), _LEVEL)).decode()


def _stored(values: Ints) -> tuple[str, str, Any]:
    """The type of the values; that of the array, which has differences where it is another one; the
    array.
    """
    steps = np.diff(values, prepend=0)
    plain, of_steps = _narrowest(values), _narrowest(steps)
    if np.dtype(of_steps).itemsize < np.dtype(plain).itemsize:
        return plain, of_steps, steps.astype(of_steps)
    return plain, plain, values.astype(plain)


def _narrowest(values: Ints) -> str:
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    fitting = (name for name in _TYPES[:-1] if np.iinfo(name).min <= low and high <= np.iinfo(name).max)
    return next(fitting, _TYPES[-1])
