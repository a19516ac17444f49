# SPDX-License-Identifier: Apache-2.0
"""Random schedule primitives, and functions to apply them to: products, windows, scans, tuples."""

import numpy as np

from vdla.compiler import ir, te
from vdla.compiler.interpret import interpret


def matmul():
    a, b = te.placeholder((5, 6), "int8", "a"), te.placeholder((6, 4), "int8", "b")
    k = te.reduce_axis(6, "k")
    wide = te.compute((5, 6), lambda i, j: te.cast("int32", a[i, j]) * 2, "wide")
    c = te.compute((5, 4), lambda i, j: te.sum(wide[i, k] * te.cast("int32", b[k, j]), axis=k), "c")
    return te.create_function([a, b], [te.compute((5, 4), lambda i, j: te.maximum(c[i, j], 0), "d")], "matmul")


def pooling():
    x = te.placeholder((9, 8), "int8", "x")
    padded = te.pad(x, (1, 1), (1, 1), -128, "padded")
    ky, kx = te.reduce_axis(3, "ky"), te.reduce_axis(3, "kx")
    pooled = te.compute((4, 4), lambda y, z: te.max(padded[y * 2 + ky, z * 2 + kx], axis=[ky, kx]), "pooled")
    small = te.compute((4, 4), lambda y, z: te.clip(pooled[y, z], -100, 100), "small")
    return te.create_function([x], [te.compute((8, 8), lambda y, z: small[y // 2, z // 2], "large")], "pooling")


def started():
    x, a = te.placeholder((5, 6), "int32", "x"), te.placeholder((5,), "int32", "a")
    k, m = te.reduce_axis(6, "k"), te.reduce_axis(6, "m")
    bias = te.compute((5,), lambda i: a[i] * 3 + 1, "bias")
    row = te.compute((5,), lambda i: te.sum(x[i, m], axis=m, init=bias[4 - i]), "row")
    c = te.compute((5, 4), lambda i, j: te.max(x[i, k] * (j + 1), axis=k, init=row[i] + bias[i]), "c")
    return te.create_function([x, a], [te.compute((5, 4), lambda i, j: c[i, j] - row[i], "d")], "started")


def two_outputs():
    x = te.placeholder((7, 5), "int16", "x")
    k = te.reduce_axis(5, "k")
    double = te.compute((7, 5), lambda i, j: x[i, j] * 2, "double")
    total = te.compute((7,), lambda i: te.sum(double[i, k], axis=k), "total")
    moved = te.compute((6, 5), lambda i, j: double[i + 1, j] - total[i], "moved")
    return te.create_function([x], [total, moved], "two_outputs")


def recurrence():
    x, w = te.placeholder((5, 4), "int32", "x"), te.placeholder((4, 4), "int32", "a")
    start = te.placeholder((4,), "int32", "b")
    k = te.reduce_axis(4, "k")

    def cell(t, h, u):
        total = te.compute((4,), lambda i: te.sum(w[i, k] * h[k], axis=k), "total")
        gate = te.compute((4,), lambda i: total[i] % 31 + u[i], "gate")
        return te.compute((4,), lambda i: gate[i] + x[t, i], "h"), te.compute((4,), lambda i: gate[i] - h[i], "u")

    h, u = te.scan(5, cell, (start, start), reverse=True)
    wide = te.compute((5, 4), lambda i, j: x[i, j] * 2, "wide")
    last = te.compute((5, 4), lambda i, j: h[i, j] * 3 + u[i, 3 - j] + wide[i, j], "last")
    return te.create_function([x, w, start], [last], "recurrence")


def carried():
    x, a, k = te.placeholder((5, 4), "int32", "x"), te.placeholder((4,), "int32", "a"), te.reduce_axis(4, "k")

    def cell(t, h):
        return te.compute((4,), lambda i: te.sum(x[t, k] * (i + 1), axis=k, init=h[3 - i] % 17), "h")

    h = te.scan(5, cell, a)
    return te.create_function([x, a], [te.compute((5, 4), lambda i, j: h[i, j] * 2, "y")], "carried")


def greatest():
    x = te.placeholder((6, 9), "int32", "x")
    k = te.reduce_axis(9, "k")

    def later(a, b):
        larger = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
        return te.select(larger, b[0], a[0]), te.select(larger, b[1], a[1])

    argmax = te.reducer(later, (-(1 << 31), (1 << 31) - 1), "argmax")
    wide = te.compute((6, 9), lambda i, j: x[i, j] % 7, "wide")
    value, place = te.compute((6,), lambda i: argmax((wide[i, k], k), axis=k), ("value", "place"))
    return te.create_function([x], [te.compute((6,), lambda i: value[i] * 100 + place[i], "out")], "greatest")


FUNCTIONS = {fn.name: fn for fn in (matmul(), pooling(), started(), two_outputs(), recurrence(), carried(), greatest())}


def inputs(fn):
    rng = np.random.default_rng(3)
    given = [fn.buffers[name] for name in fn.params if name in "abx"]
    return {b.name: rng.integers(-99, 99, b.shape).astype(b.dtype) for b in given}


EXPECTED = {name: interpret(fn, inputs(fn)) for name, fn in FUNCTIONS.items()}


def random_names(rng, s):
    """A random block, loop and buffer, the loops around the block, and a position among them."""
    stmts = list(ir.walk(s.fn.body))
    block = rng.choice([stmt.name for stmt in stmts if isinstance(stmt, ir.Block)])
    loops = [stmt.var for stmt in stmts if isinstance(stmt, ir.For)]
    own = s.loops(block) or loops
    return block, rng.choice(loops), rng.choice(sorted(s.fn.buffers)), own, rng.randrange(max(len(own) - 1, 1))


def random_step(rng, s):
    """A random primitive on random names, which are often legal."""
    block, loop, buffer, own, position = random_names(rng, s)
    steps = [
        ("split", loop, rng.randint(1, 5)),
        ("split", loop, None, rng.randint(1, 4)),
        ("reorder", *rng.sample(own, rng.randint(1, len(own)))),
        ("fuse", *own[position : position + 2]),
        ("tile", *own[position : position + 2], rng.randint(1, 4), rng.randint(1, 3)) if own[1:] else ("inline", block),
        (rng.choice(["vthread", "parallel", "unroll", "vectorize"]), loop),
        ("bind", loop, rng.choice(["blockIdx.x", "threadIdx.x"])),
        ("compute_at", block, loop),
        ("compute_at", block, loop),
        ("reverse_compute_at", block, loop),
        ("reverse_compute_at", block, loop),
        ("inline", block),
        ("cache_read", block, buffer, "inp"),
        ("cache_write", block, "acc"),
        ("compute_once", block, loop),
        ("blockize", loop),
        ("decompose_reduction", block, rng.choice(own)),
        ("rfactor", loop, rng.randint(0, 2)),
        ("reverse_inline", block),
        ("double_buffer", buffer),
        ("prefetch", block, buffer, rng.choice(own)),
        ("full_extent", block, "v" + rng.choice("ijyz")),
        ("store_at", block, rng.choice([None, *own])),
        ("storage_align", buffer, rng.randint(0, 1), 8, 4),
    ]
    weights = [4, 2, 3, 1, 1, 1, 1, 4, 4, 4, 4, 1, 2, 1, 2, 1, 2, 2, 2, 1, 1, 2, 1, 1]
    return rng.choices(steps, weights)[0]
