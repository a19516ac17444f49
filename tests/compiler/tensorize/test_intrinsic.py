# SPDX-License-Identifier: Apache-2.0
"""Declarations that contradict themselves are refused; the documentation's intrinsic runs, and so
do the machine's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.vector_arithmetic import vector_op

from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla.compile import compile_function
from vdla.compiler.codegen.vdla.intrinsics import dma, gemm, requantise, vector
from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.compiler.extensions import base
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import Match
from vdla.compiler.schedule import Schedule
from vdla.compiler.tensorize import Intrinsic, IntrinsicError, TensorizeError
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Operand, Source, VectorOp
from vdla.simulator.simulate import Mode, simulate

CONFIG = Config.preset("pynq_z1")
ENTRY = (1, 16)
PIXELS = (20, *ENTRY)


# --- declarations ---------------------------------------------------------------------------------


def declared(**changes: Any) -> Intrinsic:
    x = te.placeholder(ENTRY, "int8", "x")
    y = te.compute(ENTRY, lambda b, o: te.cast("int32", x[b, o]), "y")
    options = {"name": "mine", "scopes": {"x": "inp", "y": "acc"}, "lower": lambda nest: ()}
    return Intrinsic(output=y, **{**options, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "my own"}, "intrinsic: name must be a Python identifier, got 'my own'"),
        ({"name": None}, "intrinsic: name must be a Python identifier, got None"),
        ({"scopes": {"x": "inp"}}, "intrinsic mine: scopes must name exactly x, y, got x"),
        (
            {"scopes": {"x": "inp", "y": "chip"}},
            "intrinsic mine: scope of y must be one of global, inp, wgt, scl, acc, out, got 'chip'",
        ),
        ({"scopes": None}, "intrinsic mine: scopes must name exactly x, y, got None"),
        ({"scopes": {1: "inp"}}, "intrinsic mine: scopes must name exactly x, y, got 1"),
        (
            {"scopes": {"x": "immediate", "y": "acc"}},
            "intrinsic mine: x must have shape (1,) as immediate, got (1, 16)",
        ),
        ({"target": ["vdla"]}, "intrinsic mine: target must be one of vdla, cpu, gpu, got ['vdla']"),
        ({"lower": 3}, "intrinsic mine: lower must be a function, got 3"),
        (
            {"scopes": {"x": "acc", "y": "acc"}, "in_place": "y"},
            "intrinsic mine: in_place must name an operand in the scope of the output, got 'y'",
        ),
        (
            {"in_place": "x"},
            "intrinsic mine: in_place must name an operand in the scope of the output, got 'x'",
        ),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(IntrinsicError, match=f"^{re.escape(message)}$"):
        declared(**changes)


LANES = (4,)
X, BIAS = te.placeholder(LANES, "int32", "x"), te.placeholder(LANES, "int32", "bias")
PAIRS, FLAG = te.placeholder((4, 4), "int32", "pairs"), te.placeholder((1,), "int32", "flag")
ONE, ROWS = te.reduce_axis(1, "one"), te.placeholder((te.var("n"),), "int32", "rows")
TWICE = te.compute(LANES, lambda i: X[i] + X[i], "twice")
BOTH = te.compute(LANES, lambda i: (X[i], X[i] + 1), ("y", "z"))
STEPS = te.scan(3, lambda t, h: te.compute(LANES, lambda i: h[i] + 1, "h"), X)


@pytest.mark.parametrize(
    ("output", "scopes", "message"),
    [
        (3, "x", "output must be a tensor of te.compute, got 3"),
        (X, "x", "output must be a tensor of te.compute, got <Tensor x>"),
        (STEPS, "x", "output must be a tensor of te.compute, got <Tensor h>"),
        (BOTH[1], "x", "output must be all that is computed, got one of y, z"),
        (te.compute(LANES, lambda i: TWICE[i] * 2, "y"), "x",
         "behaviour must be a single computation over placeholders, got twice"),
        (te.compute(ROWS.shape, lambda i: ROWS[i] + 1, "y"), "rows", "behaviour must have numbers for extents, got n"),
        (te.compute(LANES, lambda i: te.sum(X[i], axis=ONE, init=BIAS[i]), "y"), "x bias",
         "the sums must start from a number, as a step only adds to them, got bias[vi]"),
        (te.compute((4, 4), lambda i, j: PAIRS[i, 3 - j], "y"), "pairs",
         "each index of pairs but the first must be one axis, got pairs[vi, 3 - vj]"),
    ],
)  # fmt: skip
def test_behaviour_is_one_computation_on_entries(output: Any, scopes: str, message: str) -> None:
    with pytest.raises(IntrinsicError, match=f"^{re.escape(f'intrinsic mine: {message}')}$"):
        Intrinsic(
            name="mine",
            output=output,
            scopes=dict.fromkeys([*scopes.split(), "y"], "memory"),
            lower=lambda step: None,
            target="cpu",
        )


def test_indices_of_accelerator_intrinsics_must_be_single_axes() -> None:
    y = te.compute((4, 4), lambda i, j: PAIRS[3 - i, j], "y")
    message = "intrinsic mine: each index of pairs must be one axis or a number, got pairs[3 - vi, vj]"
    with pytest.raises(IntrinsicError, match=f"^{re.escape(message)}$"):
        Intrinsic(name="mine", output=y, scopes={"pairs": "inp", "y": "acc"}, lower=lambda nest: ())


def test_a_condition_must_be_bool() -> None:
    y = te.compute(LANES, lambda i: te.select(FLAG[0] > 0, X[i], 0), "y")
    scopes = {"x": "memory", "y": "memory", "flag": "condition"}
    with pytest.raises(IntrinsicError, match=r"^intrinsic mine: flag must be bool as condition, got int32$"):
        Intrinsic(name="mine", output=y, scopes=scopes, lower=lambda step: None, target="cpu")


# --- matching -------------------------------------------------------------------------------------

ON = te.placeholder((1,), "bool", "on")
A, B = te.placeholder((8, 4), "int32", "a"), te.placeholder((8, 4), "int32", "b")


def tensorized(behaviour: te.Tensor, scopes: dict[str, str], value: Callable[[te.Value, te.Value], Any]) -> Match:
    """How rows of `value` are steps of an intrinsic of a CPU."""
    places = {"x": "memory", behaviour.name: "memory", **scopes}
    intrinsic = Intrinsic(name="mine", output=behaviour, scopes=places, lower=lambda step: None, target="cpu")
    computed = te.compute((8, 4), value, "c")
    s = Schedule(te.create_function([t for t in (A, B) if t in computed.stage.reads], [computed], "f"))
    s.tensorize("j", intrinsic)
    (match,) = (b.annotations["intrinsic"] for b in ir.walk(s.fn.body) if isinstance(b, ir.Block))
    assert isinstance(match, Match)
    return match


MASKED = te.compute(LANES, lambda i: te.select(ON[0], X[i], 0) + te.select(ON[0], BIAS[i], 0), "masked")
PLACES = {"bias": "memory", "on": "condition"}


def test_a_repeated_condition_counts_once() -> None:
    match = tensorized(MASKED, PLACES, lambda i, j: te.select(i > 2, A[i, j], 0) + te.select(i > 2, B[i, j], 0))
    assert match.conditions == {"on": ir.Binary("gt", ir.Var("vi"), ir.Const(2))}
    assert tensorized(MASKED, PLACES, lambda i, j: A[i, j] + B[i, j]).conditions == {}


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (lambda i, j: te.select(i > 2, A[i, j], 0) + te.select(i > 3, B[i, j], 0), "vi > 2 and vi > 3"),
        (lambda i, j: A[i, j] + te.select(i > 3, B[i, j], 0), "True and vi > 3"),
        (lambda i, j: te.select(i > 3, A[i, j], 0) + B[i, j], "vi > 3 and True"),
    ],
)
def test_two_conditions_for_one_are_refused(value: Callable[[te.Value, te.Value], Any], got: str) -> None:
    message = f"tensorize mine at block c: on must be one condition, got {got}"
    with pytest.raises(TensorizeError, match=f"^{re.escape(message)}$"):
        tensorized(MASKED, PLACES, value)


def test_a_function_matches_itself_only() -> None:
    root = te.compute(LANES, lambda i: te.call("sqrt", te.cast("float32", X[i])), "root")
    roots = tensorized(root, {}, lambda i, j: te.call("sqrt", te.cast("float32", A[i, j])))
    assert roots.buffers == {"root": "c", "x": "a"}
    message = (
        "tensorize mine at block c: the value must have the form sqrt(float32(x[vi])), got exp(float32(a[vi, vj]))"
    )
    with pytest.raises(TensorizeError, match=f"^{re.escape(message)}$"):
        tensorized(root, {}, lambda i, j: te.call("exp", te.cast("float32", A[i, j])))


@pytest.mark.parametrize(("lowered", "got"), [(None, "None"), (["gemm"], "'gemm'"), (3, "3")])
def test_a_lower_that_yields_no_macro_ops_is_refused(lowered: Any, got: str) -> None:
    a = te.placeholder(PIXELS, "int8", "a")
    c = te.compute(PIXELS, lambda *i: te.cast("int32", a[i]), "c")
    results = te.compute(PIXELS, lambda *i: c[i], "results")
    output = te.compute(PIXELS, lambda *i: results[i], "output")
    s = Schedule(te.create_function([a], [output], "f"))
    s.set_scope("c", "acc")
    s.set_scope("results", "out")
    s.tensorize(s.cache_read("c", "a", "inp"), dma.load(CONFIG, Buffer.INP))
    s.tensorize("c", declared(lower=lambda nest: lowered))
    s.tensorize("results", requantise.raw(CONFIG))
    s.tensorize("output", dma.store(CONFIG, raw=True))
    with pytest.raises(LoweringError, match=f"^f: lower of intrinsic mine must yield macro-ops, got {got}$"):
        compile_function(CONFIG, s.fn)


def test_an_intrinsic_prints_as_its_name() -> None:
    assert str(gemm.gemm(CONFIG)) == "gemm"
    assert repr(vector.mac(CONFIG, Operand.WGT)) == "mac_inp_wgt"


def test_loads_of_micro_ops_are_refused() -> None:
    message = "dma: buffer must be inp, wgt, scl, acc or out, got uop; the compiler loads micro-ops"
    with pytest.raises(LoweringError, match=f"^{re.escape(message)}$"):
        dma.load(CONFIG, Buffer.UOP)


# --- the vector unit ------------------------------------------------------------------------------


Array = np.ndarray[Any, Any]


def run_in_place(op: VectorOp, operand: Operand) -> tuple[Array, Array, Array]:
    """(simulated, interpreted, expected) of start = first * 1000; sums = start op operand."""
    first, second = te.placeholder(PIXELS, "int8", "first"), te.placeholder(PIXELS, "int8", "second")
    start = te.compute(PIXELS, lambda p, b, o: te.cast("int32", first[p, b, o]) * 1000, "start")
    right = (lambda i: te.cast("int32", second[i])) if operand is Operand.SRC else (lambda i: te.const(5, "int32"))
    sums = te.compute(PIXELS, lambda p, b, o: base.COMBINE[op](start[p, b, o], right((p, b, o))), "sums")
    results = te.compute(PIXELS, lambda p, b, o: sums[p, b, o], "results")
    output = te.compute(PIXELS, lambda p, b, o: results[p, b, o], "output")
    inputs = [first, second] if operand is Operand.SRC else [first]
    s = Schedule(te.create_function(inputs, [output], "in_place"))
    for stage, scope in (("start", "acc"), ("sums", "acc"), ("results", "out")):
        s.set_scope(stage, scope)
    load = dma.load(CONFIG, Buffer.INP)
    intrinsics = {s.cache_read("start", "first", "inp"): load, "start": vector.product(CONFIG, Operand.IMM)}
    if operand is Operand.SRC:
        intrinsics[s.cache_read("sums", "second", "inp")] = load
    intrinsics["sums"] = vector.in_place(CONFIG, op, operand)
    intrinsics |= {"results": requantise.raw(CONFIG), "output": dma.store(CONFIG, raw=True)}
    for stage, intrinsic in intrinsics.items():
        s.tensorize(s.loops(stage)[-2], intrinsic)
    rng = np.random.default_rng(int(op))
    arrays = {t.name: rng.integers(-128, 128, PIXELS).astype(np.int8) for t in inputs}
    found = simulate(compile_function(CONFIG, s.fn), arrays, mode=Mode.FUNCTION).outputs["output"]
    old = arrays["first"].astype(np.int32) * 1000
    b = arrays["second"].astype(np.int32) if operand is Operand.SRC else np.full(PIXELS, 5, np.int32)
    return found, interpret(s.fn, arrays)["output"], vector_op(op, old, b, b)


@pytest.mark.parametrize("operand", [Operand.SRC, Operand.IMM])
@pytest.mark.parametrize("op", list(base.COMBINE))
def test_operations_in_place_equal_the_model(op: VectorOp, operand: Operand) -> None:
    simulated, interpreted, expected = run_in_place(op, operand)
    np.testing.assert_array_equal(simulated, expected)
    np.testing.assert_array_equal(interpreted, expected)


def test_reductions_from_inp_and_acc_are_different_intrinsics() -> None:
    assert vector.reduction(CONFIG, VectorOp.MAX, Source.ACC).scopes == {"x": "acc", "acc": "acc"}
    assert vector.reduction(CONFIG, VectorOp.MAX, Source.INP).scopes == {"x": "inp", "acc": "acc"}
