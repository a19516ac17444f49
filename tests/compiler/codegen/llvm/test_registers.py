# SPDX-License-Identifier: Apache-2.0
"""The inner loop of a matrix product has only loads, broadcasts and fused multiply-adds."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from helpers.lowered import Compiled, add, assembly, binary, function, load, mul, store, vector

from vdla.compiler import ir
from vdla.compiler.target import Target

FLOAT = "float32"
LANE, K = ir.Var("l"), ir.Var("k")


def tile(rows: int, columns: int, lanes: int, depth: int) -> ir.Function:
    """c[rows, columns * lanes] = a[depth, rows].T @ b[depth, columns * lanes], unrolled."""
    width = columns * lanes
    params = [ir.Buffer("a", (depth, rows), FLOAT), ir.Buffer("b", (depth, width), FLOAT)]
    params.append(ir.Buffer("c", (rows, width), FLOAT))
    tiles = [(row, add(column * lanes, LANE)) for row in range(rows) for column in range(columns)]

    def everywhere(body: str, value: object) -> list[ir.Stmt]:
        return [vector("l", lanes, store(body, at, value(*at))) for at in tiles]  # type: ignore[operator]

    def product(row: int, column: ir.Expr) -> ir.Expr:
        return add(load("t", row, column), mul(load("a", K, row), load("b", K, column)))

    init = everywhere("t", lambda row, column: ir.Const(0.0, FLOAT))
    update, result = everywhere("t", product), everywhere("c", lambda row, column: load("t", row, column))
    body = ir.Alloc(("t",), ir.seq(*init, ir.For("k", depth, ir.seq(*update)), *result))
    return function(params, body, [ir.Buffer("t", (rows, width), FLOAT, "stack")])


def inner_loop(text: str) -> Counter[str]:
    """The instructions of the only loop."""
    lines = [line.strip().split("@")[0] for line in text.splitlines()]
    labels = {line[:-1]: place for place, line in enumerate(lines) if re.fullmatch(r"\.L\w+:", line)}
    for place, line in enumerate(lines):
        target = re.split(r"[\s,]+", line)[-1]
        if re.match(r"(j[a-z]+|b[a-z.]*)\s", line) and labels.get(target, place) < place:
            return Counter(line.split()[0] for line in lines[labels[target] + 1 : place + 1] if line)
    raise AssertionError("there must be a loop")


COUNTING = {"addq", "subq", "cmpq", "jne", "incq", "leaq", "add", "sub", "subs", "cmp", "bne", "b.ne", "mov", "movq"}


@pytest.mark.parametrize(
    ("target", "rows", "columns", "lanes", "fused", "loads"),
    [
        ("x86-64-avx512", 14, 2, 16, "vfmadd", 2 + 14),
        ("x86-64-avx2", 6, 2, 8, "vfmadd", 2 + 6),
        ("aarch64", 8, 2, 4, "fmla", 2 + 8),
        ("cortex-a9", 4, 2, 4, "vmla", 2 + 4),
    ],
)
def test_a_tile_stays_in_registers(target: str, rows: int, columns: int, lanes: int, fused: str, loads: int) -> None:
    found = inner_loop(assembly(tile(rows, columns, lanes, 64), Target.named(target)))
    products = sum(count for name, count in found.items() if name.startswith(fused))
    others = sum(count for name, count in found.items() if not name.startswith(fused) and name not in COUNTING)
    assert products == rows * columns
    assert others <= loads


def test_a_tile_computes_the_product() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((64, 14), np.float32), rng.random((64, 32), np.float32)
    c = np.empty((14, 32), np.float32)
    assert Compiled(tile(14, 2, 16, 64), contract=True)(a, b, c) == 0
    assert np.allclose(c, a.T @ b, rtol=1e-5)


def test_a_lower_limit_is_one_instruction_per_vector() -> None:
    place = add(mul(ir.Var("x"), 16), LANE)
    value = ir.Binary("max", load("a", place), ir.Const(0.0, FLOAT))
    params = [ir.Buffer(name, (1024,), FLOAT) for name in ("a", "y")]
    loop = ir.For("x", 64, vector("l", 16, store("y", (place,), value)))
    found = inner_loop(assembly(function(params, loop), Target.named("x86-64-avx512")))
    assert found["vmaxps"] == 1
    assert sum(found.values()) <= 6


def test_accesses_of_different_buffers_may_be_reordered() -> None:
    """Loads of `a` are loop-invariant, although the loop stores to `y`."""
    place = add(mul(ir.Var("x"), 8), LANE)
    value = ir.Binary("mul", load("a", binary("floordiv", LANE, 8)), load("b", place))
    params = [ir.Buffer("a", (8,), FLOAT), ir.Buffer("b", (64,), FLOAT), ir.Buffer("y", (64,), FLOAT)]
    found = inner_loop(
        assembly(
            function(params, ir.For("x", 8, vector("l", 8, store("y", (place,), value)))), Target.named("x86-64-avx2")
        )
    )
    assert not any("broadcast" in name for name in found)
