# SPDX-License-Identifier: Apache-2.0
"""The tensors of programs in DRAM: those of a chain, wholes of several parts, shared scratch.

Parts of a chain lie behind one another in a larger tensor, so that a concatenation of the outermost
dimension costs nothing: what writes the parts writes into the whole. Parts are whole entries of a
buffer, and these are whole beats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from vdla.compiler import ir
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.compiler.ir import INTEGER_BITS, function_lines, output_names
from vdla.compiler.memory_plan import ValueLife, plan_memory
from vdla.compiler.tensorize import GLOBAL
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Opcode
from vdla.hardware.program import UOPS, Program, ProgramTensor
from vdla.hardware.timing import PAGE_BYTES


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
    def name(self) -> str:
        """The name of the function."""
        return self.function.name

    @property
    def parameters(self) -> tuple[str, ...]:
        """The tensors of the function that others know."""
        return self.function.params

    @property
    def results(self) -> tuple[str, ...]:
        """The parameters that the function writes."""
        return tuple(output_names(self.function))

    @property
    def private(self) -> tuple[str, ...]:
        """The function's own buffers in DRAM."""
        buffers = self.function.buffers.items()
        return tuple(name for name, one in buffers if one.scope == GLOBAL and name not in self.parameters)

    @property
    def lines(self) -> list[str]:
        """The lines of source."""
        return [line.text for line in function_lines(self.function)]

    def tensor(self, local_name: str) -> ProgramTensor:
        """A tensor of the function as one of a program."""
        return tensor_of(local_name, self.function.buffers[local_name], "scratch", self.layouts.get(local_name, ""))


@dataclass(frozen=True, slots=True)
class ProgramLink:
    """One finished program of a chain; its tensors have shapes of its own, and equal bytes.

    Its resident tensors are its alone; those without a name in `tensors` get one.
    """

    program: Program
    tensors: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.program.name

    @property
    def parameters(self) -> tuple[str, ...]:
        """The tensors of the program that others know."""
        return tuple(one.name for one in self.program.tensors if one.role in ("input", "weight", "output"))

    @property
    def weights(self) -> tuple[str, ...]:
        """The parameters that stay the same from run to run."""
        return tuple(one.name for one in self.program.tensors if one.role == "weight")

    @property
    def results(self) -> tuple[str, ...]:
        """The parameters that the program writes."""
        return tuple(one.name for one in self.program.tensors if one.role == "output")

    @property
    def private(self) -> tuple[str, ...]:
        """The tensors that no other program knows, without the micro-ops."""
        return tuple(one.name for one in self.program.tensors if one.name not in (*self.parameters, UOPS))

    @property
    def lines(self) -> list[str]:
        """The lines of source."""
        return list(self.program.source_lines)

    def tensor(self, local_name: str) -> ProgramTensor:
        """A tensor of the program."""
        return self.program.tensor(local_name)


AnyLink = Link | ProgramLink


def written(link: AnyLink) -> tuple[str, ...]:
    """The chain's tensors that a link writes."""
    return tuple(link.tensors[name] for name in link.results)


def written_bytes(link: AnyLink) -> dict[str, int]:
    """The sizes of the chain's tensors that a link writes."""
    return {link.tensors[name]: link.tensor(name).nbytes for name in link.results}


def read(link: AnyLink) -> tuple[str, ...]:
    """The chain's tensors that a link reads."""
    return tuple(link.tensors[name] for name in link.parameters if name not in link.results)


Joined = Mapping[str, Sequence[str]]
"""The parts of each whole, in order; a part may itself be a whole."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part begins: the tensor of the program, and the byte in it."""

    tensor: str
    byte: int


Places = Mapping[str, Place]


def places_of(where: str, joined: Joined, nbytes: Mapping[str, int]) -> dict[str, Place]:
    """The place of every part; `nbytes` has the sizes of the tensors that functions write.

    Raises:
        LoweringError: a part is in two wholes, or has no size.
    """
    places: dict[str, Place] = {}
    sizes = dict(nbytes)
    for whole, parts in joined.items():
        at = 0
        for part in parts:
            if part in places:
                raise LoweringError(f"{where}: part {part} must be in one whole, got {places[part].tensor} and {whole}")
            if part not in sizes:
                raise LoweringError(f"{where}: part {part} must be written or a whole before {whole}, got neither")
            places[part] = Place(whole, at)
            at += sizes[part]
        sizes[whole] = at
    return {part: _outermost(places, place) for part, place in places.items()}


def _outermost(places: Places, place: Place) -> Place:
    while place.tensor in places:
        outer = places[place.tensor]
        place = Place(outer.tensor, outer.byte + place.byte)
    return place


