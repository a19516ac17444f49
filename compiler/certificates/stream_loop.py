# SPDX-License-Identifier: Apache-2.0
"""`stream_kernels.run` on the buffers of a program, from where it stopped."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates import stream_kernels
from vdla.compiler.certificates.field import started
from vdla.compiler.certificates.functions_in_use import small_functions
from vdla.compiler.certificates.symbolic_dram import SymbolicDram
from vdla.compiler.certificates.symbols import SYMBOL, Symbols, key, type_bounds
from vdla.compiler.ir import INTEGER_BITS
from vdla.hardware.config import Config
from vdla.hardware.program import Program

_Ints = npt.NDArray[np.int64]
_Arrays = tuple[npt.NDArray[Any], ...]
_FIRST_STEPS, _FIRST_ENDS = 1 << 12, 1 << 10


class StreamLoop:
    """The loop over the instructions of a program; `buffers` are the states of inp, of wgt, of sums
    and of results, `stores` is whether STOREs run in it.
    """

    def __init__(
        self, program: Program, dram: SymbolicDram, uops: _Ints, buffers: tuple[_Arrays, ...], *, stores: bool
    ) -> None:
        config = program.config
        self._state = np.array([0, 0, -1, 0, 0, 0, 0])
        self._lanes = config.batch * config.block_out
        self._columns = np.require(program.columns, np.int64, ["C", "W"])
        self._tensor_of = np.require(program.tensor_of, np.int64, ["C", "W"])
        self._dram, self._uops, self._buffers = dram, uops, buffers
        self._limits = _limits(config, stores=stores)
        dtypes = {"inp": config.inp_dtype, "wgt": config.wgt_dtype, "out": config.out_dtype}
        kinds = [dtypes.get(name, name) for name in stream_kernels.RANGES]
        self._ranges = np.array([(*type_bounds(kind), INTEGER_BITS[kind]) for kind in kinds])
        wrapping = (config.inp_dtype, config.wgt_dtype, "int32", "int64")
        self._wraps = np.array([started(key("wrap", dtype)) for dtype in wrapping], np.uint64)
        self._saved, self._immediate = np.zeros((config.acc_depth, self._lanes), SYMBOL), np.zeros((1, 1), SYMBOL)
        self._small = (
            np.zeros((1, 7), np.int64),
            np.zeros((2, 2), np.int64),
            np.zeros(3, np.uint64),
            np.zeros(3, np.int64),
        )
        self._grow(_FIRST_STEPS, _FIRST_ENDS)

    def run(self) -> int:
        """Run instructions, and why that stops."""
        while True:
            dram = (self._dram.table, self._dram.symbols, self._dram.numbers)
            scratch = (self._steps, self._ended, self._sums, self._saved, self._immediate, *self._small)
            tables = (self._limits, self._ranges, self._wraps, self._uops)
            inp, wgt, sums, results = self._buffers
            why: int = stream_kernels.run(
                self._state, self._columns, self._tensor_of, dram, *tables, inp, wgt, sums, results, scratch
            )
            if why != stream_kernels.SMALL:
                return why
            steps, ends = int(self._state[stream_kernels.ITERATIONS]), int(self._state[stream_kernels.COUNT])
            self._grow(max(steps, len(self._steps)), max(ends, len(self._ended)))

    @property
    def index(self) -> int:
        """The instruction that is next."""
        return int(self._state[stream_kernels.POSITION])

    @index.setter
    def index(self, index: int) -> None:
        self._state[stream_kernels.POSITION] = index

    @property
    def entry(self) -> int:
        """The sum whose terms are left."""
        return int(self._state[stream_kernels.ENTRY])

    @property
    def ended(self) -> tuple[Symbols, _Ints]:
        """Copies of the sums that end in an instruction, and their entries of scl and out."""
        count = self._state[stream_kernels.COUNT]
        return self._sums[:count].copy(), self._ended[:count].copy()

    def _grow(self, steps: int, ends: int) -> None:
        """Make room for iterations and sums that end."""
        self._steps = np.zeros((steps, 7), np.int64)
        self._ended, self._sums = np.zeros((ends, 2), np.int64), np.zeros((ends, self._lanes), SYMBOL)


def _limits(config: Config, *, stores: bool) -> _Ints:
    lanes = config.batch * config.block_out
    known: dict[str, int] = {
        "axi_bits": config.axi_bytes * 8,
        "inp_size": config.batch * config.block_in,
        "wgt_size": config.block_out * config.block_in,
        "scl_size": config.block_out,
        "acc_size": lanes,
        "scl_bits": 64,
        "acc_bits": 32,
        "outputs": config.block_out,
        "stores": int(stores),
        "elements": int(small_functions() is None),
    }
    return np.array([known[name] if name in known else getattr(config, name) for name in stream_kernels.LIMITS])
