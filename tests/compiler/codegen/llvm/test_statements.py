# SPDX-License-Identifier: Apache-2.0
"""Results of loops, conditions, temporaries, parallel loops and intrinsic calls."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.lowered import HOST, Compiled, add, binary, function, load, module_text, mul, store, vector

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm import CodegenError
from vdla.compiler.codegen.llvm.intrinsic_emitter import IntrinsicEmitter
from vdla.compiler.codegen.llvm.types import broadcast, splat
from vdla.compiler.ir import Match
from vdla.compiler.lowering.heap_slots import share_heap_slots
from vdla.compiler.tensorize import IMMEDIATE, MEMORY, Intrinsic

X, K, LANE, N = ir.Var("x"), ir.Var("k"), ir.Var("l"), ir.Var("n")
ONE = ir.Const(1, "int32")
HUGE = (1 << 31) - 1


def parallel(var: str, extent: ir.Extent, body: ir.Stmt) -> ir.For:
    return ir.For(var, extent, body, ir.LoopKind.PARALLEL)


def row_sums(scope: str, kind: ir.LoopKind) -> ir.Function:
    """y[x] = the sum of row x, through a temporary in each iteration."""
    params = [ir.Buffer("a", (N, 32), "int32"), ir.Buffer("y", (N,), "int32")]
    temporary = ir.Buffer("t", (16,), "int32", scope)
    halves = vector("l", 16, store("t", (LANE,), ir.Binary("add", load("a", X, LANE), load("a", X, add(LANE, 16)))))
    clear = store("y", (X,), ir.Const(0))
    total = ir.For("k", 16, store("y", (X,), ir.Binary("add", load("y", X), load("t", K))))
    body = ir.For("x", N, ir.Alloc(("t",), ir.seq(halves, clear, total)), kind)
    return share_heap_slots(function(params, body, [temporary], scalars=["n"]))


@pytest.mark.parametrize("kind", [ir.LoopKind.SERIAL, ir.LoopKind.PARALLEL])
@pytest.mark.parametrize("scope", ["stack", "heap"])
def test_temporaries_are_private_to_an_iteration(scope: str, kind: ir.LoopKind) -> None:
    kernel = Compiled(row_sums(scope, kind))
    for n in (1, 7, 1000):
        a, y = np.arange(n * 32, dtype=np.int32).reshape(n, 32), np.zeros(n, np.int32)
        assert kernel(a, y, n=n) == 0
        assert np.array_equal(y, a.sum(axis=1))


def test_heap_temporaries_are_freed() -> None:
    text = module_text(row_sums("heap", ir.LoopKind.SERIAL))
    assert len(re.findall(r"call ptr @\"aligned_alloc\"", text)) == len(re.findall(r"call void @\"free\"", text)) == 1


@pytest.mark.parametrize("shape", [(N, N), (N, N, 2), (N, 1 << 40)])
@pytest.mark.parametrize("kind", [ir.LoopKind.SERIAL, ir.LoopKind.PARALLEL])
def test_a_failed_allocation_returns_an_error_and_frees_the_rest(
    shape: tuple[ir.Extent, ...], kind: ir.LoopKind
) -> None:
    held, large = ir.Buffer("h", (8,), "float64", "heap"), ir.Buffer("t", shape, "float64", "heap")
    zeros = tuple(0 for _ in shape)
    inner = ir.seq(store("t", zeros, load("h", 0)), store("y", (0,), load("t", *zeros)))
    body = ir.Alloc(("h",), ir.For("x", 2, ir.Alloc(("t",), inner), kind))
    fn = share_heap_slots(function([ir.Buffer("y", (N,), "float64")], body, [held, large], scalars=["n"]))
    assert Compiled(fn)(np.zeros(4), n=1 << 30)  # nonzero: NO_MEMORY; some sizes are 0 modulo 2**64
    held_and_freed = module_text(fn).count('call void @"free"')
    assert held_and_freed == 3  # at both exits, and on the error path


def test_a_parallel_loop_sees_enclosing_variables() -> None:
    params = [ir.Buffer("a", (4, 100), "float32"), ir.Buffer("y", (4, 100), "float32")]
    value = ir.Binary("mul", load("a", X, K), ir.Cast("float32", X))
    fn = function(params, ir.For("x", 4, parallel("k", 100, store("y", (X, K), value))))
    a, y = np.random.default_rng(0).random((4, 100), np.float32), np.zeros((4, 100), np.float32)
    assert Compiled(fn)(a, y) == 0
    assert np.array_equal(y, a * np.arange(4, dtype=np.float32)[:, None])


def test_a_loop_of_extent_0_does_not_run() -> None:
    half = binary("floordiv", N, 2)
    body = ir.For("x", half, store("y", (X,), ir.Const(1)))
    kernel = Compiled(function([ir.Buffer("y", (N,), "int32")], body, scalars=["n"]))
    for n, wanted in ((1, [0]), (2, [1, 0]), (5, [1, 1, 0, 0, 0])):
        y = np.zeros(n, np.int32)
        assert kernel(y, n=n) == 0
        assert y.tolist() == wanted


def test_conditions_guard_statements() -> None:
    cond = binary("and", binary("ge", load("i", X), 0), binary("lt", load("i", X), 5))
    params = [ir.Buffer("i", (6,), "int32"), ir.Buffer("y", (5,), "int32")]
    clear = ir.For("k", 5, store("y", (K,), ir.Const(0)))
    fn = function(params, ir.seq(clear, ir.For("x", 6, ir.If(cond, store("y", (load("i", X),), add(X, 1))))))
    places, y = np.array([-1, 4, 5, 0, HUGE, -HUGE], np.int32), np.zeros(5, np.int32)
    assert Compiled(fn)(places, y) == 0
    assert y.tolist() == [4, 0, 0, 0, 2]


def test_a_shared_subexpression_is_computed_once_per_statement() -> None:
    part = binary("mul", load("a", 0), load("a", 1))
    whole = binary("sub", binary("add", part, part), binary("min", part, part))
    params = [ir.Buffer(name, (2,), "float32") for name in "ab"]
    body = ir.seq(store("b", (0,), whole), store("a", (0,), whole), store("b", (1,), whole))
    fn = function(params, body)
    assert module_text(fn).count("fmul") == 3  # once per statement: the second one stores to `a`
    a, b = np.array([3, 5], np.float32), np.zeros(2, np.float32)
    assert Compiled(fn)(a, b) == 0
    assert a.tolist() == [15, 5]
    assert b.tolist() == [15, 75]


def test_int32_values_wrap_but_indices_do_not() -> None:
    value = ir.Cast("int64", mul(add(X, 1 << 16), 1 << 16))
    fn = function([ir.Buffer("y", (2,), "int64")], ir.For("x", 2, store("y", (X,), value)))
    y = np.ones(2, np.int64)
    assert Compiled(fn)(y) == 0
    assert y.tolist() == [0, 1 << 16]


def test_a_function_with_blocks_is_refused() -> None:
    block = ir.Block(name="b", axes=(), values=(), body=store("y", (0,), ONE))
    with pytest.raises(CodegenError) as error:
        module_text(function([ir.Buffer("y", (1,), "int32")], block))
    assert str(error.value) == "kernel: function must be lowered first, got the block b"


@pytest.mark.parametrize("kind", [ir.LoopKind.SERIAL, ir.LoopKind.PARALLEL])
def test_a_loop_longer_than_int32_is_refused(kind: ir.LoopKind) -> None:
    loop = ir.For("x", HUGE + 1, store("y", (binary("mod", X, 4),), X), kind)
    with pytest.raises(CodegenError) as error:
        module_text(function([ir.Buffer("y", (4,), "int32")], loop))
    rule = "loop x must have at most 2147483647 iterations, as its variable is an int32"
    assert str(error.value) == f"kernel: {rule}, got 2147483648"


# --- contraction ----------------------------------------------------------------------------------


def test_products_and_sums_are_fused_only_with_contract() -> None:
    params = [ir.Buffer(name, (8,), "float32") for name in ("a", "b", "c", "y")]
    value = ir.Binary("add", ir.Binary("mul", load("a", LANE), load("b", LANE)), load("c", LANE))
    fn = function(params, vector("l", 8, store("y", (LANE,), value)))
    a = np.full(8, 1 + 2**-12, np.float32)
    c = np.full(8, -1, np.float32)
    exact, fused = np.zeros(8, np.float32), np.zeros(8, np.float32)
    assert Compiled(fn, contract=False)(a, a, c, exact) == Compiled(fn, contract=True)(a, a, c, fused) == 0
    assert np.array_equal(exact, a * a + c)
    if HOST.has("fma"):
        assert np.array_equal(fused, (a.astype(np.float64) * a + c).astype(np.float32))


# --- intrinsic calls ------------------------------------------------------------------------------


def scaled_add(dtype: str, requires: tuple[str, ...] = ()) -> Intrinsic:
    """out[i, j] = a[i, j] * s + 1 on 2 x 3 entries; the lowering adds 2, to distinguish it."""
    a, s = te.placeholder((2, 3), dtype, "a"), te.placeholder((1,), dtype, "s")
    out = te.compute((2, 3), lambda i, j: a[i, j] * s[0] + te.const(1, dtype), "out")

    def lower(emit: IntrinsicEmitter) -> None:
        builder, value = emit.builder, emit.load("a")
        factor = broadcast(builder, emit.immediate("s"), 6)
        emit.store("out", builder.add(builder.mul(value, factor), splat(value, 2)))

    scopes = {"a": MEMORY, "s": IMMEDIATE, "out": MEMORY}
    return Intrinsic(name=f"scaled_{dtype}", output=out, scopes=scopes, lower=lower, target="cpu", requires=requires)


@pytest.mark.parametrize("columns", [3, 5])
@pytest.mark.parametrize(("requires", "added"), [((), 2), (("no-such-feature",), 1)])
def test_an_intrinsic_is_lowered_only_if_the_cpu_has_its_features(
    requires: tuple[str, ...], added: int, columns: int
) -> None:
    intrinsic = scaled_add("int16", requires)
    match = Match(intrinsic, {"a": "p", "s": "s", "out": "y"}, {"a": (X,), "out": (X,)}, {"s": 5}, {})
    i, j = ir.Var("i"), ir.Var("j")
    value = ir.Binary("add", ir.Binary("mul", load("p", X, i, j), ir.Const(5, "int16")), ir.Const(1, "int16"))
    body = ir.For("i", 2, ir.For("j", 3, store("y", (X, i, j), value)))
    params = [ir.Buffer("p", (4, 2, columns), "int16"), ir.Buffer("y", (4, 2, columns), "int16")]
    fn = function(params, ir.For("x", 4, ir.IntrinsicCall(match, body)))
    p = np.arange(8 * columns, dtype=np.int16).reshape(4, 2, columns)
    y = np.zeros_like(p)
    assert Compiled(fn)(p, y) == 0
    wanted = np.zeros_like(p)
    wanted[..., :3] = p[..., :3] * 5 + added
    assert np.array_equal(y, wanted)
