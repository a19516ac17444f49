# SPDX-License-Identifier: Apache-2.0
"""The buffers of a machine that sums are computed of, as symbols and as the compiled loops need
them.

Products wait until their sums are read, so that the bounds of a sum are those of all its terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates import sum_kernels
from vdla.compiler.certificates.field import started
from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.symbol_kernels import OPS
from vdla.compiler.certificates.symbols import OPAQUE, SYMBOL, Symbols, key, type_bounds
from vdla.hardware.config import Config
from vdla.hardware.isa import VectorOp

_Ints = npt.NDArray[np.int64]


class InputEntries:
    """The entries of inp, `[depth, batch, block_in]`, and their digits and bounds."""

    def __init__(self, entries: Symbols, dtype: str) -> None:
        self.now = entries
        self.range, self.wrap = type_bounds(dtype), np.uint64(started(key("wrap", dtype)))
        depth, elements = len(entries), entries[0].size
        self.digits = np.empty((depth, 2, elements))
        self.bounds = np.empty((depth, 2, elements), np.int64)
        self.alike, self.norms = np.empty(depth, np.bool_), np.empty(depth)
        self._prepare(0, entries)

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """What compiled loops read."""
        return self.digits, self.bounds, self.alike, self.norms

    def write(self, first: int, entries: Symbols) -> None:
        """Overwrite entries."""
        self.now.view(OPAQUE)[first : first + len(entries)] = entries.view(OPAQUE)
        self._prepare(first, entries)

    def _prepare(self, first: int, entries: Symbols) -> None:
        flat = entries.reshape(len(entries), -1)
        sum_kernels.load_inputs(flat, first, *self.range, self.wrap, *self.arrays)


class WeightEntries:
    """The entries of wgt, `[depth, block_out, block_in]`, and what is known of them."""

    def __init__(self, entries: Symbols, dtype: str) -> None:
        self.now = entries
        self.range, self.wrap = type_bounds(dtype), np.uint64(started(key("wrap", dtype)))
        depth, outputs, inputs = entries.shape
        self.numbers, self.sums = np.empty((depth, inputs, outputs)), np.empty((depth, 2, outputs))
        self.values = np.empty((depth, inputs, outputs), np.uint64)
        self.bounds = np.empty((depth, 2, inputs, outputs), np.int64)
        self.kinds, self.norms = np.empty(depth, np.int64), np.empty(depth)
        self._prepare(0, entries)

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """What compiled loops read."""
        return self.numbers, self.sums, self.values, self.bounds, self.kinds, self.norms

    def write(self, first: int, entries: Symbols) -> None:
        """Overwrite entries."""
        self.now.view(OPAQUE)[first : first + len(entries)] = entries.view(OPAQUE)
        self._prepare(first, entries)

    def _prepare(self, first: int, entries: Symbols) -> None:
        sum_kernels.load_weights(entries, first, *self.range, self.wrap, *self.arrays)


class PendingProducts:
    """The sums of acc, `[depth, lanes]`, and the products that are to be added to them."""

    def __init__(self, config: Config, inp: Symbols, wgt: Symbols, acc: Symbols) -> None:
        self._batch = config.batch
        self.inputs, self.weights = InputEntries(inp, config.inp_dtype), WeightEntries(wgt, config.wgt_dtype)
        self.acc = acc
        depth, lanes = acc.shape
        self._terms = (
            np.zeros((depth, 2, lanes)),
            np.zeros((depth, lanes), np.uint64),
            np.zeros((depth, 2, lanes)),
            np.zeros((depth, 3)),
        )
        self._large = np.zeros((2, lanes), SYMBOL)

    def multiply(self, steps: _Ints, bases: _Ints) -> tuple[Symbols, _Ints]:
        """The iterations of a GEMM; the sums that end, and their entries of scl and out."""
        return self._run(sum_kernels.gemm, steps, bases, (self._batch, *self.inputs.arrays, *self.weights.arrays))

    def multiply_lanes(self, steps: _Ints, bases: _Ints) -> tuple[Symbols, _Ints] | None:
        """The iterations of a multiply-accumulate of lanes, as `multiply`; None where weights are
        unknown.
        """
        x, w = self.inputs, self.weights
        vectors = w.now[0].size // w.now.shape[1]  # of an entry
        if (w.kinds[(steps[:, 2] + bases[2]) // vectors] != sum_kernels.NUMBERS).any():
            return None
        return self._run(sum_kernels.multiply_lanes, steps, bases, (x.digits, x.bounds, x.norms, w.numbers, w.norms))

    def _run(self, kernel: Any, steps: _Ints, bases: _Ints, factors: tuple[Any, ...]) -> tuple[Symbols, _Ints]:  # noqa: ANN401
        ends = np.count_nonzero(steps[:, 6])
        ended, sums = np.empty((ends, 2), np.int64), np.empty((ends, self.acc.shape[1]), SYMBOL)
        at, count, resumed = 0, 0, False
        while at >= 0:
            at, count = kernel(
                at, resumed, steps, bases, *factors, self.acc, *self._terms, self._large, ended, sums, count
            )
            if at >= 0:
                self._add_large(int(steps[at, 0] + bases[0]))
                resumed = True
        return sums, ended

    def flush(self) -> None:
        """Add all products to their sums."""
        at = sum_kernels.settle(0, self.acc, *self._terms, self._large)
        while at >= 0:
            self._add_large(at)
            at = sum_kernels.settle(at, self.acc, *self._terms, self._large)

    def _add_large(self, at: int) -> None:
        """Add the terms of a sum that the loops do not cover."""
        self.acc[at] = binary("add", self.acc[at], self._large[0], "int32")
        sum_kernels.clear(at, *self._terms)

    def write(self, buffer: InputEntries | WeightEntries, first: int, entries: Symbols) -> None:
        """Overwrite entries of one of the buffers."""
        if first < 0 or first + len(entries) > len(buffer.now):
            raise IndexError(f"entries must be below {len(buffer.now)}, got {first + len(entries)}")
        buffer.write(first, entries)


VECTOR_OPS = {
    VectorOp.MOV: sum_kernels.MOV,
    **{VectorOp[name.upper()]: OPS.index(name) for name in ("add", "sub", "mul", "min", "max")},
}
"""The operations of VECTOR that `combine_sums` covers, by their codes in it."""


def combine_sums(
    op: int,
    steps: _Ints,
    bases: _Ints,
    operands: tuple[Symbols, Symbols],
    types: tuple[str, str],
    acc: Symbols,
    second: bool,  # noqa: FBT001  which operand is read
) -> tuple[Symbols, _Ints] | None:
    """The iterations of a VECTOR on sums without products that wait; the sums that end, and their
    entries of scl and out. None, and nothing has changed, where one is not covered.
    """
    before = acc.copy()
    ends = np.count_nonzero(steps[:, 6])
    ended, sums = np.empty((ends, 2), np.int64), np.empty((ends, acc.shape[1]), SYMBOL)
    x, b = (np.require(operand, requirements=["C", "W"]) for operand in operands)
    ranges = [np.array(type_bounds(dtype)) for dtype in types]
    wraps = np.array([started(key("wrap", dtype)) for dtype in (*types, "int32")], np.uint64)
    at, _ = sum_kernels.vector(steps, bases, op, x, ranges[0], b, ranges[1], wraps, second, acc, ended, sums)
    if at < 0:
        return sums, ended
    acc[...] = before
    return None
