# SPDX-License-Identifier: Apache-2.0
"""Work in the background: results, errors, killed workers, and no workers at all."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from helpers import parallel_functions as functions

from vdla.hardware.isa import IsaError
from vdla.support import parallel
from vdla.support.background import Background
from vdla.support.parallel import WorkerError


@pytest.fixture
def items(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "met")] * 4


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_results_are_in_the_order_of_the_tasks(workers: int) -> None:
    with Background(workers) as background:
        tasks = [background.submit(functions.squared, number) for number in range(20)]
        assert background.results(tasks[::-1]) == [number * number for number in reversed(range(20))]
        assert background.results(tasks[3:5]) == [9, 16]
        assert background.results([]) == []


def test_a_worker_begins_before_any_result_is_wanted(items: list[str]) -> None:
    with Background(1) as background:
        task = background.submit(functions.process, items[0])
        end = time.monotonic() + 60
        while task.outcome is None and time.monotonic() < end:
            time.sleep(0.01)
        assert background.results([task]) != [os.getpid()]


def test_this_process_does_what_has_not_begun(items: list[str]) -> None:
    with Background(1) as background:
        found = background.results([background.submit(functions.process, item) for item in items])
    assert len(set(found)) == 2
    assert os.getpid() in found


def test_while_it_waits_this_process_does_other_work(items: list[str]) -> None:
    """The first task ends only after this process has begun the second."""
    with Background(1) as background:
        first, second = (background.submit(function, items[0]) for function in (functions.waits, functions.meets))
        while first in background._waiting:
            time.sleep(0.01)
        assert background.results([first]) == [True]
        assert background.results([second]) == [os.getpid()]


def test_the_error_of_the_first_task_that_fails_is_raised_as_it_was() -> None:
    with Background(1) as background:
        tasks = [background.submit(functions.negative_fails, number) for number in (3, -1, 4, -2)]
        with pytest.raises(IsaError) as error:
            background.results(tasks)
    assert str(error.value) == "somewhere: -1 must not be negative"


def test_a_killed_worker_is_an_error(items: list[str]) -> None:
    with Background(1) as background:
        tasks = [background.submit(functions.killed_in_worker, item) for item in items]
        with pytest.raises(WorkerError) as error:
            background.results(tasks)
    assert str(error.value) == "parallel: a worker must not end before its work, got signal 9"


def test_without_workers_this_process_does_everything(monkeypatch: pytest.MonkeyPatch, items: list[str]) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    Path(items[0]).touch()
    with Background(2) as background:
        assert set(background.results([background.submit(functions.process, item) for item in items])) == {os.getpid()}


def test_short_work_starts_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "PATIENCE_S", 600.0)
    with Background(2) as background:
        assert background.results([background.submit(functions.squared, 3)]) == [9]
    assert not background._workers


def test_work_that_nobody_waits_for_ends_with_the_context() -> None:
    with pytest.raises(KeyError), Background(1) as background:
        background.submit(time.sleep, 600)
        while background._waiting:
            time.sleep(0.01)
        raise KeyError
    assert [worker.process.poll() is None for worker in background._workers] == [False]
