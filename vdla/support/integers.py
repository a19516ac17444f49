# SPDX-License-Identifier: Apache-2.0
"""Integers given by callers: NumPy scalars become Python numbers, and bool is not an integer."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeGuard

import numpy as np

_INTEGERS = (int, np.integer)


def is_int(value: object) -> TypeGuard[int]:
    """Whether `value` is an integer, Python's or NumPy's, and not a bool."""
    return isinstance(value, _INTEGERS) and not isinstance(value, bool)


def to_python(value: Any) -> Any:  # noqa: ANN401  only NumPy scalars are converted
    """A NumPy scalar as a Python number; any other value unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def fields_to_python(instance: Any) -> None:  # noqa: ANN401  any dataclass, frozen or not
    """Convert the NumPy scalars among the fields of a new dataclass instance to Python numbers."""
    for field in fields(instance):
        value = getattr(instance, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(instance, field.name, value.item())
