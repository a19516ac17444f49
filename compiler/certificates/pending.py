# SPDX-License-Identifier: Apache-2.0
"""The buffers of a machine that sums are computed of, as symbols and as the compiled loops need
them.

Products wait until their sums are read, so that the bounds of a sum are those of all its terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates import stream_kernels, sum_kernels
from vdla.compiler.certificates.field import started
from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.symbols import OPAQUE, SYMBOL, Symbols, key, type_bounds
from vdla.hardware.config import Config
from vdla.hardware.isa import Operand, VectorOp

_Ints = npt.NDArray[np.int64]


class InputEntries:
    """The entries of inp, `[depth, batch, block_in]`, and their digits and bounds."""

    def __init__(self, entries: Symbols, dtype: str) -> None:
        self.now = entries
        self.range, self.wrap = type_bounds(dtype), np.uint64(started(key("wrap", dtype)))
        depth, elements = len(entries), entries[0].size
        self.digits = np.empty((depth, 2, elements))
        self.bounds = np.empty((depth, 2, elements), np.int64)
        self.alike, self.norms = np.empty((depth, 4)), np.empty(depth)
        self.prepare(0, len(entries))

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """What compiled loops read."""
        return self.digits, self.bounds, self.alike, self.norms

    @property
    def state(self) -> tuple[npt.NDArray[Any], ...]:
        """What the loop over instructions reads and writes."""
        return self.now, *self.arrays

    def write(self, first: int, entries: Symbols) -> None:
        """Overwrite entries."""
        self.now.view(OPAQUE)[first : first + len(entries)] = entries.view(OPAQUE)
        self.prepare(first, len(entries))

    def prepare(self, first: int, count: int) -> None:
        """Note that entries have been overwritten."""
        flat = self.now[first : first + count].reshape(count, -1)
        sum_kernels.load_inputs(flat, first, *self.range, self.wrap, *self.arrays)


class WeightEntries:
    """The entries of wgt, `[depth, block_out, block_in]`, and what is known of them."""

    def __init__(self, entries: Symbols, dtype: str) -> None:
        self._entries = entries
        self.range, self.wrap = type_bounds(dtype), np.uint64(started(key("wrap", dtype)))
        depth, outputs, inputs = entries.shape
        self._stale = np.zeros(depth, np.bool_)  # entries whose numbers are newer than their symbols
        self.numbers, self.sums = np.empty((depth, inputs, outputs)), np.empty((depth, 2, outputs))
        self.values = np.empty((depth, inputs, outputs), np.uint64)
        self.bounds = np.empty((depth, 2, inputs, outputs), np.int64)
        self.kinds, self.norms = np.empty(depth, np.int64), np.empty(depth)
        self.prepare(0, len(entries))

    @property
    def now(self) -> Symbols:
        """The entries as symbols."""
        stream_kernels.refresh(self.numbers, self._entries, self._stale)
        return self._entries

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """What compiled loops read."""
        return self.numbers, self.sums, self.values, self.bounds, self.kinds, self.norms

    @property
    def state(self) -> tuple[npt.NDArray[Any], ...]:
        """What the loop over instructions reads and writes."""
        return self._entries, *self.arrays, self._stale

    def write(self, first: int, entries: Symbols) -> None:
        """Overwrite entries."""
        self.now.view(OPAQUE)[first : first + len(entries)] = entries.view(OPAQUE)
        self.prepare(first, len(entries))

    def prepare(self, first: int, count: int) -> None:
        """Note that entries have been overwritten."""
        sum_kernels.load_weights(self.now[first : first + count], first, *self.range, self.wrap, *self.arrays)


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

    def multiply(self, steps: _Ints, queue: _Ints) -> tuple[Symbols, _Ints]:
        """The iterations of GEMMs, as rows of `queue`; the sums that end, and their
        entries of scl and out.
        """
        return self._run(sum_kernels.gemm, steps, queue, (self._batch, *self.inputs.arrays, *self.weights.arrays))

    def multiply_lanes(self, steps: _Ints, queue: _Ints) -> tuple[Symbols, _Ints] | None:
        """The iterations of a multiply-accumulate of lanes, as `multiply`; None where weights are
        unknown.
        """
        x, w, ((begin, end, _, _, first, *_),) = self.inputs, self.weights, queue.tolist()
        vectors = w.now[0].size // w.now.shape[1]  # of an entry
        if (w.kinds[(steps[begin:end, 2] + first) // vectors] != sum_kernels.NUMBERS).any():
            return None
        return self._run(sum_kernels.multiply_lanes, steps, queue, (x.digits, x.bounds, x.norms, w.numbers, w.norms))

    def _run(self, kernel: Any, steps: _Ints, queue: _Ints, factors: tuple[Any, ...]) -> tuple[Symbols, _Ints]:  # noqa: ANN401
        ends = sum(int(np.count_nonzero(steps[row[0] : row[1], 6])) for row in queue[-1:])
        ended, sums = np.empty((ends, 2), np.int64), np.empty((ends, self.acc.shape[1]), SYMBOL)
        stop = np.array([0, -1, 0])
        state = (*factors, self.acc, *self._terms, self._large, ended, sums)
        while not kernel(stop, steps, queue, *state):
            self.add_large(int(steps[stop[1], 0] + queue[stop[0], 2]))
        return sums, ended

    @property
    def state(self) -> tuple[npt.NDArray[Any], ...]:
        """What the loop over instructions reads and writes."""
        return self.acc, *self._terms, self._large

    def flush(self) -> None:
        """Add all products to their sums."""
        at = sum_kernels.settle(0, self.acc, *self._terms, self._large)
        while at >= 0:
            self.add_large(at)
            at = sum_kernels.settle(at, self.acc, *self._terms, self._large)

    def add_large(self, at: int) -> None:
        """Add the terms of a sum that the loops do not cover."""
        self.acc[at] = binary("add", self.acc[at], self._large[0], "int32")
        sum_kernels.clear(at, *self._terms)

    def write(self, buffer: InputEntries | WeightEntries, first: int, entries: Symbols) -> None:
        """Overwrite entries of one of the buffers."""
        if first < 0 or first + len(entries) > len(buffer.now):
            raise IndexError(f"entries must be below {len(buffer.now)}, got {first + len(entries)}")
        buffer.write(first, entries)


def combine_sums(
    op: VectorOp,
    operand: Operand,
    steps: _Ints,
    queue: _Ints,
    entries: tuple[Symbols, Symbols],
    types: tuple[str, str],
    acc: Symbols,
) -> tuple[Symbols, _Ints] | None:
    """The iterations of a VECTOR on entries of both operands, with sums without products that wait;
    the sums that end, and their entries of scl and out. None, and nothing has changed, where one is
    not covered.
    """
    before = acc.copy()
    ends = np.count_nonzero(steps[queue[0, 0] : queue[0, 1], 6])
    ended, sums = np.empty((ends, 2), np.int64), np.empty((ends, acc.shape[1]), SYMBOL)
    x, b = (np.require(one, requirements=["C", "W"]) for one in entries)
    ranges = np.array([type_bounds(dtype) for dtype in types])
    wraps = np.array([started(key("wrap", dtype)) for dtype in (*types, "int32")], np.uint64)
    if (
        sum_kernels.vector(
            steps, queue, sum_kernels.VECTOR_OPS[op], int(operand), x, b, ranges, wraps, acc, ended, sums
        )
        < 0
    ):
        return sums, ended
    acc[...] = before
    return None
