# SPDX-License-Identifier: Apache-2.0
"""Blocks become plain statements, tensorized nests intrinsic calls."""

import numpy as np
import pytest
from helpers.loop_nests import text

from vdla.compiler import ir, te
from vdla.compiler.interpret import interpret
from vdla.compiler.lowering import lower
from vdla.compiler.lowering.blocks import decompose, remove_blocks
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import TARGETS
from vdla.compiler.tensorize import MEMORY, Intrinsic


def test_axes_become_their_values_and_predicates_conditions():
    a = te.placeholder((10,), "int32", "a")
    s = Schedule(te.create_function([a], [te.compute((10,), lambda i: a[i] * 2, "c")], "f"))
    s.split("i", factor=4, names=("io", "ii"))
    assert (
        text(remove_blocks(s.fn))
        == """
for io in range(3):
    for ii in range(4):
        if io * 4 + ii < 10:
            c[io * 4 + ii] = a[io * 4 + ii] * 2
"""
    )


def test_virtual_threads_are_serial():
    a = te.placeholder((4,), "int32", "a")
    s = Schedule(te.create_function([a], [te.compute((4,), lambda i: a[i] * 2, "c")], "f"))
    s.vthread("i")
    assert text(remove_blocks(s.fn)).startswith("\nfor i in range(4):")


def dot(*requires):
    """acc[o] += sum of x[i] * w[o, i]: four lanes of four terms."""
    x, w = te.placeholder((4,), "int8", "x"), te.placeholder((4, 4), "int8", "w")
    i = te.reduce_axis(4, "i")
    acc = te.compute((4,), lambda o: te.sum(te.cast("int32", x[i]) * te.cast("int32", w[o, i]), axis=i), "acc")
    scopes = {"x": MEMORY, "w": MEMORY, "acc": MEMORY}
    return Intrinsic(name="dot", output=acc, scopes=scopes, lower=lambda step: None, target="cpu", requires=requires)


def tensorized(rows=6, requires=()):
    x, w = te.placeholder((rows, 2, 4), "int8", "x"), te.placeholder((3, 2, 4, 4), "int8", "w")
    ko, ki = te.reduce_axis(2, "ko"), te.reduce_axis(4, "ki")

    def total(r, n, o):
        return te.sum(te.cast("int32", x[r, ko, ki]) * te.cast("int32", w[n, ko, o, ki]), axis=[ko, ki])

    c = te.compute((rows, 3, 4), total, "c")
    d = te.compute((rows, 3, 4), lambda r, n, o: te.maximum(c[r, n, o], 0), "d")
    s = Schedule(te.create_function([x, w], [d], "f"))
    s.split("d_r", factor=4, names=("ro", "ri"))
    s.reorder("ro", "d_n", "ri")
    s.compute_at("c", "d_n")
    s.reorder("ko", "r", "n", "o", "ki")
    s.tensorize("o", dot(*requires))
    return s


def test_a_tensorized_nest_becomes_a_call_with_a_vectorized_init():
    s = tensorized()
    s.unroll("r")
    lowered = lower(s.fn, TARGETS["x86-64"])
    assert text(lowered).startswith("""
for d_n in range(3):
    with alloc(c):
        for o_init in vectorize(4):
            c[0, 0, o_init] = 0
        for o_init in vectorize(4):
            c[1, 0, o_init] = 0
        for o_init in vectorize(4):
            c[2, 0, o_init] = 0
        for o_init in vectorize(4):
            c[3, 0, o_init] = 0
        for ko in range(2):
            step dot:
                for o in range(4):
                    for ki in range(4):
                        c[0, 0, o] = c[0, 0, o] + int32(x[0, ko, ki]) * int32(w[d_n, ko, o, ki])
            step dot:
""")
    first, second, *_ = (stmt.match.entries for stmt in ir.walk(lowered.body) if isinstance(stmt, ir.IntrinsicCall))
    assert first["acc"] == (ir.Const(0), ir.Const(0))
    assert second["acc"] == (ir.Const(1), ir.Const(0))
    assert second["x"] == (ir.Const(1), ir.Var("ko"))
    assert second["w"] == (ir.Var("d_n"), ir.Var("ko"))


@pytest.mark.parametrize("terms", [1, 2])
def test_inits_precede_intrinsic_calls(terms):
    x, w = te.placeholder((2, terms, 4), "int8", "x"), te.placeholder((terms, 4, 4), "int8", "w")
    ko, ki = te.reduce_axis(terms, "ko"), te.reduce_axis(4, "ki")

    def total(r, o):
        return te.sum(te.cast("int32", x[r, ko, ki]) * te.cast("int32", w[ko, o, ki]), axis=[ko, ki])

    s = Schedule(te.create_function([x, w], [te.compute((2, 4), total, "c")], "f"))
    s.reorder("r", "ko", "o", "ki")
    s.tensorize("o", dot())
    steps = "    step dot:" if terms == 1 else "    for ko in range(2):\n        step dot:"
    assert text(lower(s.fn, TARGETS["x86-64"])).startswith(f"""
for r in range(2):
    for o_init in vectorize(4):
        c[r, o_init] = 0
{steps}
""")


def test_intrinsic_calls_preserve_results():
    s, rng = tensorized(requires=("sse2",)), np.random.default_rng(1)
    shapes = {name: s.fn.buffers[name].shape for name in "xw"}
    arrays = {name: rng.integers(-99, 99, shape).astype("int8") for name, shape in shapes.items()}
    for target in ("x86-64", "aarch64"):
        lowered = lower(s.fn, TARGETS[target])
        np.testing.assert_array_equal(interpret(lowered, arrays)["d"], interpret(s.fn, arrays)["d"])


def test_a_condition_around_an_intrinsic_call_is_kept():
    s = tensorized(7)
    stmt = remove_blocks(decompose(s.fn)).body
    guarded = [i for i in ir.walk(stmt) if isinstance(i, ir.If) and isinstance(i.body, ir.IntrinsicCall)]
    assert len(guarded) == 1


def test_a_cpu_without_the_features_runs_vector_loops():
    s = tensorized(4, ("sse2",))
    assert "step dot:" in str(lower(s.fn, TARGETS["x86-64"]))
    assert text(lower(s.fn, TARGETS["aarch64"])).startswith("""
for d_n in range(3):
    with alloc(c):
        for r_init in range(4):
            for o_init in vectorize(4):
                c[r_init, 0, o_init] = 0
        for ko in range(2):
            for r in range(4):
                for ki in range(4):
                    for o in vectorize(4):
                        c[r, 0, o] = c[r, 0, o] + int32(x[r, ko, ki]) * int32(w[d_n, ko, o, ki])
""")
