# SPDX-License-Identifier: Apache-2.0
"""Rewrites that parallel, vectorize and bind must refuse on a blur of three rows, with the exact
messages.
"""

from vdla.compiler import te
from vdla.compiler.schedule import Schedule


def blur() -> Schedule:
    """y[i, j] = sum over 3 rows of x."""
    x = te.placeholder((10, 8), "int16", "x")
    k = te.reduce_axis(3, "k")
    rows = te.compute((10, 8), lambda r, c: x[r, c] * 2, "rows")
    y = te.compute((8, 8), lambda i, j: te.sum(rows[i + k, j], axis=k), "y")
    return Schedule(te.create_function([x], [y], "blur"))


def overlapping_lanes(s):
    s.compute_at("rows", "i")
    s.vectorize("i")


def stored_outside(s):
    s.compute_at("rows", "i")
    s.store_at("rows", None)
    s.parallel("i")


def broken_later(s):
    s.parallel("i")
    s.compute_at("rows", "i")
    s.store_at("rows", None)


def nested_vectors(s):
    s.vectorize("j")
    s.vectorize("i")


def same_axis(s):
    s.bind("i", "threadIdx.x")
    s.bind("j", "threadIdx.x")


REFUSED = [
    (lambda s: s.parallel("k"), "parallel of k: the loop must be spatial in block y, got reduce"),
    (lambda s: s.bind("k", "threadIdx.x"), "bind of k: the loop must be spatial in block y, got reduce"),
    (overlapping_lanes,
     "vectorize of i: the loop must write other elements of rows in each iteration of block rows, got rows[i + r, c]"),
    (stored_outside,
     "parallel of i: the loop must write other elements of rows in each iteration of block rows, got rows[i + r, c]"),
    (broken_later,
     "store_at of rows: the parallel loop i must write other elements of rows in each iteration of block rows, "
     "got rows[i + r, c]"),
    (nested_vectors, "vectorize of i: no other vectorized loop must lie around it or inside, got j"),
    (lambda s: s.bind("i", "warp"),
     "bind of i: the thread must be one of blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, "
     "got 'warp'"),
    (same_axis, "bind of j: block y inside j must not depend on i, which binds threadIdx.x too, got i"),
    (lambda s: (s.bind("i", "blockIdx.x"), s.bind("j", "blockIdx.x")),
     "bind of j: blockIdx.x must bind one loop around a block, got i too"),
    (lambda s: (s.bind("i", "threadIdx.x"), s.compute_at("rows", "i"), s.bind("r", "threadIdx.x")),
     "bind of r: the extent of threadIdx.x must be that of i, 8, got 3"),
    (lambda s: (s.bind("i", "threadIdx.x"), s.bind("i", "threadIdx.y")),
     "bind of i: the loop must not be bound yet, got threadIdx.x"),
    (lambda s: (s.bind("i", "threadIdx.x"), s.parallel("i")),
     "parallel of i: the loop must not be bound, got threadIdx.x"),
    (lambda s: (s.unroll("i"), s.bind("i", "threadIdx.x")), "bind of i: the loop must be serial, got unroll"),
    (lambda s: s.atomic("rows"),
     "atomic of rows: the block must update one element by add, min or max, got rows = x[vr, vc] * 2"),
    (lambda s: s.atomic("y"), "atomic of y: y must be int32 or uint32, got int16"),
    (lambda s: s.thread_reduce("k", "blockIdx.x"),
     "thread_reduce of k: the thread must be one of threadIdx.x, threadIdx.y, threadIdx.z, got 'blockIdx.x'"),
    (lambda s: s.thread_reduce("i", "threadIdx.x"),
     "thread_reduce of i: one block must reduce over the loop from an init, got spatial in block y"),
]  # fmt: skip
