"""Declarations that contradict themselves are refused; the documentation's intrinsic runs, and so do the machine's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.compiler import te
from vdla.compiler.compile import compile_function
from vdla.compiler.errors import LoweringError
from vdla.compiler.interpret import interpret
from vdla.compiler.intrinsic import Intrinsic, IntrinsicError
from vdla.compiler.intrinsics import dma, gemm, requantise, vector
from vdla.compiler.schedule import Schedule
from vdla.hardware import numerics
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Operand, Source, VectorOp
from vdla.simulator.simulator import Mode, simulate

CONFIG = Config.preset("pynq_z1")
ENTRY = (1, 16)
PIXELS = (20, *ENTRY)


def test_the_documentation_runs(root: Path) -> None:
    page = (root / "docs" / "intrinsics.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 6
    exec(compile("\n".join(blocks), "docs/intrinsics.md", "exec"), {})


# --- declarations ----------------------------------------------------------------------------------------------------


def declared(**changes: Any) -> Intrinsic:
    x = te.placeholder(ENTRY, "int8", "x")
    y = te.compute(ENTRY, lambda b, o: te.cast("int32", x[b, o]), "y")
    options = {"scopes": {"x": "inp", "y": "acc"}, "lower": lambda nest: (), "cycles": lambda config, steps: steps}
    return Intrinsic("mine", y, **{**options, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scopes": {"x": "inp"}}, "intrinsic mine: scopes must name exactly x, y, got x"),
        (
            {"scopes": {"x": "inp", "y": "chip"}},
            "intrinsic mine: scope of y must be one of global, inp, wgt, scl, acc, out, immediate, condition, "
            "got 'chip'",
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


def test_behaviour_is_one_computation() -> None:
    x = te.placeholder(ENTRY, "int8", "x")
    twice = te.compute(ENTRY, lambda b, o: x[b, o] + x[b, o], "twice")
    y = te.compute(ENTRY, lambda b, o: te.cast("int32", twice[b, o]), "y")
    with pytest.raises((IntrinsicError, te.TeError)):
        Intrinsic("mine", y, {"x": "inp", "y": "acc"}, lambda nest: (), lambda config, steps: steps)


def test_an_intrinsic_prints_as_its_name() -> None:
    assert str(gemm.gemm(CONFIG)) == "gemm"
    assert repr(vector.mac(CONFIG, Operand.WGT)) == "mac_inp_wgt"


def test_micro_ops_are_no_tensor() -> None:
    message = "dma: the buffer must be one that schedules fill, got uop; the compiler loads kernels"
    with pytest.raises(LoweringError, match=f"^{re.escape(message)}$"):
        dma.load(CONFIG, Buffer.UOP)


# --- the vector unit -------------------------------------------------------------------------------------------------


Array = np.ndarray[Any, Any]


def run_in_place(op: VectorOp, operand: Operand) -> tuple[Array, Array, Array]:
    """(simulated, interpreted, expected) of start = first * 1000; sums = start op operand."""
    first, second = te.placeholder(PIXELS, "int8", "first"), te.placeholder(PIXELS, "int8", "second")
    start = te.compute(PIXELS, lambda p, b, o: te.cast("int32", first[p, b, o]) * 1000, "start")
    right = (lambda i: te.cast("int32", second[i])) if operand is Operand.SRC else (lambda i: te.const(5, "int32"))
    sums = te.compute(PIXELS, lambda p, b, o: vector.COMBINE[op](start[p, b, o], right((p, b, o))), "sums")
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
    return found, interpret(s.fn, arrays)["output"], numerics.vector_op(op, old, b, b)


@pytest.mark.parametrize("operand", [Operand.SRC, Operand.IMM])
@pytest.mark.parametrize("op", list(vector.COMBINE))
def test_operations_in_place(op: VectorOp, operand: Operand) -> None:
    simulated, interpreted, expected = run_in_place(op, operand)
    np.testing.assert_array_equal(simulated, expected)
    np.testing.assert_array_equal(interpreted, expected)


def test_through_the_accumulator_is_another_intrinsic() -> None:
    assert vector.reducing(CONFIG, VectorOp.MAX, Source.ACC).scopes == {"x": "acc", "acc": "acc"}
    assert vector.reducing(CONFIG, VectorOp.MAX, Source.INP).scopes == {"x": "inp", "acc": "acc"}
