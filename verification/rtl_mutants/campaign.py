# SPDX-License-Identifier: Apache-2.0
"""The stages that a sample of defects passes through, each with the survivors of the stage before.

First some machines, on the scenarios that find most: a model holds all defects, and each run
activates one. Then the tests and proofs of the modules, the longer scenarios, and the other
machines; last a proof that a survivor is equivalent to the original.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from hashlib import blake2b
from queue import SimpleQueue
from threading import Thread

from vdla.hardware.config import Config
from vdla.support.progress import Progress
from vdla.verification.rtl_mutants.benches import BENCHES, available, bench_findings
from vdla.verification.rtl_mutants.defects import Defect, defects
from vdla.verification.rtl_mutants.design import DesignError, read_design, read_designs, selects_out_of_range
from vdla.verification.rtl_mutants.equivalence import is_equivalent
from vdla.verification.rtl_mutants.model import ORIGINAL, MutantModel, build_model, mutated
from vdla.verification.rtl_mutants.scenarios import Round, first_finding
from vdla.verification.rtl_mutants.verdict import Judgement, Killer


def verdicts(
    machines: Sequence[Config], late: Sequence[Config], count: int, seed: int, workers: int, progress: Progress
) -> list[Judgement]:
    """The verdicts on `count` defects of `machines`, on standard error too as they come.

    The machines of `late` judge only what the tests of the modules leave, so few need a model.
    """
    chosen = sample(all_defects(machines), seed, count)
    judgements = {defect.key: Judgement(defect, Killer.NOTHING) for defect in chosen}

    def alive() -> list[Defect]:
        return [verdict.defect for verdict in judgements.values() if verdict.killer is Killer.NOTHING]

    def note(stage: Iterable[Judgement]) -> None:
        for verdict in stage:
            print(verdict, file=sys.stderr, flush=True)
            judgements[verdict.defect.key] = verdict

    every = [*machines, *late]
    models: list[MutantModel] = []
    for machine in machines:
        built = _models(machine, alive(), progress)
        note(_on_models(built, alive(), seed, workers, Round.FIRST, progress))
        models += built
    note(_lint(every, alive()))
    note(_on_benches(every, alive(), workers, progress))
    note(_on_models(models, alive(), seed, workers, Round.SECOND, progress))
    for machine in late:
        built = _models(machine, alive(), progress)
        for stage in Round:
            note(_on_models(built, alive(), seed, workers, stage, progress))
    note(_proofs(every, alive(), progress))
    return list(judgements.values())


# --- the sample -----------------------------------------------------------------------------------


def all_defects(machines: Iterable[Config]) -> list[Defect]:
    """The defects of every module that one of the machines elaborates."""
    result: dict[str, Defect] = {}
    for machine in machines:
        for defect in _defects_of(machine):
            result.setdefault(defect.key, defect)
    return list(result.values())


@cache
def _defects_of(machine: Config) -> tuple[Defect, ...]:
    return tuple(defect for file in read_design(machine) for defect in defects(file))


def sample(all_defects: Sequence[Defect], seed: int, count: int) -> list[Defect]:
    """`count` defects by a seed: one of each module, then any.

    The order is that of hashes, so most of a sample stays when a change of the RTL adds defects or
    takes some away.
    """
    shuffled = sorted(all_defects, key=lambda defect: blake2b(f"{seed} {defect.key}".encode()).digest())
    first: dict[str, Defect] = {}
    for defect in shuffled:
        first.setdefault(defect.module, defect)
    leading = list(first.values())
    rest = [defect for defect in shuffled if first[defect.module] is not defect]
    return [*leading, *rest][:count]


# --- the stages -----------------------------------------------------------------------------------


def _models(machine: Config, chosen: Sequence[Defect], progress: Progress) -> list[MutantModel]:
    """The model of a machine with those of the defects that it elaborates; none without any."""
    if not chosen:
        return []
    files = read_design(machine)
    has = {defect.key for file in files for defect in defects(file) if file.elaborates(defect.span)}
    mine = [defect for defect in chosen if defect.key in has]
    progress(f"building {machine.name} with {len(mine)} defects", 0, len(mine))
    return [build_model(machine, files, mine)] if mine else []


def _on_models(
    models: Sequence[MutantModel],
    alive: Sequence[Defect],
    seed: int,
    workers: int,
    chosen: Round,
    progress: Progress,
) -> Iterator[Judgement]:
    """The verdicts of a round of scenarios on the defects of models that are still alive."""
    alive_keys = {defect.key for defect in alive}
    for model in models:
        numbers = [number for number, defect in model.defects.items() if defect.key in alive_keys]
        if not numbers:
            continue
        name = model.config.name
        passed: set[str] = set()
        for number, verdict in enumerate(judge(model, numbers, seed, workers, chosen), 1):
            _require_sound(model, seed, chosen, verdict.detail, passed)
            yield verdict
            if verdict.killer is not Killer.NOTHING:
                alive_keys.remove(verdict.defect.key)
            progress(f"{name}, {chosen.value} scenarios, {len(alive_keys)} alive", number, len(numbers))


def _require_sound(model: MutantModel, seed: int, chosen: Round, finding: str, passed: set[str]) -> None:
    """DesignError if the scenario of a finding finds something without a defect; what passes is
    added to `passed`.
    """
    name = finding.split(": ")[0]
    if not finding or name in passed:
        return
    if failure := original_finding(model, seed, chosen, name):
        raise DesignError(f"rtl_mutants: {model.config.name} without a defect must pass, got {failure}")
    passed.add(name)


def _lint(machines: Sequence[Config], chosen: Sequence[Defect]) -> Iterator[Judgement]:
    """The defects that select outside of a vector."""
    if not chosen:
        return
    files = read_designs(machines)
    for defect in chosen:
        texts = {file.path: mutated(file.text, defect) if file.module == defect.module else file.text for file in files}
        if any(selects_out_of_range(machine, texts) for machine in machines):
            yield Judgement(defect, Killer.LINT, "a constant select is out of range")


def _on_benches(
    machines: Sequence[Config], chosen: Sequence[Defect], workers: int, progress: Progress
) -> Iterator[Judgement]:
    """What the tests and proofs of the modules find; what is for extensions has none."""
    modules: dict[str, list[Defect]] = {}
    for defect in chosen:
        if defect.module in BENCHES and not defect.of_extensions:
            modules.setdefault(defect.module, []).append(defect)
    if not modules or not available():
        return
    files = read_designs(machines)

    def findings(module: str) -> list[tuple[Defect, str]]:
        return list(bench_findings(files, module, modules[module]))

    with ThreadPoolExecutor(workers) as pool:
        for number, failure in enumerate(pool.map(findings, modules), 1):
            yield from (Judgement(defect, Killer.BENCH, text) for defect, text in failure if text)
            progress("tests of the modules", number, len(modules))


def _proofs(machines: Iterable[Config], chosen: Sequence[Defect], progress: Progress) -> Iterator[Judgement]:
    """The defects that are proved to be none on any machine that elaborates them."""
    if not chosen:
        return
    elaborated = {machine: {defect.key for defect in all_defects([machine])} for machine in machines}
    for number, defect in enumerate(chosen):
        progress(f"proof for {defect.module}", number, len(chosen))
        if all(is_equivalent(machine, defect) for machine, keys in elaborated.items() if defect.key in keys):
            yield Judgement(defect, Killer.EQUIVALENT)


# --- judging --------------------------------------------------------------------------------------
# Judges defects of a model: each in a run of its own, in processes that may hang or crash.


MOST_SECONDS = 600.0
"""Of one defect; what takes longer hangs in a way that the limits of cycles do not see."""
_CRASH, _LATE = "the model crashes", f"the model takes more than {MOST_SECONDS:g} s"


def judge(model: MutantModel, numbers: Collection[int], seed: int, workers: int, chosen: Round) -> Iterator[Judgement]:
    """The verdict of a round of scenarios on defects of a model, by number, as they come."""
    pending: SimpleQueue[int | None] = SimpleQueue()
    for number in [*numbers, *(None for _ in range(workers))]:
        pending.put(number)
    replies: SimpleQueue[tuple[int, str]] = SimpleQueue()
    lanes = [Thread(target=_work, args=(model, seed, chosen, pending, replies), daemon=True) for _ in range(workers)]
    for lane in lanes:
        lane.start()
    for _ in numbers:
        number, text = replies.get()
        yield Judgement(model.defects[number], _killer(text), text)


def _work(
    model: MutantModel,
    seed: int,
    chosen: Round,
    pending: SimpleQueue[int | None],
    replies: SimpleQueue[tuple[int, str]],
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
        replies.put((number, text))
    pool.shutdown()


def original_finding(model: MutantModel, seed: int, chosen: Round, name: str = "") -> str:
    """What a scenario of a round finds without a defect, or all of them if none has the name:
    nothing, if the model is the original.
    """
    return first_finding(model.config, model.activated(ORIGINAL), seed, chosen, name)


def _killer(detail: str) -> Killer:
    if not detail:
        return Killer.NOTHING
    if detail in (_CRASH, _LATE):
        return Killer.CRASH if detail == _CRASH else Killer.HANG
    if "must not stop" in detail:
        return Killer.ASSERTION
    if "has not ended" in detail or "hangs" in detail or "must come within" in detail or "must be answered" in detail:
        return Killer.HANG
    if "broken in cycle" in detail:
        return Killer.PROTOCOL
    if detail.startswith(("programs", "extremes", "directed programs")):
        return Killer.EQUALITY
    control = ("registers", "accesses", "interrupt", "busy")
    return Killer.CONTROL if detail.startswith(control) else Killer.STOPS
