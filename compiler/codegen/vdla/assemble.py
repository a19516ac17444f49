# SPDX-License-Identifier: Apache-2.0
"""Assembly: from macro-ops on tiles to an encoded program.

Addresses first, then micro-op kernels, then tokens; the order of the operations never changes. The
result is a pure function of the arguments. All operations are handled in columns; only what is
wrong is looked for one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.allocate import allocate
from vdla.compiler.codegen.vdla.check_macro_ops import MacroOpChecker, form_touches
from vdla.compiler.codegen.vdla.dependences import SpaceTouches, needs
from vdla.compiler.codegen.vdla.macro_op import BufferTile, BuildError, MacroOp, op_name
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.compiler.codegen.vdla.placed import NO_OP, ROW_FIELDS, Placed, fields_fit, form_table, place
from vdla.compiler.codegen.vdla.tokens import IssuedOps, issue
from vdla.compiler.codegen.vdla.uops import UopPlan, plan_uops
from vdla.hardware import isa
from vdla.hardware.config import Config
from vdla.hardware.isa import Extended, Gemm, Load, Store, Sync, Unit, Vector
from vdla.hardware.program import UOPS, Program, ProgramTensor

Ints = NDArray[np.int64]
_NONE = -1
_TOKEN_BITS = ("pop_prev", "pop_next", "push_prev", "push_next")


def assemble(
    config: Config,
    name: str,
    macro_ops: Sequence[MacroOp],
    tensors: Sequence[ProgramTensor],
    source_lines: Sequence[str] = (),
) -> Program:
    """The program of `macro_ops` in order; `tensors` are all but the micro-op table.

    Raises:
        AllocationError, UopError: an on-chip buffer is too small.
        IsaError: a field overflows.
        BuildError: an operation accesses entries outside of its tiles or its tensor.
    """
    ops = MacroOps.of(macro_ops)
    _check(ops, tensors, source_lines)
    addresses = allocate(config, ops, source_lines)
    kernels = [form.uops for form in ops.forms]
    plan = plan_uops(config.uop_depth, kernels, ops.form, lambda index: op_name(index, ops[index], source_lines))
    ops = replace(ops, forms=tuple(map(_with_uops, ops.forms, plan.kernels)))
    placed = place(config, ops, addresses, plan)
    table, touches = _touches(config, placed, addresses, tensors)
    if touches is None:
        _refuse(config, placed, ops, addresses, tensors, source_lines)
    units = np.array([isa.unit_of(form.instruction) for form in placed.forms], np.int64)[placed.form]
    issued = issue(units, needs(units, touches))
    all_tensors = (*tensors, _uop_tensor(config, plan)) if plan.table else tuple(tensors)
    index_of = {tensor.name: index for index, tensor in enumerate(all_tensors)}
    form = np.append(placed.form, _NONE)[issued.op]  # SYNC is the last row
    tensor_of = [_NONE if form.tensor is None else index_of[form.tensor] for form in placed.forms]
    return Program(
        config=config,
        name=name,
        words=_encoded(config, placed, table, issued, source_lines),
        tensors=all_tensors,
        tensor_of=_of_form(tensor_of, form),
        source_lines=tuple(source_lines),
        source_of=_of_form([form.source for form in placed.forms], form),
    )


def _with_uops(form: MacroOp, uops: tuple[isa.MicroOp, ...]) -> MacroOp:
    return form if form.uops is uops else replace(form, uops=uops)


def _of_form(values: Sequence[int], form: Ints) -> NDArray[np.int32]:
    """The value of each row's form, _NONE for a SYNC."""
    return np.array([*values, _NONE], np.int32)[form]


def _check(ops: MacroOps, tensors: Sequence[ProgramTensor], source_lines: Sequence[str]) -> None:
    names = [tensor.name for tensor in tensors]
    if UOPS in names or len(set(names)) < len(names):
        raise BuildError(
            f"assemble: names of tensors must differ from each other and from {UOPS}, got {', '.join(names)}"
        )
    for form in ops.used:
        for rule, got in _broken(ops.forms[form], names, len(source_lines)):
            index = int(ops.first[form])
            raise BuildError(f"{op_name(index, ops[index], source_lines)}: {rule}, got {got}")


def _broken(op: MacroOp, names: Sequence[str], lines: int) -> Iterator[tuple[str, object]]:
    """The rules that `op` breaks, each with the offending value."""
    loops, moves = isinstance(op.instruction, Gemm | Vector | Extended), _moves_data(op.instruction)
    if moves and op.tensor not in names:
        yield f"tensor must be one of {', '.join(names)}", op.tensor
    if not moves and op.tensor is not None:
        yield "tensor must be None where no data move", op.tensor
    if loops != bool(op.uops):
        yield f"micro-ops must number {'1 or more' if loops else '0'}", len(op.uops)
    if not _NONE <= op.source < lines:
        yield f"source must be -1 to {lines - 1}", op.source
    tokens = [bit for bit in _TOKEN_BITS if getattr(op.instruction, bit)]
    if tokens:
        yield "token bits must be 0", " and ".join(tokens)


