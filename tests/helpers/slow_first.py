# SPDX-License-Identifier: Apache-2.0
"""The order of tests that run beside each other."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

MARKS = ("long", "slow", "rtl")
"""From the slowest to the least slow; tests without one come last."""


def slow_files_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests with files first that have slow ones; the tests of a file stay together, as they
    share its fixtures.
    """
    tests = list(items)
    ranks: dict[Path, int] = {}
    for item in tests:
        ranks[item.path] = min(ranks.get(item.path, len(MARKS)), _rank(item))
    return sorted(tests, key=lambda item: ranks[item.path])


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, mark in enumerate(MARKS) if item.get_closest_marker(mark)), len(MARKS))
