# SPDX-License-Identifier: Apache-2.0
"""Files with slow tests come first, whole and otherwise in order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from helpers.slow_first import slow_files_first


@dataclass(frozen=True)
class Item:
    name: str
    mark: str = ""

    @property
    def path(self) -> Path:
        return Path(self.name[0])

    def get_closest_marker(self, mark: str) -> bool:
        return mark == self.mark


def test_slow_files_come_first_and_stay_whole() -> None:
    items = [Item("a1"), Item("b1"), Item("b2", "rtl"), Item("c1", "slow"), Item("d1"), Item("e1"), Item("e2", "long")]
    order = slow_files_first(cast(Any, items))
    assert [cast(Item, item).name for item in order] == ["e1", "e2", "c1", "b1", "b2", "a1", "d1"]
