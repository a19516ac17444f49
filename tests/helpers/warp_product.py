# SPDX-License-Identifier: Apache-2.0
"""A small product on tensor cores: one warp or more a block, tiles in shared memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm.intrinsics.mma import RowsOfB, mma
from vdla.compiler.schedule import Schedule

Array = np.ndarray[Any, Any]
ROWS, COLUMNS, TERMS = 32, 16, 32
_NUMPY = {"bfloat16": ml_dtypes.bfloat16}


def product_function(dtype: str = "float16", rows: RowsOfB = RowsOfB.TERMS) -> ir.Function:
    """c = a b of 32 x 32 and 32 x 16 elements, with sums as tensor cores have them."""
    sums = "int32" if dtype == "int8" else "float32"
    by_terms = rows is RowsOfB.TERMS
    a = te.placeholder((ROWS, TERMS), dtype, "a")
    b = te.placeholder((TERMS, COLUMNS) if by_terms else (COLUMNS, TERMS), dtype, "b")
    k = te.reduce_axis(TERMS, "k")

    def value(i: te.Value, j: te.Value) -> te.Value:
        right = b[k, j] if by_terms else b[j, k]
        return te.sum(te.cast(sums, a[i, k]) * te.cast(sums, right), axis=k)

    c = te.compute((ROWS, COLUMNS), value, "c")
    return te.create_function([a, b], [c], "product")


def placed_product(dtype: str = "float16", rows: RowsOfB = RowsOfB.TERMS, lanes: int = 32) -> Schedule:
    """The product with its operands in shared memory, up to the step of a warp: a block of 2 x 1
    warps, each 16 x 16 elements; `lanes` threads along x fetch the operands."""
    s = Schedule(product_function(dtype, rows))
    copy = s.cache_write("c", "warp")
    i, j = s.loops(copy)
    warp, row = s.split(i, factor=16)
    tile, column = s.split(j, factor=8)
    s.reorder(warp, tile, row, column)
    s.bind(warp, "threadIdx.y")
    s.compute_at("c", warp)
    row, column, term = s.loops("c")[-3:]
    step, term = s.split(term, factor=32 if dtype == "int8" else 16)
    tile, column = s.split(column, factor=8)
    s.reorder(step, tile, row, column, term)
    for operand in ("a", "b"):
        fetched = s.cache_read("c", operand, "shared")
        s.compute_at(fetched, step)
        fetch = s.fuse(*s.loops(fetched)[-2:])
        _, share = s.split(fetch, factor=2 * lanes)
        y, x = s.split(share, factor=lanes)
        s.bind(y, "threadIdx.y")
        s.bind(x, "threadIdx.x")
    return s


def warp_product(dtype: str = "float16", rows: RowsOfB = RowsOfB.TERMS) -> Schedule:
    """The product on tensor cores."""
    s = placed_product(dtype, rows)
    s.tensorize("c", mma(dtype, rows))
    return s


def small_integers(dtype: str = "float16", rows: RowsOfB = RowsOfB.TERMS) -> tuple[dict[str, Array], Array]:
    """Operands whose sums are exact in every type and order, and their product."""
    chance = np.random.default_rng(0)
    a, b = chance.integers(-8, 8, (ROWS, TERMS)), chance.integers(-8, 8, (TERMS, COLUMNS))
    kind = np.dtype(_NUMPY.get(dtype, dtype))
    stored = b if rows is RowsOfB.TERMS else np.ascontiguousarray(b.T)
    return {"a": a.astype(kind), "b": stored.astype(kind)}, a @ b
