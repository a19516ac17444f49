# SPDX-License-Identifier: Apache-2.0
"""Cooperative schedules of small functions: products, sums and norms of rows, stencils, transposes.

The threads of a block exchange values through shared memory in each.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.schedule import Schedule


def tiled_product(size: int, block: int, thread: int, depth: int, *, dtype: str = "int32") -> Schedule:
    """c = a b, squares of `size`: a block of threads computes `block` rows and columns, a thread
    `thread` of both, from shared tiles of `depth` terms that all threads fetch."""
    a, b = te.placeholder((size, size), dtype, "a"), te.placeholder((size, size), dtype, "b")
    k = te.reduce_axis(size, "k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "c")
    s = Schedule(te.create_function([a, b], [c], "product"))
    copy = s.cache_write("c", "local")
    outer, inner = [], []
    for loop in s.loops(copy):
        of_block, rest = s.split(loop, factor=block)
        of_thread, thread_loop = s.split(rest, factor=thread)
        outer += [of_block, of_thread]
        inner.append(thread_loop)
    s.reorder(outer[0], outer[2], outer[1], outer[3], *inner)
    for loop, axis in zip(outer, ("blockIdx.y", "threadIdx.y", "blockIdx.x", "threadIdx.x"), strict=True):
        s.bind(loop, axis)
    s.compute_at("c", outer[3])
    i, j, term = s.loops("c")[-3:]
    ko, ki = s.split(term, factor=depth)
    s.reorder(ko, ki, i, j)
    for buffer in ("a", "b"):
        fetch(s, s.cache_read("c", buffer, "shared"), ko, block // thread)
    return s


def fetch(s: Schedule, tile: str, loop: str, threads: int) -> None:
    """Places a tile in `loop` and deals its elements out to `threads` rows and columns of
    threads."""
    s.compute_at(tile, loop)
    fused = s.fuse(*s.loops(tile)[-2:])
    _, some = s.split(fused, factor=threads * threads)
    y, x = s.split(some, factor=threads)
    s.bind(y, "threadIdx.y")
    s.bind(x, "threadIdx.x")


def row_sums(rows: int, columns: int, threads: int, *, tree: bool = False) -> Schedule:
    """y[i] = sum of row i of x: each row by a block of threads, each thread a part of it.

    One thread adds the parts, or with `tree` ever fewer threads do.
    """
    x = te.placeholder((rows, columns), "int32", "x")
    k = te.reduce_axis(columns, "k")
    s = Schedule(te.create_function([x], [te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), "y")], "sums"))
    i, term = s.loops("y")
    part, _ = s.split(term, nparts=threads)
    s.bind(i, "blockIdx.x")
    if tree:
        s.thread_reduce(part, "threadIdx.x")
        return s
    s.rfactor(part)
    s.set_scope("y_rf", "shared")
    s.bind(part, "threadIdx.x")
    return s


def stencil(size: int, threads: int) -> Schedule:
    """y[i] = x[i] + x[i + 1] + x[i + 2] from a shared tile that all threads of a block fetch."""
    x = te.placeholder((size + 2,), "int32", "x")
    y = te.compute((size,), lambda i: x[i] + x[i + 1] + x[i + 2], "y")
    s = Schedule(te.create_function([x], [y], "stencil"))
    block, thread = s.split("i", factor=threads)
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    tile = s.cache_read("y", "x", "shared")
    s.compute_at(tile, thread)
    _, some = s.split(s.loops(tile)[-1], factor=threads)
    s.bind(some, "threadIdx.x")
    return s


def strided_stencil(strands: int, threads: int, *, double: bool = False) -> Schedule:
    """y[i] = x[i] + x[i + 1], two blocks of it: each thread is `strands` virtual ones, whose
    elements lie a block apart; all threads fetch the tile of a strand, `double` into two halves."""
    size = 2 * strands * threads - 1
    x = te.placeholder((size + 1,), "int32", "x")
    y = te.compute((size,), lambda i: x[i] + x[i + 1], "y")
    s = Schedule(te.create_function([x], [y], "strided"))
    block, rest = s.split("i", nparts=2)
    strand, thread = s.split(rest, factor=threads)
    s.vthread(strand)
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    tile = s.cache_read("y", "x", "shared")
    s.compute_at(tile, thread)
    _, some = s.split(s.loops(tile)[-1], factor=threads)
    s.bind(some, "threadIdx.x")
    if double:
        s.double_buffer(tile)
    return s


def total(size: int, blocks: int, threads: int) -> Schedule:
    """y[0] = sum of x: the threads of all blocks add to it at once; a launch before clears it."""
    x = te.placeholder((size,), "int32", "x")
    k = te.reduce_axis(size, "k")
    s = Schedule(te.create_function([x], [te.compute((1,), lambda i: te.sum(x[k], axis=k), "y")], "total"))
    s.atomic("y")
    i, term = s.loops("y")
    s.reorder(term, i)
    block, rest = s.split(term, nparts=blocks)
    thread, _ = s.split(rest, nparts=threads)
    s.bind(block, "blockIdx.x")
    s.bind(thread, "threadIdx.x")
    return s


def centred_rows(rows: int, columns: int, threads: int) -> Schedule:
    """y[i, j] = x[i, j] less the greatest of row i: one block of threads a row, in three steps."""
    x = te.placeholder((rows, columns), "int32", "x")
    k = te.reduce_axis(columns, "k")
    most = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), "most")
    y = te.compute((rows, columns), lambda i, j: x[i, j] - most[i], "y")
    s = Schedule(te.create_function([x], [y], "centred"))
    row, column = s.loops("y")
    s.bind(row, "blockIdx.x")
    s.set_scope("most", "shared")
    s.compute_at("most", row)
    part, _ = s.split(s.loops("most")[-1], nparts=threads)
    s.rfactor(part)
    s.set_scope("most_rf", "shared")
    s.bind(part, "threadIdx.x")
    _, thread_loop = s.split(column, factor=threads)
    s.bind(thread_loop, "threadIdx.x")
    return s


def transpose(size: int, tile: int) -> Schedule:
    """y[i, j] = x[j, i]: a block of threads goes through a tile in shared memory."""
    x = te.placeholder((size, size), "int32", "x")
    s = Schedule(te.create_function([x], [te.compute((size, size), lambda i, j: x[j, i], "y")], "transpose"))
    by, bx, ty, tx = s.tile("i", "j", tile, tile)
    for loop, axis in zip((by, bx, ty, tx), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"), strict=True):
        s.bind(loop, axis)
    fetched = s.cache_read("y", "x", "shared")
    s.compute_at(fetched, tx)
    for loop, axis in zip(s.loops(fetched)[-2:], ("threadIdx.y", "threadIdx.x"), strict=True):
        s.bind(loop, axis)
    return s
