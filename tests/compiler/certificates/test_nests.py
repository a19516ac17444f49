# SPDX-License-Identifier: Apache-2.0
"""Certificates of loop nests: schedules, lowered nests and kernels, right and wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import vdla
from vdla import Schedule, te
from vdla.compiler import ir
from vdla.compiler.certificates.float_symbols import float_numbers, float_values
from vdla.compiler.certificates.nest_certificate import certify_nest
from vdla.compiler.certificates.nest_run import run_nest, unknown_elements
from vdla.compiler.certificates.symbols import CertificateError
from vdla.compiler.interpret import InterpretError, interpret_kernels
from vdla.compiler.ir import GridKernel, storage_dtype
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.target import GridLimits, Target
from vdla.verification.grid import cooperative
from vdla.verification.grid.defects import defects

CPU = Target.named("x86-64")
LIMITS = GridLimits("a device", threads=1024, shared_bytes=1 << 16, warp=4)


# --- floats ---------------------------------------------------------------------------------------


def test_numbers_keep_their_values_and_their_order() -> None:
    numbers = np.array([0.0, -0.0, 0.1, -0.1, 1.5, 3.0, 2.0**52, 2.0**60, 5e-324, -5e-324, np.inf, -np.inf, 1e300])
    made = float_numbers(numbers)
    assert float_values(made).tolist() == (numbers + 0.0).tolist()
    assert np.argsort(made["low"], kind="stable").tolist() == np.argsort(numbers, kind="stable").tolist()
    assert len(set(made["value"].tolist())) == len(set(numbers.tolist()))
    assert made["value"][0] == made["value"][1] == 0


X = te.placeholder((6,), "float32", "x")
Y = te.placeholder((6,), "float32", "y")
Expression = Callable[[te.Value, te.Value], te.Value]


def value_of(expression: Expression) -> list[int]:
    out = te.compute((6,), lambda i: expression(X[i], Y[i]), "out")
    fn = te.create_function([X, Y], [out], "fn")
    given = {name: unknown_elements(name, (6,), "float32", 0) for name in "xy"}
    values: list[int] = run_nest(fn, given)["out"]["value"].tolist()
    return values


EQUAL: list[tuple[Expression, Expression]] = [
    (lambda x, y: (x + y) * (x - y), lambda x, y: x * x - y * y),
    (lambda x, y: x * 0.5 + y * 0.5, lambda x, y: (x + y) * 0.5),
    (lambda x, y: te.maximum(x, te.maximum(y, 0.0)), lambda x, y: te.maximum(te.maximum(0.0, x), y)),
    (lambda x, y: te.exp(x + y), lambda x, y: te.exp(y + x)),
    (lambda x, y: te.select(x < y, x, x), lambda x, y: x),
    (lambda x, y: x * te.const(0.25, "float32") * te.const(2.0, "float32"), lambda x, y: (x + x) * 0.25),
    (lambda x, y: te.select(x > y, x, y), lambda x, y: te.select(y < x, x, y)),
    (lambda x, y: te.maximum(x, -float("inf")), lambda x, y: x),
]
DIFFERENT: list[tuple[Expression, Expression]] = [
    (lambda x, y: x + y, lambda x, y: x - y),
    (lambda x, y: x * 0.1, lambda x, y: x * 0.10000001),
    (lambda x, y: x * 2.0**30 * 2.0**31, lambda x, y: x),  # 2^61 is 1 in the field
    (lambda x, y: x * 2.0**-30 * 2.0**-31, lambda x, y: x),
    (lambda x, y: x * 3e38, lambda x, y: x * 1e38),
    (lambda x, y: te.exp(x), lambda x, y: te.log(x)),
    (lambda x, y: te.cast("float32", te.cast("float16", x)), lambda x, y: x),
    (lambda x, y: te.cast("float32", te.cast("int32", x)), lambda x, y: x),
    (lambda x, y: te.maximum(x, y), lambda x, y: te.minimum(x, y)),
    (lambda x, y: te.maximum(x, 1.0), lambda x, y: te.maximum(x, 2.0)),
    (lambda x, y: te.select(x <= y, x, y), lambda x, y: te.select(y < x, y, x)),  # of NaN
    (lambda x, y: x / y, lambda x, y: y / x),
]


@pytest.mark.parametrize(("one", "other"), EQUAL, ids=range(len(EQUAL)))
def test_spellings_of_one_function_of_floats_are_one_symbol(one: Expression, other: Expression) -> None:
    assert value_of(one) == value_of(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_different_functions_of_floats_are_different_symbols(one: Expression, other: Expression) -> None:
    assert all(a != b for a, b in zip(value_of(one), value_of(other), strict=True))


# --- schedules ------------------------------------------------------------------------------------


def product(dtype: str = "float32", rows: int = 5) -> ir.Function:
    """c = a b, and the sums of its rows."""
    a, b = te.placeholder((rows, 6), dtype, "a"), te.placeholder((6, 7), dtype, "b")
    k, j = te.reduce_axis(6, "k"), te.reduce_axis(7, "j")
    c = te.compute((rows, 7), lambda i, o: te.sum(a[i, k] * b[k, o], axis=k), "c")
    return te.create_function([a, b], [te.compute((rows,), lambda i: te.sum(c[i, j], axis=j), "sums")], "product")


def scheduled(fn: ir.Function) -> Schedule:
    """Tiles, a cache, vectors, a sum in parts, and rows in parallel."""
    s = Schedule(fn)
    i, o, k = s.loops("c")
    s.cache_read("c", "b", "stack")
    ko, ki = s.split(k, factor=4)
    s.reorder(i, ko, ki, o)
    s.vectorize(o)
    s.parallel(i)
    j = s.loops("sums")[1]
    s.rfactor(s.split(j, factor=2)[1], 1)
    return s


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int8"])
@pytest.mark.parametrize("target", [None, CPU])
def test_a_schedule_computes_its_function(dtype: str, target: Target | None) -> None:
    certificate = vdla.certify(scheduled(product(dtype)), target=target)
    assert certificate.holds
    assert certificate.results == 5
    assert str(certificate).endswith("computes function " + certificate.function + " for all inputs; 5 results, "
                                     "prime 2^61 - 1, seed 0")  # fmt: skip


def test_the_default_schedule_computes_its_function() -> None:
    fn = product()
    certificate = vdla.certify(vdla.default_schedule(fn, CPU).fn, fn, target=CPU, seed=3)
    assert certificate.holds
    assert certificate.seed == 3


def test_symbolic_extents_are_given() -> None:
    n = te.var("n")
    x = te.placeholder((n,), "float32", "x")
    s = Schedule(te.create_function([x], [te.compute((n,), lambda i: x[i] * 2.0, "y")], "twice"))
    s.split(s.loops("y")[0], factor=4)
    assert vdla.certify(s, target=CPU, extents={"n": 7}).holds
    with pytest.raises(CertificateError, match="certify twice: extents must be given for n, got none"):
        vdla.certify(s)


def test_elements_that_inputs_choose_are_compared() -> None:
    table, ids = te.placeholder((5, 3), "float32", "table"), te.placeholder((4,), "int32", "ids")
    row = te.compute((4, 3), lambda i, j: table[te.clip(ids[i], 0, 4), j], "row")
    s = Schedule(te.create_function([table, ids], [row], "rows"))
    s.cache_read("row", "table", "stack")
    assert vdla.certify(s, target=CPU).holds
    other = te.compute((4, 3), lambda i, j: table[te.clip(ids[i], 0, 3), j], "row")
    assert certify_nest(te.create_function([table, ids], [other], "rows"), s.unscheduled).differing == 12


# --- wrong nests ----------------------------------------------------------------------------------


def changed(fn: ir.Function, change: Callable[[ir.Stmt], ir.Stmt]) -> ir.Function:
    return replace(fn, body=ir.transform(fn.body, change))


def test_a_lost_iteration_is_a_difference() -> None:
    fn = product()

    def short(stmt: ir.Stmt) -> ir.Stmt:
        return replace(stmt, extent=5) if isinstance(stmt, ir.For) and stmt.var == "k" else stmt

    certificate = certify_nest(changed(fn, short), fn)
    assert str(certificate) == "certify product: 5 of 5 results differ; the first is sums[0]"
    with pytest.raises(CertificateError, match="5 of 5 results differ"):
        certificate.raise_if_bad()


def test_an_element_that_is_not_written_is_a_difference() -> None:
    fn = product()

    loops = [stmt.var for stmt in ir.find(fn.body, ir.For)]
    last = loops[-2]
    short_rows = changed(fn, lambda one: replace(one, extent=4) if isinstance(one, ir.For) and one.var == last else one)
    assert str(certify_nest(short_rows, fn)) == (
        "certify product: 5 of 5 results differ; product: every element of sums must be written, got 1 unwritten"
    )


def test_iterations_that_race_are_a_difference() -> None:
    """In sequence they compute the right sum."""
    fn = product()
    k = [stmt.var for stmt in ir.find(fn.body, ir.For)][2]

    def parallel(stmt: ir.Stmt) -> ir.Stmt:
        is_sum = isinstance(stmt, ir.For) and stmt.var == k
        return replace(stmt, kind=ir.LoopKind.PARALLEL) if is_sum else stmt

    assert str(certify_nest(changed(fn, parallel), fn)) == (
        "certify product: 5 of 5 results differ; block c: iterations that run at once must not access one element, "
        "to write it, got c[0, 0]"
    )


def test_buffers_that_share_memory_lose_what_they_held() -> None:
    x = te.placeholder((4,), "float32", "x")
    one = te.compute((4,), lambda i: x[i] + 1.0, "one")
    two = te.compute((4,), lambda i: one[i] * 2.0, "two")
    y = te.compute((4,), lambda i: two[i] + one[3 - i], "y")
    fn = te.create_function([x], [y], "chain")
    body = ir.HeapAlloc((("one", "two"),), fn.body)
    certificate = certify_nest(replace(fn, body=body), fn)
    assert "one[" in certificate.difference
    assert "must be written before it is read" in certificate.difference
    assert certify_nest(replace(fn, body=ir.HeapAlloc((("one",), ("two",)), fn.body)), fn).holds


# --- kernels --------------------------------------------------------------------------------------


SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "product": lambda: cooperative.tiled_product(8, 4, 2, 2, dtype="float32"),
    "sums": lambda: cooperative.row_sums(3, 16, 8),
    "tree": lambda: cooperative.row_sums(2, 32, 16, tree=True),
    "stencil": lambda: cooperative.stencil(20, 8),
    "total": lambda: cooperative.total(32, 2, 8),
    "rows": lambda: cooperative.centred_rows(2, 8, 4),
    "transpose": lambda: cooperative.transpose(8, 4),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("warp", [1, 4, 32])
def test_kernels_compute_their_function(name: str, warp: int) -> None:
    assert vdla.certify(SCHEDULES[name](), target=replace(LIMITS, warp=warp)).holds


@pytest.mark.parametrize("name", SCHEDULES)
def test_what_threads_do_wrong_is_a_difference(name: str) -> None:
    """Every planted defect that the interpreter of threads finds."""
    schedule = SCHEDULES[name]()
    kernels = lower_kernels(schedule.fn, LIMITS)
    wrong = 0
    for kernel, kind in faulty(kernels):
        others = [kernel if one.name == kernel.name else one for one in kernels]
        holds = certify_nest(others, schedule.unscheduled).holds
        if is_wrong(others, schedule.unscheduled):
            wrong += 1
            assert not holds, kind
    assert wrong > 0


def faulty(kernels: tuple[GridKernel, ...]) -> Iterator[tuple[GridKernel, str]]:
    for kernel in kernels:
        yield from ((other, kind) for kind, other in defects(kernel))


def is_wrong(kernels: list[GridKernel], fn: ir.Function) -> bool:
    """Whether threads in a random order race, or compute something else."""
    chance = np.random.default_rng(0)
    outputs = ir.output_names(fn)
    buffers = [fn.buffers[name] for name in fn.params if name not in outputs]
    arrays = {b.name: chance.integers(-9, 9, b.dims).astype(storage_dtype(b.dtype)) for b in buffers}
    try:
        results = interpret_kernels(kernels, arrays)
    except InterpretError:
        return True
    expected = vdla.interpret(fn, arrays)
    return any(not np.array_equal(results[name], expected[name]) for name in outputs)


# --- messages -------------------------------------------------------------------------------------


def test_what_is_no_loop_nest_is_refused() -> None:
    fn = product()
    x = te.placeholder((4,), "uint64", "x")
    words = te.create_function([x], [te.compute((4,), lambda i: x[i] + x[i], "y")], "words")
    for call, message in (
        (lambda: vdla.certify(Schedule(fn), X), "certify: expression must be the Function that the loop nest computes, "
         "got Tensor"),
        (lambda: vdla.certify(Schedule(fn), target=3), "certify: target must be a Target, the name of a CPU, or "
         "GridLimits, got int"),
        (lambda: vdla.certify(fn), "certify product: expression must be the Function that a function computes, or "
         "target must lower it, got neither"),
        (lambda: vdla.certify(Schedule(fn), seed="1"), "certify: seed must be an integer from 0, got '1'"),
        (lambda: vdla.certify(Schedule(fn), seed=-1), "certify: seed must be an integer from 0, got -1"),
        (lambda: vdla.certify(Schedule(fn), product(rows=4)), "certify product: parameters must be "
         "a float32[4, 6], b float32[6, 7], sums float32[4], got a float32[5, 6], b float32[6, 7], sums float32[5]"),
        (lambda: vdla.certify(Schedule(words)), "certify: type must be bool or an integer of at most int64, "
         "got uint64"),
    ):  # fmt: skip
        with pytest.raises(CertificateError) as error:
            call()  # type: ignore[no-untyped-call]
        assert str(error.value) == message
