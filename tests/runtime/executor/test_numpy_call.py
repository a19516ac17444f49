# SPDX-License-Identifier: Apache-2.0
"""NumPy steps of files that do not fit the functions: errors that name the step."""

import re
from types import MappingProxyType

import numpy as np
import pytest

from vdla.runtime.executor.errors import ExecutorError
from vdla.runtime.executor.plan import NumpyStep, Placement, Plan, PlannedValue
from vdla.runtime.executor.plan_runner import Binders, PlanRunner, call_numpy
from vdla.runtime.numpy_operators import FUNCTIONS

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def step(op="Transpose", outputs=("y",), **attributes):
    placement = Placement("numpy", ())
    return NumpyStep(
        name="s", op=op, attributes=MappingProxyType(attributes), inputs=("x",), outputs=outputs, placement=placement
    )


def test_results():
    (found,) = call_numpy("model m, step s", step(perm=(1, 0)), FUNCTIONS, [X])
    assert np.array_equal(found, X.T)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (step("Turn"), f"operator must be one of {len(FUNCTIONS)} NumPy functions, got Turn"),
        (
            step(perm=(1, 2)),
            "Transpose must be able to run on its inputs, got AxisError: axis 2 is out of bounds for array of "
            "dimension 2",
        ),
        (step(perm=(1, 0), outputs=("y", "z")), "Transpose must have 2 results, got 1"),
    ],
)
def test_steps_that_cannot_run(given, message):
    with pytest.raises(ExecutorError, match=f"^model m, step s: {re.escape(message)}$"):
        call_numpy("model m, step s", given, FUNCTIONS, [X])


def test_nan_and_infinities_are_values_without_a_warning():
    given = np.array([[np.nan, np.inf, 1, 0]], np.float32)
    (result,) = call_numpy("model m, step s", step("Reciprocal"), FUNCTIONS, [given])
    assert np.array_equal(result, [[np.nan, 0, 1, np.inf]], equal_nan=True)


def test_results_have_the_planned_extents():
    values = {"x": PlannedValue("float32", (2, 3), 0), "y": PlannedValue("float32", (2, 3), 64)}
    plan = Plan(name="m", inputs=("x",), outputs=("y",), values=values, steps=(step(perm=(1, 0)),), arena_bytes=128)
    runner = PlanRunner(plan, {}, Binders(None, None, FUNCTIONS))
    with pytest.raises(ExecutorError, match=r"^model m, step s: y must have the extents \[2, 3\], got \[3, 2\]$"):
        runner.run([X])
