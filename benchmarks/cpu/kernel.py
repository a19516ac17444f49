"""Our kernel of one operator for this CPU, called with arrays that are given once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from vdla.compiler import te
from vdla.compiler.operators.cpu import default_schedule
from vdla.runtime.native import BoundCall, build


def kernel_of(operator: Callable[..., te.Tensor], *arrays: NDArray[Any]) -> BoundCall:
    """The kernel of an operator, a function of one tensor an array."""
    inputs = [te.placeholder(array.shape, array.dtype.name, f"x{n}") for n, array in enumerate(arrays)]
    fn = te.create_function(inputs, [operator(*inputs)], "kernel")
    return build(default_schedule(fn).fn).bind(*arrays)
