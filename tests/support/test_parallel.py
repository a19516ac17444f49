# SPDX-License-Identifier: Apache-2.0
"""A map over processes: results, errors, killed workers, and no workers at all."""

import os
import re
import sys
from pathlib import Path
from pickle import PicklingError

import pytest
from helpers import parallel_functions as functions

from vdla.hardware.isa import IsaError
from vdla.support.parallel import WorkerError, parallel_map


@pytest.fixture
def items(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "met")] * 4


@pytest.mark.parametrize("workers", [1, 2, 3, 50])
def test_results_are_in_the_order_of_the_items(workers):
    assert parallel_map(functions.squared, list(range(20)), workers) == [n * n for n in range(20)]


def test_this_process_and_workers_share_the_items(items):
    processes = parallel_map(functions.process, items, 2)
    assert len(set(processes)) == 2 and os.getpid() in processes


def test_no_items_start_no_process(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert parallel_map(functions.squared, []) == []


def test_what_functions_print_is_not_taken_for_results(items, capfd):
    assert parallel_map(functions.loud, items, 2) == items


@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_of_the_first_item_that_fails_is_raised_as_it_was(workers):
    with pytest.raises(IsaError) as error:
        parallel_map(functions.negative_fails, [*range(9), -1, 3, -2, *range(9)], workers)
    assert str(error.value) == "somewhere: -1 must not be negative"
    assert error.value.problem == "-1 must not be negative"


def test_an_error_of_a_worker_has_all_its_fields_and_the_traceback_as_a_note(items):
    with pytest.raises(IsaError) as error:
        parallel_map(functions.fails_in_worker, items, 2)
    assert (str(error.value), error.value.problem) == ("a worker: it must not fail", "it must not fail")
    assert "in fails_in_worker" in error.value.__notes__[0]


def test_an_error_that_cannot_be_pickled_is_reported_by_its_text(items):
    with pytest.raises(WorkerError) as error:
        parallel_map(functions.fails_with_lock, items, 2)
    assert re.match("parallel: an item failed with ValueError: <unlocked _thread.lock", str(error.value))
    assert "in fails_with_lock" in error.value.__notes__[0]


def test_a_killed_worker_is_an_error(items):
    with pytest.raises(WorkerError) as error:
        parallel_map(functions.killed_in_worker, items, 2)
    assert str(error.value) == "parallel: a worker must not end before its work, got signal 9"


def test_without_workers_this_process_computes_everything(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    (tmp_path / "met").touch()
    assert set(parallel_map(functions.process, [str(tmp_path / "met")] * 3, 3)) == {os.getpid()}


def test_a_worker_starts_no_workers(items):
    assert parallel_map(functions.nested, items, 2) == [[4, 9]] * 4


def test_a_function_that_workers_cannot_import_is_an_error():
    with pytest.raises((AttributeError, PicklingError), match=r"[Pp]ickle"):
        parallel_map(lambda number: functions.squared(number), [1, 2], 2)
