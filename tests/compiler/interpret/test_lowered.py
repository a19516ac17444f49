# SPDX-License-Identifier: Apache-2.0
"""The interpreter on lowered functions; scalar and batched execution agree bit for bit."""

import random

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.interpret import InterpretError, interpret, scalar
from vdla.compiler.ir import wrap
from vdla.compiler.schedule import Schedule

AT, J = ir.Var("i"), ir.Var("j")
X = np.arange(4, dtype=np.int32)


def at(buffer, *indices):
    return ir.Load(buffer, tuple(ir.Const(i) if isinstance(i, int) else i for i in indices))


def put(buffer, *rest):
    *indices, value = (ir.Const(part) if isinstance(part, int) else part for part in rest)
    return ir.Store(buffer, tuple(indices), value)


def op(name, a, b):
    return ir.Binary(name, *(ir.Const(side) if isinstance(side, int) else side for side in (a, b)))


def function(body, blocks=False, **shapes):
    """A function of x and y; with `blocks`, a block around everything."""
    shapes = {"x": (4,), "y": (4,), **shapes}
    buffers = {name: ir.Buffer(name, shape, "int32") for name, shape in shapes.items()}
    return ir.Function(
        "f", ("x", "y"), buffers, ir.Block(name="all", axes=(), values=(), body=body) if blocks else body
    )


@pytest.fixture(params=[False, True], ids=["lowered", "blocks"])
def run(request):
    return lambda body, **shapes: interpret(function(body, request.param, **shapes), {"x": X})["y"].tolist()


@pytest.mark.parametrize("kind", list(ir.LoopKind))
def test_loops_of_every_kind_run_in_order(run, kind):
    first = put("y", 0, 1)
    step = put("y", op("add", AT, 1), op("add", op("mul", at("y", AT), 3), at("x", AT)))
    assert run(ir.seq(first, ir.For("i", 3, step, kind))) == [1, 3, 10, 32]


def test_simultaneous_stores_read_old_values(run):
    swap = ir.MultiStore((put("y", AT, at("y", op("add", AT, 1))), put("y", op("add", AT, 1), at("y", AT))))
    assert run(ir.seq(ir.For("j", 4, put("y", J, at("x", J))), ir.For("i", 3, swap))) == [1, 2, 3, 0]


def test_conditions_may_read_loop_variables_and_elements(run):
    body = ir.seq(
        put("y", AT, 7), ir.If(op("ge", AT, 2), put("y", AT, 8)), ir.If(op("eq", at("x", AT), 3), put("y", AT, 9))
    )
    assert run(ir.For("i", 4, body)) == [7, 7, 8, 9]


def test_a_select_evaluates_only_the_index_of_the_selected_side(run):
    inside = op("lt", op("add", AT, 1), 4)
    value = ir.Select(inside, at("x", op("add", AT, 1)), at("x", at("x", op("sub", 3, AT))))
    assert run(ir.For("i", 4, put("y", AT, value))) == [1, 2, 3, 0]


def test_indices_divide_by_zero_and_shift_by_negative_amounts(run):
    index = op("add", op("floordiv", AT, at("x", 0)), op("shr", AT, op("sub", 0, 1)))
    assert run(ir.For("i", 4, put("y", AT, at("x", op("add", index, AT))))) == [0, 1, 2, 3]


def test_a_loop_of_extent_zero_does_nothing(run):
    assert run(ir.seq(ir.For("i", 4, put("y", AT, 5)), ir.For("j", 0, put("y", J, 6)))) == [5, 5, 5, 5]


def test_an_allocation_invalidates_its_buffer(run):
    body = ir.Alloc(("t",), ir.seq(put("t", 0, op("mul", at("x", AT), 2)), put("y", AT, at("t", 0))))
    assert run(ir.For("i", 4, body), t=(1,)) == [0, 2, 4, 6]


REFUSED = [
    (ir.For("i", 4, ir.Alloc(("t",), ir.seq(ir.If(op("eq", AT, 0), put("t", 0, 1)), put("y", AT, at("t", 0))))),
     "t[0] must be written before it is read, got a read first"),
    (ir.For("i", 5, put("y", AT, 1)), "every store must be inside the shape [4], got y[4]"),
    (ir.For("i", 4, put("y", AT, at("x", op("sub", AT, 1)))), "every load must be inside the shape [4], got x[-1]"),
    (ir.For("i", 4, ir.MultiStore((put("y", AT, at("y", 3)), put("t", 0, 1)))),
     "y[3] must be written before it is read, got a read first"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), REFUSED)
@pytest.mark.parametrize("blocks", [False, True])
def test_invalid_accesses_are_rejected(body, message, blocks):
    with pytest.raises(InterpretError) as error:
        interpret(function(body, blocks, t=(1,)), {"x": X})
    assert str(error.value) == f"block {'all' if blocks else 'y'}: {message}"


