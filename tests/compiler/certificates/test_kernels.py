# SPDX-License-Identifier: Apache-2.0
"""The compiled loops of certificates against `operations`, which says what they compute."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla import Config, te
from vdla.compiler import ir
from vdla.compiler.certificates import (
    elementwise,
    jit,
    operations,
    product_kernels,
    requantise_kernels,
    sum_kernels,
    symbols,
)
from vdla.compiler.certificates.elementwise import Elementwise, Leaf, loads, parts_of
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.pending import PendingProducts, combine_sums
from vdla.compiler.certificates.products import listed, products_of
from vdla.compiler.certificates.requantise import requantised_by_numbers, requantising
from vdla.compiler.certificates.sum_kernels import VECTOR_OPS
from vdla.compiler.certificates.symbols import LARGE, SYMBOL, SymbolForm, Symbols, numbers, type_bounds, unknowns
from vdla.hardware.isa import Operand, VectorOp
from vdla.hardware.numerics import pack_scale, scales_from_floats

PARTS = ("value", "low", "high", "form", "norm")
FORMS = [0, 1, 3 | 8, 3 | 16, 3 | 24, 4, 4 | 8, 4 | 16, 5, 5 | 8, 5 | 24]
TYPES = ["int4", "int8", "uint8", "int16", "int32", "int64"]
TINY = Config.preset("tiny")


def same(a: Symbols, b: Symbols) -> None:
    for part in PARTS:
        assert a[part].tolist() == b[part].tolist(), part


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, name: str, forms: list[int]) -> Symbols:
    """Numbers, inputs with all kinds of bounds, and extremes, some of them equal."""
    least, most = (max(-(2**40), min(2**40, bound)) for bound in type_bounds(dtype))
    made = unknowns(name, shape, dtype, int(rng.integers(3)))
    ends = np.sort(rng.choice([least, most, 0, 1, *rng.integers(least, most + 1, 4)], (2, *shape)), axis=0)
    made["low"], made["high"], made["form"] = ends[0], ends[1], rng.choice(forms, shape)
    polynomial = made["form"] == SymbolForm.POLYNOMIAL
    made["low"][polynomial], made["high"][polynomial] = type_bounds(dtype)
    made["norm"] = rng.choice([1, 3, 1 << 20], shape)
    known = made["low"] == made["high"]
    made[known] = numbers(made["low"])[known]
    return made


# --- expressions ----------------------------------------------------------------------------------

BINARY: dict[str, Callable[[te.Value, te.Value], te.Value]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "shr": lambda a, b: a >> b,
    "min": te.minimum,
    "max": te.maximum,
    "and": lambda a, b: a & b,
}


def covered(expression: Callable[[te.Value, te.Value], te.Value], dtype: str, a: Symbols, b: Symbols) -> Symbols | None:
    """An expression of two inputs in one pass."""
    x, y = (te.placeholder((1,), dtype, name) for name in "ab")
    fn = te.create_function([x, y], [te.compute((1,), lambda i: expression(x[i], y[i]), "out")], "fn")
    (store,) = ir.find(fn.body, ir.Store)
    leaves = {"a": Leaf(a), "b": Leaf(b)}
    if not parts_of(store.value, lambda e: ir.dtype_of(e, fn.buffers)):
        return None
    of = Elementwise(lambda e: ir.dtype_of(e, fn.buffers), loads(leaves))
    return of.value(store.value, a.size)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", BINARY)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32))
def test_operations_in_one_pass_are_those_of_the_model(op: str, dtype: str, seed: int) -> None:
    """Every element by itself, since one that is not covered leaves all to the model."""
    rng = np.random.default_rng(seed)
    a, b = (drawn(rng, (24,), dtype, name, FORMS) for name in "ab")
    if op == "shr":
        b[:16] = numbers(rng.integers(0, 2 + type_bounds(dtype)[1].bit_length(), 16))
    b[::5] = a[::5]
    some = 0
    for k in range(a.size):
        one, two = a[k : k + 1].copy(), b[k : k + 1].copy()
        made = covered(BINARY[op], dtype, one, two)
        if made is not None:
            some += 1
            same(made, operations.binary(op, one, two, dtype))
    assert some or op == "mul"


@pytest.mark.sampled
@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_casts_in_one_pass_are_those_of_the_model(source: str, target: str) -> None:
    """Every element by itself, as above."""
    rng = np.random.default_rng(3)
    a, some = drawn(rng, (40,), source, "a", FORMS), 0
    for k in range(a.size):
        one = a[k : k + 1].copy()
        made = covered(lambda x, y: te.cast(target, x), source, one, one)
        if made is not None:
            some += 1
            same(made, operations.cast(one, source, target))
    wider = ir.INTEGER_BITS[target] > ir.INTEGER_BITS[source]
    wraps = wider and type_bounds(source)[0] < type_bounds(target)[0]
    assert bool(some) is not (source == target or wraps)  # no cast, or one that is left to the model


def test_parameters_of_channels_run_on_their_own() -> None:
    """Parts of few elements, and numbers, give what all elements give."""
    rng = np.random.default_rng(4)
    a, few = drawn(rng, (60,), "int32", "a", FORMS), drawn(rng, (3,), "int32", "b", FORMS)
    places = np.arange(60) % 3
    x, y = (te.placeholder((1,), "int32", name) for name in "ab")
    fn = te.create_function([x, y], [te.compute((1,), lambda i: x[i] + te.maximum(y[i] * 5, 7), "out")], "fn")
    (store,) = ir.find(fn.body, ir.Store)
    leaves = {"a": Leaf(a), "b": Leaf(few, places)}
    of = Elementwise(lambda e: ir.dtype_of(e, fn.buffers), loads(leaves))
    scaled = operations.binary("mul", few[places], numbers(5), "int32")
    wanted = operations.binary("add", a, operations.binary("max", scaled, numbers(7), "int32"), "int32")
    made = of.value(store.value, 60)
    assert made is not None
    same(made, wanted)


def test_inputs_and_numbers_are_those_of_the_model() -> None:
    values = [0, 1, -1, 2**40, 2**58, -(2**63), 2**63 - 1, 2**61 - 1, -(2**58) - 5]
    same(elementwise.numbers(values), numbers(values))
    same(elementwise.numbers([True, False]), numbers([True, False]))
    same(elementwise.unknowns("x", (3, 5), "int8", 7), symbols.unknowns("x", (3, 5), "int8", 7))


# --- products -------------------------------------------------------------------------------------


def summed_products(a: Symbols, b: Symbols) -> Symbols:
    """Element by element."""
    return operations.summed(operations.binary("mul", a[:, :, None], b[None], "int32"), (1,), "int32")[:, 0]


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 90), terms=st.integers(1, 9), columns=st.integers(1, 5))
def test_products_with_numbers_are_the_sums_of_the_products(seed: int, rows: int, terms: int, columns: int) -> None:
    """Rows with few different bounds and with many, on either side."""
    rng = np.random.default_rng(seed)
    forms = [form for form in FORMS if form != SymbolForm.POLYNOMIAL]
    a, b = drawn(rng, (rows, terms), "int8", "a", forms), numbers(rng.integers(-128, 128, (terms, columns)))
    if rng.integers(2):
        a[:] = a[:1]
    left, right = listed(a), listed(b)
    straight, turned = products_of(left, right, "int32"), products_of(right.turned, left.turned, "int32")
    wanted = summed_products(a, b)
    assert straight is not None
    assert turned is not None
    for part in PARTS[:-1]:
        assert straight[part].tolist() == turned[part].T.tolist() == wanted[part].tolist(), part
    assert (straight["norm"] >= wanted["norm"] * 0.999).all()


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_integers_are_numbers(dtype: str) -> None:
    """Weights as they are, in products, in another type or not, and element by element."""
    x, w = te.placeholder((5, 7), "int8", "x"), te.placeholder((3, 7), dtype, "w")

    def summed(of: str) -> te.Tensor:
        k = te.reduce_axis(7, "k")
        return te.compute((5, 3), lambda m, n: te.sum(te.cast(of, x[m, k]) * te.cast(of, w[n, k]), axis=k), of)

    products, narrow = summed("int32"), summed("int8")
    scaled = te.compute(
        (5, 3), lambda m, n: products[m, n] * te.cast("int32", w[n, 2]) + te.cast("int32", narrow[m, n]), "scaled"
    )
    fn = te.create_function([x, w], [scaled], "fn")
    weights = np.random.default_rng(0).integers(-300 if dtype == "int32" else -128, 128, (3, 7)).astype(dtype)
    unknown = unknowns("x", (5, 7), "int8", 0)
    made, wanted = (evaluate(fn, {"x": unknown, "w": w})["scaled"] for w in (weights, numbers(weights)))
    same(made, wanted)


def test_places_that_are_no_sum_of_two_parts_are_listed() -> None:
    """The elements of a sum lie on a triangle: `x[i * k]`."""
    x, w = te.placeholder((13,), "int32", "x"), te.placeholder((5, 2), "int32", "w")
    k = te.reduce_axis(5, "k")
    made = te.compute((4, 2), lambda i, n: te.sum(x[i * k] * w[k, n], axis=k), "made")
    factors, unknown = np.arange(10).reshape(5, 2) - 3, unknowns("x", (13,), "int32", 0)
    unknown["low"], unknown["high"] = -9, 9
    results = evaluate(te.create_function([x, w], [made], "fn"), {"x": unknown, "w": factors})["made"]
    places = np.arange(4)[:, None] * np.arange(5)
    wanted = summed_products(unknown[places], numbers(factors))
    for part in PARTS[:-1]:
        assert results[part].tolist() == wanted[part].tolist(), part


def test_many_terms_are_more_than_one_sum_of_floats() -> None:
    """2^15 terms of the largest weights, whose digits are exact in parts only."""
    terms = (1 << 15) + 7
    a, b = unknowns("a", (1, terms), "int8", 0), numbers(np.full((terms, 1), -128))
    made = products_of(listed(a), listed(b), "int32")
    wanted = operations.binary("mul", operations.summed(a, (1,), "int64"), numbers(-128), "int64")
    assert made is not None
    assert made["value"].tolist() == wanted["value"].tolist()


# --- compute instructions -------------------------------------------------------------------------


def products_and_steps(seed: int) -> tuple[PendingProducts, np.ndarray, np.random.Generator]:
    """Buffers with all kinds of entries, and iterations on five sums."""
    rng = np.random.default_rng(seed)
    inp = drawn(rng, (9, TINY.batch, TINY.block_in), "int8", "inp", FORMS)
    inp[4:] = unknowns("alike", inp[4:].shape, "int8", 0)
    wgt = drawn(rng, (6, TINY.block_out, TINY.block_in), "int8", "wgt", FORMS)
    wgt[2:] = numbers(rng.integers(-128, 128, wgt[2:].shape))
    wgt[2] = unknowns("wgt", wgt[2].shape, "int8", 0)
    acc = drawn(rng, (5, TINY.batch * TINY.block_out), "int32", "acc", FORMS)
    products = PendingProducts(TINY, inp, wgt, acc)
    steps = np.stack([rng.integers(0, most, 40) for most in (5, 9, 6, 3, 7, 2, 2)], axis=1)
    steps[:, 5] *= rng.integers(0, 2, 40)
    return products, steps, rng


def model_of_sums(acc: Symbols, steps: np.ndarray, product: Callable[[int, int], list[Symbols]]) -> list[Symbols]:
    """The sums that end, in order; products of a sum are added to each other before it is read."""
    waiting: dict[int, list[Symbols]] = {}
    ended = []

    def settle(at: int) -> None:
        terms = waiting.pop(at, [])
        if terms:
            total = operations.summed(np.stack(terms), (0,), "int32")[0]
            acc[at] = operations.binary("add", acc[at], total, "int32")

    for at, src, wgt, _, _, starts, ends in steps.tolist():
        if starts:
            waiting.pop(at, None)
            acc[at] = numbers(0)
        waiting.setdefault(at, []).extend(product(src, wgt))
        if ends:
            settle(at)
            ended.append(acc[at].copy())
    for at in list(waiting):
        settle(at)
    return ended


def as_factor(x: Symbols) -> Symbols:
    return operations.cast(x, "int8", "int32")


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_gemms_are_sums_of_products(seed: int) -> None:
    products, steps, _ = products_and_steps(seed)
    acc = products.acc.copy()
    inp, wgt = as_factor(products.inputs.now), as_factor(products.weights.now)
    lanes = TINY.batch * TINY.block_out

    def product(src: int, at: int) -> list[Symbols]:
        terms = operations.binary("mul", inp[src][:, None, :], wgt[at][None], "int32").reshape(lanes, -1)
        return list(terms.T)

    wanted = model_of_sums(acc, steps, product)
    sums, ended = products.multiply(steps, np.array([[0, 40, 0, 0, 0, 0, 0]]))
    products.flush()
    assert ended.tolist() == steps[steps[:, 6] == 1][:, 3:5].tolist()
    for part in PARTS[:-1]:
        assert sums[part].tolist() == [one[part].tolist() for one in wanted], part
        assert products.acc[part].tolist() == acc[part].tolist(), part


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_multiply_accumulates_of_lanes_are_sums_of_products(seed: int) -> None:
    products, steps, rng = products_and_steps(seed)
    products.weights.now[...] = numbers(rng.integers(-128, 128, products.weights.now.shape))
    products.weights.prepare(0, 6)
    acc, lanes = products.acc.copy(), TINY.batch * TINY.block_out
    inp = as_factor(products.inputs.now).reshape(-1, lanes)
    wgt = as_factor(products.weights.now).reshape(-1, TINY.block_out)

    def product(src: int, at: int) -> list[Symbols]:
        return [operations.binary("mul", inp[src], np.tile(wgt[at], TINY.batch), "int32")]

    wanted = model_of_sums(acc, steps, product)
    made = products.multiply_lanes(steps, np.array([[0, 40, 0, 0, 0, 0, 0]]))
    assert made is not None
    products.flush()
    for part in PARTS[:-1]:
        assert made[0][part].tolist() == [one[part].tolist() for one in wanted], part
        assert products.acc[part].tolist() == acc[part].tolist(), part


def test_terms_with_large_coefficients_are_added_by_the_model() -> None:
    products, _, _ = products_and_steps(1)
    products.inputs.now[...] = unknowns("x", products.inputs.now.shape, "int8", 0)
    products.inputs.now["norm"] = LARGE / 2
    products.inputs.prepare(0, 9)
    products.multiply(np.array([[1, 0, 4, 0, 0, 1, 0]]), np.array([[0, 1, 0, 0, 0, 0, 0]]))
    products.flush()
    assert (products.acc[1]["norm"] < LARGE).all()
    assert not products._terms[3].any()


@pytest.mark.parametrize("op", VECTOR_OPS)
@pytest.mark.parametrize("operand", Operand)
def test_vectors_are_operations_on_sums(op: VectorOp, operand: Operand) -> None:
    products, steps, rng = products_and_steps(5)
    forms = [form for form in FORMS if form < SymbolForm.MINIMUM]
    products.acc[...] = drawn(rng, products.acc.shape, "int32", "acc", forms)
    lanes = TINY.batch * TINY.block_out
    x, b = products.inputs.now.reshape(-1, lanes), products.weights.now.reshape(-1, TINY.block_out)
    if operand is Operand.IMM:
        b, steps[:, 2] = numbers([[-3]]), 0
    acc, sums = products.acc.copy(), []
    for at, src, wgt, _, _, starts, ends in steps.tolist():
        first = as_factor(x[src])
        second = first if operand is Operand.SRC else np.broadcast_to(as_factor(np.resize(b[wgt], lanes)), lanes)
        if op is VectorOp.MAC:
            second = operations.binary("mul", first, second, "int32")
        if not starts and op is not VectorOp.MOV:
            name = "add" if op is VectorOp.MAC else op.name.lower()
            second = operations.binary(name, acc[at], second, "int32")
        acc[at] = second
        sums += [acc[at].copy()] if ends else []
    before = products.acc.copy()
    queue = np.array([[0, 40, 0, 0, 0, 0, 0]])
    types = ("int8", "int32" if operand is Operand.IMM else "int8")
    made = combine_sums(op, operand, steps, queue, (x, b), types, products.acc)
    if made is None:  # such as coefficients that grow too large
        same(products.acc, before)
        return
    same(products.acc, acc)
    same(made[0], reduce(lambda a, b: np.concatenate([a, b]), [one[None] for one in sums]))


# --- results --------------------------------------------------------------------------------------


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_results_in_one_pass_are_those_of_the_model(seed: int) -> None:
    """Numbers of all shifts and factors, sums of all forms; what is not covered is the model's."""
    rng = np.random.default_rng(seed)
    sums = drawn(rng, (40,), "int32", "sums", FORMS)
    factors = np.ldexp(rng.random(5), rng.integers(-30, 4, 5))
    lanes = pack_scale(rng.integers(-(2**31), 2**31, 5), *scales_from_floats(factors)).view(np.int64)
    bounds = (int(rng.integers(-9, 9)), *sorted(rng.integers(-128, 128, 2).tolist()))
    made = requantised_by_numbers(sums, lanes, 3, bounds, "int8")
    for k in range(40):
        lane = numbers(lanes[k // 3 % 5 : k // 3 % 5 + 1])
        wanted = evaluate(requantising(bounds, "int8", 1), {"sums": sums[k : k + 1], "lanes": lane})["result"]
        same(made[k : k + 1], wanted)


def test_a_bias_that_is_unknown_is_the_low_half_of_a_lane() -> None:
    half = drawn(np.random.default_rng(2), (24,), "int32", "half", [0, 1])
    lanes, made = symbols.with_low_half(5 << 32, half), np.empty(24, SYMBOL)
    assert requantise_kernels.biases(lanes, made)
    same(made, operations.cast(lanes, "int64", "int32"))
    assert not requantise_kernels.biases(unknowns("lanes", (1,), "int64", 0), made)


@pytest.mark.parametrize("columns", [1, 4, 5, 16, 40])
@pytest.mark.parametrize(("terms", "most"), [(3, 1 << 20), (700, 1 << 20), (700, 100)])
def test_products_with_numbers_in_lanes_are_those_of_integers(columns: int, terms: int, most: int) -> None:
    rng = np.random.default_rng([columns, terms])
    elements, factors = rng.integers(0, 1 << 61, (2, 35, terms)), rng.integers(-127, 128, (2, terms, columns))
    digits = np.stack([elements & ((1 << 31) - 1), elements >> 31]).astype(np.float64).reshape(2, -1)
    rows, values = np.arange(0, 70 * terms, terms).reshape(2, 35), np.ones((2, 35, columns), np.uint64)
    tiles = product_kernels.tiles_of(columns)
    product_kernels.multiply(digits, rows, np.arange(terms), factors.astype(np.float64), most, tiles, values)
    wanted = (elements.astype(object) @ factors.astype(object) + 1) % ((1 << 61) - 1)
    assert (values.astype(object) == wanted).all()


def test_bounds_of_products_are_those_of_the_ends_of_elements() -> None:
    rng = np.random.default_rng(0)
    ends, factors = np.sort(rng.integers(-9, 9, (2, 2, 3, 7)), axis=0), rng.integers(-9, 9, (2, 7, 5))
    corners = [np.einsum("bmk,bkn->bmkn", end, factors) for end in ends]
    least, most = np.zeros((2, 2, 3, 5))
    product_kernels.bound(*ends.astype(np.float64), factors.astype(np.float64), least, most)
    assert np.array_equal(least, np.minimum(*corners).sum(axis=2))
    assert np.array_equal(most, np.maximum(*corners).sum(axis=2))


# --- the cache ------------------------------------------------------------------------------------


def test_the_cache_of_a_loop_depends_on_the_files_that_are_compiled_into_it() -> None:
    room = Path(sum_kernels.__file__).resolve().parent
    behind = {name: {file.stem for file in jit._files_behind(room / f"{name}.py")} for name in ("field", "sum_kernels")}
    assert behind["field"] == {"field"}
    kernels = {"field_kernels", "lane_products", "product_kernels", "symbol_kernels", "sum_kernels"}
    assert behind["sum_kernels"] == kernels | {"field", "jit", "symbols"}
    assert jit.digest_of(room / "field.py") != jit.digest_of(room / "symbols.py")
