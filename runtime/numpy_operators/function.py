# SPDX-License-Identifier: Apache-2.0
"""The form of an operator's NumPy function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
Value = Any  # an array, a list of values (a sequence), or None (absent, an empty optional)
Function = Callable[..., tuple[Value, ...]]
Attributes = Mapping[str, Any]
