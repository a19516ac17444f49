# SPDX-License-Identifier: Apache-2.0
"""Batches of seeded cases in processes of their own, which a case may kill.

A batch whose process dies runs again, then its halves, until the deadly case is known.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Outcome = TypeVar("Outcome")
_SEED_STRIDE = 1_000_000  # cases per seed, so that different seeds share none
_POOLED = 4  # batches of a worker before its pool is a new one


def batches_of(seed: int, count: int, size: int) -> list[range]:
    """The cases of a seed of a benchmark, as batches of at most `size` seeds."""
    first = seed * _SEED_STRIDE
    return [range(start, min(start + size, first + count)) for start in range(first, first + count, size)]


def run_batches(
    batches: Sequence[Sequence[int]],
    workers: int,
    work: Callable[[Sequence[int]], Outcome],
    died: Callable[[int], Outcome],
) -> Iterable[Outcome]:
    """The results of batches of seeds as they complete, in this process if there are no workers.

    `died` is the result of a case that killed its process.
    """
    if not workers:
        yield from map(work, batches)
        return
    for start in range(0, len(batches), _POOLED * workers):  # a death breaks the remaining batches of its pool
        broken: list[Sequence[int]] = []
        with _new_pool(workers) as pool:
            futures = {pool.submit(work, batch): batch for batch in batches[start : start + _POOLED * workers]}
            for future in as_completed(futures):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    broken.append(futures[future])
        for batch in broken:
            yield from _run_apart(batch, work, died)


def _run_apart(
    batch: Sequence[int], work: Callable[[Sequence[int]], Outcome], died: Callable[[int], Outcome]
) -> Iterable[Outcome]:
    """Run a batch in a process of its own, or its halves apart if that process dies."""
    try:
        with _new_pool(1) as pool:
            yield pool.submit(work, batch).result()
    except BrokenProcessPool:
        half = len(batch) // 2
        if not half:
            yield died(batch[0])
            return
        for part in (batch[:half], batch[half:]):
            yield from _run_apart(part, work, died)


def _new_pool(workers: int) -> ProcessPoolExecutor:
    """A pool of spawned processes: a fork would inherit the threads of compiled code."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
