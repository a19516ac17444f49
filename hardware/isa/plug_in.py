# SPDX-License-Identifier: Apache-2.0
"""The machine's view of an extension, as data and without the compiler: its compute instructions,
each a plug-in, and its processing of results on their way to the output buffer, a stage.

They are made from a declaration (`vdla.Extension`, `vdla.EmitStage`) for the sizes of one machine,
hold no code but the text of their kernel, are equal to others by their content, and travel between
processes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from dataclasses import field as dataclass_field
from enum import Enum
from functools import cached_property
from typing import Any

from vdla.hardware.isa.formula import Formula
from vdla.hardware.isa.instructions import Buffer
from vdla.hardware.isa.plug_in_state import PlugInState, StatePort

MOST_PLUG_INS = 64
"""Plug-ins of one machine, which the field `extension` numbers."""

INTERFACE = 1
"""The version of the interface between machine and plug-in; part of every digest."""

DECLARED_SIZES = ("batch", "block_in", "block_out", "inp_bits", "wgt_bits")
"""The sizes that operands of a step depend on."""

MOST_ENTRIES = 8
"""Entries that an operand of a step can have."""


class OldSum(Enum):
    """What a step does with the accumulator entry that it writes."""

    UNTOUCHED = "untouched"  # it writes none
    OVERWRITE = "overwrite"
    READ = "read"
    ACCUMULATE = "accumulate"  # adds to it; starts anew at a micro-op marked first under init


@dataclass(frozen=True, slots=True)
class PlugInField:
    """A field of a plug-in's format; `width` is in bits, or names the field that has this width."""

    name: str
    width: int | str
    doc: str
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Port:
    """An operand of a step: what an index of the instruction counts in a buffer.

    It counts vectors of block_out elements, or groups of `entries`, a power of two, from the start
    of the buffer. `bits` is the width of an element that is narrower than the buffer's own: the
    first of them lies in the low bits, as in DRAM.
    """

    operand: str
    buffer: Buffer
    vector: bool = False
    entries: int = 1
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class StepPorts:
    """What `src` and `wgt` of a compute instruction index, and what it does with its sums; with
    `writes_inputs`, `acc` indexes entries of the input buffer, which it writes instead.
    """

    old: OldSum
    src: Port | None
    wgt: Port | None
    writes_inputs: bool = False

    @property
    def indexed(self) -> tuple[tuple[str, Port], ...]:
        """The operands that there are, with the fields that index them."""
        return tuple((name, port) for name, port in (("src", self.src), ("wgt", self.wgt)) if port is not None)


@dataclass(frozen=True, slots=True)
class Datapath:
    """The SystemVerilog of a step; the result of a step is added to the sum by `reducer`, one of
    sum, max and min, or replaces the entry where that is empty. `place` is the file of the text.
    """

    text: str
    place: str
    reducer: str = ""


