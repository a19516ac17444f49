# SPDX-License-Identifier: Apache-2.0
"""The reference interpreter, `interpret(fn, {"a": array})`, which defines the meaning of functions.

Loops of every kind run in order; blocks run where their predicate holds, `init` when every reduce
axis is 0; the branch of a select not taken is not evaluated; integers wrap. `scalar.py` runs point
by point; `batched.py` runs the points of a nest together where the result is the same. Reading an
intermediate element before it is written is an error, which exposes schedules that break a
dependence. Lowered functions run too; entering an `Alloc` invalidates its buffers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import function_ranges, scalars_of, specialise
from vdla.compiler.interpret.memory import Indices, InterpreterMemory, InterpretError
from vdla.compiler.interpret.scalar import ClosureCompiler
from vdla.compiler.ir import Array, storage_dtype, wrap
from vdla.compiler.ir.by_identity import by_identity


def interpret(fn: ir.Function, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of `fn` on the input `arrays`, both by parameter name.

    The shapes of the arrays determine the symbols of `fn`.

    Raises:
        InterpretError: an input does not fit, an access is out of bounds, or an element is read or
            returned before it is written.
    """
    if not isinstance(fn, ir.Function):
        raise InterpretError(f"interpret: fn must be a Function, as of schedule.fn, got {type(fn).__name__}")
    outputs = ir.output_names(fn)
    _check_names(fn, outputs, arrays)
    if fn.scalars:
        fn = specialise(fn, scalars_of(fn, {name: array.shape for name, array in arrays.items()}))
    memory = InterpreterMemory(fn.buffers, _indices(fn))
    for name, array in arrays.items():
        memory.fill(name, checked_input(fn.name, fn.buffers[name], array))
    with np.errstate(all="ignore"):
        ClosureCompiler(memory).statement(fn.body)({})
    for name in outputs:
        missing = int((~memory.written[name]).sum())
        if missing:
            raise InterpretError(f"{fn.name}: every element of {name} must be written, got {missing} unwritten")
    return {name: memory.arrays[name] for name in outputs}


@by_identity(64)
def _indices(fn: ir.Function) -> Indices:
    """The index expressions of a function; kept, as the behaviour of an instruction is interpreted
    for each of its steps.
    """
    return Indices(function_ranges(fn, axes=True))


def _check_names(fn: ir.Function, outputs: list[str], arrays: Mapping[str, Array]) -> None:
    """Rejects anything but one array for each input."""
    expected = [name for name in fn.params if name not in outputs]
    if not isinstance(arrays, Mapping):
        raise InterpretError(f"{fn.name}: arrays must be a mapping of names to arrays, got {type(arrays).__name__}")
    if set(arrays) != set(expected):
        got = ", ".join(map(str, arrays)) or "none"
        raise InterpretError(f"{fn.name}: arrays must be given for {', '.join(expected)}, got {got}")
    for name in expected:
        if not isinstance(arrays[name], np.ndarray):
            raise InterpretError(f"{fn.name}: {name} must be a NumPy array, got {type(arrays[name]).__name__}")


def checked_input(where: str, buffer: ir.Buffer, array: Array) -> Array:
    """An input array of the right shape and dtype; sub-byte elements are int8, in range."""
    if array.shape != buffer.shape:
        raise InterpretError(f"{where}: {buffer.name} must have the shape {buffer.shape}, got {array.shape}")
    if array.dtype != storage_dtype(buffer.dtype):
        raise InterpretError(
            f"{where}: {buffer.name} must have the dtype {storage_dtype(buffer.dtype)}, got {array.dtype}"
        )
    wrapped = wrap(array, buffer.dtype)
    if buffer.dtype in ("int2", "int4") and (wrapped != array).any():
        value = int(array[wrapped != array].flat[0])
        raise InterpretError(f"{where}: elements of {buffer.name} must be in the range of {buffer.dtype}, got {value}")
    return array
