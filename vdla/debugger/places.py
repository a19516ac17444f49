# SPDX-License-Identifier: Apache-2.0
"""What a program can be asked for by name: entries of buffers, rows of private states, tensors.

    acc[3]   inp[0:4]   out   uop[2]   dram.weight[0, 1, :]   sad.best[0]

A name of a buffer means the buffer; `dram.` before it means the tensor of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from vdla.debugger.errors import DebugError
from vdla.hardware.config import Buffer
from vdla.hardware.isa import PlugInState
from vdla.hardware.numerics import unpack_elements, unpack_scale
from vdla.hardware.program import Program, ProgramTensor, from_bytes, place
from vdla.simulator.function import Buffers
from vdla.support.arrays import Array
from vdla.support.suggest import one_of

DRAM = "dram."
_FORM = re.compile(r"([^\[\]\s]+)\s*(?:\[([^\[\]]*)\])?")
_PART = re.compile(r"\s*(-?\d+)?\s*(?:(:)\s*(-?\d+)?\s*)?")
BUFFERS = {buffer.name.lower(): buffer for buffer in Buffer}


@dataclass(frozen=True, slots=True)
class Location:
    """A name and what is chosen of it, empty for all."""

    name: str
    index: tuple[int | slice, ...] = ()

    def entries(self, depth: int) -> range:
        """The entries of a buffer, or rows of a state, that are chosen by the first index."""
        try:
            chosen = range(depth)[self.index[0]] if self.index else range(depth)
        except IndexError:
            raise DebugError(f"debug: an index of {self.name} must be below {depth}, got {self.index[0]}") from None
        return range(chosen, chosen + 1) if isinstance(chosen, int) else chosen


class Locations:
    """The names of a program, and what they name."""

    def __init__(self, program: Program) -> None:
        self._readers = _readers(program)
        self._names = {name.removeprefix(DRAM): name for name in self._readers} | {name: name for name in self._readers}

    def parse(self, text: str) -> Location:
        """The place that a text names; DebugError for a wrong form or an unknown name."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise DebugError(f"debug: a place must be written as acc, acc[3], acc[0:4] or out[0, 1], got {text!r}")
        name = self._names.get(match[1])
        if name is None:
            raise DebugError(f"debug: a place must be {one_of(match[1], _shortest(self._names))}")
        parts = () if match[2] is None else tuple(_index(part, text) for part in match[2].split(","))
        return Location(name, parts)

    def value(self, place: Location, buffers: Buffers) -> Array:
        """A copy of what is there; DebugError for an index outside."""
        whole = self._readers[place.name](buffers)
        try:
            return np.array(whole[place.index])
        except IndexError as error:
            shape = list(whole.shape)
            raise DebugError(f"debug: an index of {place.name} must be within {shape}, got {error}") from None


def _shortest(names: Mapping[str, str]) -> list[str]:
    """One way to write each name."""
    return list({meant: written for written, meant in reversed(list(names.items()))}.values())[::-1]


def _index(part: str, text: str) -> int | slice:
    match = _PART.fullmatch(part)
    if match is None or not (match[1] or match[2]):
        raise DebugError(f"debug: an index must be an integer or a range such as 0:4, got {text!r}")
    begin, end = (None if bound is None else int(bound) for bound in (match[1], match[3]))
    return slice(begin, end) if match[2] else int(match[1])


# --- values ---------------------------------------------------------------------------------------

_Reader = Callable[[Buffers], Array]


def _readers(program: Program) -> Mapping[str, _Reader]:
    config = program.config
    readers: dict[str, _Reader] = {
        "inp": lambda buffers: buffers.inp,
        "wgt": lambda buffers: buffers.wgt,
        "scl": lambda buffers: np.stack([*unpack_scale(buffers.scl)], axis=-1),
        "uop": lambda buffers: buffers.uop,
        "acc": lambda buffers: buffers.acc.reshape(config.acc_depth, config.batch, config.block_out),
        "out": lambda buffers: _results(buffers).reshape(config.out_depth, config.batch, config.block_out),
        "raw": lambda buffers: buffers.raw.reshape(config.out_slots, config.batch, config.block_out),
    }
    readers |= {state.label: _state(state) for state in states(program)}
    addresses, _ = place(program)
    tensors = {f"{DRAM}{tensor.name}": _tensor(tensor, addresses[tensor.name]) for tensor in program.tensors}
    return readers | tensors


def states(program: Program) -> tuple[PlugInState, ...]:
    """The private states of the machine."""
    plug_ins = program.config.extensions
    return tuple(dict.fromkeys(state for plug_in in plug_ins for state in plug_in.written_states))


def _results(buffers: Buffers) -> Array:
    bits = buffers.config.out_bits
    return buffers.out.view(np.int8) if bits == 8 else unpack_elements(buffers.out, bits)


def _state(state: PlugInState) -> _Reader:
    return lambda buffers: buffers.states[state].reshape(state.rows, *state.shape)


def _tensor(tensor: ProgramTensor, address: int) -> _Reader:
    return lambda buffers: from_bytes(tensor, buffers.dram[address:][: tensor.nbytes])
