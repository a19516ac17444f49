# SPDX-License-Identifier: Apache-2.0
"""Recurrences: `te.scan` against NumPy loops, in both directions, symbolic steps, text, errors."""

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.interpret import interpret
from vdla.compiler.te import TeError

STEPS = te.var("steps")


def running_sum(reverse=False, steps=STEPS):
    x = te.placeholder((steps, 3), "int32", "x")
    start = te.placeholder((3,), "int32", "start")

    def cell(t, total):
        return te.compute((3,), lambda i: total[i] + x[t, i], "sums")

    return te.create_function([x, start], [te.scan(steps, cell, start, reverse=reverse)], "f")


def test_a_scan_is_one_loop_around_its_blocks():
    assert str(running_sum()) == (
        "f(x: int32[steps, 3], start: int32[3], sums: int32[steps, 3]):\n"
        "    for t in range(steps):\n"
        "        for i in range(3):\n"
        "            block sums(vt=scan t, vi=i):\n"
        "                sums[vt, vi] = select(vt == 0, start[vi], sums[vt - 1, vi]) + x[vt, vi]"
    )


def test_backwards_the_axis_is_bound_to_the_mirrored_step():
    text = str(running_sum(reverse=True))
    assert "block sums(vt=scan steps - 1 - t, vi=i)" in text
    assert "select(vt == steps - 1, start[vi], sums[vt + 1, vi])" in text
    assert "block sums(vt=scan 6 - t, vi=i)" in str(running_sum(reverse=True, steps=7))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 9])
def test_a_running_sum_equals_cumsum(steps, reverse):
    rng = np.random.default_rng(steps)
    x, start = rng.integers(-9, 9, (steps, 3)).astype(np.int32), rng.integers(-9, 9, 3).astype(np.int32)
    expected = (x[::-1].cumsum(0)[::-1] if reverse else x.cumsum(0)) + start
    for fn in (running_sum(reverse), running_sum(reverse, steps)):
        np.testing.assert_array_equal(interpret(fn, {"x": x, "start": start})["sums"], expected)


def lstm(steps, batch, inputs, hidden, reverse=False):
    """h and c at every step, and the gates, of float64."""
    x = te.placeholder((steps, batch, inputs), "float64", "x")
    w = te.placeholder((4, hidden, inputs), "float64", "w")
    u = te.placeholder((4, hidden, hidden), "float64", "u")
    zero = te.full((batch, hidden), 0, "float64", "zero")

    def cell(t, h, c):
        i, k = te.reduce_axis(inputs, "i"), te.reduce_axis(hidden, "k")
        seen = te.compute((4, batch, hidden), lambda g, b, j: te.sum(w[g, j, i] * x[t, b, i], axis=i), "seen")
        kept = te.compute((4, batch, hidden), lambda g, b, j: te.sum(u[g, j, k] * h[b, k], axis=k), "kept")
        gates = te.compute((4, batch, hidden), lambda g, b, j: seen[g, b, j] + kept[g, b, j], "gates")

        def gate(g, b, j):
            return te.sigmoid(gates[g, b, j])

        new_c = te.compute((batch, hidden), lambda b, j: (
            gate(0, b, j) * c[b, j] + gate(1, b, j) * te.tanh(gates[2, b, j])), "c")  # fmt: skip
        new_h = te.compute((batch, hidden), lambda b, j: gate(3, b, j) * te.tanh(new_c[b, j]), "h")
        return new_h, new_c, gates

    h, c, gates = te.scan(steps, cell, (zero, zero), reverse=reverse)
    return te.create_function([x, w, u], [h, c, gates], "lstm")


