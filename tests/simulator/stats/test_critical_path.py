# SPDX-License-Identifier: Apache-2.0
"""The critical path, and who gives the tokens, against naive models."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from helpers.small_programs import small_gemm

from vdla.compiler.templates import conv2d
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, QUEUES, SIDES, Unit
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats, Times
from vdla.simulator.stats.critical_path import CriticalPath, PathCause, critical_path
from vdla.simulator.stats.tokens import NONE, token_givers
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_program
from vdla.verification.programs.random_programs import random_verified_program


def programs() -> list[Program]:
    layers = [
        conv2d(Config.preset(name), height=8, width=8, in_channels=16, out_channels=16, kernel=3, batch=4).program
        for name in ("tiny", "int4", "batch4")
    ]
    random = [random_verified_program(Config.preset("tiny"), seed, 60) for seed in range(8)]
    return [small_gemm(Config.preset("tiny"))[0], *layers, *random]


@pytest.fixture(scope="module")
def runs() -> list[tuple[Program, RunStats]]:
    """Every program with a fast and with a slow memory, and with the shortest queues."""
    result = []
    for program in programs():
        slow = replace(program.config, dram=replace(program.config.dram, read_latency=300, beat_cycles=4))
        short = replace(program.config, command_depth=4, token_depth=8)
        result += [(program, time_program(program, config)) for config in (program.config, slow, short)]
    return result


def naive_givers(program: Program) -> np.ndarray:
    """Queues as lists that instructions push to and pop from, in turns as the units advance."""
    rows = program.columns
    givers = np.full((len(program), len(SIDES)), NONE)
    for queue in QUEUES:
        waiting = deque(
            k for k in range(len(program)) if rows[k, COL["unit"]] == queue.producer and rows[k, COL[queue.push]]
        )
        for k in range(len(program)):
            if rows[k, COL["unit"]] == queue.consumer and rows[k, COL[queue.pop]]:
                givers[k, SIDES.index(queue.pop.split("_")[1])] = waiting.popleft()
    return givers


def test_tokens_are_given_in_order(runs: list[tuple[Program, RunStats]]) -> None:
    for program, stats in runs:
        givers = token_givers(program.columns)
        np.testing.assert_array_equal(givers, naive_givers(program))
        for side in range(len(SIDES)):
            takers = np.flatnonzero(givers[:, side] != NONE)
            assert (stats.ends[givers[takers, side]] < stats.starts[takers]).all()
    assert any((token_givers(program.columns) != NONE).any() for program, _ in runs)


def events(stats: RunStats, k: int) -> set[int]:
    return {int(times[k]) for times in (stats.dispatches, stats.starts, stats.ends)}


def test_the_steps_lead_without_a_gap_from_the_first_cycle_to_the_last(runs: list[tuple[Program, RunStats]]) -> None:
    for program, stats in runs:
        path = critical_path(program, stats)
        assert path.begins[0] == 0 and (np.diff(path.begins) > 0).all()
        assert path.total == stats.total_cycles == sum(path.cycles().values())
        last = int(path.instructions[-1])
        assert stats.ends[last] == stats.ends.max() and path.begins[-1] == stats.ends[last]
        for begin, k in zip(path.begins[1:].tolist(), path.instructions.tolist(), strict=False):
            near = [k, *(int(other) for other in path.instructions[path.begins == begin])]
            assert any(begin in events(stats, one) for one in near), (program.name, begin)


def test_a_step_ends_where_its_cause_says(runs: list[tuple[Program, RunStats]]) -> None:
    seen = set()
    for program, stats in runs:
        path, givers = critical_path(program, stats), token_givers(program.columns)
        ends = np.append(path.begins[1:], path.total)
        for begin, end, k, cause in zip(path.begins, ends, path.instructions, path.causes, strict=True):
            seen.add(PathCause(cause))
            if cause == PathCause.TOKEN:
                assert stats.starts[k] == end and begin in stats.ends[givers[k]] and end == begin + 1
            if cause == PathCause.COMMAND:
                assert stats.starts[k] == end and stats.dispatches[k] == begin
            if cause == PathCause.FETCH:
                assert stats.dispatches[k] == end
    assert seen >= {PathCause.WORK, PathCause.TOKEN, PathCause.COMMAND, PathCause.FETCH}


def test_a_layer_bound_by_its_products_is_critical_in_compute() -> None:
    program = conv2d(
        Config.preset("pynq_z1"), height=14, width=14, in_channels=32, out_channels=32, kernel=3, pads=1, batch=1
    ).program
    stats = time_program(program)
    path = critical_path(program, stats)
    spent = np.diff(path.begins, append=path.total)
    units = program.columns[path.instructions, COL["unit"]]
    assert spent[units == Unit.COMPUTE].sum() > 0.8 * path.total


def test_an_empty_program_has_no_steps() -> None:
    program, _, _ = small_gemm(Config.preset("tiny"))
    empty = replace(program, words=program.words[:0], tensor_of=program.tensor_of[:0], source_of=program.source_of[:0])
    path = critical_path(empty, time_program(empty))
    assert isinstance(path, CriticalPath) and len(path.begins) == 0


def test_totals_alone_are_refused() -> None:
    program, _, _ = small_gemm(Config.preset("tiny"))
    stats = replace(time_program(program), starts=Times.none(len(program)).starts)
    with pytest.raises(SimulationError) as error:
        critical_path(program, stats)
    said = f"critical path of {program.name}: the device must record all times, got totals only"
    assert str(error.value) == said
