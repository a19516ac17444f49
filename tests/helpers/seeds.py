# SPDX-License-Identifier: Apache-2.0
"""Random cases: some in every run of the tests, more with `--long`, all with VDLA_ALL_SEEDS=1.

What random cases find they find at first, or on the thousandth seed: a third of the further ones is
tried for each change, and all before a release.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

ALL = os.environ.get("VDLA_ALL_SEEDS", "") not in ("", "0")
_SHARE = 3


def seeds(every: Sequence[int], usual: int) -> list[Any]:
    """Parameters for `pytest.mark.parametrize`: the `usual` first ones, and of the others every
    third, or all, marked `long`.
    """
    further = every[usual :: 1 if ALL else _SHARE]
    return [*every[:usual], *(pytest.param(seed, marks=pytest.mark.long) for seed in further)]


def long_count(every: int, share: int = _SHARE) -> int:
    """So many random cases of a long test: a third of `every`, or another share, or all."""
    return every if ALL else -(-every // share)
