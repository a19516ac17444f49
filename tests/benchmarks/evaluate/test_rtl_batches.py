# SPDX-License-Identifier: Apache-2.0
"""Batches of programs with several memories: each is run, mismatches are kept with their case, and
what passed is not run again.
"""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.extensions import sad

import vdla
from vdla.benchmarks.evaluate import on_rtl as rtl_batches
from vdla.benchmarks.evaluate.on_rtl import MEMORIES
from vdla.hardware.config import Config
from vdla.simulator.timing import time_program
from vdla.verification.programs.device_pair import PairResult

TINY = vdla.extend(Config.preset("tiny"), sad)


def opened(ran, wrong=()):
    """Pairs that time a program, and differ on programs of some seeds with the second memory."""

    @contextmanager
    def pair(config):
        def compare(program, arrays, conditions):
            ran.append((program.name, config.dram, conditions.start is not None))
            differs = config.dram == MEMORIES[1] and any(f"_{seed}_" in program.name for seed in wrong)
            return PairResult(time_program(program, config), "they differ" if differs else "")

        yield compare

    return pair


@pytest.fixture(autouse=True)
def no_build(monkeypatch, tmp_path):
    monkeypatch.setattr(rtl_batches, "build_library", lambda config, options: Path("library.so"))
    monkeypatch.setattr(rtl_batches, "user_cache", lambda name: tmp_path / name)


def run(ran, wrong=(), first=0, programs=3):
    steps = []
    batches = rtl_batches.split(TINY, MEMORIES[:2], first, programs)
    found = rtl_batches.run_batches(batches, lambda *step: steps.append(step), 0, opened(ran, wrong))
    return found, steps


def test_each_program_runs_with_each_memory_with_and_without_a_random_start():
    ran = []
    ((_, outcome, kept),), steps = run(ran)
    assert [dram for _, dram, _ in ran] == list(MEMORIES[:2]) * 3
    assert [name for name, _, _ in ran[::2]] == [name for name, _, _ in ran[1::2]]
    assert [start for _, _, start in ran[:2]] == [False, True]
    assert (outcome.runs, outcome.mismatches, kept) == (6, (), False)
    assert steps == [("start", 0, 6), ("tiny, 0 mismatches", 6, 6)]


def test_machines_are_split_into_batches_of_other_seeds():
    batches = rtl_batches.split(TINY, MEMORIES, 2000, rtl_batches.PROGRAMS + 2)
    assert [(batch.first, batch.count) for batch in batches] == [(2000, 48), (2048, 2)]
    starts = [case.random_start for batch in batches[:2] for case in batch.cases(batch.first)]
    assert starts == [True, False, True, False, False, True, False, True]


def test_what_passed_is_not_run_again_and_what_did_not_is():
    first, again, other = [], [], []
    run(first)
    ((_, outcome, kept),), steps = run(again)
    assert (again, kept, outcome.runs, steps) == ([], True, 6, [("start", 6, 6)])
    ((_, outcome, kept),), _ = run(other, wrong=(7,), first=6)
    ((case, text),) = outcome.mismatches
    assert (case.seed, case.config, text) == (7, replace(TINY, dram=MEMORIES[1]), "they differ")
    assert len(run(other, first=6)[0]) == 1 and len(other) == 12


def test_another_toolkit_runs_all_again(monkeypatch):
    ran = []
    run(ran)
    monkeypatch.setattr(rtl_batches, "toolkit_digest", lambda *more: "another")
    run(ran)
    assert len(ran) == 12
