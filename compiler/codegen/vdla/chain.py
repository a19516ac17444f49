"""Chains: consecutive functions as one program, whose intermediate tensors stay packed in DRAM.

The functions are lowered one by one, and their operations ordered together (`list_schedule`) before
assembly: loads of a function run under the computation of the one before it, and only exact
dependences order one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.codegen.vdla.assemble import assemble
from vdla.compiler.codegen.vdla.errors import LoweringError
from vdla.compiler.codegen.vdla.list_schedule import Order, list_schedule
from vdla.compiler.codegen.vdla.lower import lower
from vdla.compiler.codegen.vdla.macro_op import Base, BufferTile, MacroOp, field_unit
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.compiler.codegen.vdla.parts import Joined, Place, in_wholes, places_of
from vdla.compiler.codegen.vdla.schedule_steps import Part
from vdla.compiler.codegen.vdla.scratch import share_scratch
from vdla.compiler.codegen.vdla.skip_padding import skip_padding, skip_padding_of_tiles
from vdla.compiler.codegen.vdla.tiled_ops import TiledOps
from vdla.compiler.codegen.vdla.webs import split_tiles
from vdla.compiler.ir import INTEGER_BITS, function_lines, output_names
from vdla.compiler.tensorize import GLOBAL
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa.partition import spread
from vdla.hardware.program import Program, ProgramTensor

Places = Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class Link:
    """One function of a chain.

    `tensors` names the chain's tensor of every parameter; `weights` are the parameters that stay
    the same from run to run; `layouts` describes the dimensions of parameters.
    """

    function: ir.Function
    tensors: Mapping[str, str]
    weights: tuple[str, ...] = ()
    layouts: Mapping[str, str] = field(default_factory=dict)

    @property
    def written(self) -> tuple[str, ...]:
        """The chain's tensors that the function writes."""
        return tuple(self.tensors[name] for name in output_names(self.function))

    @property
    def written_bytes(self) -> dict[str, int]:
        """The sizes of the chain's tensors that the function writes."""
        return {self.tensors[name]: _nbytes(self.function.buffers[name]) for name in output_names(self.function)}

    @property
    def read(self) -> tuple[str, ...]:
        """The chain's tensors that the function reads."""
        outputs = output_names(self.function)
        return tuple(self.tensors[name] for name in self.function.params if name not in outputs)


def compile_chain(
    config: Config, name: str, links: Sequence[Link], outputs: Sequence[str], joined: Joined | None = None
) -> Program:
    """One program that runs the functions in order.

    A tensor that no function writes is an input, or a weight where every function that reads it
    says so. A tensor that a function writes is an output if `outputs` names it, else scratch: all
    of these share one tensor of the program, with the bytes that are live together. Its
    readers see the elements in the order in which they were written: dimensions that differ must
    cut the same extents. `joined` names wholes by their parts (`parts.py`); links read either.

    Raises:
        LoweringError: a tensor is read before it is written, written twice, never used, or used
            with different elements.
        AllocationError, UopError, IsaError: as of `compile_function`.
    """
    joined = joined or {}
    _check(name, links, outputs, joined)
    sizes = {tensor: nbytes for link in links for tensor, nbytes in link.written_bytes.items()}
    places = places_of(f"compile_chain {name}", joined, sizes)
    tensors = _tensors(name, links, outputs, joined, places)
    for position, link in enumerate(links):
        tensors += [
            _tensor(own, link.function.buffers[b], "scratch", "") for b, own in _private(position, link).items()
        ]
    lines = [[line.text for line in function_lines(link.function)] for link in links]
    parts = _parts(config, links, places)
    order = list_schedule(config, parts)
    ops = _in_turn(config, links, lines, places) if order is None else _placed(config, parts, lines, order)
    ops, tensors = share_scratch(config, ops, tensors)
    return assemble(config, name, ops, tensors, [text for texts in lines for text in texts])


