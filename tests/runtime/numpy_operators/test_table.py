# SPDX-License-Identifier: Apache-2.0
"""The table of NumPy functions is the one that the compiler knows by name."""

import numpy as np

from vdla.compiler.graph.operators import RECORDS
from vdla.runtime.numpy_operators import FUNCTIONS


def test_the_compiler_knows_every_function():
    assert set(FUNCTIONS) == {name for name, record in RECORDS.items() if record.on_host}


def test_float64_is_computed_in_float64():
    tiny = np.array([5e-300, 3e200])
    for op, expected in (("Add", tiny + tiny), ("Sqrt", np.sqrt(tiny))):
        (result,) = FUNCTIONS[op]({}, *([tiny, tiny] if op == "Add" else [tiny]))
        np.testing.assert_array_equal(result, expected)
