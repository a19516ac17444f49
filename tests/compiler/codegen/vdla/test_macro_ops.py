# SPDX-License-Identifier: Apache-2.0
"""Macro-ops in columns: equal to the operations in a list, and to lowering one iteration a time."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.schedule_cases import random_case

from vdla.compiler.codegen.vdla.iterations import Iterations
from vdla.compiler.codegen.vdla.lower import lower
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import FormTable, MacroOps
from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.compiler.templates.products import dense
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Gemm, Load, MicroOp, Store
from vdla.verification.programs.suite import NAMES

A, B = BufferTile("a", Buffer.INP, 8), BufferTile("b", Buffer.ACC, 8)
OPS = [
    MacroOp(Load(Buffer.INP, dram=5), {"sram": (A, 2)}, tensor="x", source=1),
    MacroOp(Gemm(), {"acc": (B, 1), "src": (A, 3), "wgt": (A, 0)}, (MicroOp(),)),
    MacroOp(Store(dram=9), {"sram": (B, 4)}, tensor="y"),
]


def test_operations_in_columns_are_the_operations():
    ops = MacroOps.of(OPS)
    assert list(ops) == OPS
    assert list(ops[1:]) == OPS[1:]
    assert MacroOps.of(ops) is ops
    assert list(MacroOps.of([])) == []


def test_joined_parts_follow_each_other():
    parts = [MacroOps.of(OPS[:1]), MacroOps.of([]), MacroOps.of(OPS[1:])]
    joined = MacroOps.joined([*parts, parts[0]])
    assert list(joined) == [*OPS, OPS[0]]
    assert list(MacroOps.joined([])) == []


def test_chosen_operations_have_their_forms_once_in_order_of_use():
    ops = MacroOps.joined([MacroOps.of(OPS), MacroOps.of(OPS)])
    chosen = ops.take(np.array([4, 2, 1, 5]))
    assert list(chosen) == [OPS[1], OPS[2], OPS[1], OPS[2]]
    assert [type(form.instruction) for form in chosen.forms] == [Gemm, Store]
    assert list(ops.take(np.zeros(0, np.int64))) == []


def test_changed_forms_change_all_their_operations():
    ops = MacroOps.of(OPS)
    twice = MacroOps.joined([ops, ops]).map(lambda form: replace(form, source=7))
    assert list(twice) == [replace(op, source=7) for op in (*OPS, *OPS)]


def test_forms_know_their_rows():
    ops = MacroOps(MacroOps.of(OPS).forms, np.array([2, 0, 2, 0]), np.zeros((4, 3), np.int64), np.zeros(4, np.int64))
    assert ops.used == (2, 0)
    assert (ops.first.tolist(), ops.last.tolist()) == ([1, 4, 0], [3, -1, 2])
    assert [(form, rows.tolist()) for form, rows in ops.rows()] == [(2, [0, 2]), (0, [1, 3])]


def test_a_table_of_forms_has_equal_ones_once():
    def gemm(offsets: list[int], tile: BufferTile = A) -> MacroOp:
        return MacroOp(Gemm(), {"acc": (B, 0), "src": (tile, 0)}, tuple(MicroOp(src=offset) for offset in offsets))

    table = FormTable()
    forms = [gemm([0, 1]), gemm([0, 1]), gemm([0, 2]), gemm([0, 1], tile=B), gemm([0, 2])]
    assert [table.number(form) for form in forms] == [0, 0, 1, 2, 1]
    assert table.forms == [forms[0], forms[2], forms[3]]


def test_the_forms_of_a_large_operator_are_few():
    config = Config.preset("pynq_z1")
    ops = lower(config, dense(config, rows=2048, in_features=2048, out_features=2048).function)
    assert len(ops) > 250_000
    assert len(ops.forms) < 40


def one_by_one(self: Iterations, signature: object) -> list[np.ndarray]:
    """Every iteration as a class of its own."""
    return [np.array([iteration]) for iteration in range(self.count)]


@pytest.mark.parametrize("operator", [name for name in NAMES if name.endswith(("narrow", "int4"))], indirect=True)
def test_lowering_by_classes_equals_lowering_one_iteration_at_a_time(operator, monkeypatch):
    found = lower(operator.config, operator.function)
    monkeypatch.setattr(Iterations, "classes", one_by_one)
    assert list(found) == list(lower(operator.config, operator.function))


@pytest.mark.filterwarnings("ignore:.*virtual threads of:vdla.compiler.codegen.vdla.tiles.LoweringWarning")
@pytest.mark.parametrize("seed", range(40))
def test_random_schedules_lower_by_classes_as_one_iteration_at_a_time(seed, monkeypatch):
    case = random_case(seed)
    try:
        found = list(lower(case.problem.config, case.schedule.fn))
    except LoweringError as error:
        monkeypatch.setattr(Iterations, "classes", one_by_one)
        with pytest.raises(LoweringError) as again:
            lower(case.problem.config, case.schedule.fn)
        assert str(again.value) == str(error)
        return
    monkeypatch.setattr(Iterations, "classes", one_by_one)
    assert found == list(lower(case.problem.config, case.schedule.fn))
