"""Folding computation: a nest of steps becomes as few GEMM or VECTOR instructions as their loops and micro-ops allow.

Two spatial loops become the instruction's own; the others are unrolled into micro-ops, reductions innermost, so that
each sum starts at a micro-op marked first and ends at one marked last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.codegen.vdla.macro_op import Base, MacroOp, Tile
from vdla.compiler.codegen.vdla.nest import Access, Epilogue, Loop, Nest, affine_pieces, simplified
from vdla.hardware import isa

KERNEL_SHARE = 4  # a kernel takes at most this fraction of the micro-op buffer, so that several are resident

Offsets = npt.NDArray[np.int64]
Fields = dict[str, Any]
Make = Callable[[Fields], isa.Instruction]


@dataclass(frozen=True, slots=True)
class ComputeFields:
    """Which operand of the intrinsic each index of a GEMM or VECTOR addresses; "" for one it does not use."""

    acc: str
    src: str = ""
    wgt: str = ""

    def used(self, nest: Nest) -> dict[str, Access]:
        """The access of each index that is used."""
        named = {"acc": self.acc, "src": self.src, "wgt": self.wgt}
        return {field: nest.access[name] for field, name in named.items() if name}


def fold_compute(nest: Nest, operands: ComputeFields, instruction: Make) -> Iterator[MacroOp]:
    """GEMM or VECTOR instructions for the nest; `instruction` makes one from the folded fields."""
    nest = simplified(nest)
    hardware = _hardware_loops(nest)
    excess = _loop_to_peel(nest, hardware)
    if excess is None:
        yield _compute_op(nest, operands, hardware, instruction)
        return
    for part in _parts(nest, excess):
        yield from fold_compute(part, operands, instruction)


def _parts(nest: Nest, loop: Loop) -> Iterator[Nest]:
    """The nest with the loop taken apart: where its positions are not affine into pieces that are, else one by one."""
    pieces = [(value, 1) for value in range(loop.extent)] if _regular(nest, loop) else affine_pieces(nest, loop)
    for first, extent in pieces:
        yield nest.fixed(loop, first) if extent == 1 else nest.piece(loop, first, extent)


def _hardware_loops(nest: Nest) -> list[Loop]:
    """The loops, two at most, that the instruction itself runs: those that move the scale first, then the longest."""
    choices = [loop for loop in nest.loops if not loop.reduce and _regular(nest, loop)]
    choices.sort(key=lambda loop: (not _moves_scale(nest, loop), -loop.extent))
    return sorted(choices[:2], key=nest.loops.index)


def _regular(nest: Nest, loop: Loop) -> bool:
    return all(a.step(loop.var) >= 0 and not a.irregular(loop.var) for a in nest.all_accesses())


def _moves_scale(nest: Nest, loop: Loop) -> bool:
    scale = nest.epilogue.access.get("scl") if nest.epilogue else None
    return scale is not None and (scale.step(loop.var) != 0 or scale.irregular(loop.var))


def _laid_out_unlike(nest: Nest, loop: Loop) -> bool:
    if nest.epilogue is None:
        return False
    out, acc = nest.epilogue.access["out"], nest.epilogue.access["acc"]
    return out.step(loop.var) != acc.step(loop.var) or out.irregular(loop.var) or acc.irregular(loop.var)


def _loop_to_peel(nest: Nest, hardware: list[Loop]) -> Loop | None:
    """The outermost loop that has to become several instructions, if any.

    Micro-ops cannot move the scale, and a result moves in the output buffer as its sum does in the accumulator, so that
    each sum has a place of its own where a reduction is taken apart.
    """
    unlike = [loop for loop in nest.loops if not loop.reduce and _laid_out_unlike(nest, loop)]
    if unlike:
        return unlike[0]
    unrolled = [loop for loop in nest.loops if loop not in hardware]
    moving = [loop for loop in unrolled if _moves_scale(nest, loop)]
    if moving:
        return moving[0]
    if prod(loop.extent for loop in unrolled) <= max(1, nest.config.uop_depth // KERNEL_SHARE):
        return None
    return ([loop for loop in unrolled if not loop.reduce] or unrolled)[0]


def _compute_op(nest: Nest, operands: ComputeFields, hardware: list[Loop], instruction: Make) -> MacroOp:
    unrolled = sorted((loop for loop in nest.loops if loop not in hardware), key=lambda loop: loop.reduce)
    used = operands.used(nest)
    offsets = _offsets(unrolled, used)
    lows = {field: int(values.min()) for field, values in offsets.items()}
    fields: Fields = {"init": int(nest.init)}
    for position, loop in enumerate(hardware):
        fields[f"loop{position}"] = loop.extent
        fields |= {f"{field}{position}": access.step(loop.var) for field, access in used.items()}
    bases: dict[str, Base] = {field: (_tile(access), lows[field]) for field, access in used.items()}
    if nest.epilogue is not None:
        _add_epilogue(nest, nest.epilogue, fields, bases, hardware)
    return MacroOp(instruction(fields), bases, _kernel_of(unrolled, offsets, lows), None, nest.source)


def _tile(access: Access) -> Tile:
    assert isinstance(access.place, Tile)
    return access.place


# --- micro-ops -------------------------------------------------------------------------------------------------------


def _offsets(unrolled: list[Loop], used: Mapping[str, Access]) -> dict[str, Offsets]:
    """The positions of each operand over the unrolled loops, the last loop fastest."""
    shape = tuple(loop.extent for loop in unrolled)
    grid = np.indices(shape, dtype=np.int64).reshape(len(shape), -1) if shape else np.zeros((0, 1), np.int64)
    point = {loop.var: grid[position] for position, loop in enumerate(unrolled)}
    return {field: np.broadcast_to(access.at(point), grid.shape[1:]) for field, access in used.items()}


def _kernel_of(
    unrolled: list[Loop], offsets: Mapping[str, Offsets], lows: Mapping[str, int]
) -> tuple[isa.MicroOp, ...]:
    count = prod(loop.extent for loop in unrolled)
    columns = [offsets[f] - lows[f] if f in offsets else np.zeros(count, np.int64) for f in ("acc", "src", "wgt")]
    return _kernel(np.stack(columns).tobytes(), _ends(unrolled, 0).tobytes(), _ends(unrolled, -1).tobytes())


@lru_cache(maxsize=4096)
def _kernel(offsets: bytes, first: bytes, last: bytes) -> tuple[isa.MicroOp, ...]:
    """Equal kernels are one object, which makes them quick to recognise."""
    acc, src, wgt = np.frombuffer(offsets, np.int64).reshape(3, -1).tolist()
    return tuple(map(isa.MicroOp, acc, src, wgt, first, last))


def _ends(unrolled: list[Loop], end: int) -> npt.NDArray[np.bool_]:
    """For each micro-op, whether every reduction loop is at its first (end 0) or last (end -1) iteration."""
    ends = np.ones(1, np.bool_)
    for loop in unrolled:
        here = np.full(loop.extent, not loop.reduce)
        here[end] = True
        ends = (ends[:, None] & here).ravel()
    return ends


# --- results ---------------------------------------------------------------------------------------------------------


def _add_epilogue(nest: Nest, epilogue: Epilogue, fields: Fields, bases: dict[str, Base], hardware: list[Loop]) -> None:
    """The fields with which finished sums leave in the same pass."""
    out, acc, scale = epilogue.access["out"], epilogue.access["acc"], epilogue.access.get("scl")
    bases["out"] = (_tile(out), bases["acc"][1] - acc.base + out.base)
    fields |= {name: int(value) for name, value in epilogue.match.immediates.items()}
    fields["emit"] = isa.Emit.RAW if scale is None else isa.Emit.REQUANT
    if scale is None:
        return
    bases["scl"] = (_tile(scale), scale.base)
    for position, loop in enumerate(hardware):
        fields[f"scl{position}"] = scale.step(loop.var)
