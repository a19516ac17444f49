# SPDX-License-Identifier: Apache-2.0
"""The steps of an extension's instruction as its declaration has them, one at a time.

An oracle: it knows the fields of an instruction by name, the declared behaviour and scopes, and
nothing of the plug-in that the machine was made of. Accumulator entries that a step reads are those
from before the instruction: what it wrote itself does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler import ir
from vdla.compiler.extensions import EmitStage, Extension, extension_of
from vdla.compiler.extensions.load import unit_with_stage
from vdla.compiler.extensions.state import State
from vdla.compiler.interpret import interpret
from vdla.compiler.te import Stage
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Opcode, StagedEmit, Words, layout
from vdla.hardware.numerics import pack_elements, requantise, wrap32
from vdla.support.arrays import Ints
from vdla.verification.generated_tests.operands import Contents, Space, state_indices, state_operand, step_operands

Fields = Mapping[str, int]
MicroOps = Ints

_COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True, slots=True)
class InterpretedStep:
    """The places of one step by index; `out` is that of the result."""

    places: Mapping[str, int]
    out: int
    first: bool
    last: bool


@dataclass(slots=True)
class Touched:
    """Entries and rows that an instruction reads, and those that it writes."""

    reads: dict[Space, set[int]] = field(default_factory=dict)
    writes: dict[Space, set[int]] = field(default_factory=dict)

    def read(self, space: Space, entries: range) -> None:
        """Notes a read; of a buffer, only of entries that the instruction did not write."""
        written = self.writes.get(space, set()) if isinstance(space, Buffer) else set()
        self.reads.setdefault(space, set()).update(set(entries) - written)

    def write(self, space: Space, entries: range) -> None:
        """Notes a write."""
        self.writes.setdefault(space, set()).update(entries)


def steps(fields: Fields, micro_ops: MicroOps) -> Iterator[InterpretedStep]:
    """The steps of an instruction in order; `micro_ops[n, 5]` are those that it executes."""
    for i in range(fields["loop0"]):
        for j in range(fields["loop1"]):
            base = {
                name: fields[name] + i * fields[f"{name}0"] + j * fields[f"{name}1"]
                for name in ("acc", "src", "wgt", "scl")
            }
            for acc, src, wgt, first, last in micro_ops.tolist():
                places = {"acc": base["acc"] + acc, "src": base["src"] + src, "wgt": base["wgt"] + wgt}
                places["scl"] = base["scl"]
                out = places["acc"] - fields["acc"] + fields["out"]
                yield InterpretedStep(places, out, bool(first), bool(last))


class DeclaredInstruction:
    """An extension of a unit on a machine, interpreted step by step; `stage` is the machine's."""

    def __init__(self, extension: Extension, config: Config, unit: str, stage: DeclaredStage | None = None) -> None:
        self.extension = extension
        self.config = config
        self.stage = stage
        self.behaviour = extension.behaviour
        self.operands = step_operands(extension, config, unit)
        indices = state_indices(
            extension, {operand.index for operand in self.operands if isinstance(operand.space, Buffer)}
        )
        self.updates = [
            (f"{unit}.{state.name}", indices[state], tensor.name) for state, tensor in extension.updates.items()
        ]
        self.indexed = {operand.index for operand in self.operands} | {index for _, index, _ in self.updates}
        self.reducer = _reducer(extension)

    @property
    def writes_sums(self) -> bool:
        """Whether a step computes an accumulator entry."""
        return self.extension.output is not None and not self.writes_inputs

    @property
    def writes_inputs(self) -> bool:
        """Whether a step computes an entry of the input buffer."""
        return self.extension.output is not None and self.extension.scopes[self.extension.output.name] == "inp"

    def unused(self) -> list[str]:
        """The shared fields that an instruction does not use: they must be 0."""
        used = self.indexed | ({"acc"} if self.extension.output is not None else set())
        result = [f"{index}{loop}" for index in ("acc", "src", "wgt") if index not in used for loop in ("", "0", "1")]
        return result if self.reducer else [*result, "init"]

    # --- places

    def touched(self, fields: Fields, micro_ops: MicroOps) -> Touched:
        """The entries and rows that an instruction touches."""
        result = Touched()
        result.read(Buffer.UOP, range(fields["uop_begin"], fields["uop_end"]))
        for step in steps(fields, micro_ops):
            for operand in self.operands:
                result.read(operand.space, operand.entries(step.places))
            for space, index, _ in self.updates:
                result.write(space, _only(step.places[index] if index is not None else 0))
            if self.writes_inputs:
                result.write(Buffer.INP, _only(step.places["acc"]))
            if self.writes_sums:
                self._touch_sum(result, fields, step)
        return result

    def _touch_sum(self, touched: Touched, fields: Fields, step: InterpretedStep) -> None:
        if self._continues(fields, step):
            touched.read(Buffer.ACC, _only(step.places["acc"]))
        touched.write(Buffer.ACC, _only(step.places["acc"]))
        if not step.last or fields["emit"] == StagedEmit.NONE:
            return
        raw = fields["emit"] == StagedEmit.RAW
        slots = self.config.acc_bits // self.config.out_bits if raw else 1
        touched.write(Buffer.OUT, range(step.out * slots, (step.out + 1) * slots))
        if not raw:
            touched.read(Buffer.SCL, _only(step.places["scl"]))
        if fields["emit"] == StagedEmit.STAGE and self.stage is not None:
            for operand in self.stage.operands:
                touched.read(operand.space, operand.entries(step.places))

    def _continues(self, fields: Fields, step: InterpretedStep) -> bool:
        """Whether a step needs the old value of its entry."""
        if self.reducer:
            return not (fields["init"] and step.first)
        return self.extension.in_place is not None

    # --- values

    def run(self, fields: Fields, micro_ops: MicroOps, contents: Contents) -> None:
        """Execute an instruction on the contents of buffers and states, in place."""
        given = {field.name: np.array([fields[field.name]]) for field in self.extension.fields}
        for step in steps(fields, micro_ops):
            values = {operand.name: operand.value(step.places, contents) for operand in self.operands}
            values |= {name: self._immediate(name, given[name]) for name in self._immediates()}
            if self.extension.in_place is not None:
                values[self.extension.in_place] = self._old(step, contents)
            results = interpret(self.behaviour, values)
            for space, index, name in self.updates:
                contents[space][step.places[index] if index is not None else 0] = results[name].reshape(-1)
            if self.extension.output is not None:
                self._write(fields, step, results[self.extension.output.name], contents)

    def _immediates(self) -> list[str]:
        return [name for name, scope in self.extension.scopes.items() if scope == "immediate"]

    def _immediate(self, name: str, value: ir.Array) -> ir.Array:
        given: ir.Array = value.astype(ir.storage_dtype(self.behaviour.buffers[name].dtype))
        return given

    def _old(self, step: InterpretedStep, contents: Contents) -> ir.Array:
        sums = contents[Buffer.ACC][step.places["acc"]]
        old: ir.Array = sums.astype(np.int32).reshape(self.config.batch, self.config.block_out)
        return old

    def _write(self, fields: Fields, step: InterpretedStep, new: ir.Array, contents: Contents) -> None:
        if self.writes_inputs:
            contents[Buffer.INP][step.places["acc"]] = new.reshape(-1)
        else:
            self._write_sum(fields, step, new, contents)

    def _write_sum(self, fields: Fields, step: InterpretedStep, new: ir.Array, contents: Contents) -> None:
        if self.reducer and self._continues(fields, step):
            old = self._old(step, contents).astype(np.int64)
            new = wrap32(_COMBINE[self.reducer](old, new.astype(np.int64)))
        contents[Buffer.ACC][step.places["acc"]] = new.reshape(-1)
        if step.last and fields["emit"] != StagedEmit.NONE:
            self._emit(fields, step, new, contents)

    def _emit(self, fields: Fields, step: InterpretedStep, new: ir.Array, contents: Contents) -> None:
        config, out = self.config, contents[Buffer.OUT]
        if fields["emit"] == StagedEmit.RAW:
            size = config.acc_entry_bytes
            raw = new.astype("<i4").reshape(-1).view(np.uint8)
            out.reshape(-1)[step.out * size : (step.out + 1) * size] = raw
            return
        lanes = contents[Buffer.SCL][step.places["scl"]].view(np.uint64)
        result = requantise(new, lanes, fields["zero_point"], fields["clip_lo"], fields["clip_hi"], config.out_bits)
        if fields["emit"] == StagedEmit.STAGE and self.stage is not None:
            result = self.stage.run(result, contents)
        out[step.out] = pack_elements(result.reshape(-1), config.out_bits)


