# SPDX-License-Identifier: Apache-2.0
"""Arithmetic at the limits: integers, conversions, 16-bit floats, scalar functions; scalar and
batched execution agree."""

import math

import ml_dtypes
import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import DTYPES, FLOATS, INTEGER_BITS, SCALAR_FUNCTIONS, limits, storage_dtype, wrap

NAN, INF = math.nan, math.inf


def both_ways(body, **arrays):
    """`body` of the elements of arrays, batched; checks that scalar execution is equal."""
    tensors = [te.placeholder(a.shape, dtype, name) for name, (a, dtype) in arrays.items()]
    extent = tensors[0].shape[0]
    fn = te.create_function(tensors, [te.compute((extent,), lambda i: body(*(t[i] for t in tensors)), "result")], "f")
    loop = fn.body
    block = loop.body
    store = ir.Store("result", (ir.Var("i"),), ir.substitute(block.body.value, {"vi": ir.Var("i")}))
    single = ir.Function("f", fn.params, fn.buffers, ir.For("i", extent, store))
    given = {name: a for name, (a, _) in arrays.items()}
    many, one = interpret(fn, given)["result"], interpret(single, given)["result"]
    assert many.dtype == one.dtype
    np.testing.assert_array_equal(bits(many), bits(one))
    return many


