# SPDX-License-Identifier: Apache-2.0
"""Directed programs: valid on every machine, at the ends of every field, and what they find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.extensions import lut
from helpers.seeds import ALL

import vdla
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, IsaError, Opcode, decode, encode, isa_of
from vdla.hardware.program import Program, place
from vdla.simulator.function import Buffers
from vdla.simulator.verify import verify
from vdla.verification.coverage import extremes
from vdla.verification.coverage.fields import TOKENS
from vdla.verification.coverage.liveness import compared_data
from vdla.verification.programs.cases import ProgramCase
from vdla.verification.programs.directed_programs import directed_cases
from vdla.verification.programs.random_machines import MACHINES
from vdla.verification.rtl_mutants.machines import mutated_machines

TINY = Config.preset("tiny")
NEAR = (TINY, vdla.extend(TINY, lut))
OTHERS = (*(MACHINES[1:] if ALL else ()), *mutated_machines()[1:])
"""The equality benchmark counts the bins of the others, also in its tests."""


def hits(cases: Sequence[ProgramCase]) -> Counter[str]:
    """The bins that verified programs reach."""
    counts: Counter[str] = Counter()
    for case in cases:
        program = case.made()
        assert verify(program).ok, f"{program.name}: {verify(program)}"
        places = case.conditions(program).places or place(program)[0]
        counts += extremes.count(program, program.linked_columns(places), compared_data(program))
    return counts


@pytest.mark.parametrize(
    "machine",
    [*NEAR, *(pytest.param(machine, marks=[pytest.mark.long, pytest.mark.sampled]) for machine in OTHERS)],
    ids=lambda machine: machine.name,
)
def test_every_field_of_every_format_reaches_both_ends(machine: Config) -> None:
    assert set(hits(list(directed_cases(machine, 0)))) == set(extremes.bins(machine))


def test_every_field_of_the_table_has_ends() -> None:
    """But those that tell formats and forms apart, and what one value only is left of."""
    for machine in NEAR:
        forms = {(extreme.form.split()[0], extreme.field) for extreme in extremes.extremes(machine)}
        for encoding in isa_of(machine).formats.values():
            names = {slot.field.name for slot in encoding.values} - {"buffer", "widen", "unit"}
            assert {(encoding.name, name) for name in names} <= forms


@pytest.mark.parametrize(
    ("preset", "form", "field", "ends"),
    [
        ("pynq_z1", "LOAD INP", "y_after", {0, 255}),
        ("pynq_z1", "LOAD ACC", "y_after in planes", {255}),
        ("tiny", "LOAD ACC", "y_after", {0, TINY.acc_depth}),
        ("tiny", "LOAD WGT", "x_before", {0}),
        ("tiny", "LOAD SCL", "dram", {0, (1 << 32) - TINY.scl_entry_bytes // TINY.axi_bytes}),
        ("pynq_z1", "STORE", "z_stride", {0, (1 << 24) - 1}),
        ("tiny", "GEMM", "uop_begin", {0, TINY.uop_depth - 1}),
        ("int4", "GEMM", "clip_lo", {-8, 7}),
        ("tiny", "VECTOR", "imm", {-(1 << 15), (1 << 15) - 1}),
        ("tiny", "SYNC in load", "pop_prev", {0}),
        ("tiny", "SYNC in compute", "pop_prev", {0, 1}),
        ("batch4", "MICRO-OP", "wgt", {0, Config.preset("batch4").wgt_vectors - 1}),
    ],
)
def test_ends_are_those_of_encoding_and_buffers(preset: str, form: str, field: str, ends: set[int]) -> None:
    goals = extremes.extremes(Config.preset(preset))
    assert {goal.value for goal in goals if (goal.form, goal.field) == (form, field)} == ends


def test_no_program_reaches_beyond_an_end() -> None:
    """One more than each greatest value is not encoded, breaks a rule or is refused."""
    tried = 0
    for case in directed_cases(TINY, 0):
        program = case.made()
        for form in ("LOAD INP", "LOAD ACC", "STORE", "GEMM", "VECTOR"):
            name = form.split()[0]
            rows = np.flatnonzero(program.columns[:, COL["opcode"]] == Opcode[name])
            for field, (_, high) in extremes.limits(TINY, form).items():
                if field in TOKENS or field.endswith(extremes.PLANES) or field in ("dram", *extremes.STRIDES):
                    continue
                for row in rows[program.columns[rows, COL[field]] == high][:1].tolist():
                    if form in extremes.LOADED and program.columns[row, COL["buffer"]] != extremes.LOADED[form][0]:
                        continue
                    tried += 1
                    assert not valid_with(program, row, field, high + 1), (program.name, form, field)
    assert tried > 60


def valid_with(program: Program, row: int, field: str, value: int) -> bool:
    """Whether a program is verified with another value of a field."""
    instructions = list(decode(TINY, program.words))
    changed: dict[str, Any] = {field: value}
    instructions[row] = replace(instructions[row], **changed)
    try:
        return verify(replace(program, words=encode(TINY, instructions))).ok
    except IsaError:
        return False


# --- what they find -------------------------------------------------------------------------------

FAULTS: dict[str, Callable[[list[int]], list[int]]] = {
    "a padding of 6 bits in planes": lambda row: cut(row, "y_after", 63) if row[COL["z_size"]] > 1 else row,
    "a padding of 7 bits": lambda row: cut(row, "x_before", 127),
    "a buffer of half the depth": lambda row: cut(row, "sram", TINY.acc_depth // 2 - 1),
    "a pad value of 31 bits": lambda row: cut(row, "pad_value", (1 << 31) - 1),
    "a stride of 23 bits": lambda row: cut(row, "z_stride", (1 << 23) - 1),
}


def cut(row: list[int], name: str, mask: int) -> list[int]:
    """A row with fewer bits of a field."""
    return [value & mask if at == COL[name] else value for at, value in enumerate(row)]


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize("fault", FAULTS)
def test_a_narrow_field_is_a_mismatch(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that reads fewer bits of a field of LOADs."""
    from vdla.benchmarks.equality import compare_batch

    right = Buffers.load
    monkeypatch.setattr(Buffers, "load", lambda self, row: right(self, FAULTS[fault](list(row))))
    cases = (case for case in directed_cases(TINY, 0) if differs(case, fault))
    assert any(compare_batch([case]).mismatches for case in cases)


def differs(case: ProgramCase, fault: str) -> bool:
    """Whether a fault changes an instruction of a program."""
    columns = case.made().columns
    rows = columns[columns[:, COL["opcode"]] == Opcode.LOAD].tolist()
    return any(FAULTS[fault](row) != row for row in rows)


def test_a_sync_pushes_for_each_unit() -> None:
    names = {extremes.BEHIND.format(unit=unit) for unit in ("load", "compute", "store")}
    *_, syncs, _, _ = directed_cases(TINY, 0)
    counts = hits([syncs])
    assert {f"tiny: {name}" for name in names} <= set(counts)
    assert not syncs.made().columns[syncs.made().columns[:, COL["opcode"]] != Opcode.SYNC][:, COL["push_next"]].any()
    assert Buffer.OUT not in {buffer for buffer, _ in extremes.LOADED.values()}