@dataclass(frozen=True)
class PlugIn:
    """An instruction of an extension; `src` and `wgt` are the operands that these fields index.

    With `writes_inputs`, its result is an entry of the input buffer and no sum. A step takes
    `interval` cycles and its result `latency` more, both formulas of fields. `unit`
    names the declaration, whose plug-ins and stage share `states`. `kernel` is the Python text of
    one step; with `skips_zeros`, it adds nothing to a sum where all inputs are 0. With `array`, the
    datapath has a port to the array of multipliers. `place` is the line of the user's file.
    Plug-ins that compute and cost the same are equal, however they are described and built.
    """

    name: str
    doc: str = dataclass_field(compare=False)
    version: int
    sizes: tuple[tuple[str, int], ...]
    fields: tuple[PlugInField, ...]
    old: OldSum
    src: Port | None
    wgt: Port | None
    interval: Formula
    latency: Formula
    kernel: str
    wide: bool = False
    unit: str = ""
    states: tuple[StatePort, ...] = ()
    skips_zeros: bool = dataclass_field(default=False, compare=False)  # follows from the kernel
    array: bool = dataclass_field(default=False, compare=False)
    place: str = dataclass_field(default="", compare=False)
    datapath: Datapath | None = dataclass_field(default=None, compare=False)
    writes_inputs: bool = False

    @cached_property
    def digest(self) -> str:
        """Twelve hex digits that identify what the instruction is and does."""
        return _digest({**asdict(self), "old": self.old.value})

    @property
    def label(self) -> str:
        """Name and digest: how files refer to the plug-in."""
        return f"{self.name}#{self.digest}"

    def __repr__(self) -> str:
        return self.label

    @property
    def ports(self) -> StepPorts:
        """What a step reads and writes of the buffers."""
        return StepPorts(self.old, self.src, self.wgt, self.writes_inputs)

    @property
    def accumulator_reads(self) -> int:
        """Accumulator entries that a step reads."""
        return int(self.old in (OldSum.READ, OldSum.ACCUMULATE)) + int(self._source_is_accumulator)

    @property
    def feeds_back(self) -> bool:
        """Whether the datapath reads the accumulator; what is added to it afterwards does not."""
        return self.old is OldSum.READ or self._source_is_accumulator

    @property
    def _source_is_accumulator(self) -> bool:
        return self.src is not None and self.src.buffer is Buffer.ACC

    @property
    def writes_sums(self) -> bool:
        """Whether a step writes an accumulator entry, which can be sent to the output buffer."""
        return self.old is not OldSum.UNTOUCHED

    @property
    def has_result(self) -> bool:
        """Whether a step writes an entry that `acc` indexes, of the accumulator or of the input
        buffer.
        """
        return self.writes_sums or self.writes_inputs

    @property
    def rereads(self) -> Buffer | None:
        """The buffer in which a step may read what the step before wrote."""
        if not self.writes_inputs:
            return Buffer.ACC if self.feeds_back else None
        return Buffer.INP if self.src is not None and self.src.buffer is Buffer.INP else None

    @property
    def written_states(self) -> tuple[PlugInState, ...]:
        """The states that a step writes a row of."""
        return tuple(port.state for port in self.states if port.writes)


@dataclass(frozen=True)
class PlugInStage:
    """What emit code STAGE does to requantised results on their way to the output buffer.

    `operand` names the entry of results, `states` are read whole. `latency` is added to the depth
    of the compute pipeline. `kernel` is the Python text of one entry, `datapath` that of the unit.
    """

    name: str
    doc: str = dataclass_field(compare=False)
    version: int
    sizes: tuple[tuple[str, int], ...]
    operand: str
    states: tuple[StatePort, ...]
    latency: int
    kernel: str
    unit: str = ""
    place: str = dataclass_field(default="", compare=False)
    datapath: Datapath | None = dataclass_field(default=None, compare=False)

    @cached_property
    def digest(self) -> str:
        """Twelve hex digits that identify what the stage does."""
        return _digest(asdict(self))

    @property
    def label(self) -> str:
        """Name and digest: how files refer to the stage."""
        return f"{self.name}#{self.digest}"

    def __repr__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True)
class PlugInUnit:
    """What one declaration gives a machine: parts that share states and a datapath."""

    plug_ins: tuple[PlugIn, ...]
    stage: PlugInStage | None = None

    @property
    def parts(self) -> tuple[PlugIn | PlugInStage, ...]:
        """Its instructions and its stage."""
        return (*self.plug_ins, *([self.stage] if self.stage is not None else []))

    @property
    def name(self) -> str:
        """The name of the declaration."""
        return self.parts[0].unit or self.parts[0].name

    @property
    def datapath(self) -> Datapath | None:
        """The module that computes all parts; None where it is a what-if."""
        return self.parts[0].datapath

    @property
    def array(self) -> bool:
        """Whether the module has a port to the array of multipliers."""
        return any(plug_in.array for plug_in in self.plug_ins)


_OF_BUILD = ("doc", "place", "datapath", "skips_zeros", "array")
"""What two plug-ins that compute and cost the same may differ in."""


def _digest(content: dict[str, Any]) -> str:
    related = {name: value for name, value in content.items() if name not in _OF_BUILD}
    if not related.get("writes_inputs"):  # digests are older than this member
        related.pop("writes_inputs", None)
    text = json.dumps({**related, "interface": INTERFACE}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