class DeclaredStage:
    """The stage of a machine, whose entries are interpreted."""

    def __init__(self, stage: EmitStage, unit: str) -> None:
        self.stage = stage
        self.behaviour = stage.behaviour
        self.operands = [
            state_operand(self.behaviour, unit, name, scope, None)
            for name, scope in stage.scopes.items()
            if isinstance(scope, State)
        ]

    def run(self, result: ir.Array, contents: Contents) -> ir.Array:
        """A requantised entry behind the stage."""
        values = {operand.name: operand.value({}, contents) for operand in self.operands}
        entry = self.behaviour.buffers[self.stage.operand]
        values[self.stage.operand] = result.astype(ir.storage_dtype(entry.dtype)).reshape(entry.dims)
        return interpret(self.behaviour, values)[self.stage.output.name]


def _only(entry: int) -> range:
    return range(entry, entry + 1)


def _reducer(extension: Extension) -> str:
    """How a step continues a sum; empty if it does not."""
    stage = None if extension.output is None else extension.output.stage
    return stage.reduction.reducer.name if isinstance(stage, Stage) and stage.reduction is not None else ""


def declared_instructions(config: Config) -> list[DeclaredInstruction]:
    """The instructions of a machine's extensions by number, from the loaded declarations."""
    unit = None if config.stage is None else unit_with_stage(config, config.stage)
    stage = None if unit is None or unit.stage is None else DeclaredStage(unit.stage, unit.name)
    return [
        DeclaredInstruction(extension_of(config, plug_in), config.plain, plug_in.unit, stage)
        for plug_in in config.extensions
    ]


