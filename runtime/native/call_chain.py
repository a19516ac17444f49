# SPDX-License-Identifier: Apache-2.0
"""Bound calls of kernels in a row, as one call of native code.

A call from Python costs more than a kernel of a small network; a chain costs one for all. Its code
is LLVM's for this machine: where there is no LLVM, there are no chains.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from vdla.runtime.native.kernel import BoundCall, load_object

_SYMBOL = "vdla_call_chain"
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_WORD = ctypes.sizeof(ctypes.c_int64)
_HEAD = 2  # words before the times: the clock, the count


def has_chains() -> bool:
    """Whether this process can chain calls."""
    try:
        return ctypes.sizeof(ctypes.c_void_p) == _WORD and bool(_entry())
    except ImportError:
        return False


class CallChain:
    """Calls in a row: `chain()` runs all, and returns the times before, between and after them, in
    nanoseconds of the monotonic clock, as bytes of 64-bit integers.

    Runs share one table, so that only one thread may run a chain at a time.
    """

    def __init__(self, calls: Sequence[BoundCall]) -> None:
        self.calls = tuple(calls)
        count = len(calls)
        words = [time.CLOCK_MONOTONIC, count, *[0] * (count + 1)]
        for call in calls:
            words += call.words
        self._table = (ctypes.c_int64 * len(words))(*words)
        self._times = memoryview(self._table).cast("B")[_HEAD * _WORD : (_HEAD + count + 1) * _WORD]
        self._address = ctypes.addressof(self._table)
        self._entry = _entry()

    def __call__(self) -> bytes:
        """Run; the NativeError of the first kernel that refuses its arrays."""
        status = self._entry(self._address)
        if status:
            self.calls[self._table[_HEAD]].raise_error(status)
        return self._times.tobytes()


@cache
def _entry() -> Any:  # noqa: ANN401  a function of ctypes
    from vdla.compiler.codegen.llvm import chain_object
    from vdla.compiler.target import host

    loaded = load_object(chain_object(host()), _SYMBOL)
    entry = _ENTRY(loaded.addresses[_SYMBOL])
    entry.owner = loaded  # type: ignore[attr-defined]  # keeps the code loaded
    return entry
