# SPDX-License-Identifier: Apache-2.0
"""Where a program lies in memory: an address for each tensor and for the stream (STREAM).

The invariant of a placement: tensors and stream share no byte, since the verifier takes them as
apart; only a part lies in its whole, anywhere. A tensor ends where the machine can still address
its last beat.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from vdla.hardware.program.tensor import ProgramError, ProgramTensor
from vdla.hardware.timing import PAGE_BYTES
from vdla.support.arrays import Ints
from vdla.support.integers import is_int, to_python
from vdla.support.suggest import did_you_mean

if TYPE_CHECKING:
    from vdla.hardware.program.program import Program

STREAM = "<stream>"
"""The key of the instruction stream among addresses; no tensor can have this name."""
BEATS = 1 << 32
"""The beats that an instruction can address: its `dram` field has 32 bits."""


def placed_sizes(program: Program) -> dict[str, int]:
    """The bytes of each tensor and of the stream, by their keys among addresses."""
    return {tensor.name: tensor.nbytes for tensor in program.tensors} | {STREAM: program.words.nbytes}


def allocated_sizes(program: Program) -> dict[str, int]:
    """The sizes of what takes memory of its own: all but the parts of resident tensors."""
    parts = {tensor.name for tensor in program.tensors if tensor.whole}
    return {name: nbytes for name, nbytes in placed_sizes(program).items() if name not in parts}


def place(
    program: Program, base: int = 0, offsets: Mapping[str, int] = MappingProxyType({})
) -> tuple[dict[str, int], int]:
    """Page-aligned addresses of the tensors and the stream (STREAM) from `base`, and their end.

    `offsets` are those of `with_parts`.
    """
    addresses: dict[str, int] = {}
    end = base
    for name, nbytes in allocated_sizes(program).items():
        addresses[name] = -(-end // PAGE_BYTES) * PAGE_BYTES
        end = addresses[name] + nbytes
    return with_parts(program, addresses, offsets), end


def with_parts(program: Program, addresses: Mapping[str, int], offsets: Mapping[str, int]) -> dict[str, int]:
    """The addresses, and those of all parts: `offsets` has bytes from the whole's begin on by name,
    0 where it has none.

    ProgramError for an offset of no part, or one at which the part would leave its whole.
    """
    where, parts = f"program {program.name}", {tensor.name: tensor for tensor in program.tensors if tensor.whole}
    if not isinstance(offsets, Mapping):
        raise ProgramError(f"{where}: offsets must be a mapping from parts to bytes, got {type(offsets).__name__}")
    for name in offsets:
        if name not in parts:
            rule = f"be of {', '.join(parts)}" if parts else "be left out without parts"
            raise ProgramError(f"{where}: offsets must {rule}, got {name}{did_you_mean(name, parts)}")
    result = dict(addresses)
    for name, part in parts.items():
        offset, width = to_python(offsets.get(name, 0)), program.config.axi_bytes
        most = (program.tensor(part.whole).nbytes - part.nbytes) // width * width
        if not is_int(offset) or offset % width or not 0 <= offset <= most:
            rule = f"offset of {name} in {part.whole} must be a multiple of {width} from 0 to {most}"
            raise ProgramError(f"{where}: {rule}, got {offset!r}")
        result[name] = _address(program, part.whole, addresses) + int(offset)
    return result


def first_beats(program: Program, addresses: Mapping[str, int]) -> Ints:
    """The beat at which each tensor begins; ProgramError where the addresses break the invariant.

    The stream is checked where its address is given: a program can be linked without it.
    """
    beats = [_beat(program, tensor, addresses) for tensor in program.tensors]
    require_apart(program, addresses)
    return np.array(beats, np.int64)


def require_apart(program: Program, addresses: Mapping[str, int]) -> None:
    """ProgramError where two tensors, or a tensor and the stream, share a byte; a part must lie in
    its whole.
    """
    sizes = allocated_sizes(program).items()
    places = sorted((_address(program, name, addresses), n, name) for name, n in sizes if n and name in addresses)
    for (start, nbytes, name), (after, size, other) in pairwise(places):
        if after < start + nbytes:
            raise ProgramError(
                f"program {program.name}: places of {name} and {other} must not overlap, "
                f"got bytes {start} to {start + nbytes - 1} and {after} to {after + size - 1}"
            )
    for part in program.tensors:
        if part.whole:
            _require_inside(program, part, addresses)


def _require_inside(program: Program, part: ProgramTensor, addresses: Mapping[str, int]) -> None:
    whole = program.tensor(part.whole)
    start, first = (_address(program, tensor.name, addresses) for tensor in (part, whole))
    end, last = start + part.nbytes - 1, first + whole.nbytes - 1
    if start < first or end > last:
        rule = f"program {program.name}: place of {part.name} must be inside of {whole.name}"
        raise ProgramError(f"{rule}, got bytes {start} to {end} of {first} to {last}")


def _address(program: Program, name: str, addresses: Mapping[str, int]) -> int:
    where = f"program {program.name}: address of {name}"
    if not isinstance(addresses, Mapping) or name not in addresses:
        given = ", ".join(map(str, addresses)) if isinstance(addresses, Mapping) else ""
        raise ProgramError(f"{where} must be given, got addresses of {given or 'nothing'}")
    address = to_python(addresses[name])
    if not is_int(address):
        raise ProgramError(f"{where} must be an integer, got {address!r}")
    return int(address)


def _beat(program: Program, tensor: ProgramTensor, addresses: Mapping[str, int]) -> int:
    where, width = f"program {program.name}: address of {tensor.name}", program.config.axi_bytes
    address = _address(program, tensor.name, addresses)
    beat, rest = divmod(address, width)
    if rest or beat < 0:
        raise ProgramError(f"{where} must be a multiple of {width} from 0, got {address}")
    if address + tensor.nbytes > BEATS * width:
        raise ProgramError(
            f"{where} must be at most {BEATS * width - tensor.nbytes}, so that its {tensor.nbytes} bytes "
            f"lie in the {BEATS * width} that the machine addresses, got {address}"
        )
    return beat
