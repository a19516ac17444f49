# SPDX-License-Identifier: Apache-2.0
"""The benchmark of certificates: what faults change, and how they are judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

from vdla.benchmarks import certify as benchmark
from vdla.benchmarks.certify import (
    all_on_machine,
    compiled_network,
    judged,
    judged_region,
    network_row,
    rewritings,
    small_operators,
    spellings,
)
from vdla.benchmarks.certify_faults import FIELDS, KINDS, planted_faults
from vdla.benchmarks.certify_schedule_faults import SCHEDULE_KINDS, planted_schedule_faults, wrong_options
from vdla.compiler import te
from vdla.compiler.certificates.network_certificate import region_programs
from vdla.hardware.config import Config
from vdla.hardware.isa import COL
from vdla.hardware.program import UOPS
from vdla.networks.registry import NETWORKS

TINY = Config.preset("tiny")
CONVOLUTION = small_operators(TINY)[1]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("immediate", "vector operation")])
def test_a_fault_is_one_change(kind: str) -> None:
    """Of one instruction, of two that change places, or of the micro-ops."""
    program = CONVOLUTION.program
    faults = list(planted_faults(program, kind, 3, default_rng(0)))
    assert faults
    for fault in faults:
        changed = np.flatnonzero((fault.program.words != program.words).any(axis=1))
        if kind == "micro-op":
            assert not len(changed)
            assert fault.program.tensor(UOPS).data != program.tensor(UOPS).data
        elif kind in FIELDS:
            assert len(changed) == 1
            names = FIELDS[kind][1]
            both = fault.program.columns[changed[0]] != program.columns[changed[0]]
            assert np.flatnonzero(both).tolist() in [[COL[name]] for name in names]
        else:
            assert len(changed) <= 2


def test_faults_are_judged_by_certificate_and_simulation() -> None:
    program = CONVOLUTION.program
    assert judged(CONVOLUTION, program, 0) == "equal"
    (fault,) = planted_faults(program, "zero point", 1, default_rng(0))
    assert judged(CONVOLUTION, fault.program, 0) == "refused"


def test_a_certificate_for_a_fault_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    (fault,) = planted_faults(CONVOLUTION.program, "zero point", 1, default_rng(0))
    real = benchmark.certify
    monkeypatch.setattr(benchmark, "certify", lambda *_, **more: replace(real(CONVOLUTION), differing=0))
    assert judged(CONVOLUTION, fault.program, 0) == "accepted"


def test_rewritings_are_different_programs_of_one_expression() -> None:
    operators = list(rewritings("dense", TINY, default_rng(0)))
    assert len({operator.program.hash for operator in operators}) > 1
    assert all(benchmark.certify(operator).holds for operator in operators[:2])


def test_operations_that_change_nothing_are_certified_and_others_are_not() -> None:
    operator = next(rewritings("dense", TINY, default_rng(0)))
    spelled = spellings(operator.form.output)
    assert len(spelled) > 5
    assert all(benchmark.certify(operator, one, explain=False).holds for one in spelled.values())
    result = operator.form.output
    more = te.compute(result.shape, lambda *i: result[i] + te.const(1, result.dtype), "more")
    assert not benchmark.certify(operator, more, explain=False).holds


def test_the_programs_of_a_network_are_certified() -> None:
    network = NETWORKS["deep_q_network"]
    row = network_row(network, network.small, 0, all_on_machine)
    assert row["programs"] == row["certified"] > 0
    assert row["operators"] == 5
    assert min(row["compile_s"], row["certify_s"]) > 0


def test_faults_in_networks_are_judged_by_their_plain_results() -> None:
    network = NETWORKS["deep_q_network"]
    compiled, _ = compiled_network(network, network.small, 0, all_on_machine)
    _, expression, given = list(region_programs(compiled))[-1]
    assert expression is not None
    assert judged_region(expression, given, given.program, 0) == "equal"
    (fault,) = planted_faults(given.program, "zero point", 1, default_rng(0))
    assert judged_region(expression, given, fault.program, 0) == "refused"


@pytest.mark.parametrize(("kind", "count"), [("loop that is one short", 3), ("term of an index", 0)])
def test_a_schedule_fault_is_another_program(kind: str, count: int) -> None:
    """Of those that compile: without terms of its indices, a convolution leaves its buffers."""
    faults = list(planted_schedule_faults(CONVOLUTION, kind, 3, default_rng(0)))
    assert len(faults) >= count
    for fault in faults:
        assert fault.kind == kind
        assert fault.program.hash != CONVOLUTION.program.hash


def test_a_short_loop_is_refused() -> None:
    verdicts = {
        judged(CONVOLUTION, fault.program, 0)
        for fault in planted_schedule_faults(CONVOLUTION, SCHEDULE_KINDS[0], 2, default_rng(0))
    }
    assert verdicts
    assert verdicts <= {"refused", "hidden", "hidden always"}


def test_a_wrong_option_is_a_program_with_the_same_tensors() -> None:
    pairs = list(wrong_options(TINY))
    assert len(pairs) >= 8
    assert all(judged(operator, fault.program, 0) in ("refused", "hidden") for operator, fault in pairs[:2])
