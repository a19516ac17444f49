# SPDX-License-Identifier: Apache-2.0
"""Few cases of each test, for what depends on the code that runs and not on its data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest


def first_cases(items: Iterable[pytest.Item], count: int) -> list[pytest.Item]:
    """The first `count` cases of each test function, in their order."""
    seen: Counter[str] = Counter()
    chosen = []
    for item in items:
        name = item.nodeid.split("[")[0]
        if seen[name] < count:
            chosen.append(item)
        seen[name] += 1
    return chosen