def test_an_unwritten_output_is_rejected():
    with pytest.raises(InterpretError) as error:
        interpret(function(ir.For("i", 3, put("y", AT, 1))), {"x": X})
    assert str(error.value) == "f: every element of y must be written, got 1 unwritten"


DTYPES = ("int4", "int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64")


def random_element(rng, x, y, i, dtype, depth):
    """A random expression of `dtype` over two elements of it."""
    if depth == 0:
        low = 0 if dtype.startswith("u") else -2
        return rng.choice([x[i], y[i], te.const(rng.randrange(low, 3), dtype)])
    a, b = (random_element(rng, x, y, i, dtype, depth - 1) for _ in range(2))
    operations = ["add", "sub", "mul", "min", "max"]
    if "float" not in dtype:
        operations += ["floordiv", "mod", "shl", "shr", "and", "or", "xor"]
    kind = rng.choice(["binary", "binary", "select", "cast", "call"])
    if kind == "select":
        return te.select(te.binary(rng.choice(ir.COMPARE_OPS), a, b), b, a)
    if kind == "cast":
        return te.cast(dtype, te.cast(rng.choice(DTYPES), a))
    if kind == "call":
        return te.sigmoid(a) / te.abs(b) if "float" in dtype else te.abs(a)
    return te.binary(rng.choice(operations), a, b)


@pytest.mark.parametrize("seed", range(60))
def test_scalar_and_batched_execution_of_expressions_agree(seed):
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    x, y = te.placeholder((6,), dtype, "x"), te.placeholder((6,), dtype, "y")
    z = te.compute((6,), lambda i: random_element(rng, x, y, i, dtype, 4), "z")
    fn = te.create_function([x, y], [z], "f")
    block = fn.body.body
    store = ir.Store("z", (AT,), ir.substitute(block.body.value, {"vi": AT}))
    arrays = {name: wrap(numbers.integers(-9, 9, 6), dtype) for name in "xy"}
    many = interpret(fn, arrays)["z"]
    single = interpret(ir.Function("f", fn.params, fn.buffers, ir.For("i", 6, store)), arrays)["z"]
    raw = f"u{many.dtype.itemsize}"
    nan = many != many
    assert (nan == (single != single)).all()
    np.testing.assert_array_equal(many.view(raw)[~nan], single.view(raw)[~nan])


def convolution():
    x, w = te.placeholder((6, 7), "int8", "x"), te.placeholder((3, 3), "int8", "w")
    ky, kx = te.reduce_axis(3, "ky"), te.reduce_axis(3, "kx")
    padded = te.pad(x, (1, 1), (1, 1), 3)
    return [x, w], te.compute(
        (6, 7),
        lambda i, j: te.sum(te.cast("int16", padded[i + ky, j + kx]) * te.cast("int16", w[ky, kx]), axis=[ky, kx]),
        "y",
    )


def matmul(dtype):
    x, w = te.placeholder((6, 7), dtype, "x"), te.placeholder((7, 5), dtype, "w")
    k = te.reduce_axis(7, "k")
    return [x, w], te.compute((6, 5), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "y")


def greatest():
    x, w = te.placeholder((6, 7), "float32", "x"), te.placeholder((7,), "float32", "w")
    k = te.reduce_axis(7, "k")
    return [x, w], te.compute((6,), lambda i: te.argmax(x[i, k] * w[k], axis=k), "y")[1]


def recurrence():
    x, w = te.placeholder((6, 7), "int64", "x"), te.placeholder((7, 7), "int64", "w")
    k = te.reduce_axis(7, "k")

    def cell(t, h):
        return te.compute((7,), lambda i: te.sum(h[k] * w[i, k] % 17 + x[t, k], axis=k), "y")

    return [x, w], te.scan(6, cell, te.compute((7,), lambda i: w[i, 0], "start"))


CASES = {
    "convolution": convolution, "greatest": greatest, "recurrence": recurrence,
    **{f"matmul {dtype}": lambda dtype=dtype: matmul(dtype) for dtype in ("int32", "float32", "bfloat16")},
}  # fmt: skip


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("case", sorted(CASES))
def test_scalar_and_batched_execution_of_nests_agree(case, split, monkeypatch):
    inputs, output = CASES[case]()
    schedule = Schedule(te.create_function(inputs, [output], "f"))
    if split:
        schedule.split(schedule.loops(output.stage.stages[-1].name)[-2 if case == "recurrence" else 0], factor=4)
    rng = np.random.default_rng(0)
    arrays = {t.name: wrap(rng.integers(-9, 9, t.shape), t.dtype) for t in inputs}
    many = interpret(schedule.fn, arrays)[output.name]
    monkeypatch.setattr(scalar, "MIN_BATCH", 1 << 40)
    monkeypatch.setattr(scalar, "run_batched", None)
    one = interpret(schedule.fn, arrays)[output.name]
    assert one.dtype == many.dtype
    np.testing.assert_array_equal(one, many)
