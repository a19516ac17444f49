# SPDX-License-Identifier: Apache-2.0
"""Chains: consecutive functions as one program, whose intermediate tensors stay packed in DRAM.

Functions are lowered one by one, finished programs lifted, and their operations ordered together
(`list_schedule`) before assembly: loads of a link run under the computation of the one before it,
and only exact dependences order one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.assemble import assemble
from vdla.compiler.codegen.vdla.lift import lift, lift_tiles
from vdla.compiler.codegen.vdla.list_schedule import Order, list_schedule
from vdla.compiler.codegen.vdla.lower import lower
from vdla.compiler.codegen.vdla.macro_op import Base, BufferTile, MacroOp, field_unit
from vdla.compiler.codegen.vdla.macro_ops import MacroOps, TiledOps
from vdla.compiler.codegen.vdla.merge_loads import merge_loads
from vdla.compiler.codegen.vdla.program_tensors import (
    AnyLink,
    Joined,
    Places,
    ProgramLink,
    chain_tensors,
    check_chain,
    in_wholes,
    places_of,
    private_tensor,
    private_tensors,
    share_scratch,
    wholes_of,
    written_bytes,
)
from vdla.compiler.codegen.vdla.schedule_steps import Part
from vdla.compiler.codegen.vdla.skip_padding import skip_padding
from vdla.compiler.codegen.vdla.state_loads import changes_state, contents, skip_reloads
from vdla.compiler.codegen.vdla.tiled_function import tiled_function
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa.partition import spread
from vdla.hardware.program import Program


def compile_chain(
    config: Config, name: str, links: Sequence[AnyLink], outputs: Sequence[str], joined: Joined | None = None
) -> Program:
    """One program that runs the links, functions or finished programs, in order.

    A tensor that no function writes is an input, or a weight where every function that reads it
    says so. A tensor that a function writes is an output if `outputs` names it, else scratch: all
    of these share one tensor of the program, with the bytes that are live together. Its
    readers see the elements in the order in which they were written: dimensions that differ must
    cut the same extents. `joined` names wholes by their parts; links read either.

    Raises:
        LoweringError: a tensor is read before it is written, written twice, never used, or used
            with different elements.
        AllocationError, UopError, IsaError: as of `compile_function`.
    """
    joined = joined or {}
    check_chain(name, links, outputs, joined)
    sizes = {tensor: nbytes for link in links for tensor, nbytes in written_bytes(link).items()}
    places = places_of(f"compile_chain {name}", joined, sizes)
    tensors = chain_tensors(name, links, outputs, joined, places)
    for position, link in enumerate(links):
        names = private_tensors(position, link)
        tensors += [private_tensor(link, local_name, names) for local_name in names]
    lines = [link.lines for link in links]
    ops = _ordered(config, links, lines, places)
    ops, tensors = share_scratch(config, ops, tensors)
    return assemble(config, name, ops, tensors, [text for texts in lines for text in texts])


def _ordered(config: Config, links: Sequence[AnyLink], lines: Sequence[Sequence[str]], places: Places) -> MacroOps:
    """The operations of all links; a function alone keeps the order that its tiling is for."""
    finished = any(isinstance(link, ProgramLink) for link in links)
    if len(links) == 1 and not finished:
        return _in_turn(config, links, lines, places)
    parts = _parts(config, links, places)
    if finished:
        parts = [replace(part, ops=merge_loads(config, part.ops)) for part in parts]
    order = list_schedule(config, parts, ahead=finished)
    return _in_turn(config, links, lines, places) if order is None else _placed(config, parts, lines, order)


def _parts(config: Config, links: Sequence[AnyLink], places: Places = MappingProxyType({})) -> list[Part]:
    """The operations of every link; equal functions are lowered, equal programs lifted, once."""
    known: dict[int, TiledOps] = {}
    for link in links:
        if id(_source(link)) not in known:
            known[id(_source(link))] = _tiled(config, link)
    result = []
    for position, link in enumerate(links):
        tiled, names = known[id(_source(link))], {**link.tensors, **private_tensors(position, link)}
        part_ops = replace(tiled, ops=in_wholes(config, tiled.ops, names, places))
        result.append(Part(part_ops, _whole_names(names, places), wholes_of(config, link, names)))
    return result


def _source(link: AnyLink) -> object:
    return link.program if isinstance(link, ProgramLink) else link.function


def _tiled(config: Config, link: AnyLink) -> TiledOps:
    if isinstance(link, ProgramLink):
        return lift_tiles(link.program)
    return tiled_function(config, link.function)


def _whole_names(names: Mapping[str, str], places: Places) -> dict[str, str]:
    """The names with those of wholes in place of parts."""
    return {local_name: places[name].tensor if name in places else name for local_name, name in names.items()}


def _placed(config: Config, parts: Sequence[Part], lines: Sequence[Sequence[str]], order: Order) -> MacroOps:
    """The operations in their order at their addresses: each buffer is one tile."""
    whole = {buffer: BufferTile(buffer.name.lower(), buffer, config.depths[buffer]) for buffer in Buffer}
    moved, starts, first_tile = list[MacroOps](), [np.zeros(1, np.int64)], 0
    tables = [np.zeros(0, np.int64)]
    for part, first in zip(parts, _first_lines(lines), strict=True):
        addresses = order.addresses[first_tile : first_tile + len(part.ops.entries)]
        moved.append(_at_addresses(config, part.ops, addresses).map(partial(_in_chain, whole, part.tensors, first)))
        starts.append(starts[-1][-1] + part.ops.starts[1:])
        tables.append(contents(part.ops, first_tile))
        first_tile += len(part.ops.entries)
    every = MacroOps.joined(moved)
    _, rows = spread(np.concatenate(starts), np.arange(len(every)), order.steps)
    ops = every.take(rows)
    return ops.take(np.flatnonzero(changes_state(ops, np.concatenate(tables)[rows].tolist())))


def _at_addresses(config: Config, ops: TiledOps, addresses: NDArray[np.int64]) -> MacroOps:
    """The operations with offsets from the start of each buffer."""
    offsets = ops.ops.offsets.copy()
    for number, rows in ops.ops.rows():
        form = ops.ops.forms[number]
        for position, name in enumerate(form.bases):
            unit = field_unit(config, form.instruction, name)
            offsets[rows, position] += addresses[ops.tile[rows, position]] * unit.denominator // unit.numerator
    return replace(ops.ops, offsets=offsets)


def _in_chain(whole: Mapping[Buffer, BufferTile], names: Mapping[str, str], first: int, op: MacroOp) -> MacroOp:
    bases: dict[str, Base] = {name: (whole[tile.buffer], offset) for name, (tile, offset) in op.bases.items()}
    return replace(_moved(op, names, first), bases=bases)


def _in_turn(config: Config, links: Sequence[AnyLink], lines: Sequence[Sequence[str]], places: Places) -> MacroOps:
    """The operations of one link after the other."""
    every = []
    for position, (link, first) in enumerate(zip(links, _first_lines(lines), strict=True)):
        names = {**link.tensors, **private_tensors(position, link)}
        ops = in_wholes(config, _untiled(config, link), names, places)
        every.append(ops.map(partial(_own_tiles, position, _whole_names(names, places), first)))
    return MacroOps.joined(every)


def _untiled(config: Config, link: AnyLink) -> MacroOps:
    if isinstance(link, ProgramLink):
        return lift(link.program)
    return skip_padding(config, skip_reloads(lower(config, link.function)))


def _own_tiles(position: int, names: Mapping[str, str], first: int, op: MacroOp) -> MacroOp:
    bases = {name: (replace(tile, name=f"{position}.{tile.name}"), offset) for name, (tile, offset) in op.bases.items()}
    return replace(_moved(op, names, first), bases=bases)


def _moved(op: MacroOp, names: Mapping[str, str], first: int) -> MacroOp:
    """The operation with the chain's tensor and line."""
    source = op.source + first if op.source >= 0 else op.source
    return replace(op, tensor=None if op.tensor is None else names[op.tensor], source=source)


def _first_lines(lines: Sequence[Sequence[str]]) -> list[int]:
    """The number of the first line of each link."""
    return [sum(map(len, lines[:position])) for position in range(len(lines))]
