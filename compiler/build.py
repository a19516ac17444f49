"""The back half of the compiler: from macro-ops on tiles to an encoded program.

Addresses, then micro-op kernels, then tokens: each step adds to the instructions what the one before left open, and
never changes their order. The result depends on nothing but the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vdla.compiler.allocate import allocate
from vdla.compiler.dependences import Step, Touch, Where
from vdla.compiler.macro import MacroOp, Tile, field_unit
from vdla.compiler.tokens import Place, assign_tokens
from vdla.compiler.touches import Footprints
from vdla.compiler.uops import Batch, UopPlan, plan_uops
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Gemm, Load, Store, Sync, Vector
from vdla.hardware.program import UOPS, Program, Tensor

NOWHERE = -1


class BuildError(ValueError):
    """Macro-ops that break their own rules: a touch outside a tile, a tensor that is not there."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """An instruction with its addresses, and what remains of its macro-op."""

    instruction: isa.Instruction
    tensor: str | None
    source: int
    touches: tuple[Touch, ...] = ()


def build(
    config: Config,
    name: str,
    macro_ops: Sequence[MacroOp],
    tensors: Sequence[Tensor],
    source_lines: Sequence[str] = (),
) -> Program:
    """The program that runs `macro_ops` in an order equivalent to theirs; `tensors` are all but the micro-op table.

    Errors: AllocationError and UopError where a buffer is too small, IsaError where a field overflows, BuildError where
    an operation touches what is not its own.
    """
    _check_tensors(macro_ops, tensors, source_lines)
    addresses = allocate(config, macro_ops)
    plan = plan_uops(config.uop_depth, [op.uops for op in macro_ops])
    placed = _place(config, macro_ops, addresses, plan, {tensor.name: tensor for tensor in tensors})
    order = assign_tokens([Step(isa.unit_of(item.instruction), item.touches) for item in placed])
    final = [_tokened(place, placed) for place in order]
    every = (*tensors, _uop_tensor(config, plan)) if plan.table else tuple(tensors)
    index_of = {tensor.name: index for index, tensor in enumerate(every)}
    return Program(
        config=config,
        name=name,
        words=isa.encode(config, [item.instruction for item in final]),
        tensors=every,
        tensor_of=np.array([NOWHERE if i.tensor is None else index_of[i.tensor] for i in final], np.int32),
        source_lines=tuple(source_lines),
        source_of=np.array([item.source for item in final], np.int32),
    )


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_tensors(ops: Sequence[MacroOp], tensors: Sequence[Tensor], source_lines: Sequence[str]) -> None:
    names = [tensor.name for tensor in tensors]
    if UOPS in names or len(set(names)) < len(names):
        raise BuildError(f"build: names of tensors must differ from each other and from {UOPS}, got {', '.join(names)}")
    for index, op in enumerate(ops):
        loops, moves = isinstance(op.instruction, Gemm | Vector), _moves_data(op.instruction)
        if (moves and op.tensor not in names) or (not moves and op.tensor is not None):
            rule = f"one of {', '.join(names)}" if moves else "None where no data move"
            raise BuildError(f"{_where(index, op)}: tensor must be {rule}, got {op.tensor}")
        if loops != bool(op.uops):
            raise BuildError(
                f"{_where(index, op)}: micro-ops must number {'1 or more' if loops else 0}, got {len(op.uops)}"
            )
        if not NOWHERE <= op.source < len(source_lines):
            raise BuildError(f"{_where(index, op)}: source must be -1 to {len(source_lines) - 1}, got {op.source}")


def _moves_data(instruction: isa.Instruction) -> bool:
    return isinstance(instruction, Load | Store) and bool(instruction.y_size and instruction.x_size)


def _where(index: int, op: MacroOp) -> str:
    return f"operation {index} ({isa.opcode_of(op.instruction).name})"


def _bounds(where: Where) -> tuple[int, int]:
    """First and one past the last of the entries, which are in order."""
    if isinstance(where, slice):
        return int(where.start), int(where.stop)
    return (int(where[0]), int(where[-1]) + 1) if len(where) else (0, 0)


def _check_inside(what: str, where: Where, low: int, size: int) -> None:
    first, end = _bounds(where)
    if first < end and (first < low or end > low + size):
        raise BuildError(f"{what} must touch 0 to {size - 1}, got {first - low} to {end - 1 - low}")


# --- addresses -------------------------------------------------------------------------------------------------------


def _place(
    config: Config,
    ops: Sequence[MacroOp],
    addresses: Mapping[Tile, int],
    plan: UopPlan,
    tensors: Mapping[str, Tensor],
) -> list[_Placed]:
    """The operations with their addresses, and the LOADs of the micro-op table before those that need them."""
    footprints = Footprints(config)
    shared = _shared_tensors(ops)
    batches = {batch.before: batch for batch in plan.batches}
    placed: list[_Placed] = []
    for index, op in enumerate(ops):
        if index in batches:
            placed.append(_load_uops(config, batches[index]))
        instruction = _addressed(config, op, addresses, plan.begins[index])
        resolved = replace(op, instruction=instruction, uops=plan.kernels[index])
        on_chip = _on_chip(footprints, resolved, addresses, index)
        in_dram = _in_dram(footprints, resolved, tensors, index, shared)
        placed.append(_Placed(instruction, op.tensor, op.source, on_chip + in_dram))
    return placed


def _shared_tensors(ops: Sequence[MacroOp]) -> set[str]:
    """The tensors that are both loaded and stored: only these order units through DRAM."""
    loaded = {op.tensor for op in ops if isinstance(op.instruction, Load)}
    stored = {op.tensor for op in ops if isinstance(op.instruction, Store)}
    return {name for name in loaded & stored if name is not None}


def _addressed(config: Config, op: MacroOp, addresses: Mapping[Tile, int], begin: int) -> isa.Instruction:
    bases: dict[str, int] = {}
    for name, (tile, offset) in op.bases.items():
        bases[name] = int(addresses[tile] / field_unit(config, op.instruction, name)) + offset
    if isinstance(op.instruction, Gemm | Vector):
        bases |= {"uop_begin": begin, "uop_end": begin + len(op.uops)}
    return _with(op.instruction, bases)


def _with(instruction: isa.Instruction, fields: Mapping[str, Any]) -> isa.Instruction:
    changed: isa.Instruction = replace(instruction, **fields)
    return changed


def _load_uops(config: Config, batch: Batch) -> _Placed:
    beats = config.uop_entry_bytes // config.axi_bytes
    return _Placed(Load(Buffer.UOP, dram=batch.begin * beats, x_size=batch.size), UOPS, NOWHERE)


def _uop_tensor(config: Config, plan: UopPlan) -> Tensor:
    data = isa.encode_uops(config, plan.table).tobytes()
    return Tensor(UOPS, "constant", (len(plan.table), config.uop_entry_bytes), "uint8", "", len(data), data)


# --- touches ---------------------------------------------------------------------------------------------------------


def _on_chip(footprints: Footprints, op: MacroOp, addresses: Mapping[Tile, int], index: int) -> tuple[Touch, ...]:
    touches = []
    for name, buffer, where in footprints.on_chip(op.instruction, op.uops):
        if name not in op.bases or op.bases[name][0].buffer != buffer:
            got = op.bases[name][0].buffer.name if name in op.bases else None
            raise BuildError(f"{_where(index, op)}: {name} must name a tile of {buffer.name}, got {got}")
        tile = op.bases[name][0]
        _check_inside(f"{_where(index, op)}: {name} in tile {tile}", where, addresses[tile], tile.entries)
        touches.append(Touch(buffer, where, _writes(op.instruction, name)))
    return tuple(touches)


def _writes(instruction: isa.Instruction, name: str) -> bool:
    return isinstance(instruction, Load) or name in ("acc", "out")


def _in_dram(
    footprints: Footprints, op: MacroOp, tensors: Mapping[str, Tensor], index: int, shared: set[str]
) -> tuple[Touch, ...]:
    if not isinstance(op.instruction, Load | Store) or op.tensor is None:
        return ()
    low, end = footprints.dram_range(op.instruction)
    beats = tensors[op.tensor].nbytes // footprints.config.axi_bytes
    _check_inside(f"{_where(index, op)}: beats of tensor {op.tensor}", slice(low, end), 0, beats)
    if op.tensor not in shared:
        return ()
    writes = isinstance(op.instruction, Store)
    return (Touch(("dram", op.tensor), footprints.dram_beats(op.instruction), writes),)


# --- tokens ----------------------------------------------------------------------------------------------------------


def _tokened(place: Place, placed: Sequence[_Placed]) -> _Placed:
    """The instruction of a place with its token bits; the neighbours of a unit differ from it by one."""
    item = _Placed(Sync(place.unit), None, NOWHERE) if place.step is None else placed[place.step]
    bits = {
        f"{verb}_{side}": int(place.unit + step in units)
        for verb, units in (("pop", place.pops), ("push", place.pushes))
        for side, step in (("prev", -1), ("next", 1))
    }
    return replace(item, instruction=_with(item.instruction, bits))
