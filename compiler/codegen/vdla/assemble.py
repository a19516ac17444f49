"""Assembly: from macro-ops on tiles to an encoded program.

Addresses first, then micro-op kernels, then tokens; the order of the operations never changes. The
result is a pure function of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.allocate import allocate
from vdla.compiler.codegen.vdla.check_macro_ops import MacroOpChecker
from vdla.compiler.codegen.vdla.dependences import UnitOp
from vdla.compiler.codegen.vdla.macro_op import BufferTile, BuildError, MacroOp, field_unit, op_name
from vdla.compiler.codegen.vdla.tokens import IssuedOp, assign_tokens
from vdla.compiler.codegen.vdla.uops import UopLoad, UopPlan, plan_uops
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Gemm, Load, Store, Sync, Vector
from vdla.hardware.program import UOPS, Program, ProgramTensor

_NONE = -1
_Encoder = Callable[[Sequence[isa.Instruction]], NDArray[Any]]
_TOKEN_BITS = ("pop_prev", "pop_next", "push_prev", "push_next")


@dataclass(frozen=True, slots=True)
class _Placed:
    """An addressed instruction, its tensor, its schedule line and the index of its operation."""

    instruction: isa.Instruction
    tensor: str | None
    source: int
    op: int = _NONE


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
    _check(macro_ops, tensors, source_lines)
    addresses = allocate(config, macro_ops, source_lines)
    kernels = [op.uops for op in macro_ops]
    plan = plan_uops(config.uop_depth, kernels, lambda index: op_name(index, macro_ops[index], source_lines))
    placed = list(_place(config, macro_ops, addresses, plan))
    ops = [replace(op, uops=kernel) for op, kernel in zip(macro_ops, plan.kernels, strict=True)]
    checker = MacroOpChecker(config, ops, addresses, tensors)
    order = assign_tokens(_unit_ops(config, ops, placed, checker, source_lines))
    final = [_with_tokens(issued, placed) for issued in order]
    all_tensors = (*tensors, _uop_tensor(config, plan)) if plan.table else tuple(tensors)
    index_of = {tensor.name: index for index, tensor in enumerate(all_tensors)}
    return Program(
        config=config,
        name=name,
        words=_encoded(partial(isa.encode, config), final, source_lines),
        tensors=all_tensors,
        tensor_of=np.array([_NONE if i.tensor is None else index_of[i.tensor] for i in final], np.int32),
        source_lines=tuple(source_lines),
        source_of=np.array([item.source for item in final], np.int32),
    )


def _encoded(encoder: _Encoder, items: Sequence[_Placed], lines: Sequence[str]) -> NDArray[Any]:
    """What `encoder` makes of the instructions; its error names the line of the schedule."""
    try:
        return encoder([item.instruction for item in items])
    except isa.IsaError:
        for index, item in enumerate(items):
            line = f", {lines[item.source].strip()}" if 0 <= item.source < len(lines) else ""
            where = f"instruction {index} ({isa.opcode_of(item.instruction).name}{line})"
            try:
                encoder([item.instruction])
            except isa.IsaError as error:
                raise isa.IsaError(where, error.problem) from None
        raise


def _check(ops: Sequence[MacroOp], tensors: Sequence[ProgramTensor], source_lines: Sequence[str]) -> None:
    names = [tensor.name for tensor in tensors]
    if UOPS in names or len(set(names)) < len(names):
        raise BuildError(
            f"assemble: names of tensors must differ from each other and from {UOPS}, got {', '.join(names)}"
        )
    for index, op in enumerate(ops):
        for rule, got in _broken(op, names, len(source_lines)):
            raise BuildError(f"{op_name(index, op, source_lines)}: {rule}, got {got}")


def _broken(op: MacroOp, names: Sequence[str], lines: int) -> Iterator[tuple[str, object]]:
    """The rules that `op` breaks, each with the offending value."""
    loops, moves = isinstance(op.instruction, Gemm | Vector), _moves_data(op.instruction)
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


# --- addresses -----------------------------------------------------------------------------------


def _place(
    config: Config, ops: Sequence[MacroOp], addresses: Mapping[BufferTile, int], plan: UopPlan
) -> Iterator[_Placed]:
    """The operations with their addresses, and the LOADs of the micro-op table between them."""
    loads = {load.before: load for load in plan.loads}
    for index, op in enumerate(ops):
        if index in loads:
            yield _load_uops(config, loads[index])
        yield _Placed(_addressed(config, op, addresses, plan.begins[index]), op.tensor, op.source, index)


def _addressed(config: Config, op: MacroOp, addresses: Mapping[BufferTile, int], begin: int) -> isa.Instruction:
    bases: dict[str, int] = {}
    for name, (tile, offset) in op.bases.items():
        unit = field_unit(config, op.instruction, name)
        bases[name] = addresses[tile] * unit.denominator // unit.numerator + int(offset)  # tiles are aligned
    if isinstance(op.instruction, Gemm | Vector):
        bases |= {"uop_begin": begin, "uop_end": begin + len(op.uops)}
    return _with(op.instruction, bases)


def _with(instruction: isa.Instruction, fields: Mapping[str, Any]) -> isa.Instruction:
    changed: isa.Instruction = replace(instruction, **fields)
    return changed


def _load_uops(config: Config, load: UopLoad) -> _Placed:
    beats = config.uop_entry_bytes // config.axi_bytes
    return _Placed(Load(Buffer.UOP, dram=load.begin * beats, x_size=load.size), UOPS, _NONE)


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


# --- tokens --------------------------------------------------------------------------------------


def _unit_ops(
    config: Config, ops: Sequence[MacroOp], placed: Sequence[_Placed], checker: MacroOpChecker, lines: Sequence[str]
) -> list[UnitOp]:
    """The operations that tokens must order.

    A LOAD of micro-ops touches nothing, as only compute uses the micro-op buffer.
    """
    rows: list[list[int]] = _encoded(partial(isa.instruction_columns, config), placed, lines).tolist()
    return [
        UnitOp(
            isa.unit_of(item.instruction),
            () if item.op == _NONE else checker.touches(item.op, ops[item.op], row, lines),
        )
        for item, row in zip(placed, rows, strict=True)
    ]


def _with_tokens(issued: IssuedOp, placed: Sequence[_Placed]) -> _Placed:
    """The instruction with its token bits; the numbers of adjacent units differ by one."""
    item = _Placed(Sync(issued.unit), None, _NONE) if issued.op is None else placed[issued.op]
    if not issued.pops and not issued.pushes:
        return item
    bits = {
        f"{verb}_{side}": int(issued.unit + step in units)
        for verb, units in (("pop", issued.pops), ("push", issued.pushes))
        for side, step in (("prev", -1), ("next", 1))
    }
    return replace(item, instruction=_with(item.instruction, bits))
