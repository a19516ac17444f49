# SPDX-License-Identifier: Apache-2.0
"""Seeds of random cases: some in every run of the tests, the others with `--long`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def seeds(every: Sequence[int], usual: int) -> list[Any]:
    """Parameters for `pytest.mark.parametrize`: all of `every`, marked `long` after the `usual`."""
    return [*every[:usual], *(pytest.param(seed, marks=pytest.mark.long) for seed in every[usual:])]
