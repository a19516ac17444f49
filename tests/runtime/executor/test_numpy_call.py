# SPDX-License-Identifier: Apache-2.0
"""NumPy steps of files that do not fit the functions: errors that name the step."""

import re
from types import MappingProxyType

import numpy as np
import pytest

from vdla.runtime.executor.errors import ExecutorError
from vdla.runtime.executor.plan import NumpyStep, Placement
from vdla.runtime.executor.plan_runner import call_numpy, store_result
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


def test_results_have_the_planned_extents():
    with pytest.raises(ExecutorError, match=r"^model m, step s: y must have the extents \[2, 3\], got \[3\]$"):
        store_result("model m, step s", "y", np.zeros((2, 3)), np.ones(3))
