# SPDX-License-Identifier: Apache-2.0
"""Addressed instructions in columns, before tokens: macro-ops and the LOADs of micro-ops.

A row is the instruction of its form with other values in the fields of ROW_FIELDS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp, field_unit
from vdla.compiler.codegen.vdla.macro_ops import MacroOps, rows_of_forms
from vdla.compiler.codegen.vdla.uops import UopPlan
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, Extended, Gemm, Load, Store, Vector
from vdla.hardware.program import UOPS

Ints = NDArray[np.int64]

ROW_FIELDS = ("sram", "dram", "acc", "src", "wgt", "out", "scl", "uop_begin", "uop_end")
NO_OP = -1


@dataclass(frozen=True, eq=False)
class Placed:
    """Instructions in program order.

    Row `i` is `forms[form[i]]` with `fields[name][i]`, 0 where the form lacks the field. `op[i]` is
    the index of its macro-op, NO_OP for a LOAD of micro-ops.
    """

    forms: tuple[MacroOp, ...]
    form: Ints
    fields: Mapping[str, Ints]
    op: Ints

    def __len__(self) -> int:
        return len(self.form)

    @cached_property
    def extremes(self) -> tuple[Ints, Ints, Ints]:
        """The forms that have rows, and [form, field] the least and the greatest value of each."""
        order = np.argsort(self.form, kind="stable")
        form = self.form[order]
        starts = np.flatnonzero(np.diff(form, prepend=-1))
        values = np.stack([self.fields[name] for name in ROW_FIELDS], axis=1)[order]
        if not len(starts):
            return form, values, values
        return form[starts], np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)

    def instruction(self, row: int) -> isa.Instruction:
        """The instruction of a row."""
        instruction = self.forms[self.form[row]].instruction
        values = {name: int(self.fields[name][row]) for name in fields_of(instruction)}
        changed: isa.Instruction = replace(instruction, **values)
        return changed

    def rows(self) -> Iterator[tuple[int, Ints]]:
        """Each form that has rows, with its rows in order."""
        every = enumerate(rows_of_forms(self.form, len(self.forms)))
        return ((form, rows) for form, rows in every if len(rows))


def fields_of(instruction: isa.Instruction) -> tuple[str, ...]:
    """The fields of ROW_FIELDS that the instruction's format has."""
    match instruction:
        case Load() | Store():
            return ROW_FIELDS[:2]
        case Gemm() | Vector() | Extended():
            return ROW_FIELDS[2:]
        case _:
            return ()


def place(config: Config, ops: MacroOps, addresses: Mapping[BufferTile, int], plan: UopPlan) -> Placed:
    """The operations at their addresses, with the LOADs of the micro-op table between them."""
    fields = {name: np.zeros(len(ops), np.int64) for name in ROW_FIELDS}
    fields["dram"][:] = ops.dram
    for number, rows in ops.rows():
        form = ops.forms[number]
        for column, (name, (tile, _)) in enumerate(form.bases.items()):
            unit = field_unit(config, form.instruction, name)
            address = addresses[tile] * unit.denominator // unit.numerator  # tiles are aligned
            fields[name][rows] = address + ops.offsets[rows, column]
        if isinstance(form.instruction, Gemm | Vector | Extended):
            fields["uop_begin"][rows] = plan.begins[rows]
            fields["uop_end"][rows] = plan.begins[rows] + len(form.uops)
    before = [load.before for load in plan.loads]
    loads = tuple(MacroOp(Load(Buffer.UOP, x_size=load.size), tensor=UOPS) for load in plan.loads)
    beats = config.uop_entry_bytes // config.axi_bytes
    values: dict[str, Any] = {**dict.fromkeys(ROW_FIELDS, 0), "dram": [load.begin * beats for load in plan.loads]}
    return Placed(
        (*ops.forms, *loads),
        np.insert(ops.form, before, np.arange(len(loads)) + len(ops.forms)),
        {name: np.insert(column, before, values[name]) for name, column in fields.items()},
        np.insert(np.arange(len(ops)), before, NO_OP),
    )


def form_table(config: Config, placed: Placed) -> Ints:
    """The columns of each form, with the greatest value of its rows in each field of ROW_FIELDS.

    IsaError where a field of a form does not fit.
    """
    table = isa.instruction_columns(config, [form.instruction for form in placed.forms])
    used, _, greatest = placed.extremes
    for column, name in enumerate(ROW_FIELDS):
        table[used, COL[name]] = greatest[:, column]
    return table


def fields_fit(config: Config, placed: Placed, table: Ints) -> bool:
    """Whether the values of all rows fit their fields; `table` is that of `form_table`."""
    used, least, greatest = placed.extremes
    formats = isa.isa_of(config)
    codes = formats.codes_of_columns(table[used])
    for code, encoding in formats.formats.items():
        limits = {slot.field.name: (slot.low, slot.high) for slot in encoding.slots}
        low, high = np.array([limits.get(name, (0, 0)) for name in ROW_FIELDS], np.int64).T
        rows = codes == code
        if (least[rows] < low).any() or (greatest[rows] > high).any():
            return False
    return True
