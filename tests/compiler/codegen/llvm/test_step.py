"""What the lowering of a CPU's intrinsic, which users write, may ask of its step, and the words about what not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llvmlite import ir as llvm

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsics.vectors import call
from vdla.compiler.codegen.llvm.step import NativeStep
from vdla.compiler.schedule import Schedule
from vdla.compiler.tensorize.intrinsic import MEMORY, Intrinsic, IntrinsicError
from vdla.runtime.native import Kernel, NativeError, build

FLOAT = llvm.FloatType()
Lower = Callable[[NativeStep], Any]


def built(lower: Lower) -> Kernel:
    """A kernel that doubles rows of four with the intrinsic."""
    x = te.placeholder((4,), "float32", "x")
    y = te.compute((4,), lambda i: x[i] + x[i], "y")
    mine = Intrinsic("mine", y, {"x": MEMORY, "y": MEMORY}, lower, target="cpu")
    a = te.placeholder((8, 4), "float32", "a")
    schedule = Schedule(te.create_function([a], [te.compute((8, 4), lambda i, j: a[i, j] + a[i, j], "b")], "rows"))
    schedule.tensorize(schedule.loops("b")[1], mine)
    return build(schedule.fn, cached=False)


def ones(kind: Any, count: int) -> Any:
    return llvm.Constant(llvm.VectorType(kind, count), [1] * count)


def test_a_lowering_of_ones_own() -> None:
    kernel = built(lambda step: step.store("y", step.builder.fmul(step.load("x"), ones(FLOAT, 4))))
    a = np.arange(32, dtype=np.float32).reshape(8, 4)
    np.testing.assert_array_equal(kernel(a), a)  # the lowering decides, not the behaviour


@pytest.mark.parametrize(
    ("lower", "message"),
    [
        (lambda step: step.load("z"), "operand of load must be one of scope memory (x, y), got 'z'"),
        (lambda step: step.pointer("z"), "operand of pointer must be one of scope memory (x, y), got 'z'"),
        (
            lambda step: step.immediate("x"),
            "operand of immediate must be one of scope immediate (there is none), got 'x'",
        ),
        (
            lambda step: step.condition("x"),
            "operand of condition must be one of scope condition (there is none), got 'x'",
        ),
        (lambda step: step.store("x", step.load("x")), "operand of store must be the output, y, got 'x'"),
        (lambda step: step.store("y", None), "value of y must be <4 x float>, got None"),
        (lambda step: step.store("y", FLOAT(1.0)), "value of y must be <4 x float>, got float"),
        (lambda step: step.store("y", ones(FLOAT, 8)), "value of y must be <4 x float>, got <8 x float>"),
        (
            lambda step: step.store("y", ones(llvm.IntType(32), 4)),
            "value of y must be <4 x float>, got <4 x i32>",
        ),
        (
            lambda step: step.builder.unreachable(),
            "lower must leave the builder where instructions may follow, got unreachable",
        ),
    ],
)
def test_what_a_lowering_may_not(lower: Lower, message: str) -> None:
    with pytest.raises(IntrinsicError, match=f"^{re.escape(f'intrinsic mine: {message}')}$"):
        built(lower)


@pytest.mark.parametrize("name", ["llvm.no.such.v4f32", "no_such_function"])
def test_a_function_that_is_nowhere_is_no_error_of_llvms(name: str) -> None:
    def lower(step: NativeStep) -> None:
        row = step.load("x")
        step.store("y", call(step.builder, name, row.type, row))

    with pytest.raises(NativeError) as error:
        built(lower)
    rule = "whatever its code calls must be LLVM's or in this process"
    assert str(error.value) == f"rows: {rule}, got a name that is neither (LLVM has printed it)"
