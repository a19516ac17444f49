"""The arrays of one call of a kernel: found by name, checked, packed for the C entry.

What only Python knows (kind of object, memory order, writability) and what the entry would refuse are both checked
here, where names and values can be said. Nothing is kept between calls, so that threads need no lock.
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
    ERROR_TEXTS,
    MAX_EXTENT,
    Argument,
    ErrorCode,
    Signature,
    decode_error,
    element_bytes,
    evaluate_extent,
    format_extent,
    format_shape,
)
from vdla.support.errors import Error
from vdla.support.integers import is_int

Array = NDArray[Any]
FIELDS = 4  # of a struct: data, shape, rank, dtype
SUB_BYTE = {"int2": (-2, 1), "int4": (-8, 7)}
"""The values that fit, of types that are stored in more bits than they have."""


class NativeError(Error, ValueError):
    """A kernel that cannot be loaded here, or was called with what it does not take."""


class Packed(NamedTuple):
    """The structs of a call, and the extents that they point to."""

    structs: bytes
    extents: object


class _Wanted(NamedTuple):
    """What an argument must be, as numpy says it; no `shape` where it is symbolic."""

    argument: Argument
    shape: tuple[int, ...] | None
    dtype: np.dtype[Any]
    output: bool
    rank: int
    number: int


class Packer:
    """Checks the arrays of one kernel and packs them into the structs that its entry takes."""

    def __init__(self, signature: Signature) -> None:
        self.where = signature.name
        self.signature = signature
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self._wanted = [
            _Wanted(a, a.static, storage(a.dtype), a.output, len(a.shape), DTYPE_CODES[a.dtype])
            for a in signature.arguments
        ]
        self._struct = struct.Struct("PPii" * len(self._wanted))
        self._static = all(wanted.shape is not None for wanted in self._wanted)
        self._inputs_first = signature.arguments == (*self.inputs, *self.outputs)
        self._sub_byte = any(argument.dtype in SUB_BYTE for argument in self.inputs)
        self._laid = _laid(argument.static or () for argument in signature.arguments)

    # --- which array is which

    def place(self, given: Sequence[Array], named: Mapping[str, Array]) -> Sequence[Array]:
        """The inputs in order."""
        if not named and len(given) == len(self.inputs):
            return given
        names = [argument.name for argument in self.inputs]
        if len(given) > len(names):
            raise NativeError(f"{self.where}: arrays must be given for {', '.join(names)}, got {len(given)} arrays")
        arrays = dict(zip(names, given, strict=False))
        twice = arrays.keys() & named.keys()
        if twice:
            raise NativeError(f"{self.where}: {min(twice)} must be given once, got it by place and by name")
        arrays.update(named)
        if arrays.keys() != set(names):
            got = ", ".join(arrays) or "none"
            raise NativeError(f"{self.where}: arrays must be given for {', '.join(names)}, got {got}")
        return [arrays[name] for name in names]

    def results(self, inputs: Sequence[Array], out: Array | Sequence[Array] | None) -> Sequence[Array]:
        """The outputs in order: those of the caller, or new ones."""
        if out is None:
            return self._new(inputs)
        arrays = out if isinstance(out, (tuple, list)) else (out,)
        if len(arrays) != len(self.outputs):
            names = ", ".join(argument.name for argument in self.outputs)
            raise NativeError(f"{self.where}: out must have one array each for {names}, got {len(arrays)}")
        return arrays

    def _new(self, inputs: Sequence[Array]) -> list[Array]:
        if self._static:
            return [self._empty(w.argument, w.shape) for w in self._wanted if w.output and w.shape is not None]
        scalars = self._scalars(zip(self.inputs, inputs, strict=True))
        for scalar in self.signature.scalars:
            if scalar not in scalars:
                raise NativeError(f"{self.where}: out must be given, as {scalar} is known from it alone, got none")
        return [self._empty(argument, self._shape(argument, scalars)) for argument in self.outputs]

    def _empty(self, argument: Argument, shape: tuple[int, ...]) -> Array:
        try:
            return np.empty(shape, storage(argument.dtype))
        except (MemoryError, ValueError):  # more than there is, or more than numpy can count
            what = f"output {argument.name} of shape {shape}"
            raise NativeError(f"{self.where}: cannot allocate memory for {what}") from None

    def ordered(self, inputs: Iterable[Array], outputs: Iterable[Array]) -> list[Array]:
        """Inputs and outputs in the order of the arguments."""
        if self._inputs_first:
            return [*inputs, *outputs]
        from_inputs, from_outputs = iter(inputs), iter(outputs)
        return [next(from_outputs if wanted.output else from_inputs) for wanted in self._wanted]

    # --- checks and packing

    def pack(self, arrays: Sequence[Array]) -> Packed:
        """The structs for the entry; NativeError where an array is not what the kernel takes."""
        fields: list[int] = []
        for array, wanted in zip(arrays, self._wanted, strict=True):
            _, shape, dtype, output, rank, number = wanted
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                self._check_kind(wanted, array)
            flags = array.flags
            if not flags.c_contiguous or (output and not flags.writeable):
                self._refuse_memory(wanted, array)
            fields += (address(array), 0, rank, number)
        if not self._static:
            self._check_symbolic(arrays)
        if self._sub_byte:
            self._check_ranges(arrays)
        extents, fields[1::FIELDS] = self._laid if self._static else _laid(array.shape for array in arrays)
        return Packed(self._struct.pack(*fields), extents)

    def _check_kind(self, wanted: _Wanted, array: object) -> None:
        where = f"{self.where}: {wanted.argument.name}"
        if not isinstance(array, np.ndarray):
            raise NativeError(f"{where} must be a numpy array, got {type(array).__name__}")
        if array.dtype != wanted.dtype:
            raise NativeError(f"{where} must have the dtype {wanted.dtype}, got {array.dtype}")
        if isinstance(array, np.ma.MaskedArray):
            raise NativeError(f"{where} must be an array without a mask, got a MaskedArray (its filled() has none)")
        if wanted.shape not in (None, array.shape):
            self._refuse_shape(wanted.argument, array)

    def _refuse_shape(self, argument: Argument, array: Array) -> NoReturn:
        wanted = format_shape(argument.shape)
        raise NativeError(f"{self.where}: {argument.name} must have the shape {wanted}, got {array.shape}")

    def _refuse_memory(self, wanted: _Wanted, array: Array) -> NoReturn:
        where = f"{self.where}: {wanted.argument.name}"
        if array.flags.c_contiguous:
            raise NativeError(f"{where} must be writable, got a read-only array")
        fix = "" if wanted.output else " (numpy.ascontiguousarray copies it)"
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
        """The symbolic extents that the arrays tell."""
        found: dict[str, int] = {}
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
                if found.setdefault(extent, got) != got:
                    both = f"{found[extent]} in {origin[extent]} and {got} in {argument.name}"
                    raise NativeError(f"{self.where}: {extent} must be the same in every argument, got {both}")
                origin.setdefault(extent, argument.name)
        return found

    def _shape(self, argument: Argument, scalars: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an argument in numbers."""
        shape = tuple(evaluate_extent(extent, scalars) for extent in argument.shape)
        for extent, number in zip(argument.shape, shape, strict=True):
            if not 1 <= number <= MAX_EXTENT:
                known = ", ".join(f"{name} = {scalars[name]}" for name in self.signature.scalars)
                text = f"{format_extent(extent)} of {argument.name}"
                limit = "at least 1" if number < 1 else f"at most {MAX_EXTENT}"
                raise NativeError(f"{self.where}: {text} must be {limit}, got {number} with {known}")
        return shape

    def _check_ranges(self, arrays: Sequence[Array]) -> None:
        for array, wanted in zip(arrays, self._wanted, strict=True):
            limits = SUB_BYTE.get(wanted.argument.dtype)
            if limits is None or wanted.output:
                continue
            outside = (array < limits[0]) | (array > limits[1])
            if outside.any():
                what = f"elements of {wanted.argument.name} must be in the range of {wanted.argument.dtype}"
                raise NativeError(f"{self.where}: {what}, got {int(array[outside].flat[0])}")

    # --- what the entry refuses

    def refuse(self, number: int, arrays: Sequence[Array]) -> NoReturn:
        """NativeError that says what the entry's return value means for these arrays."""
        code, position = decode_error(number)
        argument = self.signature.arguments[position]
        match code:
            case ErrorCode.MEMORY:
                raise NativeError(f"{self.where}: {ERROR_TEXTS[code]}")
            case ErrorCode.ALIGNMENT:
                rule = f"{self.where}: {argument.name} must be aligned to {element_bytes(argument.dtype)} bytes"
                got = f"address {address(arrays[position]):#x}"
            case ErrorCode.OVERLAP:
                rule = f"{self.where}: {argument.name} must not overlap another argument"
                got = f"memory of {', '.join(self._neighbours(position, arrays))}"
            case _:
                rule, got = f"{self.where}: {argument.name}: {ERROR_TEXTS[code]}", f"code {number}"
        raise NativeError(f"{rule}, got {got}")

    def _neighbours(self, position: int, arrays: Sequence[Array]) -> list[str]:
        mine = arrays[position]
        others = zip(self.signature.arguments, arrays, strict=True)
        return [a.name for i, (a, array) in enumerate(others) if i != position and np.may_share_memory(mine, array)]