def lstm_model(x, w, u, reverse):
    h = c = np.zeros((x.shape[1], u.shape[1]))
    results = [None] * len(x)
    for t in range(len(x))[:: -1 if reverse else 1]:
        gates = np.einsum("gji,bi->gbj", w, x[t]) + np.einsum("gjk,bk->gbj", u, h)
        forget, enter, _, leave = 1 / (1 + np.exp(-gates))
        c = forget * c + enter * np.tanh(gates[2])
        h = leave * np.tanh(c)
        results[t] = (h, c, gates)
    return [np.array(part) for part in zip(*results, strict=True)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("symbolic", [False, True])
def test_an_lstm_cell_equals_a_numpy_loop(reverse, symbolic):
    rng = np.random.default_rng(3)
    x, w, u = (rng.standard_normal(shape) for shape in ((5, 2, 3), (4, 6, 3), (4, 6, 6)))
    fn = lstm(STEPS if symbolic else 5, 2, 3, 6, reverse)
    got = interpret(fn, {"x": x, "w": w, "u": u})
    for name, expected in zip(("h", "c", "gates"), lstm_model(x, w, u, reverse), strict=True):
        np.testing.assert_allclose(got[name], expected, rtol=1e-12)
    assert [stmt.var for stmt in ir.walk(fn.body) if isinstance(stmt, ir.For)].count("t") == 1


def test_a_state_that_is_reduced_in_place():
    """The recurrence h = W h + x as one block, which sums while it reads the previous step."""
    x, w = te.placeholder((4, 3), "int64", "x"), te.placeholder((3, 3), "int64", "w")
    start = te.full((3,), 0, "int64", "start")

    def cell(t, h):
        k = te.reduce_axis(3, "k")
        return te.compute((3,), lambda j: te.sum(w[j, k] * h[k] + x[t, k], axis=k), "h")

    fn = te.create_function([x, w], [te.scan(4, cell, start)], "f")
    rng = np.random.default_rng(0)
    arrays = {"x": rng.integers(-5, 5, (4, 3)), "w": rng.integers(-5, 5, (3, 3))}
    state, expected = np.zeros(3, np.int64), []
    for row in arrays["x"]:
        state = arrays["w"] @ state + row.sum()
        expected.append(state)
    np.testing.assert_array_equal(interpret(fn, arrays)["h"], expected)


def test_states_may_swap_and_share_a_tensor():
    """Fibonacci numbers: (a, b) becomes (b, a + b)."""
    zero, one = te.full((1,), 0, "int32", "zero"), te.full((1,), 1, "int32", "one")

    def cell(t, a, b):
        return te.compute((1,), lambda i: b[i] * 1, "a"), te.compute((1,), lambda i: a[i] + b[i], "b")

    a, b = te.scan(8, cell, (zero, one))
    last = te.compute((1,), lambda i: a[7, i] * 100 + b[7, i], "last")
    got = interpret(te.create_function([], [last, a], "f"), {})
    assert got["a"].ravel().tolist() == [1, 1, 2, 3, 5, 8, 13, 21]
    assert got["last"].tolist() == [2134]


def test_a_scan_over_the_results_of_another():
    x = te.placeholder((5, 2), "int32", "x")
    start = te.full((2,), 0, "int32", "start")
    first = te.scan(5, lambda t, s: te.compute((2,), lambda i: s[i] + x[t, i], "first"), start)
    second = te.scan(5, lambda t, s: te.compute((2,), lambda i: s[i] + first[t, i], "second"), start)
    array = np.arange(10, dtype=np.int32).reshape(5, 2)
    got = interpret(te.create_function([x], [second], "f"), {"x": array})["second"]
    np.testing.assert_array_equal(got, array.cumsum(0).cumsum(0))


def test_stages_independent_of_the_step_are_computed_before_the_loop():
    x = te.placeholder((5, 2), "int32", "x")
    start = te.full((2,), 0, "int32", "start")

    def cell(t, s):
        doubled = te.compute((5, 2), lambda i, j: x[i, j] * 2, "doubled")
        return te.compute((2,), lambda j: s[j] + doubled[t, j], "s")

    fn = te.create_function([x], [te.scan(5, cell, start)], "f")
    assert "block doubled(vi=i, vj=j)" in str(fn)
    array = np.arange(10, dtype=np.int32).reshape(5, 2)
    np.testing.assert_array_equal(interpret(fn, {"x": array})["s"], 2 * array.cumsum(0))


def test_a_cell_may_compute_a_tuple():
    """The running maximum and its step, as one block with two buffers."""
    x = te.placeholder((6, 2), "int32", "x")
    low, none = te.full((2,), -100, "int32", "low"), te.full((2,), -1, "int32", "none")

    def cell(t, best, when):
        def body(i):
            better = x[t, i] > best[i]
            return te.select(better, x[t, i], best[i]), te.select(better, t, when[i])

        return te.compute((2,), body, ("best", "when"))

    best, when = te.scan(6, cell, (low, none))
    array = np.random.default_rng(0).integers(0, 50, (6, 2)).astype(np.int32)
    got = interpret(te.create_function([x], [best, when], "f"), {"x": array})
    np.testing.assert_array_equal(got["best"], np.maximum.accumulate(array))
    np.testing.assert_array_equal(got["when"][-1], array.argmax(0))


def test_a_cell_can_capture_tensors_by_default_arguments():
    start = te.full((1,), 0, "int32", "start")
    cells = [lambda t, s, own=own: te.compute((1,), lambda i: s[i] + own, f"s{own}") for own in (1, 2)]
    sums = [te.scan(3, cell, start) for cell in cells]
    got = interpret(te.create_function([], sums, "f"), {})
    assert (got["s1"].ravel().tolist(), got["s2"].ravel().tolist()) == ([1, 2, 3], [2, 4, 6])


def explicit_block(bound, loops, value):
    """A block y[vt, vi] of 4 steps and 3 elements, with the given loops and bindings."""
    axes = (ir.Axis("vt", 4, ir.AxisKind.SCAN), ir.Axis("vi", 3))
    nest = ir.Block(name="y", axes=axes, values=bound, body=ir.Store("y", (ir.Var("vt"), ir.Var("vi")), value))
    for var, extent in reversed(loops):
        nest = ir.For(var, extent, nest)
    fn = ir.Function("f", ("y",), {"y": ir.Buffer("y", (4, 3), "int32")}, nest)
    return interpret(fn, {})["y"].tolist()


def before(axis, indices):
    """1 + y at `indices`, or 1 where `axis` is 0."""
    one = ir.Const(1)
    return ir.Select(ir.Binary("eq", axis, ir.Const(0)), one, ir.Binary("add", ir.Load("y", indices), one))


def test_a_loop_over_steps_and_elements_is_not_batched():
    fused = (ir.Binary("floordiv", ir.Var("f"), ir.Const(3)), ir.Binary("mod", ir.Var("f"), ir.Const(3)))
    step, element = ir.Var("vt"), ir.Var("vi")
    value = before(step, (ir.Binary("sub", step, ir.Const(1)), element))
    assert explicit_block(fused, [("f", 12)], value) == [[step + 1] * 3 for step in range(4)]


def test_elements_of_one_step_that_read_each_other_are_not_batched():
    step, element = ir.Var("vt"), ir.Var("vi")
    value = before(element, (step, ir.Binary("sub", element, ir.Const(1))))
    assert explicit_block((ir.Var("t"), ir.Var("i")), [("t", 4), ("i", 3)], value) == [[1, 2, 3]] * 4


X = te.placeholder((4, 3), "int32", "x")
START = te.placeholder((3,), "int32", "start")


def step(name="s", shape=(3,), dtype="int32"):
    return lambda t, s: te.compute(shape, lambda i: te.cast(dtype, s[i] + t), name)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: te.scan(0, step(), START), "te.scan: the extent must be a positive integer, got 0"),
        (lambda: te.scan(4, step(), 0), "te.scan: init must be one or more tensors, got 0"),
        (lambda: te.scan(4, step(), (START, START)),
         "te.scan: the cell must take the step and 2 states, got 2 parameters"),
        (lambda: te.scan(4, 3, START), "te.scan: the cell must be a function of the step and the states, got 3"),
        (lambda: te.scan(4, lambda t, s: s, START),
         "te.scan: the cell must return tensors that it computes, got s before"),
        (lambda: te.scan(4, lambda t, s: s[0], START),
         "te.scan: the cell must return tensors that it computes, got Value"),
        (lambda: te.scan(4, lambda t, a, b: step()(t, a), (START, START)),
         "te.scan: the cell must return all of 2 states, got 1"),
        (lambda: te.scan(4, step(dtype="int8"), START),
         "te.scan: state s must have the dtype of its init start, int32, got int8"),
        (lambda: te.scan(4, step(shape=(2,)), START),
         "te.scan: state s must have the shape of its init start, [3], got [2]"),
        (lambda: te.scan(4, max, START),
         "te.scan: the cell must be a function of the step and the states, got <built-in function max>"),
        (lambda: te.scan(4, lambda t, *, s: step()(t, s), START),
         "te.scan: the cell must be a function of the step and the states, got one that needs the keyword s"),
        (lambda: te.scan(4, step(), START, reverse="yes"), "te.scan: reverse must be True or False, got 'yes'"),
        (lambda: te.scan(5, lambda t, s: te.compute((3,), lambda i: s[i] + X[t, i], "s"), START),
         "te.compute s: index 0 of x must satisfy 0 <= index < 4, got 0 to 4"),
        (lambda: te.scan(4, lambda t, s: te.compute((3,), lambda i: X[0, i], "s"), START),
         "te.scan: a result of the cell must depend on its step or a state, got s"),
        (lambda: te.scan(4, lambda t, s: te.compute((3,), lambda t: s[t] + 1, "s"), START),
         "te.compute s: its axes must differ from the step of the scan, got t"),
        (lambda: te.scan(4, lambda t, s: te.compute((3,), lambda i: te.scan(2, step("n"), s2(s))[1, i], "s"), START),
         "te.scan: a cell must not contain a scan that depends on its step or a state, got n"),
    ],
)  # fmt: skip
def test_invalid_scans_are_rejected(build, message):
    with pytest.raises(TeError) as error:
        build()
    assert str(error.value) == message


def s2(state):
    return te.compute((3,), lambda i: state[i] + 1, "inner_start")


def test_a_step_outside_its_scan_is_rejected():
    leaked = []
    te.scan(4, lambda t, s: leaked.append(t) or step()(t, s), START)
    outside = te.compute((3,), lambda i: X[leaked[0], i], "y")
    with pytest.raises(TeError) as error:
        te.create_function([X], [outside], "f")
    assert (
        str(error.value) == "te.create_function f: inputs must include every placeholder that is read, got none named t"
    )
