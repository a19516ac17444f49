# SPDX-License-Identifier: Apache-2.0
"""The cycles of a chain are divided among its operators without a rest."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.quantiser import to_qdq

from vdla.hardware.isa import COL, COUNTERS, Opcode, Unit
from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.executor.operator_cycles import operator_cycles, operator_of
from vdla.runtime.executor.plan import ProgramStep
from vdla.runtime.network.compile_network import compile_network
from vdla.simulator.stats import moved_bytes
from vdla.simulator.timing import time_program


@pytest.fixture(scope="module")
def artifact():
    network = NETWORKS["digits"]
    model = network.build()
    return compile_network(to_qdq(model, [network.inputs(model, seed=1)]), "pynq_z1").artifact


@pytest.fixture(scope="module")
def step(artifact):
    return next(step for step in artifact.plan.steps if isinstance(step, ProgramStep))


def owners_of_cycles(program, stats, lines):
    """Cycle by cycle: the operator whose compute instruction ends next owns the cycle."""
    owner = operator_of(program, lines)
    compute = [k for k in range(len(program)) if program.columns[k, COL["unit"]] == Unit.COMPUTE]
    owners = [next((owner[j] for j in compute[i:] if owner[j] >= 0), owner[compute[-1]]) for i in range(len(compute))]
    position = 0
    for cycle in range(stats.total_cycles):
        while position < len(compute) and stats.ends[compute[position]] < cycle:
            position += 1
        yield owners[position] if position < len(compute) else len(lines) - 1


def naive(program, stats, lines):
    return np.bincount(list(owners_of_cycles(program, stats, lines)), minlength=len(lines)).tolist()


def test_cycles_are_those_of_the_naive_count(artifact, step):
    program = artifact.programs[step.program]
    stats = time_program(program)
    found = operator_cycles(program, stats, step.lines)
    assert [each.cycles for each in found] == naive(program, stats, step.lines)
    assert sum(each.cycles for each in found) == stats.total_cycles
    waited = {c: n for c, n in stats.counters["compute"].items() if c not in ("busy", "idle") and n}
    assert {c: sum(each.stalls.get(c, 0) for each in found) for c in waited} == waited
    assert sum(each.bytes_written for each in found) == stats.bytes_written


def test_the_plan_has_them(step):
    operators = step.placement.operators
    assert sum(operator.cycles for operator in operators) == step.placement.cycles
    assert operators[0].name == "conv1"
    assert operators[0].seconds > 0


def test_nothing_is_guessed_without_times(artifact, step):
    program = artifact.programs[step.program]
    stats = time_program(program)
    assert operator_cycles(program, stats, ()) is None
    stats.ends[0] = -1
    assert operator_cycles(program, stats, step.lines) is None


def test_an_operator_that_never_waits_has_no_main_stall(artifact, step):
    program = artifact.programs[step.program]
    stats = time_program(program)
    stats.waits[:, [i for i, name in enumerate(COUNTERS) if name != "busy"]] = 0
    assert {each.main_stall for each in operator_cycles(program, stats, step.lines)} == {None}


@pytest.mark.parametrize("lines", [(), (1,), "negative"])
def test_lines_that_do_not_fit_are_refused(artifact, step, lines):
    count, total = len(step.lines), sum(step.lines)
    if lines == "negative":
        lines = (total + 1, -1, *([0] * (count - 2)))
    steps = tuple(replace(s, lines=lines) if s is step else s for s in artifact.plan.steps)
    wrong = replace(artifact, plan=replace(artifact.plan, steps=steps))
    message = (
        f"plan digits, step region 1: lines must be {count} numbers from 0 whose sum is {total}, got {list(lines)}"
    )
    with pytest.raises(ArtifactError) as error:
        wrong.check()
    assert str(error.value) == message


def test_the_sum_of_bytes_is_that_of_the_run(artifact, step):
    program = artifact.programs[step.program]
    stats = time_program(program)
    found = operator_cycles(program, stats, step.lines)
    stream = stats.bytes_read - sum(each.bytes_read for each in found)
    assert stream == program.words.nbytes
    assert np.all([each.bytes_read > 0 for each in found])


def naive_bytes(program, stats, lines, opcode):
    """Beat by beat, the last transfer first: each beat in the last free cycle before its end."""
    moved, taken, per_cycle = moved_bytes(program.config, program.columns), {}, program.config.peak_bytes_per_cycle
    for k in np.argsort(stats.ends, kind="stable")[::-1]:
        rest = moved[k] if program.columns[k, COL["opcode"]] == opcode else 0
        cycle = min([stats.ends[k], *([min(taken)] if taken else [])])
        while rest > 0:
            share = min(rest, per_cycle - taken.get(cycle, 0))
            taken[cycle] = taken.get(cycle, 0) + share
            rest, cycle = rest - share, cycle - 1
    found = [0] * len(lines)
    for cycle, owner in enumerate(owners_of_cycles(program, stats, lines)):
        found[owner] += taken.get(cycle, 0)
    return found


@pytest.mark.parametrize("dram", [{}, {"beat_cycles": 2}, {"read_latency": 300}])
def test_bytes_count_for_the_operator_in_whose_cycles_they_are_moved(artifact, step, dram):
    program = artifact.programs[step.program]
    config = replace(program.config, dram=replace(program.config.dram, **dram))
    program = replace(program, config=config)
    stats = time_program(program, config)
    found = operator_cycles(program, stats, step.lines)
    assert [each.bytes_read for each in found] == naive_bytes(program, stats, step.lines, Opcode.LOAD)
    assert [each.bytes_written for each in found] == naive_bytes(program, stats, step.lines, Opcode.STORE)
    for each in found:
        assert max(each.bytes_read, each.bytes_written) <= each.cycles * config.peak_bytes_per_cycle
