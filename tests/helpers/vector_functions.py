# SPDX-License-Identifier: Apache-2.0
"""Scalar functions on vectors of this CPU, and their errors in units in the last place."""

from __future__ import annotations

import math

import numpy as np

from helpers.lowered import Compiled, add, function, load, mul, store, vector
from vdla.compiler import ir
from vdla.compiler.ir import SCALAR_FUNCTIONS, storage_dtype
from vdla.compiler.target import Target

LANES = 8
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2.5, -2.5, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 88.72,
           88.73, -87.4, -103.9, -104.5, 0.55, 0.9, 4, 1e-10, 8388607.5, 1e9]  # fmt: skip


def run(name: str, dtype: str, *args: np.ndarray, target: str = "host") -> np.ndarray:
    """The function on vectors; the input is padded to whole vectors."""
    count = -(-args[0].size // LANES) * LANES
    full = [np.concatenate([arg, np.ones(count - arg.size, arg.dtype)]) for arg in args]
    result = SCALAR_FUNCTIONS[name].result or dtype
    place = add(mul(ir.Var("x"), LANES), ir.Var("l"))
    params = [ir.Buffer(f"a{n}", (count,), dtype) for n in range(len(args))] + [ir.Buffer("y", (count,), result)]
    value = ir.Call(name, tuple(load(f"a{n}", place) for n in range(len(args))), result)
    fn = function(params, ir.For("x", count // LANES, vector("l", LANES, store("y", (place,), value))))
    found = np.zeros(count, storage_dtype(result))
    assert Compiled(fn, target=Target.named(target))(*full, found) == 0
    return found[: args[0].size]


def units(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units in the last place; infinite if an infinity or NaN differs."""
    rounded = exact.astype(found.dtype)
    limits = ~np.isfinite(rounded)
    if not np.array_equal(rounded[limits], found[limits], equal_nan=True):
        return math.inf
    error = np.abs(found[~limits].astype(exact.dtype) - exact[~limits])
    return float((error / np.spacing(np.abs(rounded[~limits]))).max())
