# SPDX-License-Identifier: Apache-2.0
"""Functional coverage: what each bin counts; the equality benchmark's programs reach every bin."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from helpers.hand_programs import DATA, PIPELINE, PRODUCT, RESULT, SCALE, UOPS, WEIGHT, changed, program

from vdla.benchmarks.coverage import run
from vdla.hardware import timing as contract
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Load, MicroOp, Operand, Vector, VectorOp
from vdla.hardware.numerics import pack_scale
from vdla.hardware.program import Program, ProgramTensor, place
from vdla.simulator.timing import time_program
from vdla.verification.coverage import extremes
from vdla.verification.coverage.coverage import GROUPS, UNREACHABLE, Coverage, goals
from vdla.verification.programs.cases import COUNTS, EACH, ProgramCase
from vdla.verification.programs.random_machines import MACHINES
from vdla.verification.programs.random_programs import random_verified_program

TINY = Config.preset("tiny")
BINS = [name for names in GROUPS.values() for name in names]


def covered(*programs: Program) -> Counter[str]:
    """The coverage counts of the programs."""
    coverage = Coverage()
    for one in programs:
        coverage.add(one, time_program(one))
    return coverage.counts


def test_bin_names_are_unique_and_nothing_else_is_counted() -> None:
    assert len(set(BINS)) == len(BINS)
    assert set(UNREACHABLE) <= set(BINS)
    counts = covered(*(random_verified_program(TINY, seed, 40) for seed in range(10)))
    assert set(counts) <= {*BINS, *extremes.bins(TINY)}
    assert not set(counts) & set(UNREACHABLE)


def test_bins_of_a_pipeline_equal_a_hand_count() -> None:
    counts = covered(program(*PIPELINE))
    assert counts["GEMM REQUANT init=1"] == counts["GEMM acc0 moves"] == 1
    assert counts["GEMM of 5 or more iterations"] == counts["GEMM of 1 micro-ops"] == 1
    assert [counts[f"LOAD {name}"] for name in ("INP", "WGT", "SCL", "UOP", "ACC")] == [1, 1, 1, 1, 0]
    assert counts["STORE rows single"] == counts["STORE pop_prev"] == counts["GEMM push_next"] == 1
    assert counts["STORE.x_size zero"] == counts["STORE.x_size one"] == 0
    assert counts["LOAD burst: at burst_beats"] == 2  # 16 beats of data and 8 of scales, in bursts of 4
    assert counts["LOAD burst: one burst of burst_beats"] == 1
    assert counts["compute pops from empty load_to_compute"] > 0
    assert counts["GEMM reads the sum written 1 before"] == 0


def test_what_no_comparison_sees_does_not_count() -> None:
    """The first product is overwritten, its requantised results too; its tokens still count."""
    again = replace(PRODUCT, acc0=2, pop_prev=0, push_next=1)
    first = replace(PRODUCT, push_next=0)
    counts = covered(program(UOPS, WEIGHT, SCALE, DATA, first, replace(again, acc0=1), RESULT))
    assert counts["GEMM REQUANT init=1"] == counts["GEMM acc0 moves"] == 1
    assert counts["GEMM pop_prev"] == counts["GEMM push_next"] == 1
    assert covered(program(UOPS, WEIGHT, SCALE, DATA, first, again, RESULT))["GEMM REQUANT init=1"] == 2


def test_micro_ops_and_scales_count_where_they_are_executed() -> None:
    tables = (MicroOp(first=1, last=1), MicroOp(acc=1, first=1, last=1))
    both = program(Load(Buffer.UOP, x_size=2), WEIGHT, SCALE, DATA, PRODUCT, RESULT, uops=tables)
    assert covered(both)["MICRO-OP.acc zero"] and not covered(both)["MICRO-OP.acc one"]
    zeros = pack_scale([0] * 4, [1] * 4, [31] * 4).view(np.uint8).tobytes()
    weighed = replace(both, tensors=tuple(_with_scale(tensor, zeros) for tensor in both.tensors))
    assert covered(weighed)["scale shift 31"] == covered(weighed)["scale mult 1"] == 1
    quiet = replace(PRODUCT, emit=Emit.NONE, push_next=0)
    unused = program(Load(Buffer.UOP, x_size=2), WEIGHT, SCALE, DATA, quiet, uops=tables)
    unused = replace(unused, tensors=tuple(_with_scale(tensor, zeros) for tensor in unused.tensors))
    assert not covered(unused)["scale shift 31"]


def _with_scale(tensor: ProgramTensor, lanes: bytes) -> ProgramTensor:
    return replace(tensor, data=lanes * (tensor.nbytes // len(lanes))) if tensor.name == "scale" else tensor


def test_addresses_decide_about_bursts_and_the_last_place() -> None:
    """A row of four beats that crosses a page; the last beat that an instruction can address."""
    one = program(Load(Buffer.INP, dram=60, x_size=4))
    assert covered(one)["LOAD burst: one burst of burst_beats"] == 1
    places = place(one)[0] | {"data": (1 << 34) - 64 * 4}
    coverage = Coverage()
    coverage.add(one, time_program(one, TINY, places), places)
    assert not coverage.counts["LOAD.dram max"]
    last = program(Load(Buffer.INP, dram=63, x_size=1))
    coverage.add(last, time_program(last, TINY, places), places)
    assert coverage.counts["LOAD.dram max"] == 1
    crossing = place(one)[0] | {"data": (1 << 33) + 4096 - 62 * 4}
    other = Coverage()
    other.add(one, time_program(one, TINY, crossing), crossing)
    assert other.counts["LOAD burst: at 4 KiB"] == 1 and not other.counts["LOAD burst: one burst of burst_beats"]


def test_hazards_count_at_the_distance_of_the_last_write() -> None:
    two = (MicroOp(), MicroOp(acc=1), MicroOp())
    kernel = Vector(VectorOp.ADD, Operand.IMM, imm=1, uop_end=3, loop0=2)
    counts = covered(program(Load(Buffer.UOP, x_size=3), Load(Buffer.ACC, x_size=2), kernel, uops=two))
    found = [d for d in range(1, 6) if counts[f"VECTOR reads the sum written {d} before"]]
    assert found == [1, 2, 3]  # writes 0 1 0 0 1 0: entry 0 at distances 2, 1 and 2, entry 1 at distance 3
    assert not any(counts[f"VECTOR reads as source the sum written {d} before"] for d in found)


def test_two_reads_of_one_buffer_half_conflict() -> None:
    one = (MicroOp(), MicroOp(src=40))
    add = Vector(VectorOp.ADD, uop_end=2)
    loads = [Load(Buffer.UOP, x_size=2), Load(Buffer.ACC, x_size=1), Load(Buffer.ACC, sram=40, x_size=1)]
    counts = covered(program(*loads, add, uops=one))
    assert counts["VECTOR conflict, none"] == 1
    assert counts["VECTOR none, conflict"] == counts["VECTOR conflict, conflict"] == 0


def test_products_count_by_the_write_of_a_factor() -> None:
    four = (MicroOp(), MicroOp(), MicroOp(acc=1), MicroOp())
    scale = Vector(VectorOp.MUL, Operand.IMM, imm=3, uop_end=4)
    counts = covered(program(Load(Buffer.UOP, x_size=4), Load(Buffer.ACC, x_size=2), scale, uops=four))
    found = [d for d in range(1, 4) if counts[f"VECTOR multiplies the entry written {d} before"]]
    assert found == [1, 2]  # writes 0 0 1 0
    assert counts["VECTOR dependent product alone"] == 1
    assert counts["VECTOR dependent product with a conflict"] == 0


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"x_before": 1, "x_size": 15}, "INP padding: columns"),
        ({"y_size": 0, "y_before": 1}, "INP padding: no rows of data"),
        ({"y_after": 1, "x_size": 8}, "INP padding: rows"),
        ({"x_size": 4, "y_size": 2, "y_stride": 7, "z_size": 2, "z_stride": 14}, "LOAD rows apart"),
        ({"x_size": 4, "y_size": 4, "y_stride": 4}, "LOAD rows dense"),
    ],
)
def test_each_form_of_load_counts_in_its_bin(fields: dict[str, int], name: str) -> None:
    assert covered(changed(3, **fields))[name] > covered(program(*PIPELINE))[name]


def test_the_report_lists_missing_and_unreachable_bins() -> None:
    coverage = Coverage()
    coverage.add(program(*PIPELINE), time_program(program(*PIPELINE)))
    assert "LOAD widened" not in coverage.missing() and "LOAD ACC widened" in coverage.missing()
    lines = coverage.report().splitlines()
    assert "   MISSING  LOAD ACC widened" in [line[2:] for line in lines]
    assert any(line.endswith("VECTOR ADD IMM INP") and "source must be ACC" in line for line in lines)
    rows = coverage.rows()
    assert sum(int(str(row["covered"])) + int(str(row["missing"])) for row in rows) == len(goals())


def test_a_run_counts_the_programs_of_its_batches() -> None:
    """That all random programs reach every bin is asserted where they run: by tests of equality."""
    steps: list[tuple[str, int, int]] = []
    cases = [ProgramCase(TINY, seed, 20) for seed in (1, 2)]
    result = run(lambda *step: steps.append(step), batches=[[case] for case in cases])
    missing = result.receipt["bins_missing"]
    expected = Coverage()
    for case in cases:
        places = case.conditions(case.made()).places
        expected.add(case.made(), time_program(case.made(), TINY, places), places)
    assert result.receipt["counts"] == expected.counts
    assert 0 < result.figures["covered"] == len(goals()) - len(missing) < len(goals())
    assert result.figures["bins"] - result.figures["unreachable"] == len(goals())
    assert result.figures["extremes"] == len(extremes.bins(TINY))
    assert 0 < result.figures["extremes_missing"] == len(result.receipt["extremes_missing"]) < len(extremes.bins(TINY))
    assert steps == [("tiny", 0, 2), ("tiny", 1, 2), ("done", 2, 2)]


def test_merged_counts_equal_those_of_all_programs() -> None:
    parts = [random_verified_program(TINY, seed, 20) for seed in (1, 2)]
    whole, other = Coverage(), Coverage()
    whole.add(parts[0], time_program(parts[0]))
    other.add(parts[1], time_program(parts[1]))
    whole.merge(other)
    assert whole.counts == covered(*parts)


def test_a_machine_gets_programs_of_every_length() -> None:
    assert len(COUNTS) == EACH and {0, 1, 2} < set(COUNTS) and max(COUNTS) >= 80
    assert replace(TINY, name="x").fingerprint == TINY.fingerprint


def test_the_limit_of_vectors_in_flight_is_out_of_reach() -> None:
    """What UNREACHABLE says of it: the pipeline of each machine is shorter than so many starts."""
    for config in MACHINES:
        latency = contract.ISSUE_DELAY + 1 + contract.compute_depth(config)
        assert latency < (contract.COMPUTES_IN_FLIGHT - 1) * (contract.ISSUE_DELAY + 1)
    vectors = [Vector(VectorOp.ADD, Operand.IMM, imm=1, uop_end=1, acc=at) for at in range(7)]
    found = program(Load(Buffer.UOP, x_size=1), Load(Buffer.ACC, x_size=8), *vectors, uops=(MicroOp(),))
    starts = time_program(found).starts[2:8]
    assert set(np.diff(starts).tolist()) == {contract.ISSUE_DELAY + 1}
