# SPDX-License-Identifier: Apache-2.0
"""Conversion between NumPy arrays and the bytes of a program's tensors in DRAM.

An array has the packed shape and the dtype that its tensor declares; int2 and int4 elements are
int8 in the array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vdla.hardware.numerics import pack_elements, unpack_elements
from vdla.hardware.program.program import Program
from vdla.hardware.program.tensor import ELEMENT_BITS, ProgramError, ProgramTensor
from vdla.support.arrays import Array, Bytes, cast_hint


def array_dtype(tensor: ProgramTensor) -> np.dtype[Any]:
    """The dtype of a tensor's array: the declared one, int8 for int2 and int4."""
    return np.dtype("int8" if ELEMENT_BITS[tensor.dtype] < 8 else tensor.dtype)


def input_tensors(program: Program) -> tuple[ProgramTensor, ...]:
    """The tensors that a caller provides: inputs, and weights without data in the program."""
    return tuple(t for t in program.tensors if t.role == "input" or (t.role == "weight" and t.data is None))


def _check_names(program: Program, inputs: Mapping[str, Array]) -> None:
    """ProgramError unless `inputs` has an array for each input tensor and no other."""
    where = f"program {program.name}"
    if not isinstance(inputs, Mapping):
        raise ProgramError(f"{where}: inputs must be a mapping from tensor names, got {type(inputs).__name__}")
    tensors = input_tensors(program)
    names = [tensor.name for tensor in tensors]
    for tensor in tensors:
        if tensor.name not in inputs:
            got = ", ".join(map(str, inputs)) or "none"
            remedy = f"add an array {array_dtype(tensor)}{list(tensor.shape)} of that name"
            raise ProgramError(f"{where}: inputs must include {tensor.name}, got {got}; {remedy}")
    for name in inputs:
        if name not in names:
            raise ProgramError(f"{where}: inputs must be of {', '.join(names) or 'no tensor'}, got {name}")


def initial_contents(program: Program, inputs: Mapping[str, Array]) -> dict[str, Bytes]:
    """The bytes of inputs, constants and weights before a run, by name."""
    _check_names(program, inputs)
    contents = {tensor.name: to_bytes(tensor, inputs[tensor.name]) for tensor in input_tensors(program)}
    for tensor in program.tensors:
        if tensor.data is not None:
            contents[tensor.name] = np.frombuffer(tensor.data, np.uint8)
    return contents


def output_arrays(program: Program, read: Callable[[ProgramTensor], Bytes]) -> dict[str, Array]:
    """The arrays of the outputs by name; `read` gives the bytes of a tensor."""
    return {tensor.name: from_bytes(tensor, read(tensor)) for tensor in program.tensors if tensor.role == "output"}


def to_bytes(tensor: ProgramTensor, array: Array) -> Bytes:
    """The bytes of a tensor in DRAM; ProgramError unless shape and dtype are as declared."""
    where = f"tensor {tensor.name}"
    if not isinstance(array, np.ndarray):
        raise ProgramError(f"{where}: value must be a numpy array, got {type(array).__name__}")
    if array.shape != tensor.shape:
        raise ProgramError(f"{where}: shape must be {tensor.shape}, got {array.shape}")
    dtype = array_dtype(tensor)
    same_bits = dtype == np.int64 and array.dtype == np.uint64  # packed scales are bits, not numbers
    if array.dtype.newbyteorder("=") != dtype and not same_bits:
        raise ProgramError(f"{where}: dtype must be {dtype}, got {array.dtype}{cast_hint(tensor.name, array, dtype)}")
    dense = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))  # DRAM is little-endian
    if ELEMENT_BITS[tensor.dtype] < 8:
        return _packed(where, dense, ELEMENT_BITS[tensor.dtype])
    return dense.reshape(-1).view(np.uint8)


def _packed(where: str, array: Array, bits: int) -> Bytes:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    outside = (array < low) | (array > high)
    if outside.any():
        raise ProgramError(f"{where}: values must be from {low} to {high}, got {array[outside].flat[0]}")
    return pack_elements(array.reshape(-1), bits)


def from_bytes(tensor: ProgramTensor, data: Bytes) -> Array:
    """The array of a tensor's bytes in DRAM, a copy."""
    if ELEMENT_BITS[tensor.dtype] < 8:
        return unpack_elements(data, ELEMENT_BITS[tensor.dtype]).reshape(tensor.shape)
    return data.copy().view(array_dtype(tensor)).reshape(tensor.shape)
