# SPDX-License-Identifier: Apache-2.0
"""Which random cases run: usual ones, a third of the others, or all; which tests `--long` has, and
which cases `--cases`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from helpers import seeds as module
from helpers.first_cases import first_cases


def values(parameters: list[Any]) -> list[tuple[int, bool]]:
    """The seeds, and whether each is of the long tests."""
    return [(item, False) if isinstance(item, int) else (item.values[0], bool(item.marks)) for item in parameters]


@pytest.mark.parametrize(("every", "further", "count"), [(False, [2, 5, 8], 34), (True, list(range(2, 9)), 100)])
def test_a_third_of_the_further_seeds_or_all(
    monkeypatch: pytest.MonkeyPatch, every: bool, further: list[int], count: int
) -> None:
    monkeypatch.setattr(module, "ALL", every)
    assert values(module.seeds(range(9), 2)) == [(0, False), (1, False), *((seed, True) for seed in further)]
    assert module.long_count(100) == count


@pytest.mark.parametrize(("long", "kept"), [(False, ["", "short"]), (True, ["", "long"])])
def test_of_short_and_long_tests_one_kind_runs(pytestconfig: pytest.Config, long: bool, kept: list[str]) -> None:
    conftest = next(
        plugin for plugin in pytestconfig.pluginmanager.get_plugins() if hasattr(plugin, "stub_cuda_library")
    )
    items = [
        SimpleNamespace(mark=mark, path=Path("a"), get_closest_marker=lambda name, mark=mark: name == mark)
        for mark in ("", "short", "long")
    ]
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config = SimpleNamespace(getoption=lambda name: long if name == "--long" else None, hook=hook)
    conftest.pytest_collection_modifyitems(cast(Any, config), cast(Any, items))
    assert [item.mark for item in items] == kept


def test_the_first_cases_of_each_function_keep_their_order() -> None:
    items = [SimpleNamespace(nodeid=name) for name in ("a::f[0]", "a::f[1]", "a::g", "a::f[2]", "b::f[0]")]
    names = [item.nodeid for item in first_cases(cast(Any, items), 2)]
    assert names == ["a::f[0]", "a::f[1]", "a::g", "b::f[0]"]
