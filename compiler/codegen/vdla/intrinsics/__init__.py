# SPDX-License-Identifier: Apache-2.0
"""The accelerator's intrinsics, declared through the public API."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

from vdla.compiler.tensorize import Intrinsic, IntrinsicError
from vdla.hardware.config import Config

Declare = TypeVar("Declare", bound=Callable[..., Intrinsic])


def for_config(declare: Declare) -> Declare:
    """Cache the intrinsics that `declare` returns; refuse a first argument that is not a Config."""
    cached = lru_cache(declare)

    @wraps(declare)
    def checked(config: Config, *arguments: Any, **named: Any) -> Intrinsic:  # noqa: ANN401  those of `declare`
        if not isinstance(config, Config):
            rule = "config must be a Config, such as Config.preset('pynq_z1')"
            raise IntrinsicError(f"intrinsic {declare.__name__}: {rule}, got {config!r}")
        return cached(config, *arguments, **named)

    return cast("Declare", checked)