# --- words ----------------------------------------------------------------------------------------
# The fields of an extension's instruction, read from the bits of its word as declared.
#
# An oracle of the decoder: the fields that all looped instructions share lie as in GEMM, behind the
# number of the extension; those of its own follow in the order of the declaration.


HEAD_BITS = 3 + 4  # opcode and tokens


def number_bits(config: Config) -> int:
    """The bits of the number of an extension: four, or as many as the last one needs."""
    return max(4, len(f"{len(config.extensions) - 1:b}"))


def number_of(word: Words, config: Config) -> int:
    """The number of the extension in a word, `uint8[n]`."""
    return int.from_bytes(word.tobytes(), "little") >> HEAD_BITS & (1 << number_bits(config)) - 1


def declared_fields(word: Words, extension: Extension, config: Config) -> dict[str, int]:
    """The fields of a word, `uint8[n]`, of an instruction of `extension`, except for the opcode."""
    bits = int.from_bytes(word.tobytes(), "little")
    shared = layout(config)[Opcode.GEMM]
    widths = [(slot.field.name, slot.width, slot.field.signed) for slot in shared]
    width_of = {name: width for name, width, _ in widths}
    fields_declared = [(item.name, width_of.get(str(item.width), item.width), item.signed) for item in extension.fields]
    result = {}
    at = 0
    for name, width, signed in [*widths, *fields_declared]:
        if at == HEAD_BITS:
            at += number_bits(config)
        result[name] = _value(bits >> at, int(width), signed)
        at += int(width)
    del result["opcode"]
    return result


def _value(bits: int, width: int, signed: bool) -> int:
    value = bits & (1 << width) - 1
    return value - (1 << width) if signed and value >> width - 1 else value