def checked_threads(where: str, count: int) -> int:
    """A limit of threads as C takes it.

    Raises:
        NativeError: it is no integer, or negative.
    """
    if not is_int(count) or count < 0:
        raise NativeError(f"{where} must be a non-negative integer, got {count!r}")
    return min(int(count), 2**31 - 1)


def storage(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of an element type; nothing but numpy is needed, except for bfloat16."""
    if dtype == "bfloat16":
        from ml_dtypes import bfloat16

        found: np.dtype[Any] = np.dtype(bfloat16)
        return found
    return np.dtype("int8" if dtype in SUB_BYTE else dtype)


def address(array: Array) -> int:
    """Where the elements of a contiguous array are."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # numpy 1.26 does not say so
    except (TypeError, ValueError):  # read-only, or of a type that the buffer protocol has no word for
        return int(array.ctypes.data)


def _laid(shapes: Iterable[tuple[int, ...]]) -> tuple[object, list[int]]:
    """The extents of all shapes one after another, and the address at which those of each begin."""
    every = list(shapes)
    flat = [extent for shape in every for extent in shape]
    extents = (ctypes.c_int64 * len(flat))(*flat)
    place, places = ctypes.addressof(extents), []
    for shape in every:
        places.append(place)
        place += ctypes.sizeof(ctypes.c_int64) * len(shape)
    return extents, places
