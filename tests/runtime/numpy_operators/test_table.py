"""The table of NumPy functions is the one that the compiler knows by name."""

from vdla.compiler.graph.rules import HOST_OPERATORS
from vdla.runtime.numpy_operators import FUNCTIONS


def test_the_compiler_knows_every_function():
    assert set(FUNCTIONS) == HOST_OPERATORS
