# SPDX-License-Identifier: Apache-2.0
"""Folding of computation: a nest becomes as few GEMM or VECTOR instructions as possible.

Two spatial loops become the loops of the instruction. The others are unrolled into micro-ops with
reductions innermost: each sum starts at a micro-op marked first and ends at one marked last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.codegen.vdla.macro_op import Base, BufferTile, MacroOp
from vdla.compiler.codegen.vdla.nest import EntryAccess, Epilogue, Loop, TensorizedNest, affine_pieces, simplify_loops
from vdla.compiler.ir.literals import integer
from vdla.hardware import isa

_KERNEL_SHARE = 4  # a kernel takes at most 1 / _KERNEL_SHARE of the micro-op buffer, which holds several

_Offsets = npt.NDArray[np.int64]
_Fields = dict[str, Any]
_Make = Callable[[_Fields], isa.Instruction]


@dataclass(frozen=True, slots=True)
class ComputeFields:
    """The operand that each index of a GEMM or VECTOR addresses; "" for an unused index."""

    acc: str
    src: str = ""
    wgt: str = ""

    def used(self, nest: TensorizedNest) -> dict[str, EntryAccess]:
        """The access of each used index."""
        named = {"acc": self.acc, "src": self.src, "wgt": self.wgt}
        return {field: nest.access[name] for field, name in named.items() if name}


def fold_compute(nest: TensorizedNest, operands: ComputeFields, instruction: _Make) -> Iterator[MacroOp]:
    """The nest as GEMM or VECTOR instructions; `instruction` makes one from the folded fields."""
    nest = simplify_loops(nest)
    hardware = _hardware_loops(nest)
    excess = _loop_to_peel(nest, hardware)
    if excess is None:
        yield from _stage_loads(nest)
        yield _compute_op(nest, operands, hardware, instruction)
        return
    for part in _parts(nest, excess):
        yield from fold_compute(part, operands, instruction)


def _parts(nest: TensorizedNest, loop: Loop) -> Iterator[TensorizedNest]:
    """The nest cut along the loop, into affine pieces or else into single iterations."""
    pieces = [(value, 1) for value in range(loop.extent)] if _regular(nest, loop) else affine_pieces(nest, loop)
    for first, extent in pieces:
        yield nest.fix(loop, first) if extent == 1 else nest.piece(loop, first, extent)


def _hardware_loops(nest: TensorizedNest) -> list[Loop]:
    """At most two loops of the instruction: first those that move the scale, then the longest."""
    choices = [loop for loop in nest.loops if not loop.reduce and _regular(nest, loop)]
    choices.sort(key=lambda loop: (not _moves_scale(nest, loop), -loop.extent))
    return sorted(choices[:2], key=nest.loops.index)


def _regular(nest: TensorizedNest, loop: Loop) -> bool:
    return all(a.step(loop.var) >= 0 and not a.irregular(loop.var) for a in nest.all_accesses())


def _moves_scale(nest: TensorizedNest, loop: Loop) -> bool:
    scale = nest.epilogue.access.get("scl") if nest.epilogue else None
    return scale is not None and (scale.step(loop.var) != 0 or scale.irregular(loop.var))


def _needs_instructions(nest: TensorizedNest, loop: Loop) -> bool:
    """Whether each iteration must be an instruction: results lie otherwise than their sums, or go
    through a stage with another state.
    """
    if nest.epilogue is None:
        return False
    tables = [nest.epilogue.access[name] for name in nest.epilogue.match.intrinsic.tables]
    if any(table.step(loop.var) or table.irregular(loop.var) for table in tables):
        return True
    out, acc = nest.epilogue.access["out"], nest.epilogue.access["acc"]
    return out.step(loop.var) != acc.step(loop.var) or out.irregular(loop.var) or acc.irregular(loop.var)


def _loop_to_peel(nest: TensorizedNest, hardware: list[Loop]) -> Loop | None:
    """The outermost loop that must become several instructions, if any.

    Micro-ops cannot move the scale, and a result must move in the output buffer as its sum does in
    the accumulator.
    """
    differing = [loop for loop in nest.loops if not loop.reduce and _needs_instructions(nest, loop)]
    if differing:
        return differing[0]
    unrolled = [loop for loop in nest.loops if loop not in hardware]
    moving = [loop for loop in unrolled if _moves_scale(nest, loop)]
    if moving:
        return moving[0]
    if prod(loop.extent for loop in unrolled) <= max(1, nest.config.uop_depth // _KERNEL_SHARE):
        return None
    return ([loop for loop in unrolled if not loop.reduce] or unrolled)[0]


def _compute_op(nest: TensorizedNest, operands: ComputeFields, hardware: list[Loop], instruction: _Make) -> MacroOp:
    unrolled = sorted((loop for loop in nest.loops if loop not in hardware), key=lambda loop: loop.reduce)
    used = operands.used(nest)
    offsets = _offsets(unrolled, used)
    lows = {field: int(values.min()) for field, values in offsets.items()}
    fields: _Fields = {"init": int(nest.init)}
    for position, loop in enumerate(hardware):
        fields[f"loop{position}"] = loop.extent
        fields |= {f"{field}{position}": access.step(loop.var) for field, access in used.items()}
    bases: dict[str, Base] = {field: (_tile(access), access.base + lows[field]) for field, access in used.items()}
    if nest.epilogue is not None:
        _add_epilogue(nest, nest.epilogue, fields, bases, hardware)
    return MacroOp(instruction(fields), bases, _kernel_of(unrolled, offsets, lows), None, nest.source)


def _tile(access: EntryAccess) -> BufferTile:
    assert isinstance(access.place, BufferTile)
    return access.place


# --- micro-ops -----------------------------------------------------------------------------------


def _offsets(unrolled: list[Loop], used: Mapping[str, EntryAccess]) -> dict[str, _Offsets]:
    """The positions of each operand over the unrolled loops, the last loop varying fastest, from
    its base.
    """
    shape = tuple(loop.extent for loop in unrolled)
    grid = np.indices(shape, dtype=np.int64).reshape(len(shape), -1) if shape else np.zeros((0, 1), np.int64)
    point = {loop.var: grid[position] for position, loop in enumerate(unrolled)}
    return {field: np.broadcast_to(access.relative(point), grid.shape[1:]) for field, access in used.items()}


def _kernel_of(
    unrolled: list[Loop], offsets: Mapping[str, _Offsets], lows: Mapping[str, int]
) -> tuple[isa.MicroOp, ...]:
    count = prod(loop.extent for loop in unrolled)
    columns = [offsets[f] - lows[f] if f in offsets else np.zeros(count, np.int64) for f in ("acc", "src", "wgt")]
    return _kernel(np.stack(columns).tobytes(), _ends(unrolled, 0).tobytes(), _ends(unrolled, -1).tobytes())


@lru_cache(maxsize=4096)
def _kernel(offsets: bytes, first: bytes, last: bytes) -> tuple[isa.MicroOp, ...]:
    """The kernel; equal kernels are the same object, which `plan_uops` recognises quickly."""
    acc, src, wgt = np.frombuffer(offsets, np.int64).reshape(3, -1).tolist()
    return tuple(map(isa.MicroOp, acc, src, wgt, first, last))


def _ends(unrolled: list[Loop], end: int) -> npt.NDArray[np.bool_]:
    """For each micro-op, whether all reductions are at their first (0) or last (-1) iteration."""
    ends = np.ones(1, np.bool_)
    for loop in unrolled:
        here = np.full(loop.extent, not loop.reduce)
        here[end] = True
        ends = (ends[:, None] & here).ravel()
    return ends


# --- results -------------------------------------------------------------------------------------


def _stage_loads(nest: TensorizedNest) -> Iterator[MacroOp]:
    """What loads the state of the stage that results go through."""
    intrinsic = nest.epilogue.match.intrinsic if nest.epilogue is not None else None
    if intrinsic is not None and intrinsic.stage_loads is not None:
        yield from intrinsic.stage_loads(nest)


def _add_epilogue(
    nest: TensorizedNest, epilogue: Epilogue, fields: _Fields, bases: dict[str, Base], hardware: list[Loop]
) -> None:
    """Add the fields that emit finished sums in the same pass."""
    out, acc, scale = epilogue.access["out"], epilogue.access["acc"], epilogue.access.get("scl")
    bases["out"] = (_tile(out), bases["acc"][1] - acc.base + out.base)
    fields |= {name: integer(value) for name, value in epilogue.match.immediates.items()}
    if scale is None:
        fields["emit"] = isa.Emit.RAW
        return
    staged = epilogue.match.intrinsic.stage_loads is not None
    fields["emit"] = isa.StagedEmit.STAGE if staged else isa.Emit.REQUANT
    bases["scl"] = (_tile(scale), scale.base)
    for position, loop in enumerate(hardware):
        fields[f"scl{position}"] = scale.step(loop.var)
