# SPDX-License-Identifier: Apache-2.0
"""Which random cases run: usual ones, a share of the others, or all; which tests `--long` has, and
which cases `--cases`."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize(
    ("number", "every", "cases"),
    [
        (0, False, ["Add Mul", "Sub", "3 Add"]),
        (1, False, ["Add Mul", "2 Add", "Sub"]),
        (2, False, ["1 Add", "Add Mul", "Sub"]),
        (3, False, ["Add", "Add Mul", "Sub", "4 Add"]),
        (4, False, ["Add Mul", "Sub", "3 Add"]),
        (0, True, ["Add", "1 Add", "Add Mul", "2 Add", "Sub", "3 Add", "4 Add"]),
    ],
)
def test_a_sample_has_every_feature_and_another_quarter_of_the_others(
    monkeypatch: pytest.MonkeyPatch, number: int, every: bool, cases: list[str]
) -> None:
    monkeypatch.setattr(module, "ALL", every)
    given = ["Add", "1 Add", "Add Mul", "2 Add", "Sub", "3 Add", "4 Add"]
    chosen = module.sample(given, lambda case: [word for word in case.split() if not word.isdecimal()], number)
    assert chosen == cases


@pytest.mark.parametrize(
    ("every", "cases"),
    [
        (False, ["a::f[0]", "a::g", "a::h[00]", "a::h[11]", "a::h[20]", "a::h[21]", "a::f[2]"]),
        (True, None),
    ],
)
def test_of_sampled_cases_each_value_occurs(
    monkeypatch: pytest.MonkeyPatch, every: bool, cases: list[str] | None
) -> None:
    """Of one parameter the first case and a quarter; of two parameters each value of both."""
    monkeypatch.setattr(module, "ALL", every)
    names = ["a::f[0]", "a::f[1]", "a::g", "a::h[00]", "a::h[01]", "a::h[10]", "a::h[11]", "a::h[20]", "a::h[21]"]
    items = [item(name, "[" in name) for name in (*names, "a::f[2]")]
    chosen = [case.nodeid for case in module.sampled(cast(Any, items), number=2)]
    assert chosen == (cases or [*names, "a::f[2]"])


def test_no_commit_has_the_longer_quarters_of_all_functions() -> None:
    """Each of 100 functions has a further case in one of four commits: not all in the same."""
    items = [item(f"a::f{function}[{case}]", True) for function in range(100) for case in range(2)]
    counts = [len(module.sampled(cast(Any, items), number)) - 100 for number in range(4)]
    assert sum(counts) == 100 and max(counts) < 50


def item(name: str, marked: bool) -> SimpleNamespace:
    """A case whose name ends with the values of its parameters."""
    digits = name.rstrip("]").partition("[")[2]
    callspec = SimpleNamespace(params={str(at): int(digit) for at, digit in enumerate(digits)})
    return SimpleNamespace(
        nodeid=name, callspec=callspec, get_closest_marker=lambda mark: (marked and mark == "sampled") or None
    )


def test_a_commit_has_a_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert module.number_of_commit() == module.number_of_commit()
    monkeypatch.setattr(module, "__file__", str(tmp_path / "seeds.py"))
    assert module.number_of_commit() == 0


def test_one_of_the_tests_that_take_turns_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ALL", False)
    assert [[module.turn(place, 2, number) for place in range(2)] for number in (6, 7)] == [
        [True, False],
        [False, True],
    ]
    monkeypatch.setattr(module, "ALL", True)
    assert all(module.turn(place, 2, 6) for place in range(2))


def test_all_processes_have_the_sample_of_the_head(pytestconfig: pytest.Config) -> None:
    assert os.environ["VDLA_SAMPLE"] == str(module.SAMPLE)
    assert f"VDLA_SAMPLE={module.SAMPLE}" in pytestconfig.hook.pytest_report_header(
        config=pytestconfig, start_path=pytestconfig.rootpath
    )


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
