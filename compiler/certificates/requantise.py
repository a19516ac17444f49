# SPDX-License-Identifier: Apache-2.0
"""Sums of int32 on symbols as requantised results: `requantisation` says what they are."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.certificates import requantise_kernels
from vdla.compiler.certificates.elementwise import Elementwise, Leaf, loads, numbers
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.field import started
from vdla.compiler.certificates.functions_in_use import small_functions
from vdla.compiler.certificates.symbols import SYMBOL, Symbols, gathered, key, type_bounds
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation
from vdla.compiler.ir import INTEGER_BITS

Bounds = tuple[int, int, int]
"""The zero point of results, their least and their most."""


def requantised_by_numbers(
    sums: Symbols, lanes: npt.NDArray[np.int64], inner: int, bounds: Bounds, dtype: str
) -> Symbols:
    """Sums requantised with lanes of scales that are numbers: for the sum k of the flat array, lane
    `k // inner % len(lanes)`.
    """
    flat = np.require(sums, requirements=["C", "W"]).reshape(-1)
    made = np.empty(len(flat), SYMBOL)
    kind = np.array([*type_bounds(dtype), INTEGER_BITS[dtype]])
    wraps = np.array([started(key("wrap", one)) for one in ("int32", "int64")], np.uint64)
    lanes = np.require(lanes, np.int64, ["C", "W"])
    compiled = small_functions() is None
    if compiled and requantise_kernels.requantise(flat, lanes, inner, np.array(bounds), kind, wraps, made):
        return made.reshape(sums.shape)
    places = np.arange(len(flat)) // inner % len(lanes)
    return requantised(flat, Leaf(numbers(lanes), places), bounds, dtype).reshape(sums.shape)


def requantised(sums: Symbols, scales: Leaf, bounds: Bounds, dtype: str) -> Symbols:
    """Sums requantised with a lane of scales for each."""
    fn = requantising(bounds, dtype)
    (store,) = ir.find(fn.body, ir.Store)
    leaves = {"sums": Leaf(sums.reshape(-1)), "lanes": scales}
    elements = Elementwise(lambda expr: ir.dtype_of(expr, fn.buffers), loads(leaves))
    made = elements.value(store.value, sums.size)
    if made is None:
        assert scales.places is not None
        lanes = gathered(scales.array, scales.places)
        made = evaluate(requantising(bounds, dtype, sums.size), {"sums": sums.reshape(-1), "lanes": lanes})["result"]
    return made.reshape(sums.shape)


@lru_cache(maxsize=256)
def requantising(bounds: Bounds, dtype: str, count: int = 1) -> ir.Function:
    """The function that makes results of sums and lanes."""
    sums, lanes = te.placeholder((count,), "int32", "sums"), te.placeholder((count,), "int64", "lanes")
    zero, low, high = (te.const(bound, "int64") for bound in bounds)
    result = te.compute((count,), lambda n: requantisation(sums[n], lanes[n], zero, low, high, dtype), "result")
    return te.create_function([sums, lanes], [result], "requantise")
