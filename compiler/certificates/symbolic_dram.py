# SPDX-License-Identifier: Apache-2.0
"""The DRAM of a program on symbols: its tensors one after the other, as symbols or as numbers.

Constants are numbers, which need a fraction of the memory of symbols. A part is a window of the
tensor that it lies in: what is stored there is an update of that tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates.elementwise import numbers, unknowns
from vdla.compiler.certificates.packed_elements import PackedElements
from vdla.compiler.certificates.stream_kernels import TENSOR
from vdla.compiler.certificates.symbols import OPAQUE, SYMBOL, Symbols
from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, Opcode
from vdla.hardware.numerics import unpack_elements
from vdla.hardware.program import Program, ProgramTensor
from vdla.hardware.program.tensor import CONSTANT_BITS, UOP

Array = npt.NDArray[Any]
_WAITS = TENSOR.index("waits")


class SymbolicDram:
    """The tensors of a program; those that are `stored`, by index, are symbols.

    `offsets` has the bytes at which parts begin in their wholes, 0 where it has none. `table` has a
    row for each tensor, with the columns `stream_kernels.TENSOR`.
    """

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, Symbols | Array],
        stored: frozenset[int],
        offsets: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        contents = [_content(tensor, inputs.get(tensor.name)) for tensor in program.tensors]
        for index in set(map(program.whole_of, stored)):
            if contents[index].dtype != SYMBOL:
                contents[index] = numbers(contents[index])
        self.packed, bits = PackedElements(), [CONSTANT_BITS.get(tensor.dtype, 0) for tensor in program.tensors]
        for index in _narrow(program, bits):
            content = contents[index] if contents[index].dtype == SYMBOL else numbers(contents[index])
            contents[index] = self.packed.pack(content, bits[index], program.config.wgt_bits)
            bits[index] = program.config.wgt_bits
        self._names = [tensor.name for tensor in program.tensors]
        self._places = {tensor.name: _place(tensor, offsets) for tensor in program.tensors}
        rows = _with_parts(program, list(_rows(bits, contents)), [self._places[name][1] for name in self._names])
        self._bits = dict(zip(self._names, bits, strict=True))
        self.table: npt.NDArray[np.int64] = np.array(rows, np.int64).reshape(-1, len(TENSOR))
        symbols = [content.view(OPAQUE) for content in contents if content.dtype == SYMBOL]  # none of parts
        self.symbols: Symbols = np.concatenate([np.zeros(1, OPAQUE), *symbols]).view(SYMBOL)
        constants = [content.view(np.uint8) for content in contents if content.dtype != SYMBOL]
        self.numbers: npt.NDArray[np.uint8] = np.concatenate([np.zeros(1, np.uint8), *constants])
        self.tensors: dict[str, Symbols] = {
            name: self.symbols[first : first + size]
            for name, (is_symbols, first, size, *_) in zip(self._names, rows, strict=True)
            if is_symbols
        }
        self._sizes = {name: row[2] for name, row in zip(self._names, rows, strict=True)}

    def __getitem__(self, name: str) -> Symbols:
        return self.tensors[name]

    def size(self, name: str) -> int:
        """The elements of a tensor."""
        return self._sizes[name]

    def place(self, name: str) -> tuple[str, int]:
        """The tensor that a tensor lies in, itself if it is no part, and the element at which."""
        return self._places[name]

    def bits(self, name: str) -> int:
        """The bits of an element of a tensor, as buffers have it."""
        return self._bits[name]

    def note_waiting(self, waits: Callable[[str], bool]) -> None:
        """Note in which tensors results wait to be stored."""
        self.table[:, _WAITS] = [waits(self._places[name][0]) for name in self._names]


def _place(tensor: ProgramTensor, offsets: Mapping[str, int]) -> tuple[str, int]:
    if not tensor.whole:
        return tensor.name, 0
    return tensor.whole, offsets.get(tensor.name, 0) * 8 // CONSTANT_BITS[tensor.dtype]


def _with_parts(program: Program, rows: list[tuple[int, ...]], begins: list[int]) -> list[tuple[int, ...]]:
    """The rows, those of parts within their wholes."""
    for index, tensor in enumerate(program.tensors):
        if tensor.whole:
            is_symbols, first, _, bits, size, waits = rows[program.whole_of(index)]
            count = tensor.nbytes * 8 // bits
            rows[index] = (is_symbols, first + begins[index] * size, count, bits, size, waits)
    return rows


def _narrow(program: Program, bits: list[int]) -> list[int]:
    """The tensors that are loaded as weights, and whose elements are narrower than those; without
    resident ones, of which a part may be stored.
    """
    columns = program.columns
    loads = (columns[:, COL["opcode"]] == Opcode.LOAD) & (columns[:, COL["buffer"]] == Buffer.WGT)
    indices = np.unique(program.tensor_of[loads]).tolist()
    stays = [tensor.role in ("resident", "part") for tensor in program.tensors]
    return [index for index in indices if index >= 0 and not stays[index] and 0 < bits[index] < program.config.wgt_bits]


def _rows(bits: list[int], contents: list[Any]) -> Iterator[tuple[int, ...]]:
    begins = [1, 1]  # of numbers and of symbols
    for width, content in zip(bits, contents, strict=True):
        is_symbols = content.dtype == SYMBOL
        size = 1 if is_symbols else content.itemsize
        yield int(is_symbols), begins[is_symbols], len(content), width, size, 0
        begins[is_symbols] += len(content) * size


def _content(tensor: ProgramTensor, given: Symbols | Array | None) -> Any:  # noqa: ANN401  an array
    """The flat elements of a tensor: data, given, or unknown."""
    if tensor.dtype == UOP or tensor.whole:
        return np.zeros(0, SYMBOL)
    if tensor.data is not None and tensor.role != "resident":  # which earlier runs have written
        bits, data = CONSTANT_BITS[tensor.dtype], np.frombuffer(tensor.data, np.uint8)
        if bits < 8:
            return np.asarray(unpack_elements(data, bits)).astype(np.int8)
        return _signed(data.view(f"{'u' if tensor.dtype == 'uint8' else 'i'}{bits // 8}"))
    if given is None:
        return unknowns(f"before the program: {tensor.name}", tensor.shape, tensor.dtype, 0).reshape(-1)
    flat = np.ascontiguousarray(given).reshape(-1)
    return flat if flat.dtype == SYMBOL else _signed(flat)


def _signed(integers: Array) -> Array:
    """Integers in a type that has a sign."""
    return integers if integers.dtype.kind == "i" else integers.astype(np.int64)
