# SPDX-License-Identifier: Apache-2.0
"""The arrays of one kernel call: matched to arguments, checked, packed for the C entry.

Rules that only Python can check (type of object, memory order, writability) and those of the entry
are both checked here, where names and values can be reported. No state is kept between calls, so
threads need no lock.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.abi import (
    DTYPE_CODES,
    MAX_EXTENT,
    MAX_THREADS,
    STATUS_TEXTS,
    Argument,
    KernelStatus,
    Signature,
    decode_status,
    element_bytes,
    evaluate_extent,
    format_extent,
    format_shape,
)
from vdla.support.arrays import cast_hint
from vdla.support.errors import Error
from vdla.support.integers import is_int

Array = NDArray[Any]
_FIELDS = 4  # of a vdla_tensor: data, shape, rank, dtype
_SUB_BYTE = {"int2": (-2, 1), "int4": (-8, 7)}
"""The ranges of types that are stored in int8."""


class NativeError(Error, ValueError):
    """A kernel that cannot be loaded on this machine, or arguments that it refuses."""


class _PackedArguments(NamedTuple):
    """The `vdla_tensor` structs of a call, and the array of extents that they point into."""

    structs: bytes
    extents: object


class _Expected(NamedTuple):
    """An argument in NumPy's terms; `shape` is None if an extent is symbolic."""

    argument: Argument
    shape: tuple[int, ...] | None
    dtype: np.dtype[Any]
    output: bool
    rank: int
    dtype_code: int


