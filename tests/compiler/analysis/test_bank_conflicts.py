# SPDX-License-Identifier: Apache-2.0
"""Bank conflicts, against a model that serves the lanes of a warp word by word."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from itertools import product

import pytest
from helpers.warp_product import warp_product

import vdla
from vdla.compiler import ir
from vdla.compiler.analysis.bank_conflicts import shared_accesses
from vdla.compiler.arith import evaluate
from vdla.compiler.ir import GridKernel, LoopKind, storage_dtype
from vdla.compiler.lowering.check import PassError
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.target import GridLimits

TX, TY, K, V = (ir.Var(name) for name in ("threadIdx.x", "threadIdx.y", "k", "v"))


def times(var: ir.Expr, factor: int) -> ir.Expr:
    return ir.Binary("mul", var, ir.Const(factor))


def plus(*terms: ir.Expr) -> ir.Expr:
    total, *rest = terms
    for term in rest:
        total = ir.Binary("add", total, term)
    return total


def kernel_of(index: ir.Expr, dtype: str, block: tuple[int, int, int], steps: int = 1, lanes: int = 1) -> GridKernel:
    """A kernel that writes one element a thread and step, in vectors of `lanes`."""
    size = 1 + max(evaluate(index, values) for values in points(block, steps, lanes))
    store = ir.Store("t", (index,), ir.Const(0, dtype))
    inner = ir.For("v", lanes, store, LoopKind.VECTORIZE) if lanes > 1 else store
    return kernel_with([ir.Buffer("t", (size,), dtype, "shared")], ir.For("k", steps, inner), block)


def kernel_with(shared: list[ir.Buffer], body: ir.Stmt, block: tuple[int, int, int] = (32, 1, 1)) -> GridKernel:
    """A kernel of one block that accesses shared memory."""
    buffers = {buffer.name: buffer for buffer in shared}
    return GridKernel(name="f", grid=(1, 1, 1), block=block, params=(), buffers=buffers, body=body, warp=32)


def points(block: tuple[int, int, int], steps: int, lanes: int) -> list[dict[str, int]]:
    """Every thread in order, in every step and lane of its vector."""
    names = ("k", "v", "threadIdx.z", "threadIdx.y", "threadIdx.x")
    return [
        dict(zip(names, at, strict=True)) for at in product(range(steps), range(lanes), *map(range, reversed(block)))
    ]


def naive_passes(index: ir.Expr, dtype: str, block: tuple[int, int, int], steps: int, lanes: int) -> int:
    """The most passes of a warp: of each quarter, half or whole, one word a bank and pass."""
    size = storage_dtype(dtype).itemsize
    group = {16: 8, 8: 16}.get(size * lanes, 32)
    worst = 0
    for step in range(steps):
        threads = [v for v in points(block, steps, 1) if v["k"] == step]
        for warp in range(0, len(threads), 32):
            passes = 0
            for first in range(warp, min(warp + 32, len(threads)), group):
                words = {
                    (evaluate(index, {**values, "v": v}) * size + byte) // 4
                    for values in threads[first : min(first + group, warp + 32)]
                    for v in range(lanes)
                    for byte in range(size)
                }
                banks = defaultdict(set)
                for word in words:
                    banks[word % 32].add(word)
                while any(banks.values()):
                    passes += 1
                    for waiting in banks.values():
                        if waiting:
                            waiting.pop()
            worst = max(worst, passes)
    return worst


@pytest.mark.parametrize("seed", range(24))
def test_passes_are_those_of_the_model(seed: int) -> None:
    chance = random.Random(seed)
    dtype = chance.choice(("int8", "float16", "float32", "float64"))
    lanes = chance.choice([n for n in (1, 2, 4, 8) if n * storage_dtype(dtype).itemsize in (4, 8, 16)])
    block = chance.choice(((32, 2, 1), (8, 6, 1), (64, 1, 1)))
    row = ir.Binary("floordiv", TX, ir.Const(4))
    index = plus(
        times(chance.choice((TX, row)), lanes * chance.choice((0, 1, 2, 5, 16, 32))),
        times(ir.Binary("mod", TX, ir.Const(4)), lanes * chance.choice((0, 1, 3, 8))),
        times(TY, lanes * chance.choice((0, 7, 32))),
        times(K, lanes * chance.choice((1, 4))),
        V if lanes > 1 else ir.Const(0),
    )
    (found,) = shared_accesses(kernel_of(index, dtype, block, 3, lanes))
    assert found.bytes == storage_dtype(dtype).itemsize * lanes
    assert found.passes == naive_passes(index, dtype, block, 3, lanes)


@pytest.mark.parametrize(
    ("index", "dtype", "lanes", "passes", "least"),
    [
        (TX, "float32", 1, 1, 1),
        (times(TX, 2), "float32", 1, 2, 1),
        (times(TX, 32), "float32", 1, 32, 1),
        (times(TX, 33), "float32", 1, 1, 1),
        (ir.Const(5), "float32", 1, 1, 1),
        (plus(times(TX, 4), V), "float32", 4, 4, 4),
        (plus(times(TX, 8), V), "float32", 8, 8, 4),
    ],
)
def test_known_strides(index: ir.Expr, dtype: str, lanes: int, passes: int, least: int) -> None:
    found = shared_accesses(kernel_of(index, dtype, (32, 1, 1), lanes=lanes))
    assert {(access.passes, access.least) for access in found} == {(passes, least)}


def test_what_depends_on_data_counts_as_the_worst() -> None:
    shared = [ir.Buffer(name, (32,), "int32", "shared") for name in ("t", "u")]
    kernel = kernel_with(shared, ir.Store("t", (ir.Load("u", (TX,)),), ir.Const(0)))
    assert [str(access) for access in shared_accesses(kernel)] == [
        "the read of u[threadIdx.x] of 4 bytes a lane: 1 passes, 0 by conflicts",
        "the write of t[u[threadIdx.x]] of 4 bytes a lane: 32 passes, 31 by conflicts",
    ]


def test_lanes_that_a_condition_excludes_ask_for_nothing() -> None:
    kernel = kernel_of(times(TX, 32), "float32", (32, 1, 1))
    below = ir.If(ir.Binary("lt", TX, ir.Const(3)), kernel.body)
    (found,) = shared_accesses(replace(kernel, body=below))
    assert found.passes == 3


def test_rows_of_a_tile_without_padding_conflict_in_steps() -> None:
    """Rows of 16 float16 are 32 bytes apart: of eight, every fourth is in the same banks."""
    kernels = lower_kernels(warp_product().fn, GridLimits("test", warp=32))
    steps = [access for access in shared_accesses(kernels[0]) if "step" in access.text]
    assert [(access.buffer, access.passes, access.least) for access in steps] == [
        ("a_shared", 8, 4),
        ("b_shared", 4, 2),
    ]


def test_a_user_asks_for_the_conflicts_of_a_schedule() -> None:
    found = vdla.bank_conflicts(warp_product())
    assert [access.conflicts for access in found] == [0, 0, 4, 2]
    with pytest.raises(PassError, match=r"^bank_conflicts: what must be a Function or a Schedule, got str$"):
        vdla.bank_conflicts("product")  # type: ignore[arg-type]
