"""Defects planted in every module of the RTL: what finds each, and which survive.

A model of the machine holds all chosen defects, of which a run activates one. Random programs
against the simulator, the register table and stopped runs are tried in turn until one finds it; so
do the assertions of the RTL and the protocol rules of the memory. `--long` judges more defects,
tries what survives on other machines, and looks for proofs that it is no defect.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Progress, receipt, silent
from vdla.benchmarks.rtl_mutants.defects import Defect, defects
from vdla.benchmarks.rtl_mutants.design import DesignError, read_design
from vdla.benchmarks.rtl_mutants.equivalence import is_equivalent
from vdla.benchmarks.rtl_mutants.judge import Judgement, Killer, judge, original_finding
from vdla.benchmarks.rtl_mutants.machines import MACHINES
from vdla.benchmarks.rtl_mutants.model import build_model
from vdla.hardware.config import Config

COUNT, COUNT_LONG = 20, 240
WORKERS = 2


def run(
    progress: Progress = silent, seed: int = 0, long: bool = False, count: int | None = None, workers: int = WORKERS
) -> BenchmarkResult:
    """Judges `count` defects, at least one of each module where there are as many."""
    machines = MACHINES if long else MACHINES[:1]
    chosen = sample(all_defects(machines), seed, count or (COUNT_LONG if long else COUNT))
    alive = {defect.key: Judgement(defect, Killer.NOTHING) for defect in chosen}
    for machine in machines:
        open_ = [verdict.defect for verdict in alive.values() if verdict.killer is Killer.NOTHING]
        alive |= {verdict.defect.key: verdict for verdict in _judge(machine, open_, seed, workers, progress)}
    if long:
        alive |= {verdict.defect.key: verdict for verdict in _proofs(machines, list(alive.values()), progress)}
    verdicts = list(alive.values())
    survivors = [str(verdict.defect) for verdict in verdicts if verdict.killer is Killer.NOTHING]
    killers = Counter(verdict.killer for verdict in verdicts)
    figures = {
        "mutants": len(verdicts),
        "killed": len(verdicts) - killers[Killer.EQUIVALENT] - len(survivors),
        "equivalent": killers[Killer.EQUIVALENT],
        "survivors": len(survivors),
    }
    command = f"vdla bench rtl_mutants{' --long' if long else ''} --seed {seed} --json -"
    made = receipt(machines[0], [], seed, command) | {
        "survivors": survivors,
        "verdicts": [str(verdict) for verdict in verdicts],
        "killers": {killer.value: killers[killer] for killer in Killer if killers[killer]},
    }
    return BenchmarkResult("rtl_mutants", figures, _rows(verdicts), made)


def all_defects(machines: Iterable[Config]) -> list[Defect]:
    """The defects of every module that one of the machines elaborates."""
    found: dict[str, Defect] = {}
    for machine in machines:
        for file in read_design(machine):
            for defect in defects(file):
                found.setdefault(defect.key, defect)
    return list(found.values())


def sample(found: Sequence[Defect], seed: int, count: int) -> list[Defect]:
    """`count` defects by a seed: one of each module, in random order, then any."""
    rng = np.random.default_rng(seed)
    shuffled = [found[place] for place in rng.permutation(len(found))]
    first: dict[str, Defect] = {}
    for defect in shuffled:
        first.setdefault(defect.module, defect)
    leading = list(first.values())
    rest = [defect for defect in shuffled if first[defect.module] is not defect]
    return [*leading, *rest][:count]


def _judge(machine: Config, chosen: Sequence[Defect], seed: int, workers: int, progress: Progress) -> list[Judgement]:
    """The verdicts on those of the defects that a machine elaborates."""
    files = read_design(machine)
    has = {defect.key for file in files for defect in defects(file)}
    mine = [defect for defect in chosen if defect.key in has]
    if not mine:
        return []
    progress(f"building {machine.name} with {len(mine)} defects", 0, len(mine))
    model = build_model(machine, files, mine)
    if found := original_finding(model, seed):
        raise DesignError(f"rtl_mutants: {machine.name} without a defect must pass, got {found}")
    verdicts: list[Judgement] = []
    for verdict in judge(model, seed, workers):
        verdicts.append(verdict)
        _tell(verdict)
        alive = sum(one.killer is Killer.NOTHING for one in verdicts)
        progress(f"{machine.name}, {alive} alive", len(verdicts), len(mine))
    return verdicts


def _proofs(machines: Iterable[Config], verdicts: Sequence[Judgement], progress: Progress) -> list[Judgement]:
    """The survivors that are proved to be no defects of any machine that elaborates them."""
    alive = [verdict.defect for verdict in verdicts if verdict.killer is Killer.NOTHING]
    elaborated = {machine: {defect.key for defect in all_defects([machine])} for machine in machines}
    proved = []
    for number, defect in enumerate(alive):
        progress(f"proof for {defect.module}", number, len(alive))
        if all(is_equivalent(machine, defect) for machine, keys in elaborated.items() if defect.key in keys):
            proved.append(Judgement(defect, Killer.EQUIVALENT))
            _tell(proved[-1])
    return proved


def _tell(verdict: Judgement) -> None:
    print(verdict, file=sys.stderr, flush=True)


def _rows(verdicts: Sequence[Judgement]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for verdict in sorted(verdicts, key=lambda verdict: verdict.defect.module):
        module = verdict.defect.module
        row = rows.setdefault(
            module, {"module": module, **dict.fromkeys(("mutants", "killed", "equivalent", "survivors"), 0)}
        )
        row["mutants"] += 1
        killed = "survivors" if verdict.killer is Killer.NOTHING else "killed"
        row["equivalent" if verdict.killer is Killer.EQUIVALENT else killed] += 1
    return list(rows.values())