def in_wholes(config: Config, ops: MacroOps, tensors: Mapping[str, str], places: Places) -> MacroOps:
    """The operations with the addresses of parts, where `tensors` are the chain's names."""
    names = [tensors.get(form.tensor or "", "") for form in ops.forms]
    beats = np.array([places[name].byte // config.axi_bytes if name in places else 0 for name in names], np.int64)
    return replace(ops, dram=ops.dram + beats[ops.form]) if beats.any() else ops


# --- scratch tensors in one -----------------------------------------------------------------------

# Live ranges are positions in program order, from the first STORE to the last LOAD. Where a tensor
# takes the place of a dead one, the ordinary dependences between beats of one tensor let its STOREs
# wait for the LOADs before them, and the verifier sees one tensor and checks every beat.

SCRATCH = "scratch"


def share_scratch(
    config: Config, ops: MacroOps, tensors: Sequence[ProgramTensor]
) -> tuple[MacroOps, list[ProgramTensor]]:
    """The operations on one scratch tensor in place of several, and all tensors.

    Each scratch tensor begins at a page, as tensors of their own do: bursts are cut as before.
    """
    scratch = {tensor.name: tensor for tensor in tensors if tensor.role == "scratch"}
    if len(scratch) < 2:
        return ops, list(tensors)
    lives = _lives(ops, scratch)
    plan = plan_memory((ValueLife(name, scratch[name].nbytes, *life) for name, life in lives.items()), PAGE_BYTES)
    shared = _shared_tensor([tensor.name for tensor in tensors], plan.arena_bytes)
    beats = {name: offset // config.axi_bytes for name, offset in plan.offsets.items()}
    moved = np.array([beats.get(form.tensor or "", 0) for form in ops.forms], np.int64)

    def renamed(op: MacroOp) -> MacroOp:
        return replace(op, tensor=shared.name) if op.tensor in scratch else op

    changed = replace(ops.map(renamed), dram=ops.dram + moved[ops.form])
    return changed, [*(tensor for tensor in tensors if tensor.name not in scratch), shared]


def _lives(ops: MacroOps, names: dict[str, ProgramTensor]) -> dict[str, tuple[int, int]]:
    """The first and the last operation on each tensor."""
    result: dict[str, tuple[int, int]] = {}
    for form, first, last in zip(ops.forms, ops.first.tolist(), ops.last.tolist(), strict=True):
        if form.tensor in names and last >= 0:
            low, high = result.get(form.tensor, (first, last))
            result[form.tensor] = min(low, first), max(high, last)
    return result


def _shared_tensor(names: Sequence[str], nbytes: int) -> ProgramTensor:
    name = SCRATCH
    while name in names:
        name += "_"
    return ProgramTensor(name=name, role="scratch", shape=(nbytes,), dtype="int8", layout="", nbytes=nbytes)


# --- tensors -------------------------------------------------------------------------------------


def private_tensors(position: int, link: AnyLink) -> dict[str, str]:
    """The chain's names of a link's own tensors in DRAM."""
    return {name: link.tensors.get(name, f"link{position}.{name}") for name in link.private}


def private_tensor(link: AnyLink, name: str, names: Mapping[str, str]) -> ProgramTensor:
    """One of a link's own tensors, by the chain's `names`."""
    tensor = link.tensor(name)
    return replace(tensor, name=names[name], whole=names.get(tensor.whole, ""))


def wholes_of(config: Config, link: AnyLink, names: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """What the parts of a link's resident tensors lie in, and its beats, by the chain's `names`."""
    tensors = {name: link.tensor(name) for name in link.private}
    parts = {name: tensors[tensor.whole] for name, tensor in tensors.items() if tensor.whole}
    return {names[name]: (names[whole.name], whole.nbytes // config.axi_bytes) for name, whole in parts.items()}


def chain_tensors(
    name: str, links: Sequence[AnyLink], outputs: Sequence[str], joined: Joined, places: Places
) -> list[ProgramTensor]:
    """The tensors of the chain except for parts of others, in order of first use."""
    made_here = {*joined, *(tensor for link in links for tensor in written(link))}
    uses: dict[str, list[tuple[AnyLink, str]]] = {}
    for link in links:
        for parameter in link.parameters:
            uses.setdefault(link.tensors[parameter], []).append((link, parameter))
    tensors = []
    for tensor, users in uses.items():
        role = "output" if tensor in outputs else "scratch"
        if tensor not in made_here:
            role = "weight" if all(parameter in link.weights for link, parameter in users) else "input"
        link, parameter = users[0]
        tensors.append(replace(link.tensor(parameter), name=tensor, role=role))
        for other, argument in users[1:]:
            _check_same(name, tensor, (link, parameter), (other, argument))
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


def tensor_of(name: str, buffer: ir.Buffer, role: str, layout: str) -> ProgramTensor:
    """A buffer as a tensor of a program."""
    return ProgramTensor(
        name=name, role=role, shape=buffer.dims, dtype=buffer.dtype, layout=layout, nbytes=_nbytes(buffer)
    )


def _nbytes(buffer: ir.Buffer) -> int:
    return prod(buffer.dims) * INTEGER_BITS[buffer.dtype] // 8


# --- checks --------------------------------------------------------------------------------------


def check_chain(name: str, links: Sequence[AnyLink], outputs: Sequence[str], joined: Joined) -> None:
    """Reject chains whose tensors are not written once, before they are read, and used."""
    where = f"compile_chain {name}"
    if not links:
        raise LoweringError(f"{where}: links must be at least one, got none")
    for position, link in enumerate(links):
        missing = [parameter for parameter in link.parameters if parameter not in link.tensors]
        if missing:
            raise LoweringError(
                f"{where}: tensors of link {position} ({link.name}) must name {', '.join(missing)}, "
                f"got {', '.join(link.tensors) or 'none'}"
            )
    _check_residents(where, links)
    _check_order(where, links, joined)
    parts = {part for names in joined.values() for part in names}
    made = {*joined, *(tensor for link in links for tensor in written(link))}
    used = {*parts, *(tensor for link in links for tensor in read(link))}
    for tensor in outputs:
        if tensor not in made:
            raise LoweringError(f"{where}: outputs must be of {', '.join(made)}, got {tensor}")
        if tensor in parts:
            raise LoweringError(f"{where}: outputs must be whole tensors, got the part {tensor}")
    for tensor in made - used - set(outputs):
        raise LoweringError(f"{where}: tensor {tensor} must be read or an output, got neither")


def _check_residents(where: str, links: Sequence[AnyLink]) -> None:
    """Reject two links with one resident tensor, and a program that loads one before it stores to
    it: LOADs may go ahead, but for the STOREs before them.
    """
    owner: dict[str, int] = {}
    for position, link in enumerate(links):
        for local_name, name in private_tensors(position, link).items():
            if link.tensor(local_name).role != "resident":
                continue
            if name in owner:
                rule = f"resident tensor {name} must be of one link"
                raise LoweringError(f"{where}: {rule}, got links {owner[name]} and {position}")
            owner[name] = position
            if isinstance(link, ProgramLink) and _is_loaded_first(link.program, local_name):
                rule = f"resident tensor {name} must be stored to before it is loaded"
                raise LoweringError(f"{where}: {rule}, got a LOAD before a STORE in link {position}")


def _is_loaded_first(program: Program, name: str) -> bool:
    """Whether a LOAD of a resident tensor, or of a part of it, stands before a STORE to one."""
    used = [index for index, tensor in enumerate(program.tensors) if name in (tensor.name, tensor.whole)]
    moves = np.flatnonzero(np.isin(program.tensor_of, used))
    stores = moves[program.columns[moves, COL["opcode"]] == Opcode.STORE]
    loads = moves[program.columns[moves, COL["opcode"]] == Opcode.LOAD]
    return bool(len(loads) and len(stores) and loads[0] < stores[-1])


def _check_order(where: str, links: Sequence[AnyLink], joined: Joined) -> None:
    writer: dict[str, int] = {}
    for position, link in enumerate(links):
        for tensor in written(link):
            if tensor in writer:
                rule = f"tensor {tensor} must be written by one link"
                raise LoweringError(f"{where}: {rule}, got links {writer[tensor]} and {position}")
            writer[tensor] = position
    for whole, parts in joined.items():
        writer[whole] = max(writer.get(part, -1) for part in parts)
    for position, link in enumerate(links):
        for tensor in read(link):
            if writer.get(tensor, -1) >= position:
                rule = f"tensor {tensor} must be written before link {position} reads it"
                raise LoweringError(f"{where}: {rule}, got link {writer[tensor]} as its writer")


def _check_same(chain: str, tensor: str, *uses: tuple[AnyLink, str]) -> None:
    """Two uses of one tensor: the same elements in the same order; of finished programs, whose
    shapes are their own, the same bytes.
    """
    one, other = (link.tensor(name) for link, name in uses)
    finished = any(isinstance(link, ProgramLink) for link, _ in uses)
    alike = one.nbytes == other.nbytes if finished else _cuts_agree(one.shape, other.shape)
    if one.dtype == other.dtype and alike:
        return
    raise LoweringError(
        f"compile_chain {chain}: tensor {tensor} must have the same elements in every link, got "
        f"{one.dtype}{list(one.shape)} and {other.dtype}{list(other.shape)}"
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
