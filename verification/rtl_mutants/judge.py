"""Judges defects of a model: each in a run of its own, in processes that may hang or crash."""

from __future__ import annotations

import multiprocessing
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from queue import SimpleQueue
from threading import Thread

from vdla.verification.rtl_mutants.model import ORIGINAL, MutantModel
from vdla.verification.rtl_mutants.scenarios import Round, first_finding
from vdla.verification.rtl_mutants.verdict import Judgement, Killer

MOST_SECONDS = 600.0
"""Of one defect; what takes longer hangs in a way that the limits of cycles do not see."""
_CRASH, _LATE = "the model crashes", f"the model takes more than {MOST_SECONDS:g} s"


def judge(model: MutantModel, numbers: Collection[int], seed: int, workers: int, chosen: Round) -> Iterator[Judgement]:
    """The verdict of a round of scenarios on defects of a model, by number, as they come."""
    pending: SimpleQueue[int | None] = SimpleQueue()
    for number in [*numbers, *(None for _ in range(workers))]:
        pending.put(number)
    found: SimpleQueue[tuple[int, str]] = SimpleQueue()
    lanes = [Thread(target=_work, args=(model, seed, chosen, pending, found), daemon=True) for _ in range(workers)]
    for lane in lanes:
        lane.start()
    for _ in numbers:
        number, text = found.get()
        yield Judgement(model.defects[number], _killer(text), text)


def _work(
    model: MutantModel,
    seed: int,
    chosen: Round,
    pending: SimpleQueue[int | None],
    found: SimpleQueue[tuple[int, str]],
) -> None:
    """Judges defects in a process of its own, with a new one after a crash or a hang."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, context)
    while (number := pending.get()) is not None:
        try:
            future = pool.submit(first_finding, model.config, model.activated(number), seed, chosen)
            text = future.result(MOST_SECONDS)
        except (BrokenProcessPool, FutureTimeout) as error:
            text = _CRASH if isinstance(error, BrokenProcessPool) else _LATE
            for process in list(pool._processes.values()):  # a worker in C code heeds nothing else
                process.kill()
            pool = ProcessPoolExecutor(1, context)
        found.put((number, text))
    pool.shutdown()


def original_finding(model: MutantModel, seed: int, chosen: Round) -> str:
    """What a round of scenarios finds without a defect: nothing, if the model is the original."""
    return first_finding(model.config, model.activated(ORIGINAL), seed, chosen)


def _killer(found: str) -> Killer:
    if not found:
        return Killer.NOTHING
    if found in (_CRASH, _LATE):
        return Killer.CRASH if found == _CRASH else Killer.HANG
    if "must not stop" in found:
        return Killer.ASSERTION
    if "has not ended" in found or "hangs" in found or "must come within" in found or "must be answered" in found:
        return Killer.HANG
    if "broken in cycle" in found:
        return Killer.PROTOCOL
    if found.startswith("programs"):
        return Killer.EQUALITY
    control = ("registers", "accesses", "interrupt", "busy")
    return Killer.CONTROL if found.startswith(control) else Killer.STOPS
