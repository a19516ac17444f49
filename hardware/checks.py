"""What the rules of a configuration are written with: the error and checks of single fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from vdla.support.errors import Error


class ConfigError(Error, ValueError):
    """A configuration that no machine can have."""


def plain(value: Any) -> Any:  # noqa: ANN401  what is no number of numpy's passes through
    """A number of numpy's as the Python number, so that a shape or a size may come out of an array."""
    return value.item() if isinstance(value, np.generic) else value


def plain_fields(instance: Any) -> None:  # noqa: ANN401  any dataclass, frozen or not
    """Replace numpy's numbers in the fields of a new dataclass by Python's."""
    for field in fields(instance):
        value = getattr(instance, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(instance, field.name, value.item())


def require_integer(where: str, name: str, value: object, low: int, high: int) -> None:
    """Refuse all but integers from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{where}: {name} must be an integer from {low} to {high}, got {value!r}")


def require_power(where: str, name: str, value: object, low: int, high: int) -> None:
    """Refuse all but powers of two from `low` to `high`."""
    valid = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high and value & (value - 1) == 0
    if not valid:
        raise ConfigError(f"{where}: {name} must be a power of two from {low} to {high}, got {value!r}")


def require_known(where: str, cls: type, values: Mapping[str, Any]) -> None:
    """Refuse names that are no fields of the dataclass."""
    known = {f.name for f in fields(cls)}
    for name in values:
        if name not in known:
            raise ConfigError(f"{where}: field must be one of {', '.join(sorted(known))}, got {name}")