def _parts(config: Config, links: Sequence[Link], places: Places = MappingProxyType({})) -> list[Part]:
    """The operations of every link; equal functions are lowered once."""
    lowered: dict[int, TiledOps] = {}
    for link in links:
        if id(link.function) not in lowered:
            ops = split_tiles(config, lower(config, link.function))
            lowered[id(link.function)] = skip_padding_of_tiles(config, ops)
    found = []
    for position, link in enumerate(links):
        tiled, names = lowered[id(link.function)], {**link.tensors, **_private(position, link)}
        own = replace(tiled, ops=in_wholes(config, tiled.ops, names, places))
        found.append(Part(own, _whole_names(names, places)))
    return found


def _whole_names(names: Mapping[str, str], places: Places) -> dict[str, str]:
    """The names with those of wholes in place of parts."""
    return {own: places[name].tensor if name in places else name for own, name in names.items()}


def _placed(config: Config, parts: Sequence[Part], lines: Sequence[Sequence[str]], order: Order) -> MacroOps:
    """The operations in their order at their addresses: each buffer is one tile."""
    whole = {buffer: BufferTile(buffer.name.lower(), buffer, config.depths[buffer]) for buffer in Buffer}
    moved, starts, first_tile = list[MacroOps](), [np.zeros(1, np.int64)], 0
    for part, first in zip(parts, _first_lines(lines), strict=True):
        addresses = order.addresses[first_tile : first_tile + len(part.ops.entries)]
        moved.append(_at_addresses(config, part.ops, addresses).map(partial(_in_chain, whole, part.tensors, first)))
        starts.append(starts[-1][-1] + part.ops.starts[1:])
        first_tile += len(part.ops.entries)
    every = MacroOps.joined(moved)
    _, rows = spread(np.concatenate(starts), np.arange(len(every)), order.steps)
    return every.take(rows)


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


def _in_turn(config: Config, links: Sequence[Link], lines: Sequence[Sequence[str]], places: Places) -> MacroOps:
    """The operations of one link after the other."""
    every = []
    for position, (link, first) in enumerate(zip(links, _first_lines(lines), strict=True)):
        names = {**link.tensors, **_private(position, link)}
        ops = in_wholes(config, skip_padding(config, lower(config, link.function)), names, places)
        every.append(ops.map(partial(_own_tiles, position, _whole_names(names, places), first)))
    return MacroOps.joined(every)


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


# --- tensors -------------------------------------------------------------------------------------


def _private(position: int, link: Link) -> dict[str, str]:
    """The chain's names of the function's own buffers in DRAM."""
    fn = link.function
    own = [name for name, buffer in fn.buffers.items() if buffer.scope == GLOBAL and name not in fn.params]
    return {name: f"link{position}.{name}" for name in own}


def _tensors(
    name: str, links: Sequence[Link], outputs: Sequence[str], joined: Joined, places: Places
) -> list[ProgramTensor]:
    """The tensors of the chain but for parts of others, in order of first use."""
    written = {*joined, *(tensor for link in links for tensor in link.written)}
    uses: dict[str, list[tuple[Link, str]]] = {}
    for link in links:
        for parameter in link.function.params:
            uses.setdefault(link.tensors[parameter], []).append((link, parameter))
    tensors = []
    for tensor, users in uses.items():
        role = "output" if tensor in outputs else "scratch"
        if tensor not in written:
            role = "weight" if all(parameter in link.weights for link, parameter in users) else "input"
        link, parameter = users[0]
        tensors.append(_tensor(tensor, link.function.buffers[parameter], role, link.layouts.get(parameter, "")))
        for other, its in users[1:]:
            _check_same(name, tensor, link.function.buffers[parameter], other.function.buffers[its])
    made = {tensor.name: tensor for tensor in tensors}
    for whole, parts in joined.items():
        made[whole] = _whole(name, whole, [made[part] for part in parts], made.get(whole), whole in outputs)
    return [tensor for tensor in made.values() if tensor.name not in places]


