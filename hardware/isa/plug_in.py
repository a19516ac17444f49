"""What the machine knows of an extension: one compute instruction as data, without the compiler.

A plug-in is made from an extension (`vdla.Extension`) for the sizes of one machine. It holds no
code but the text of its kernel, is equal to another by its content, and travels between processes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from dataclasses import field as dataclass_field
from enum import Enum
from functools import cached_property

from vdla.hardware.isa.formula import Formula
from vdla.hardware.isa.instructions import Buffer

MOST_PLUG_INS = 16
"""Plug-ins of one machine: what the field `extension` can number."""

INTERFACE = 1
"""The version of the interface between machine and plug-in; part of every digest."""

DECLARED_SIZES = ("batch", "block_in", "block_out", "inp_bits", "wgt_bits")
"""The sizes that operands of a step depend on."""

MOST_ENTRIES = 8
"""Entries that an operand of a step can have."""


class OldSum(Enum):
    """What a step does with the accumulator entry that it writes."""

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

    A step takes `interval` cycles and its result `latency` more, both formulas of fields. `kernel`
    is the Python text of one step. `place` is the line of the user's file. Plug-ins that compute
    and cost the same are equal, however they are described and built.
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
    place: str = dataclass_field(default="", compare=False)
    datapath: Datapath | None = dataclass_field(default=None, compare=False)

    @cached_property
    def digest(self) -> str:
        """Twelve hex digits that identify what the instruction is and does."""
        content = {**asdict(self), "old": self.old.value, "interface": INTERFACE}
        for unrelated in ("doc", "place", "datapath"):
            del content[unrelated]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """Name and digest: how files refer to the plug-in."""
        return f"{self.name}#{self.digest}"

    def __repr__(self) -> str:
        return self.label

    @property
    def accumulator_reads(self) -> int:
        """Accumulator entries that a step reads."""
        return int(self.old is not OldSum.OVERWRITE) + int(self._source_is_accumulator)

    @property
    def feeds_back(self) -> bool:
        """Whether the datapath reads the accumulator; what is added to it afterwards does not."""
        return self.old is OldSum.READ or self._source_is_accumulator

    @property
    def _source_is_accumulator(self) -> bool:
        return self.src is not None and self.src.buffer is Buffer.ACC
