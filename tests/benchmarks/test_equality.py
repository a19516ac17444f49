# SPDX-License-Identifier: Apache-2.0
"""RTL and simulator agree in every cycle and byte, on random and on compiled programs."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest
from helpers.seeds import ALL, turn

from vdla.benchmarks.equality import all_batches, compare_batch, run
from vdla.cli import main
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode
from vdla.simulator.function import Buffers
from vdla.verification.programs import suite
from vdla.verification.programs.cases import ProgramCase, all_random, random_batches
from vdla.verification.programs.random_machines import DRAMS, MACHINES

pytestmark = pytest.mark.rtl
TINY = Config.preset("tiny")


@pytest.mark.short  # the benchmark has every machine with every memory
@pytest.mark.parametrize("memory", range(len(DRAMS)))
def test_rtl_equals_the_simulator_with_every_memory_model(memory: int) -> None:
    machine = replace(TINY, dram=DRAMS[memory])
    for batch in random_batches(machine, 10_000 + 100 * memory, 6):
        outcome = compare_batch(batch)
        assert [f"{case}\n{text}" for case, text in outcome.mismatches] == []
        assert (outcome.programs, outcome.machine) == (6, "tiny")


def test_a_mismatch_is_reported_and_the_devices_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that is wrong for programs of one length."""
    from vdla.hardware import timing
    from vdla.simulator.timing import timing as simulator

    right = simulator.time_columns

    def wrong(config, linked, *rest):  # type: ignore[no-untyped-def]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(timing, "LOAD_TAIL", timing.LOAD_TAIL + (len(linked) > 40))
            return right(config, linked, *rest)

    monkeypatch.setattr(simulator, "time_columns", wrong)
    outcome = compare_batch([ProgramCase(TINY, 1, 20), ProgramCase(TINY, 2, 60), ProgramCase(TINY, 3, 20)])
    assert [case.seed for case, _ in outcome.mismatches] == [2]
    assert "first difference: end of instruction" in outcome.mismatches[0][1]


def test_a_wrong_value_that_no_store_carries_away_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that pads with a wrong value, on a program without STOREs."""
    right = Buffers.load

    def wrong(self: Buffers, row: list[int]) -> None:
        padded = any(row[COL[name]] for name in ("y_before", "y_after", "x_before", "x_after"))
        right(self, [value ^ (padded and at == COL["pad_value"]) for at, value in enumerate(row)])

    def pads_and_stores_nothing(case: ProgramCase) -> bool:
        columns = case.made().columns
        loads = columns[columns[:, COL["opcode"]] == Opcode.LOAD]
        return bool(loads[:, COL["x_after"]].any()) and Opcode.STORE not in columns[:, COL["opcode"]]

    cases = (ProgramCase(TINY, seed, 25) for seed in range(1000))
    case = next(case for case in cases if pads_and_stores_nothing(case))
    assert compare_batch([case]).mismatches == []
    monkeypatch.setattr(Buffers, "load", wrong)
    outcome = compare_batch([case])
    assert [text.startswith("buffers: element ") for _, text in outcome.mismatches] == [True]
    assert outcome.without_comparison == 0


@pytest.mark.short  # the benchmark has every machine with every memory
def test_every_machine_agrees_on_a_few_programs() -> None:
    """Three lengths on each machine, with one of the memories each; the others start at random."""
    memories = cycle(DRAMS)
    machines = [replace(machine, dram=next(memories)) for machine in MACHINES]
    batches = [
        random_batches(machine, 500_000 + 10 * number, 3, random_start=number % 2 > 0)[0]
        for number, machine in enumerate(machines)
    ]
    result = run(batches=batches, workers=0)
    assert result.receipt["found"] == []
    figures = result.figures
    assert (figures["mismatches"], figures["programs_without_comparison"]) == (0, 0)
    assert (figures["programs"], figures["configurations"]) == (3 * len(MACHINES), len(MACHINES))


MISSED = 5
"""So many bins may be missed by the random programs of a share."""
DRIVEN = [machine for number, machine in enumerate(MACHINES) if turn(number % 3, 3)]
"""The machines on which programs drive every field to its ends; the others have their turn with the
next commits.
"""
COMPARED = {machine.name for machine in (*DRIVEN, *suite.MACHINES)} | {"row"}
"""The machines of a turn: those, the ones of compiled programs, and one whose small buffers random
programs fill.
"""
CHOSEN = [machine for machine in MACHINES if ALL or machine.name in COMPARED]


def batches() -> list[list[ProgramCase]]:
    """The compiled and, of some machines, the directed programs; random ones on the machines of the
    turn with two of the memories, all of which occur; in a release on every machine with every one.
    """
    every = all_batches(seed=0, long=False, driven=DRIVEN)
    random = all_random(seed=0)
    given = every[: len(every) - len(random)]
    pairs = [divmod(number, len(MACHINES)) for number in range(len(random))]
    chosen = [
        ALL or (MACHINES[machine] in CHOSEN and (memory - machine) % len(DRAMS) in (1, 4)) for memory, machine in pairs
    ]
    return given + [batch for batch, has in zip(random, chosen, strict=True) if has]


@pytest.mark.long
def test_the_equality_benchmark_finds_no_mismatch() -> None:
    """Its random programs, all those of the coverage benchmark, reach every bin, and those of a
    turn nearly all; its directed ones the ends of every field on the machines for which they are.
    """
    result = run(seed=0, batches=batches())
    assert result.receipt["found"] == []
    assert result.figures["mismatches"] == 0
    assert result.figures["programs"] >= 300
    assert {row["machine"] for row in result.rows} == COMPARED | {machine.name for machine in CHOSEN}
    assert result.figures["memories"] >= len(DRAMS)
    assert result.figures["programs_without_comparison"] == 0
    assert 0.65 < result.figures["programs_placed_at_random"] / result.figures["programs"] < 0.85
    assert 0.4 < result.figures["programs_started_at_random"] / result.figures["programs"] < 0.6
    assert len(result.receipt["bins_missing"]) <= (0 if ALL else MISSED), result.receipt["bins_missing"]
    names = {machine.name for machine in DRIVEN}
    assert [text for text in result.receipt["extremes_missing"] if text.split(":")[0] in names] == []
    assert result.figures["extremes"] > 340 * len(CHOSEN)
    assert result.figures["extremes_covered"] > 340 * len(DRIVEN)
    assert not ALL or result.figures["extremes_covered"] == result.figures["extremes"]


def test_a_benchmark_without_a_long_form_refuses_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "compile", "--long"]) == 2
    assert "bench compile: --long must be for a benchmark with a long form, got compile" in capsys.readouterr().err