def _moves_data(instruction: isa.Instruction) -> bool:
    return isinstance(instruction, Load | Store) and bool(instruction.y_size and instruction.x_size)


def _uop_tensor(config: Config, plan: UopPlan) -> ProgramTensor:
    data = isa.encode_uops(config, plan.table).tobytes()
    return ProgramTensor(
        name=UOPS,
        role="constant",
        shape=(len(plan.table), config.uop_entry_bytes),
        dtype="uint8",
        layout="",
        nbytes=len(data),
        data=data,
    )


# --- checks --------------------------------------------------------------------------------------


def _touches(
    config: Config, placed: Placed, addresses: Mapping[BufferTile, int], tensors: Sequence[ProgramTensor]
) -> tuple[Ints, list[SpaceTouches] | None]:
    """The table of forms, and the touches of all operations; None where one does not fit its
    fields, tiles or tensor.
    """
    try:
        table = form_table(config, placed)
    except isa.IsaError:
        return np.zeros((0, len(isa.isa_of(config).columns)), np.int64), None
    if not fields_fit(config, placed, table):
        return table, None
    return table, form_touches(config, placed, table, addresses, tensors)


def _refuse(
    config: Config,
    placed: Placed,
    ops: MacroOps,
    addresses: Mapping[BufferTile, int],
    tensors: Sequence[ProgramTensor],
    lines: Sequence[str],
) -> NoReturn:
    """The error of the first operation that does not fit its fields, tiles or tensor."""
    rows: list[list[int]] = []
    for index in range(len(placed)):
        rows += _columns(config, placed, index, lines).tolist()
    checker = MacroOpChecker(config, ops.forms, addresses, tensors)
    for row, op in zip(rows, placed.op.tolist(), strict=True):
        if op != NO_OP:
            checker.touches(op, ops[op], row, lines)
    raise AssertionError("no operation leaves its tiles and tensors")


def _columns(config: Config, placed: Placed, index: int, lines: Sequence[str]) -> Ints:
    """The columns of one instruction; the error names the line of the schedule."""
    instruction = placed.instruction(index)
    try:
        return isa.instruction_columns(config, [instruction])
    except isa.IsaError as error:
        where = _where(index, instruction, placed.forms[placed.form[index]].source, lines)
        raise isa.IsaError(where, error.problem) from None


def _where(index: int, instruction: isa.Instruction, source: int, lines: Sequence[str]) -> str:
    line = f", {lines[source].strip()}" if 0 <= source < len(lines) else ""
    return f"instruction {index} ({isa.mnemonic_of(type(instruction)).upper()}{line})"


# --- words ---------------------------------------------------------------------------------------


def _encoded(config: Config, placed: Placed, table: Ints, issued: IssuedOps, lines: Sequence[str]) -> isa.Words:
    """The words of the final order: those of the forms, with the fields that differ by row.

    `table` is that of `form_table`. IsaError names the line of the schedule of an invalid
    instruction.
    """
    form = np.append(placed.form, _NONE)[issued.op]
    form = np.where(form == _NONE, len(table) + issued.unit, form)
    every = np.concatenate([table, isa.instruction_columns(config, [Sync(unit) for unit in Unit])])
    fields = {name: np.append(placed.fields[name], 0)[issued.op] for name in ROW_FIELDS}
    for verb, units in (("pop", issued.pops), ("push", issued.pushes)):
        for side, step in (("prev", -1), ("next", 1)):
            neighbour = issued.unit + step
            fields[f"{verb}_{side}"] = units >> np.maximum(neighbour, 0) & (neighbour >= 0)
    words = isa.with_fields(config, isa.pack(config, every)[form], fields)
    try:
        isa.check_rules(config, every)
    except isa.IsaError:
        _refuse_words(config, words, placed, issued, lines)
    return words


def _refuse_words(config: Config, words: isa.Words, placed: Placed, issued: IssuedOps, lines: Sequence[str]) -> None:
    """IsaError of the first invalid instruction."""
    for index, op in enumerate(issued.op.tolist()):
        try:
            isa.check(config, words[index : index + 1])
        except isa.IsaError as error:
            where = _where(index, placed.instruction(op), placed.forms[placed.form[op]].source, lines)
            raise isa.IsaError(where, error.problem) from None
