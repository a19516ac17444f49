# SPDX-License-Identifier: Apache-2.0
"""The lowering of a user's CPU intrinsic: what the emitter offers, and misuse of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llvmlite import ir as llvm

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsic_emitter import IntrinsicEmitter
from vdla.compiler.schedule import Schedule
from vdla.compiler.tensorize import MEMORY, Intrinsic, IntrinsicError
from vdla.runtime.native import Kernel, NativeError, build

FLOAT = llvm.FloatType()
Lower = Callable[[IntrinsicEmitter], Any]


def built(lower: Lower) -> Kernel:
    """A kernel that doubles rows of four with the intrinsic."""
    x = te.placeholder((4,), "float32", "x")
    y = te.compute((4,), lambda i: x[i] + x[i], "y")
    mine = Intrinsic(name="mine", output=y, scopes={"x": MEMORY, "y": MEMORY}, lower=lower, target="cpu")
    a = te.placeholder((8, 4), "float32", "a")
    schedule = Schedule(te.create_function([a], [te.compute((8, 4), lambda i, j: a[i, j] + a[i, j], "b")], "rows"))
    schedule.tensorize(schedule.loops("b")[1], mine)
    return build(schedule.fn, cached=False)


def ones(kind: Any, count: int) -> Any:
    return llvm.Constant(llvm.VectorType(kind, count), [1] * count)


def test_the_lowering_overrides_the_behaviour() -> None:
    kernel = built(lambda emit: emit.store("y", emit.builder.fmul(emit.load("x"), ones(FLOAT, 4))))
    a = np.arange(32, dtype=np.float32).reshape(8, 4)
    np.testing.assert_array_equal(kernel(a), a)


@pytest.mark.parametrize(
    ("lower", "message"),
    [
        (lambda emit: emit.load("z"), "operand of load must be one of scope memory (x, y), got 'z'"),
        (lambda emit: emit.pointer("z"), "operand of pointer must be one of scope memory (x, y), got 'z'"),
        (
            lambda emit: emit.immediate("x"),
            "operand of immediate must be one of scope immediate (none), got 'x'",
        ),
        (
            lambda emit: emit.condition("x"),
            "operand of condition must be one of scope condition (none), got 'x'",
        ),
        (lambda emit: emit.store("x", emit.load("x")), "operand of store must be the output, y, got 'x'"),
        (lambda emit: emit.store("y", None), "value of y must be <4 x float>, got None"),
        (lambda emit: emit.store("y", FLOAT(1.0)), "value of y must be <4 x float>, got float"),
        (lambda emit: emit.store("y", ones(FLOAT, 8)), "value of y must be <4 x float>, got <8 x float>"),
        (
            lambda emit: emit.store("y", ones(llvm.IntType(32), 4)),
            "value of y must be <4 x float>, got <4 x i32>",
        ),
        (
            lambda emit: emit.builder.unreachable(),
            "lower must leave the builder in a block without terminator, got unreachable",
        ),
    ],
)
def test_misuse_by_a_lowering_is_refused(lower: Lower, message: str) -> None:
    with pytest.raises(IntrinsicError, match=f"^{re.escape(f'intrinsic mine: {message}')}$"):
        built(lower)


@pytest.mark.parametrize("name", ["llvm.no.such.v4f32", "no_such_function"])
def test_an_unknown_function_is_refused_by_name(name: str) -> None:
    def lower(emit: IntrinsicEmitter) -> None:
        row = emit.load("x")
        emit.store("y", emit.call(name, row.type, row))

    with pytest.raises(NativeError) as error:
        built(lower)
    rule = "functions that its code calls must be LLVM intrinsics or symbols of this process"
    assert str(error.value) == f"rows: {rule}, got an unknown name (printed above by LLVM)"
