"""The meaning of a loop nest, run with numpy: `interpret(fn, {"a": array, ...})` gives the outputs.

Loops of every kind run in order, blocks happen where their predicate holds, `init` when every reduce axis is 0, the
side of a select that is not taken is not read, and integers wrap. `point.py` runs one point after another; a nest
around one block runs many points at once wherever that cannot be told from running them one by one: see `grid.py`.
Reading an intermediate element before it is written is an error, so a schedule that breaks a dependence shows. Lowered
functions run too; an `Alloc` forgets what its buffer held.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import function_ranges, scalars_of, specialise
from vdla.compiler.interpret.memory import InterpretError, Memory
from vdla.compiler.interpret.scalar import Runner
from vdla.compiler.ir import Array, storage_dtype, wrap


def interpret(fn: ir.Function, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Run `fn` on the input `arrays`, by parameter name; the outputs, by parameter name.

    The symbols of `fn` are what the shapes of the arrays say.
    """
    if not isinstance(fn, ir.Function):
        raise InterpretError(f"interpret: fn must be a Function, as of schedule.fn, got {type(fn).__name__}")
    outputs = ir.output_names(fn)
    check_names(fn, outputs, arrays)
    if fn.scalars:
        fn = specialise(fn, scalars_of(fn, {name: array.shape for name, array in arrays.items()}))
    memory = Memory(fn.buffers, function_ranges(fn, axes=True))
    for name, array in arrays.items():
        memory.fill(name, checked_input(fn.name, fn.buffers[name], array))
    with np.errstate(all="ignore"):
        Runner(memory).statement(fn.body)({})
    for name in outputs:
        missing = int((~memory.written[name]).sum())
        if missing:
            raise InterpretError(f"{fn.name}: every element of {name} must be written, got {missing} that are not")
    return {name: memory.arrays[name] for name in outputs}


def check_names(fn: ir.Function, outputs: list[str], arrays: Mapping[str, Array]) -> None:
    """Refuse anything but one array for each input."""
    expected = [name for name in fn.params if name not in outputs]
    if not isinstance(arrays, Mapping):
        raise InterpretError(f"{fn.name}: arrays must be a mapping of names to arrays, got {type(arrays).__name__}")
    if set(arrays) != set(expected):
        raise InterpretError(f"{fn.name}: arrays must be given for {', '.join(expected)}, got {', '.join(arrays)}")
    for name in expected:
        if not isinstance(arrays[name], np.ndarray):
            raise InterpretError(f"{fn.name}: {name} must be a numpy array, got {type(arrays[name]).__name__}")


def checked_input(where: str, buffer: ir.Buffer, array: Array) -> Array:
    """One input array; sub-byte elements come in int8 and must be in range."""
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
