# SPDX-License-Identifier: Apache-2.0
"""The pass pipeline: its arguments and errors."""

from sys import getrecursionlimit

import numpy as np
import pytest
from helpers.loop_nests import function, loop, store

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.lowering import PIPELINE, PassError, check, lower
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import TARGETS

TARGET = TARGETS["x86-64"]


def doubled(extent=64):
    a = te.placeholder((extent, 4), "int32", "a")
    t = te.compute((extent, 4), lambda i, j: a[i, j] * 2, "t")
    return Schedule(te.create_function([a], [te.compute((extent, 4), lambda i, j: t[i, 3 - j] + 1, "c")], "f"))


def test_the_function_runs_after_every_pass():
    s = doubled()
    s.split("c_i", 5)
    s.compute_at("t", "c_i_o")
    s.parallel("c_i_o")
    s.vectorize("c_j")
    a = np.arange(256, dtype="int32").reshape(64, 4)
    fn = s.fn
    for step in PIPELINE:
        fn = step.run(fn)
        check(fn, step.level)
        np.testing.assert_array_equal(interpret(fn, {"a": a})["c"], a[:, ::-1] * 2 + 1)


ERRORS = {
    "lower: fn must be a Function, as of schedule.fn, got Schedule": lambda: lower(doubled(), TARGET),
    "lower of f: target must be a Target (Target.named gives one), got str": lambda: lower(doubled().fn, "x86-64"),
    "lower of f: fn must not be lowered already, got Alloc": lambda: lower(lower(doubled().fn, TARGET), TARGET),
}


@pytest.mark.parametrize("message", ERRORS)
def test_invalid_arguments_are_rejected(message):
    with pytest.raises(PassError) as error:
        ERRORS[message]()
    assert str(error.value) == message


def test_too_deep_nesting_is_rejected():
    body = store("c", 0, value=1)
    for number in range(400):
        body = loop(f"i{number}", 2, body)
    with pytest.raises(PassError) as error:
        lower(function(body, c=(1,)), TARGET)
    rule = "loops and expressions must nest within Python's recursion limit"
    assert str(error.value) == f"lower of f: {rule}, got more than {getrecursionlimit()} calls"