def _whole(
    chain: str, name: str, parts: Sequence[ProgramTensor], read: ProgramTensor | None, output: bool
) -> ProgramTensor:
    """The tensor of a whole: as its readers see it, or flat."""
    nbytes = sum(part.nbytes for part in parts)
    if read is None:
        flat = replace(parts[0], shape=(sum(prod(part.shape) for part in parts),), layout="", nbytes=nbytes)
        return replace(flat, name=name, role="output" if output else "scratch")
    if read.nbytes != nbytes:
        rule = f"tensor {name} must have the bytes of its parts, {nbytes}"
        raise LoweringError(f"compile_chain {chain}: {rule}, got {read.nbytes}")
    return read


def _tensor(name: str, buffer: ir.Buffer, role: str, layout: str) -> ProgramTensor:
    return ProgramTensor(
        name=name, role=role, shape=buffer.dims, dtype=buffer.dtype, layout=layout, nbytes=_nbytes(buffer)
    )


def _nbytes(buffer: ir.Buffer) -> int:
    return prod(buffer.dims) * INTEGER_BITS[buffer.dtype] // 8


# --- checks --------------------------------------------------------------------------------------


def _check(name: str, links: Sequence[Link], outputs: Sequence[str], joined: Joined) -> None:
    """Reject chains whose tensors are not written once, before they are read, and used."""
    where = f"compile_chain {name}"
    if not links:
        raise LoweringError(f"{where}: links must be at least one, got none")
    for position, link in enumerate(links):
        missing = [parameter for parameter in link.function.params if parameter not in link.tensors]
        if missing:
            raise LoweringError(
                f"{where}: tensors of link {position} ({link.function.name}) must name {', '.join(missing)}, "
                f"got {', '.join(link.tensors) or 'none'}"
            )
    _check_order(where, links, joined)
    parts = {part for own in joined.values() for part in own}
    written = {*joined, *(tensor for link in links for tensor in link.written)}
    read = {*parts, *(tensor for link in links for tensor in link.read)}
    for tensor in outputs:
        if tensor not in written:
            raise LoweringError(f"{where}: outputs must be of {', '.join(written)}, got {tensor}")
        if tensor in parts:
            raise LoweringError(f"{where}: outputs must be whole tensors, got the part {tensor}")
    for tensor in written - read - set(outputs):
        raise LoweringError(f"{where}: tensor {tensor} must be read or an output, got neither")


def _check_order(where: str, links: Sequence[Link], joined: Joined) -> None:
    writer: dict[str, int] = {}
    for position, link in enumerate(links):
        for tensor in link.written:
            if tensor in writer:
                rule = f"tensor {tensor} must be written by one link"
                raise LoweringError(f"{where}: {rule}, got links {writer[tensor]} and {position}")
            writer[tensor] = position
    for whole, parts in joined.items():
        writer[whole] = max(writer.get(part, -1) for part in parts)
    for position, link in enumerate(links):
        for tensor in link.read:
            if writer.get(tensor, -1) >= position:
                rule = f"tensor {tensor} must be written before link {position} reads it"
                raise LoweringError(f"{where}: {rule}, got link {writer[tensor]} as its writer")


def _check_same(chain: str, tensor: str, one: ir.Buffer, other: ir.Buffer) -> None:
    """Two uses of one tensor: the same elements in the same order."""
    if one.dtype == other.dtype and _cuts_agree(one.dims, other.dims):
        return
    raise LoweringError(
        f"compile_chain {chain}: tensor {tensor} must have the same elements in every link, got "
        f"{one.dtype}{list(one.dims)} and {other.dtype}{list(other.dims)}"
    )


def _cuts_agree(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether one shape only cuts dimensions of the other into several, as phases of rows do.

    Dimensions of 1 do not matter.
    """
    shapes = ([extent for extent in shape if extent != 1] for shape in (one, other))
    fine, coarse = sorted(shapes, key=len, reverse=True)
    at = 0
    for extent in coarse:
        product = 1
        while at < len(fine) and product < extent:
            product *= fine[at]
            at += 1
        if product != extent:
            return False
    return at == len(fine)
