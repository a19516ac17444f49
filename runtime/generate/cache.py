# SPDX-License-Identifier: Apache-2.0
"""Caches of keys and values: those of each token in its place, in float32 or in int8.

In int8 a head of a token has 8-bit numbers and one scale, the greatest magnitude over 127. What a
decoder reads are their products, in float32; the numbers never change once they are there. Tokens
of one run see each other's keys and values before they are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.runtime.devices.residents import Residents
from vdla.runtime.generate.errors import GenerateError

Array = npt.NDArray[Any]
CACHE_TYPES = ("float32", "int8")
_LARGEST = 127


class FloatCache:
    """Arrays [1, heads, places, size] by name."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._values: dict[str, Array] = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}

    def append(self, first: int, new: Mapping[str, Array]) -> None:
        """Put new keys and values into the places from `first` on."""
        for name, array in new.items():
            self._values[name][:, :, first : first + array.shape[2]] = array

    def read(self, count: int) -> dict[str, Array]:
        """The keys and values of the first `count` places."""
        return {name: array[:, :, :count] for name, array in self._values.items()}

    @property
    def nbytes(self) -> int:
        """The bytes of all places."""
        return sum(array.nbytes for array in self._values.values())


class Int8Cache:
    """Numbers of 8 bits, and a scale for each head and place."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._numbers = {name: np.zeros(shape, np.int8) for name, shape in shapes.items()}
        self._scales = {name: np.zeros((*shape[:3], 1), np.float32) for name, shape in shapes.items()}

    def append(self, first: int, new: Mapping[str, Array]) -> None:
        """Put new keys and values, rounded, into the places from `first` on."""
        for name, array in new.items():
            at = (slice(None), slice(None), slice(first, first + array.shape[2]))
            self._numbers[name][at], self._scales[name][at] = rounded(array)

    def read(self, count: int) -> dict[str, Array]:
        """The keys and values of the first `count` places, in float32."""
        return {name: self._numbers[name][:, :, :count] * self._scales[name][:, :, :count] for name in self._numbers}

    @property
    def nbytes(self) -> int:
        """The bytes of all places."""
        parts = (self._numbers, self._scales)
        return sum(array.nbytes for arrays in parts for array in arrays.values())


class DeviceCache:
    """A cache that a machine keeps and fills itself, [heads, places, size] in resident tensors."""

    def __init__(self, residents: Residents) -> None:
        self._residents = residents
        residents.restart()
        self._restarts = residents.restarts

    @property
    def is_kept(self) -> bool:
        """Whether the machine has the keys and values of this sequence still."""
        return self._residents.restarts == self._restarts

    def append(self, first: int, new: Mapping[str, Array]) -> None:
        """The machine did."""

    def read(self, count: int) -> dict[str, Array]:
        """Nothing for the host."""
        return {}

    @property
    def nbytes(self) -> int:
        """The bytes of all places."""
        return sum(tensor.nbytes for tensor in self._residents.tensors.values())


Cache = FloatCache | Int8Cache | DeviceCache


def cache_of(kind: str, shapes: Mapping[str, tuple[int, ...]]) -> Cache:
    """An empty cache of one of CACHE_TYPES; GenerateError for another type."""
    if kind not in CACHE_TYPES:
        raise GenerateError(f"generate: cache_type must be {' or '.join(CACHE_TYPES)}, got {kind!r}")
    return Int8Cache(shapes) if kind == "int8" else FloatCache(shapes)


def rounded(values: Array) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Numbers from -127 to 127 of values [..., size], half to even, and scales [..., 1].

    A scale near the least float is a rounded one, so that quotients may exceed the range.
    """
    scale = np.abs(values).max(axis=-1, keepdims=True) / np.float32(_LARGEST)
    numbers = np.rint(values / np.where(scale > 0, scale, np.float32(1)))
    return np.clip(numbers, -_LARGEST, _LARGEST).astype(np.int8), scale.astype(np.float32)