class ArgumentPacker:
    """Checks the arrays of one kernel and packs them into the structs for its entry."""

    def __init__(self, signature: Signature) -> None:
        self.where = signature.name
        self.signature = signature
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self._expected = [
            _Expected(a, a.static, storage_dtype(a.dtype), a.output, len(a.shape), DTYPE_CODES[a.dtype])
            for a in signature.arguments
        ]
        self._struct = struct.Struct("PPii" * len(self._expected))
        self._static = all(expected.shape is not None for expected in self._expected)
        self._inputs_first = signature.arguments == (*self.inputs, *self.outputs)
        self._sub_byte = any(argument.dtype in _SUB_BYTE for argument in self.inputs)
        self._extents = _extent_array(argument.static or () for argument in signature.arguments)

    # --- which array is which

    def inputs_in_order(self, given: Sequence[Array], named: Mapping[str, Array]) -> Sequence[Array]:
        """The inputs in the signature's order."""
        if not named and len(given) == len(self.inputs):
            return given
        names = [argument.name for argument in self.inputs]
        if len(given) > len(names):
            raise NativeError(f"{self.where}: arrays must be given for {', '.join(names)}, got {len(given)} arrays")
        arrays = dict(zip(names, given, strict=False))
        repeated = arrays.keys() & named.keys()
        if repeated:
            raise NativeError(f"{self.where}: {min(repeated)} must be given once, got it by position and by name")
        arrays.update(named)
        if arrays.keys() != set(names):
            got = ", ".join(arrays) or "none"
            raise NativeError(f"{self.where}: arrays must be given for {', '.join(names)}, got {got}")
        return [arrays[name] for name in names]

    def outputs_for(self, inputs: Sequence[Array], out: Array | Sequence[Array] | None) -> Sequence[Array]:
        """The outputs in the signature's order: the caller's, or new arrays."""
        if out is None:
            return self._new_outputs(inputs)
        arrays = out if isinstance(out, (tuple, list)) else (out,)
        if len(arrays) != len(self.outputs):
            names = ", ".join(argument.name for argument in self.outputs)
            raise NativeError(f"{self.where}: out must have one array each for {names}, got {len(arrays)}")
        return arrays

    def _new_outputs(self, inputs: Sequence[Array]) -> list[Array]:
        if self._static:
            return [self._empty(w.argument, w.shape) for w in self._expected if w.output and w.shape is not None]
        scalars = self._scalars(zip(self.inputs, inputs, strict=True))
        for scalar in self.signature.scalars:
            if scalar not in scalars:
                raise NativeError(f"{self.where}: out must be given, as it alone defines {scalar}, got none")
        return [self._empty(argument, self._shape(argument, scalars)) for argument in self.outputs]

    def _empty(self, argument: Argument, shape: tuple[int, ...]) -> Array:
        try:
            return np.empty(shape, storage_dtype(argument.dtype))
        except (MemoryError, ValueError):  # out of memory, or too large for NumPy
            what = f"output {argument.name} of shape {shape}"
            raise NativeError(f"{self.where}: cannot allocate memory for {what}") from None

    def arguments_in_order(self, inputs: Iterable[Array], outputs: Iterable[Array]) -> list[Array]:
        """Inputs and outputs in the signature's order."""
        if self._inputs_first:
            return [*inputs, *outputs]
        from_inputs, from_outputs = iter(inputs), iter(outputs)
        return [next(from_outputs if expected.output else from_inputs) for expected in self._expected]

    # --- checks and packing

    def pack(self, arrays: Sequence[Array]) -> _PackedArguments:
        """The structs for the entry; NativeError if the kernel does not take an array."""
        fields: list[int] = []
        for array, expected in zip(arrays, self._expected, strict=True):
            _, shape, dtype, output, rank, dtype_code = expected
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                self._check_array(expected, array)
            flags = array.flags
            if not flags.c_contiguous or (output and not flags.writeable):
                self._refuse_memory(expected, array)
            fields += (_address(array), 0, rank, dtype_code)
        if not self._static:
            self._check_symbolic(arrays)
        if self._sub_byte:
            self._check_ranges(arrays)
        extents, fields[1::_FIELDS] = self._extents if self._static else _extent_array(array.shape for array in arrays)
        return _PackedArguments(self._struct.pack(*fields), extents)

    def _check_array(self, expected: _Expected, array: object) -> None:
        where = f"{self.where}: {expected.argument.name}"
        if not isinstance(array, np.ndarray):
            raise NativeError(f"{where} must be a numpy array, got {type(array).__name__}")
        if array.dtype != expected.dtype:
            hint = cast_hint(expected.argument.name, array, expected.dtype)
            raise NativeError(f"{where} must have the dtype {expected.dtype}, got {array.dtype}{hint}")
        if isinstance(array, np.ma.MaskedArray):
            raise NativeError(f"{where} must be an array without a mask, got a MaskedArray (call its filled() method)")
        if expected.shape not in (None, array.shape):
            self._refuse_shape(expected.argument, array)

    def _refuse_shape(self, argument: Argument, array: Array) -> NoReturn:
        wanted = format_shape(argument.shape)
        raise NativeError(f"{self.where}: {argument.name} must have the shape {wanted}, got {array.shape}")

    def _refuse_memory(self, expected: _Expected, array: Array) -> NoReturn:
        where = f"{self.where}: {expected.argument.name}"
        if array.flags.c_contiguous:
            raise NativeError(f"{where} must be writable, got a read-only array")
        fix = "" if expected.output else " (use numpy.ascontiguousarray)"
        raise NativeError(f"{where} must be contiguous and row-major, got strides {array.strides}{fix}")

    def _check_symbolic(self, arrays: Sequence[Array]) -> None:
        scalars = self._scalars(zip(self.signature.arguments, arrays, strict=True))
        for argument, array in zip(self.signature.arguments, arrays, strict=True):
            shape = self._shape(argument, scalars)
            if array.shape != shape:
                known = ", ".join(f"{name} = {scalars[name]}" for name in self.signature.scalars)
                wanted = f"{format_shape(argument.shape)} = {shape}"
                raise NativeError(
                    f"{self.where}: {argument.name} must have the shape {wanted} with {known}, got {array.shape}"
                )

    def _scalars(self, pairs: Iterable[tuple[Argument, Array]]) -> dict[str, int]:
        """The symbolic extents that the arrays define."""
        result: dict[str, int] = {}
        origin: dict[str, str] = {}
        for argument, array in pairs:
            if not isinstance(array, np.ndarray):
                raise NativeError(f"{self.where}: {argument.name} must be a numpy array, got {type(array).__name__}")
            if array.ndim != len(argument.shape):
                self._refuse_shape(argument, array)
            for extent, got in zip(argument.shape, array.shape, strict=True):
                if not isinstance(extent, str):
                    continue
                if not 1 <= got <= MAX_EXTENT:
                    limits = f"from 1 to {MAX_EXTENT}"
                    raise NativeError(f"{self.where}: {extent} must be {limits}, got {got} in {argument.name}")
                if result.setdefault(extent, got) != got:
                    both = f"{result[extent]} in {origin[extent]} and {got} in {argument.name}"
                    raise NativeError(f"{self.where}: {extent} must be the same in every argument, got {both}")
                origin.setdefault(extent, argument.name)
        return result

    def _shape(self, argument: Argument, scalars: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an argument, evaluated."""
        shape = tuple(evaluate_extent(extent, scalars) for extent in argument.shape)
        for extent, number in zip(argument.shape, shape, strict=True):
            if not 1 <= number <= MAX_EXTENT:
                known = ", ".join(f"{name} = {scalars[name]}" for name in self.signature.scalars)
                text = f"{format_extent(extent)} of {argument.name}"
                limit = "at least 1" if number < 1 else f"at most {MAX_EXTENT}"
                raise NativeError(f"{self.where}: {text} must be {limit}, got {number} with {known}")
        return shape

    def _check_ranges(self, arrays: Sequence[Array]) -> None:
        for array, expected in zip(arrays, self._expected, strict=True):
            limits = _SUB_BYTE.get(expected.argument.dtype)
            if limits is None or expected.output:
                continue
            outside = (array < limits[0]) | (array > limits[1])
            if outside.any():
                what = f"elements of {expected.argument.name} must be in the range of {expected.argument.dtype}"
                raise NativeError(f"{self.where}: {what}, got {int(array[outside].flat[0])}")

    # --- errors of the entry

    def raise_error(self, status: int, arrays: Sequence[Array]) -> NoReturn:
        """Raise the NativeError that the entry returned for these arrays."""
        code, position = decode_status(status)
        argument = self.signature.arguments[position]
        match code:
            case KernelStatus.MEMORY:
                raise NativeError(f"{self.where}: {STATUS_TEXTS[code]}")
            case KernelStatus.ALIGNMENT:
                rule = f"{self.where}: {argument.name} must be aligned to {element_bytes(argument.dtype)} bytes"
                got = f"address {_address(arrays[position]):#x}"
            case KernelStatus.OVERLAP:
                rule = f"{self.where}: {argument.name} must not overlap another argument"
                got = f"memory of {', '.join(self._overlapping(position, arrays))}"
            case _:
                rule, got = f"{self.where}: {argument.name}: {STATUS_TEXTS[code]}", f"code {status}"
        raise NativeError(f"{rule}, got {got}")

    def _overlapping(self, position: int, arrays: Sequence[Array]) -> list[str]:
        mine = arrays[position]
        others = zip(self.signature.arguments, arrays, strict=True)
        return [a.name for i, (a, array) in enumerate(others) if i != position and np.may_share_memory(mine, array)]


def thread_limit(where: str, count: int) -> int:
    """A limit of threads as a Python integer.

    Raises:
        NativeError: it is not an integer from 0 to MAX_THREADS.
    """
    if not is_int(count) or not 0 <= count <= MAX_THREADS:
        raise NativeError(f"{where} must be an integer from 0 to {MAX_THREADS}, got {count!r}")
    return int(count)


def storage_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype of an element type; only bfloat16 needs ml_dtypes."""
    if dtype == "bfloat16":
        from ml_dtypes import bfloat16

        result: np.dtype[Any] = np.dtype(bfloat16)
        return result
    return np.dtype("int8" if dtype in _SUB_BYTE else dtype)


def _address(array: Array) -> int:
    """The address of the first element of a contiguous array."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # missing in the stubs of NumPy 1.26
    except (TypeError, ValueError):  # read-only, or a dtype without buffer format
        return int(array.ctypes.data)


def _extent_array(shapes: Iterable[tuple[int, ...]]) -> tuple[object, list[int]]:
    """The extents of all shapes in one C array, and the address of each shape in it."""
    all_shapes = list(shapes)
    flat = [extent for shape in all_shapes for extent in shape]
    extents = (ctypes.c_int64 * len(flat))(*flat)
    address, addresses = ctypes.addressof(extents), []
    for shape in all_shapes:
        addresses.append(address)
        address += ctypes.sizeof(ctypes.c_int64) * len(shape)
    return extents, addresses
