"""Folding: a nest of steps becomes as few instructions as the machine's own loops, micro-ops and strides allow.

Compute: two spatial loops become the instruction's, the others are unrolled into micro-ops, the reduction innermost, so
that each sum starts at a micro-op marked first and ends at one marked last. DMA: loops become x, y and z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from vdla.compiler.macro import MacroOp, Tile
from vdla.compiler.nest import Access, Loop, Nest, simplified
from vdla.hardware import isa

KERNEL_SHARE = 4  # a kernel takes at most this fraction of the micro-op buffer, so that several are resident


class LoweringError(ValueError):
    """A schedule that this machine's instructions cannot express."""


# --- compute ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComputeFields:
    """Which operand of the intrinsic each index of a GEMM or VECTOR addresses; "" for one it does not use."""

    acc: str
    src: str = ""
    wgt: str = ""


def fold_compute(
    nest: Nest, operands: ComputeFields, instruction: Callable[[dict[str, Any]], isa.Instruction]
) -> Iterator[MacroOp]:
    """GEMM or VECTOR instructions for the nest; `instruction` makes one from the folded fields."""
    nest = simplified(nest)
    hardware = _hardware_loops(nest)
    excess = _loop_to_peel(nest, hardware)
    if excess is not None:
        for value in range(excess.extent):
            yield from fold_compute(nest.fixed(excess, value), operands, instruction)
        return
    yield _compute_op(nest, operands, hardware, instruction)


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


