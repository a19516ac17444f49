"""Between the arrays of a caller and the bytes of a DRAM image, tensor by tensor.

An array has the packed shape and the dtype its tensor declares; elements of less than a byte come as int8 and must fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.numerics import pack_elements, unpack_elements
from vdla.hardware.program.program import Program, Tensor
from vdla.simulator.errors import SimulationError

Array = NDArray[Any]
Bytes = NDArray[np.uint8]

_SUB_BYTE = {"int2": 2, "int4": 4}
_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "float32", "float64")


def array_dtype(tensor: Tensor) -> np.dtype[Any]:
    """The dtype of the numpy arrays that stand for a tensor: int8 for elements of less than a byte."""
    if tensor.dtype in _SUB_BYTE:
        return np.dtype("int8")
    if tensor.dtype not in _DTYPES:
        known = ", ".join((*_SUB_BYTE, *_DTYPES))
        raise SimulationError(f"tensor {tensor.name}: dtype must be one of {known}, got {tensor.dtype}")
    return np.dtype(tensor.dtype)


def _check_size(tensor: Tensor) -> None:
    """Refuse a tensor whose shape and dtype do not fill its bytes."""
    bits = _SUB_BYTE.get(tensor.dtype, 8 * array_dtype(tensor).itemsize)
    nbytes = -(-prod(tensor.shape) * bits // 8)
    if nbytes != tensor.nbytes:
        declared = f"{tensor.dtype}{list(tensor.shape)}"
        raise SimulationError(f"tensor {tensor.name}: nbytes must be {nbytes} for {declared}, got {tensor.nbytes}")


def given(program: Program) -> tuple[Tensor, ...]:
    """The tensors whose content a caller provides: inputs, and weights that the program does not hold."""
    return tuple(t for t in program.tensors if t.role == "input" or (t.role == "weight" and t.data is None))


def check_names(program: Program, arrays: Mapping[str, Array]) -> None:
    """SimulationError unless there is an array for each tensor that needs one, and for no other."""
    if not isinstance(arrays, Mapping):
        got = type(arrays).__name__
        raise SimulationError(f"simulate {program.name}: arrays must be a mapping from tensor names, got {got}")
    names = [tensor.name for tensor in given(program)]
    for name in names:
        if name not in arrays:
            got = ", ".join(map(str, arrays)) or "none"
            raise SimulationError(f"simulate {program.name}: arrays must include tensor {name}, got {got}")
    for name in arrays:
        if name not in names:
            raise SimulationError(
                f"simulate {program.name}: array must be for one of {', '.join(names) or 'no tensor'}, got {name}"
            )


def to_bytes(tensor: Tensor, array: Array) -> Bytes:
    """The bytes of a tensor in DRAM; SimulationError where the array is not what the tensor declares."""
    where = f"tensor {tensor.name}"
    _check_size(tensor)
    if not isinstance(array, np.ndarray):
        raise SimulationError(f"{where}: value must be a numpy array, got {type(array).__name__}")
    if array.shape != tensor.shape:
        raise SimulationError(f"{where}: shape must be {tensor.shape}, got {array.shape}")
    dtype = array_dtype(tensor)
    same_bits = dtype == np.int64 and array.dtype == np.uint64  # packed scales are bits, not numbers
    if array.dtype.newbyteorder("=") != dtype and not same_bits:
        raise SimulationError(f"{where}: dtype must be {dtype}, got {array.dtype}")
    dense = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))  # as it lies in DRAM
    if tensor.dtype in _SUB_BYTE:
        return _packed(where, dense, _SUB_BYTE[tensor.dtype])
    return dense.reshape(-1).view(np.uint8)


def _packed(where: str, array: Array, bits: int) -> Bytes:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    outside = (array < low) | (array > high)
    if outside.any():
        raise SimulationError(f"{where}: values must be from {low} to {high}, got {array[outside].flat[0]}")
    return pack_elements(array.reshape(-1), bits)


def from_bytes(tensor: Tensor, data: Bytes) -> Array:
    """The array that a tensor's bytes in DRAM say, in memory of its own."""
    _check_size(tensor)
    if tensor.dtype in _SUB_BYTE:
        return unpack_elements(data, _SUB_BYTE[tensor.dtype]).reshape(tensor.shape)
    return data.copy().view(array_dtype(tensor)).reshape(tensor.shape)