def bits(array):
    """The bit patterns of an array."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype != np.bool_ else array


@pytest.mark.parametrize("dtype", sorted(INTEGER_BITS))
def test_integer_division_floors_at_the_limits_and_by_zero_gives_zero(dtype):
    low, high = limits(dtype)
    a = np.array([low, low, high, high, 5 & int(high), low, high], storage_dtype(dtype))
    b = np.array([0, min(1, high), 0, high, 2 & int(high), high, high], storage_dtype(dtype))
    quotient = both_ways(lambda x, y: x // y, x=(a, dtype), y=(b, dtype))
    rest = both_ways(lambda x, y: x % y, x=(a, dtype), y=(b, dtype))
    for x, y, q, r in zip(a.tolist(), b.tolist(), quotient.tolist(), rest.tolist(), strict=True):
        assert (q, r) == ((0, 0) if y == 0 else divmod(x, y))


@pytest.mark.parametrize("dtype", [d for d in INTEGER_BITS if not d.startswith("u")])
def test_the_lowest_integer_by_minus_one_wraps(dtype):
    low = limits(dtype)[0]
    a, b = np.array([low, low], storage_dtype(dtype)), np.array([-1, -1], storage_dtype(dtype))
    assert both_ways(lambda x, y: x // y, x=(a, dtype), y=(b, dtype)).tolist() == [low, low]
    assert both_ways(lambda x, y: x % y, x=(a, dtype), y=(b, dtype)).tolist() == [0, 0]
    assert both_ways(te.abs, x=(a, dtype)).tolist() == [low, low]


@pytest.mark.parametrize("amount", [31, 32, 33, 1000, -1, -32])
def test_a_shift_out_of_range_shifts_out_every_bit(amount):
    a, b = np.array([-5, 5], np.int32), np.array([amount] * 2, np.int32)
    left = both_ways(lambda x, y: x << y, x=(a, "int32"), y=(b, "int32")).tolist()
    right = both_ways(lambda x, y: x >> y, x=(a, "int32"), y=(b, "int32")).tolist()
    assert left == ([-(1 << 31)] * 2 if amount == 31 else [0, 0])
    assert right == [-1, 0]


@pytest.mark.parametrize("dtype", sorted(INTEGER_BITS))
@pytest.mark.parametrize("source", FLOATS)
def test_floats_to_integers_saturate(source, dtype):
    low, high = limits(dtype)
    with np.errstate(over="ignore"):
        values = wrap(np.array([NAN, INF, -INF, 1e30, -1e30, 1.75, -0.5, float(high) + 1]), source)
    got = both_ways(lambda x: te.cast(dtype, x), x=(values, source)).tolist()
    assert got == [0, high, low, high, low, min(high, 1), 0, high]


def test_floats_between_the_limits_truncate():
    values = np.array([127.99, 128.0, -128.99, -129.0, -1.99])
    assert both_ways(lambda x: te.cast("int8", x), x=(values, "float64")).tolist() == [127, 127, -128, -128, -1]
    assert both_ways(lambda x: te.cast("uint8", x), x=(values, "float64")).tolist() == [127, 128, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["int4", "int32", "uint8", "uint64"])
def test_the_bitwise_complement_equals_numpy(dtype):
    values = wrap(np.array([0, -1, 5]), dtype)
    np.testing.assert_array_equal(both_ways(lambda x: ~x, x=(values, dtype)), ~values)


def test_negation_flips_the_sign_of_zero():
    values = np.array([0.0, -0.0, 1.5, INF], np.float32)
    np.testing.assert_array_equal(bits(both_ways(lambda x: -x, x=(values, "float32"))), bits(-values))
    lowest = np.array([-128, 0, 5], np.int8)
    assert both_ways(lambda x: -x, x=(lowest, "int8")).tolist() == [-128, 0, -5]


def test_the_complement_negates_a_condition():
    values = np.array([0, 1, 2], np.int32)
    got = both_ways(lambda x: te.select(~((x > 0) ^ (x > 1)), x, -1), x=(values, "int32"))
    assert got.tolist() == [0, -1, 2]


def test_conversion_to_bool_compares_with_zero():
    values = np.array([0.0, -0.0, 0.25, NAN, INF], np.float32)
    got = both_ways(lambda x: te.cast("bool", x), x=(values, "float32"))
    assert got.tolist() == [False, False, True, True, True]


@pytest.mark.parametrize("dtype", FLOATS)
def test_minimum_and_maximum_propagate_nan(dtype):
    a, b = wrap(np.array([NAN, 1.0, NAN, 2.0]), dtype), wrap(np.array([1.0, NAN, NAN, 3.0]), dtype)
    for op, last in ((te.minimum, 2), (te.maximum, 3)):
        got = both_ways(op, x=(a, dtype), y=(b, dtype)).astype(float)
        assert np.isnan(got[:3]).all()
        assert got[3] == last


@pytest.mark.parametrize(("dtype", "kind"), [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)])
def test_16_bit_floats_compute_in_float32_and_round_each_operation(dtype, kind):
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(200).astype(np.float32).astype(kind) for _ in range(3))
    got = both_ways(lambda x, y, z: x * y + z / x, x=(a, dtype), y=(b, dtype), z=(c, dtype))
    wide = [v.astype(np.float32) for v in (a, b, c)]
    product, quotient = (wide[0] * wide[1]).astype(kind), (wide[2] / wide[0]).astype(kind)
    expected = (product.astype(np.float32) + quotient.astype(np.float32)).astype(kind)
    np.testing.assert_array_equal(bits(got), bits(expected))
    assert (expected.astype(np.float32) != wide[0] * wide[1] + wide[2] / wide[0]).any()


def test_16_bit_floats_round_ties_to_even():
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20], np.float32)
    got = both_ways(lambda x: te.cast("bfloat16", x), x=(values, "float32")).astype(np.float32)
    assert got.tolist() == [1.0, 1 + 2**-6, 1 + 2**-7]


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 11), ("bfloat16", 8)])
def test_float64_converts_to_16_bit_floats_through_float32(dtype, digits):
    got = both_ways(lambda x: te.cast(dtype, x), x=(np.array([1 + 2**-digits + 2**-40]), "float64"))
    assert got.astype(np.float32).tolist() == [1.0]


def test_a_sum_of_16_bit_floats_rounds_each_step():
    values = np.full(600, 1.0).astype(ml_dtypes.bfloat16)
    x = te.placeholder((600,), "bfloat16", "x")
    k = te.reduce_axis(600, "k")
    fn = te.create_function([x], [te.compute((1,), lambda i: te.sum(x[k], axis=k), "y")], "f")
    assert interpret(fn, {"x": values})["y"].astype(float).tolist() == [256.0]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_max_and_min_reduce_every_dtype_from_its_limits(dtype):
    values = wrap(np.array([[1, -2, 0], [1, 1, 1]]), dtype)
    x = te.placeholder((2, 3), dtype, "x")
    k = te.reduce_axis(3, "k")
    for reduction, model in ((te.max, max), (te.min, min)):
        fn = te.create_function([x], [te.compute((2,), lambda i, r=reduction: r(x[i, k], axis=k), "y")], "f")
        assert interpret(fn, {"x": values})["y"].astype(float).tolist() == [model(row) for row in values.astype(float)]


MODELS = {
    "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "erf": math.erf, "sin": math.sin, "cos": math.cos, "pow": math.pow,
    "divide": lambda x, y: x / y, "floor": math.floor, "ceil": math.ceil, "round": round, "trunc": math.trunc,
    "round_product": lambda x, y, low, high: min(max(round(x * y), low), high),
    "abs": abs, "isnan": math.isnan, "popcount": lambda x: x.bit_count(),
}  # fmt: skip


@pytest.mark.parametrize("function", SCALAR_FUNCTIONS.values(), ids=lambda f: f.name)
def test_every_scalar_function_equals_the_model_in_every_dtype(function):
    for dtype in function.dtypes:
        values = wrap(np.array([0.5, 1.5, 2.5, 3.25, 7.75]), dtype)
        given = (values, values[::-1], wrap(np.full(5, -2.0), dtype), wrap(np.full(5, 6.0), dtype))
        arguments = {name: (array, dtype) for name, array in zip("xyzw"[: function.arity], given, strict=False)}
        got = both_ways(lambda *args: te.call(function.name, *args), **arguments)
        rows = zip(*(array.tolist() for array, _ in arguments.values()), strict=True)
        expected = [MODELS[function.name](*row) for row in rows]
        tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 3e-7}.get(dtype, 1e-15)
        np.testing.assert_allclose(got.astype(float), expected, rtol=tolerance)


def test_rounding_is_to_even_and_keeps_the_sign_of_zero():
    values = np.array([0.5, 1.5, -0.5, -1.5, -0.4, 2.5])
    got = both_ways(te.round, x=(values, "float64"))
    np.testing.assert_array_equal(bits(got), bits(np.array([0.0, 2.0, -0.0, -2.0, -0.0, 2.0])))


def test_the_sigmoid_of_large_arguments_is_0_or_1():
    values = np.array([-1000, 1000, 0, -INF, INF], np.float32)
    got = both_ways(te.sigmoid, x=(values, "float32"))
    assert got.tolist() == [0, 1, 0.5, 0, 1]


@pytest.mark.parametrize("dtype", [d for d, bits in INTEGER_BITS.items() if bits >= 8])
def test_the_popcount_of_all_ones_is_the_width(dtype):
    ones = wrap(np.array([-1, 0]), dtype)
    assert both_ways(te.popcount, x=(ones, dtype)).tolist() == [INTEGER_BITS[dtype], 0]