def _loop_to_peel(nest: Nest, hardware: list[Loop]) -> Loop | None:
    """The outermost loop that has to become several instructions, if any."""
    unrolled = [loop for loop in nest.loops if loop not in hardware]
    for loop in unrolled:
        if _moves_scale(nest, loop):
            return loop
    if prod(loop.extent for loop in unrolled) <= max(1, nest.config.uop_depth // KERNEL_SHARE):
        return None
    spatial = [loop for loop in unrolled if not loop.reduce]
    return (spatial or unrolled)[0]


def _compute_op(
    nest: Nest,
    operands: ComputeFields,
    hardware: list[Loop],
    instruction: Callable[[dict[str, Any]], isa.Instruction],
) -> MacroOp:
    unrolled = sorted((loop for loop in nest.loops if loop not in hardware), key=lambda loop: loop.reduce)
    used = {field: nest.access[name] for field, name in _used(operands).items()}
    offsets = _kernel_offsets(unrolled, used)
    lows = {field: int(values.min()) for field, values in offsets.items()}
    kernel = _kernel(_rebased(offsets, lows), _ends(unrolled, first=True), _ends(unrolled, first=False))
    fields: dict[str, Any] = {"init": int(nest.init)}
    for position, loop in enumerate(hardware):
        fields[f"loop{position}"] = loop.extent
        fields |= {f"{field}{position}": access.step(loop.var) for field, access in used.items()}
    bases = {field: (_tile(access), lows[field]) for field, access in used.items()}
    _add_epilogue(nest, fields, bases, hardware, unrolled)
    return MacroOp(instruction(fields), bases, kernel, None, nest.source)


def _used(operands: ComputeFields) -> dict[str, str]:
    named = {"acc": operands.acc, "src": operands.src, "wgt": operands.wgt}
    return {field: name for field, name in named.items() if name}


def _tile(access: Access) -> Tile:
    assert isinstance(access.place, Tile)
    return access.place


def _kernel_offsets(unrolled: list[Loop], used: Mapping[str, Access]) -> dict[str, np.ndarray[Any, Any]]:
    """The positions of each operand over the unrolled loops, the last loop fastest."""
    shape = tuple(loop.extent for loop in unrolled)
    grid = np.indices(shape, dtype=np.int64).reshape(len(shape), -1) if shape else np.zeros((0, 1), np.int64)
    point = {loop.var: grid[position] for position, loop in enumerate(unrolled)}
    return {field: np.broadcast_to(access.at(point), grid.shape[1:]) for field, access in used.items()}


def _rebased(offsets: Mapping[str, np.ndarray[Any, Any]], lows: Mapping[str, int]) -> tuple[bytes, bytes, bytes]:
    count = next(iter(offsets.values())).shape[0]
    zeros = np.zeros(count, np.int64)
    return tuple(  # type: ignore[return-value]
        (offsets[field] - lows[field] if field in offsets else zeros).astype(np.int64).tobytes()
        for field in ("acc", "src", "wgt")
    )


def _ends(unrolled: list[Loop], first: bool) -> bytes:
    """For each micro-op, whether every reduction loop is at its first (or last) iteration."""
    ends = np.ones(1, bool)
    for loop in unrolled:
        here = np.ones(loop.extent, bool)
        if loop.reduce:
            here[1 if first else 0 :] = False
            here[0 if first else -1] = True
        ends = (ends[:, None] & here).ravel()
    return ends.tobytes()


@lru_cache(maxsize=4096)
def _kernel(offsets: tuple[bytes, bytes, bytes], first: bytes, last: bytes) -> tuple[isa.MicroOp, ...]:
    acc, src, wgt = (np.frombuffer(raw, np.int64).tolist() for raw in offsets)
    return tuple(map(isa.MicroOp, acc, src, wgt, first, last))


def _add_epilogue(
    nest: Nest, fields: dict[str, Any], bases: dict[str, tuple[Tile, int]], hardware: list[Loop], unrolled: list[Loop]
) -> None:
    """The fields with which finished sums leave in the same pass."""
    epilogue = nest.epilogue
    if epilogue is None:
        return
    out, acc = epilogue.access["out"], epilogue.access["acc"]
    for loop in nest.loops:
        if not loop.reduce and (out.step(loop.var) != acc.step(loop.var) or out.irregular(loop.var)):
            raise LoweringError(
                f"{epilogue.match.intrinsic.name}: its result must be laid out as the accumulator's tile is, got steps of "
                f"{out.step(loop.var)} and {acc.step(loop.var)} in loop {loop.var}; place both with store_at at one loop"
            )
    low = bases["acc"][1]
    bases["out"] = (_tile(out), low - acc.base + out.base)
    fields |= {name: int(value) for name, value in epilogue.match.immediates.items()}
    fields["emit"] = isa.Emit.REQUANT if "scl" in epilogue.access else isa.Emit.RAW
    if "scl" not in epilogue.access:
        return
    scale = epilogue.access["scl"]
    bases["scl"] = (_tile(scale), scale.base)
    for position, loop in enumerate(hardware):
        fields[f"scl{position}"] = scale.step(loop.var)


# --- DMA -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Extent:
    """One dimension of a transfer: padding before, data, padding after, in steps of the dimension."""

    before: int = 0
    size: int = 1
    after: int = 0
    stride: int = 0  # of the data in DRAM, in units

    @property
    def total(self) -> int:
        """Steps on the chip."""
        return self.before + self.size + self.after


def fold_dma(
    nest: Nest, chip: str, dram: str, instruction: Callable[[dict[str, Any]], isa.Instruction], unit: int, beats: int
) -> Iterator[MacroOp]:
    """LOAD or STORE instructions for the nest; an operand's entry is `unit` buffer entries and `beats` AXI beats.

    The innermost loops that are dense on the chip become x, y and z; what is left is repeated.
    """
    nest = simplified(nest)
    loops = sorted(nest.loops, key=lambda loop: nest.access[chip].step(loop.var), reverse=True)
    dims, rest = _dimensions(nest, loops, chip, dram)
    if rest:
        for value in range(rest[0].extent):
            inner = replace(nest, valid={v: b for v, b in nest.valid.items() if v != rest[0].var})
            low, end = nest.valid.get(rest[0].var, (0, rest[0].extent))
            fixed = inner.fixed(rest[0], value)
            if not low <= value < end:
                fixed = replace(fixed, valid={**fixed.valid, _NOWHERE: (0, 0)})
            yield from fold_dma(fixed, chip, dram, instruction, unit, beats)
        return
    yield _dma_op(nest, chip, dram, instruction, dims, unit, beats)


_NOWHERE = ""  # the key under which a peeled iteration that is all padding is marked


def _dimensions(nest: Nest, loops: list[Loop], chip: str, dram: str) -> tuple[list[Extent], list[Loop]]:
    """x, y and z from the innermost loops outwards, and the loops that do not fit in."""
    dims = [Extent(), Extent(), Extent()]
    dense, level, taken = 1, 0, 0
    for loop in reversed(loops):
        low, end = nest.valid.get(loop.var, (0, loop.extent))
        step = nest.access[dram].step(loop.var)
        this = Extent(low, end - low, loop.extent - end, step)
        if nest.access[chip].step(loop.var) != dense or nest.access[chip].irregular(loop.var) or nest.access[dram].irregular(loop.var) or step < 0:
            break
        while level < 3 and not _fits(dims, level, this):
            level += 1
        if level == 3:
            break
        dims[level] = _extended(dims[level], this, level)
        dense *= loop.extent
        taken += 1
        if this.before or this.after or level > 0:
            level += 1
    return dims, loops[: len(loops) - taken]


def _fits(dims: list[Extent], level: int, this: Extent) -> bool:
    """Whether a loop may become dimension `level`, or extend x."""
    if level == 0:
        return dims[0].before == dims[0].after == 0 and this.stride == dims[0].size
    return level == 1 or (this.before == 0 and this.after == 0)


def _extended(dim: Extent, this: Extent, level: int) -> Extent:
    if level > 0:
        return this
    width = dim.size
    return Extent(this.before * width, this.size * width, this.after * width)


def _dma_op(
    nest: Nest,
    chip: str,
    dram: str,
    instruction: Callable[[dict[str, Any]], isa.Instruction],
    dims: list[Extent],
    unit: int,
    beats: int,
) -> MacroOp:
    x, y, z = dims
    if _NOWHERE in nest.valid:
        y = Extent(y.total, 0, 0)
    first = sum(nest.access[dram].step(loop.var) * nest.valid.get(loop.var, (0, 0))[0] for loop in nest.loops)
    empty = x.size == 0 or y.size == 0
    fields: dict[str, Any] = {
        "dram": 0 if empty else (nest.access[dram].base + first) * beats,
        "x_size": x.size * unit, "x_before": x.before * unit, "x_after": x.after * unit,
        "y_size": y.size, "y_before": y.before, "y_after": y.after, "y_stride": y.stride * beats,
        "z_size": z.size, "z_stride": z.stride * beats,
    }  # fmt: skip
    place = nest.access[chip].place
    assert isinstance(place, Tile)
    tensor = nest.access[dram].place
    assert isinstance(tensor, str)
    bases = {"sram": (place, nest.access[chip].base * unit)}
    return MacroOp(instruction(fields), bases, (), None if empty else tensor, nest.source)
