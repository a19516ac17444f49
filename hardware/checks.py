# SPDX-License-Identifier: Apache-2.0
"""The error of configurations and the checks of single fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from vdla.support.errors import Error
from vdla.support.integers import is_int
from vdla.support.suggest import did_you_mean


class ConfigError(Error, ValueError):
    """An invalid configuration."""


def require_integer(where: str, name: str, value: object, low: int, high: int) -> None:
    """ConfigError unless `value` is an integer from `low` to `high`."""
    if not is_int(value) or not low <= value <= high:
        raise ConfigError(f"{where}: {name} must be an integer from {low} to {high}, got {value!r}")


def require_power(where: str, name: str, value: object, low: int, high: int) -> None:
    """ConfigError unless `value` is a power of two from `low` to `high`."""
    valid = is_int(value) and low <= value <= high and value & (value - 1) == 0
    if not valid:
        raise ConfigError(f"{where}: {name} must be a power of two from {low} to {high}, got {value!r}")


def require_known(where: str, cls: type, values: Mapping[str, Any]) -> None:
    """ConfigError unless every name is a field of the dataclass."""
    known = {f.name for f in fields(cls)}
    for name in values:
        if name not in known:
            raise ConfigError(
                f"{where}: field must be one of {', '.join(sorted(known))}, got {name}{did_you_mean(name, known)}"
            )
