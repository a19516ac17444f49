# SPDX-License-Identifier: Apache-2.0
"""Micro-op kernels: their table in DRAM, and the LOADs of its parts into the buffer.

Equal kernels are stored once, and a kernel that is a contiguous part of another is not stored
again. If all kernels fit the buffer, a single LOAD at the start brings them: compute waits for data
then, while a later LOAD would drain it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.hardware import isa
from vdla.hardware.config import Config
from vdla.hardware.isa import MicroOp, UopOffsets
from vdla.support.errors import Error

UopKernel = tuple[MicroOp, ...]


class KernelOffsets:
    """The offsets of kernels in columns; each kernel is encoded once."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[int, tuple[UopKernel, UopOffsets]] = {}  # with the kernel, which keeps its id valid

    def of(self, uops: UopKernel) -> UopOffsets | None:
        """The offsets of a kernel; None of an operation without micro-ops."""
        if uops and id(uops) not in self._known:
            columns = isa.uop_columns(self._config, isa.encode_uops(self._config, uops))
            self._known[id(uops)] = uops, UopOffsets(columns)
        return self._known[id(uops)][1] if uops else None


class UopError(Error, ValueError):
    """A micro-op kernel that does not fit the buffer."""


@dataclass(frozen=True, slots=True)
class UopLoad:
    """The LOAD of rows [begin, begin + size) of the table before operation `before`.

    It fills the buffer from its start.
    """

    before: int
    begin: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class UopPlan:
    """The table, its LOADs in order, and where each operation's kernel begins in the buffer.

    `begins` is int64[n] over operations. `kernels` has the given kernels, where equal ones are the
    same object.
    """

    table: tuple[MicroOp, ...]
    loads: tuple[UopLoad, ...]
    begins: NDArray[np.int64]
    kernels: tuple[UopKernel, ...]


def plan_uops(
    depth: int,
    kernels: Sequence[UopKernel],
    order: NDArray[np.int64],
    name: Callable[[int], str] = "operation {}".format,
) -> UopPlan:
    """Place the kernels in a buffer of `depth` micro-ops; operation `i` runs `kernels[order[i]]`,
    () if it has none.

    If the kernels do not fit together, the operations are cut into runs whose kernels do, each with
    a LOAD before it. `name` gives the name of an operation in errors.
    """
    numbers, unique = _intern(kernels)
    number_of = np.array(numbers, np.int64)[order]
    sizes = np.array([len(kernel) for kernel in unique], np.int64)[number_of]
    for index in np.flatnonzero(sizes > depth)[:1].tolist():
        raise UopError(f"uops: kernel of {name(index)} must have at most {depth} micro-ops, got {sizes[index]}")
    table: list[MicroOp] = []
    loads: list[UopLoad] = []
    begins = np.zeros(len(order), np.int64)
    used = np.flatnonzero(sizes)
    while len(used):
        count, image = _longest_run(depth, number_of[used], unique)
        loads.append(UopLoad(int(used[0]) if loads else 0, len(table), len(image.uops)))
        table += image.uops
        begin_of = np.zeros(len(unique), np.int64)
        begin_of[list(image.begins)] = list(image.begins.values())
        begins[used[:count]] = begin_of[number_of[used[:count]]]
        used = used[count:]
    return UopPlan(tuple(table), tuple(loads), begins, tuple(unique[number] for number in numbers))


def _intern(kernels: Iterable[UopKernel]) -> tuple[list[int], list[UopKernel]]:
    """The index of each kernel among the distinct kernels, and these."""
    by_value: dict[UopKernel, int] = {}
    by_object: dict[int, int] = {}  # saves hashing a long tuple again for each form that shares it
    numbers = []
    for kernel in kernels:
        if id(kernel) not in by_object:
            by_object[id(kernel)] = by_value.setdefault(kernel, len(by_value))
        numbers.append(by_object[id(kernel)])
    return numbers, list(by_value)


# --- images of the buffer ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Image:
    """The contents of the buffer after a LOAD, and the begin of each kernel in it."""

    uops: tuple[MicroOp, ...]
    begins: dict[int, int]


def _longest_run(depth: int, used: NDArray[np.int64], unique: Sequence[UopKernel]) -> tuple[int, _Image]:
    """How many leading operations one image of the buffer serves, and the image.

    `used` has the number of each operation's kernel.
    """
    distinct, first = np.unique(used, return_index=True)
    every = _pack(distinct.tolist(), unique)
    if len(every.uops) <= depth:
        return len(used), every
    image = _Image((), {})
    for count in np.sort(first).tolist():
        larger = _pack({*image.begins, int(used[count])}, unique)
        if len(larger.uops) > depth:
            return count, image
        image = larger
    return len(used), image


def _pack(wanted: Iterable[int], unique: Sequence[UopKernel]) -> _Image:
    """The image of the wanted kernels, longest first, each stored unless already contained."""
    names: dict[MicroOp, int] = {}
    stored: list[MicroOp] = []
    haystack = b""
    begins: dict[int, int] = {}
    for number in sorted(wanted, key=lambda n: (-len(unique[n]), n)):
        needle = np.array([names.setdefault(uop, len(names)) for uop in unique[number]], np.int32).tobytes()
        begin = _find(haystack, needle)
        if begin is None:
            begin = len(stored)
            stored += unique[number]
            haystack += needle
        begins[number] = begin
    return _Image(tuple(stored), begins)


def _find(haystack: bytes, needle: bytes) -> int | None:
    """The index of `needle` in `haystack` in int32 elements, None if absent."""
    at = haystack.find(needle)
    while at > 0 and at % 4:
        at = haystack.find(needle, at + 1)
    return None if at < 0 else at // 4
