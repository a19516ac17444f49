# SPDX-License-Identifier: Apache-2.0
"""The interpreter: integer arithmetic against Python's, order, lazy selects, errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.compiler import ir, te
from vdla.compiler.interpret import InterpretError, interpret, memory
from vdla.compiler.ir import INTEGER_BITS, limits, storage_dtype
from vdla.compiler.schedule import Schedule, ScheduleError

PYTHON = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0, "mod": lambda a, b: a % b if b else 0, "min": min, "max": max,
    "shl": lambda a, b: a << distance(b), "shr": lambda a, b: a >> distance(b),
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}  # fmt: skip


def distance(amount):
    return amount if 0 <= amount < 64 else 64


def wrapped(value: int, dtype: str) -> int:
    low, high = limits(dtype)
    return (value - low) % (high - low + 1) + low


@st.composite
def operands(draw):
    dtype = draw(st.sampled_from(sorted(INTEGER_BITS)))
    op = draw(st.sampled_from(sorted(PYTHON)))
    low, high = limits(dtype)
    edges = st.sampled_from(sorted({low, -1 if low else 1, 0, high, min(high, INTEGER_BITS[dtype])}))
    a, b = (draw(st.integers(low, high) | edges) for _ in range(2))
    return dtype, op, a, b


@given(operands())
def test_integer_arithmetic_wraps(case):
    dtype, op, a, b = case
    x, y = te.placeholder((1,), dtype, "x"), te.placeholder((1,), dtype, "y")
    fn = te.create_function([x, y], [te.compute((1,), lambda i: te.binary(op, x[i], y[i]), "z")], "f")
    arrays = {"x": np.array([a], storage_dtype(dtype)), "y": np.array([b], storage_dtype(dtype))}
    assert int(interpret(fn, arrays)["z"][0]) == wrapped(PYTHON[op](a, b), dtype)


@given(st.sampled_from(sorted(INTEGER_BITS)), st.integers(-(1 << 63), (1 << 63) - 1))
def test_integer_casts_wrap(dtype, value):
    x = te.placeholder((1,), "int64", "x")
    fn = te.create_function([x], [te.compute((1,), lambda i: te.cast("int8", te.cast(dtype, x[i])), "y")], "f")
    got = int(interpret(fn, {"x": np.array([value])})["y"][0])
    assert got == wrapped(wrapped(value, dtype), "int8")


def test_a_sum_wraps_at_its_own_width():
    x = te.placeholder((100,), "int4", "x")
    k = te.reduce_axis(100, "k")
    fn = te.create_function([x], [te.compute((1,), lambda i: te.sum(x[k], axis=k), "y")], "f")
    assert interpret(fn, {"x": np.full(100, 7, np.int8)})["y"][0] == wrapped(700, "int4")


def test_a_float_sum_runs_in_order():
    values = np.array([1e8, 1.0, -1e8, 1.0], np.float32)
    x = te.placeholder((4,), "float32", "x")
    k = te.reduce_axis(4, "k")
    fn = te.create_function([x], [te.compute((1,), lambda i: te.sum(x[k], axis=k), "y")], "f")
    assert interpret(fn, {"x": values})["y"][0] == np.float32(1.0)


def test_float_calls_equal_numpy():
    values = np.linspace(0.5, 2, 5).astype(np.float32)
    x = te.placeholder((5,), "float32", "x")
    fn = te.create_function([x], [te.compute((5,), lambda i: te.call("exp", x[i]) / x[i], "y")], "f")
    np.testing.assert_array_equal(interpret(fn, {"x": values})["y"], np.exp(values) / values)


def test_a_large_reduction_runs_in_several_batches():
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-128, 128, (160, 160)).astype(np.int8) for name in "ab"}
    a, b = (te.placeholder((160, 160), "int8", name) for name in "ab")
    k = te.reduce_axis(160, "k")

    def product(i, j):
        return te.sum(te.cast("int32", a[i, k]) * te.cast("int32", b[k, j]), axis=k)

    fn = te.create_function([a, b], [te.compute((160, 160), product, "c")], "f")
    expected = arrays["a"].astype(np.int32) @ arrays["b"].astype(np.int32)
    np.testing.assert_array_equal(interpret(fn, arrays)["c"], expected)


def element(buffer, *indices):
    return ir.Load(buffer, tuple(i if not isinstance(i, int) else ir.Const(i) for i in indices))


def function(body, **shapes):
    buffers = {name: ir.Buffer(name, shape, "int32") for name, shape in shapes.items()}
    return ir.Function("f", ("x", "y"), buffers, body)


def copy(name, target, source, shift=0, extent=4, predicate=None):
    index = ir.Binary("add", ir.Var("vi"), ir.Const(shift))
    store = ir.Store(target, (ir.Var("vi"),), element(source, index))
    var = f"{name}_i"
    block = ir.Block(
        name=name, axes=(ir.Axis("vi", extent),), values=(ir.Var(var),), body=store, init=None, predicate=predicate
    )
    return ir.For(var, extent, block)


V = ir.Var("vi")
X = {"x": np.arange(4, dtype=np.int32)}


def test_a_nested_block_reads_an_axis_of_the_outer_block():
    position = ir.Binary("add", ir.Binary("mul", ir.Var("vo"), ir.Const(2)), ir.Var("i"))
    store = ir.Store("y", (ir.Var("vi"),), element("x", ir.Var("vi")))
    inner = ir.Block(name="b", axes=(ir.Axis("vi", 4),), values=(position,), body=store)
    outer = ir.Block(name="b_o", axes=(ir.Axis("vo", 2),), values=(ir.Var("o"),), body=ir.For("i", 2, inner))
    assert (interpret(function(ir.For("o", 2, outer), x=(4,), y=(4,)), X)["y"] == X["x"]).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (copy("b", "y", "x", shift=1), "block b: every load must be inside the shape [4], got x[4]"),
        (copy("b", "y", "t"), "block b: t[0] must be written before it is read, got a read first"),
        (
            copy("b", "y", "x", predicate=ir.Binary("lt", ir.Var("b_i"), ir.Const(3))),
            "f: every element of y must be written, got 1 unwritten",
        ),
        (
            ir.For(
                "i",
                5,
                ir.Block(
                    name="b", axes=(ir.Axis("vi", 4),), values=(ir.Var("i"),), body=ir.Store("y", (V,), ir.Const(0))
                ),
            ),
            "block b: axis vi must be in 0..3, got 4",
        ),
    ],
)
def test_invalid_functions_are_rejected(body, message):
    with pytest.raises(InterpretError) as error:
        interpret(function(body, x=(4,), y=(4,), t=(4,)), X)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "f: arrays must be given for x, got none"),
        ({"x": [1, 2, 3, 4]}, "f: x must be a NumPy array, got list"),
        ({"x": np.zeros(3, np.int8)}, "f: x must have the shape (4,), got (3,)"),
        ({"x": np.zeros(4, np.int32)}, "f: x must have the dtype int8, got int32"),
        ({"x": np.full(4, 8, np.int8)}, "f: elements of x must be in the range of int4, got 8"),
    ],
)
def test_invalid_arrays_are_rejected(arrays, message):
    x = te.placeholder((4,), "int4", "x")
    fn = te.create_function([x], [te.compute((4,), lambda i: x[i], "y")], "f")
    with pytest.raises(InterpretError) as error:
        interpret(fn, arrays)
    assert str(error.value) == message


def test_arguments_of_the_wrong_type_are_rejected():
    fn = te.create_function([], [te.full((2,), 0, "int32", "y")], "f")
    for call, message in (
        (lambda: interpret(3, {}), "interpret: fn must be a Function, as of schedule.fn, got int"),
        (lambda: interpret(fn, []), "f: arrays must be a mapping of names to arrays, got list"),
    ):
        with pytest.raises(InterpretError) as error:
            call()
        assert str(error.value) == message


def test_a_buffer_too_large_for_memory_is_rejected():
    fn = te.create_function([], [te.compute(((1 << 31) - 1,) * 3, lambda i, j, k: i, "y")], "f")
    with pytest.raises(InterpretError) as error:
        interpret(fn, {})
    got = "int32[2147483647, 2147483647, 2147483647]"
    assert str(error.value) == f"cannot allocate buffer y, {got}: it is too large for memory"


def test_a_nest_may_have_more_loops_than_numpy_has_dimensions():
    x = te.placeholder((2, 4), "int32", "x")
    s = Schedule(te.create_function([x], [te.compute((2, 4), lambda i, j: x[i, j] + 1, "y")], "f"))
    for _ in range(70):
        s.split(s.loops("y")[0], 1)
    array = np.arange(8, dtype=np.int32).reshape(2, 4)
    np.testing.assert_array_equal(interpret(s.fn, {"x": array})["y"], array + 1)


def overlapping_sum(outer_sum):
    """y[i + j] sums x over k; several (i, j) write one element, which an outer k counts twice."""
    index = (ir.Var("vi"),)
    update = ir.Binary("add", ir.Load("y", index), element("x", ir.Var("vk")))
    axes = (ir.Axis("vi", 4), ir.Axis("vk", 4, ir.AxisKind.REDUCE))
    bound = (ir.Binary("add", ir.Var("i"), ir.Var("j")), ir.Var("k"))
    nest = ir.Block(
        name="b", axes=axes, values=bound, body=ir.Store("y", index, update), init=ir.Store("y", index, ir.Const(0))
    )
    for var, extent in (("j", 2), ("i", 3), ("k", 4)) if outer_sum else (("k", 4), ("j", 2), ("i", 3)):
        nest = ir.For(var, extent, nest)
    return function(nest, x=(4,), y=(4,))


def test_loops_that_write_an_element_twice_are_not_batched():
    assert list(interpret(overlapping_sum(False), X)["y"]) == [6, 6, 6, 6]
    assert list(interpret(overlapping_sum(True), X)["y"]) == [6, 12, 12, 6]


def test_reorder_rejects_loops_that_write_an_element_twice():
    with pytest.raises(ScheduleError) as error:
        Schedule(overlapping_sum(False)).reorder("k", "i", "j")
    rule = "i must stay outside of k, over which block b reduces"
    assert str(error.value) == f"reorder of k, i, j: {rule}, got it inside, where each term would count 3 times"


def test_axes_of_one_name_are_checked_in_every_block():
    """Two blocks have an axis `vo`; the larger one leaves the domain of the block inside."""

    def nest(name, extent):
        store = ir.Store("y", (ir.Var("va"), ir.Var("vj")), ir.Const(1))
        inner = ir.Block(
            name=name, axes=(ir.Axis("va", 2), ir.Axis("vj", 4)), values=(ir.Var("vo"), ir.Var(f"{name}_j")), body=store
        )
        loop = ir.For(f"{name}_j", 4, inner)
        return ir.For(
            f"{name}_i",
            extent,
            ir.Block(name=f"{name}_o", axes=(ir.Axis("vo", extent),), values=(ir.Var(f"{name}_i"),), body=loop),
        )

    with pytest.raises(InterpretError) as error:
        interpret(function(ir.seq(nest("a", 4), nest("b", 2)), x=(4,), y=(4, 4)), X)
    assert str(error.value) == "block a: axis va must be in 0..1, got 2"


def test_indices_are_compiled_in_the_first_run_alone(monkeypatch):
    compiled = []
    exact = memory.exact_function
    monkeypatch.setattr(memory, "exact_function", lambda *given: compiled.append(given) or exact(*given))
    a = te.placeholder((3, 4), "int32", "a")
    fn = te.create_function([a], [te.compute((4, 3), lambda i, j: a[j, i] * 2, "b")], "f")
    counts = []
    for seed in range(2):
        given = np.random.default_rng(seed).integers(-9, 9, (3, 4), np.int32)
        assert np.array_equal(interpret(fn, {"a": given})["b"], 2 * given.T)
        counts.append(len(compiled))
    assert counts[0] == counts[1] > 0
