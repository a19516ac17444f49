"""Micro-op kernels: one table of them in DRAM, and when which part of it is loaded.

Equal kernels are stored once, and so is a kernel that is a contiguous part of another. If all fit the buffer, one LOAD
before everything else brings them: a later one would drain compute, while at the start compute waits for data anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.hardware.isa import MicroOp
from vdla.support.errors import Error

Kernel = tuple[MicroOp, ...]


class UopError(Error, ValueError):
    """Micro-op kernels that no buffer holds, or that are missing."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One LOAD: rows [begin, begin + size) of the table to the start of the buffer, before operation `before`."""

    before: int
    begin: int
    size: int


@dataclass(frozen=True, slots=True)
class UopPlan:
    """The table, its LOADs in program order, and for every operation where in the buffer its kernel begins.

    `kernels` has the kernel of every operation, equal ones as one object.
    """

    table: tuple[MicroOp, ...]
    batches: tuple[Batch, ...]
    begins: tuple[int, ...]
    kernels: tuple[Kernel, ...]


def plan_uops(depth: int, kernels: Sequence[Kernel], name: Callable[[int], str] = "operation {}".format) -> UopPlan:
    """Place the kernel of every operation, () where it has none, in a buffer of `depth` micro-ops.

    Where they do not fit together, a run of operations whose kernels do gets a LOAD of its own before its first one.
    `name` says how an error names an operation.
    """
    numbers, unique = _intern(kernels)
    used = [index for index, number in enumerate(numbers) if unique[number]]
    table: list[MicroOp] = []
    batches: list[Batch] = []
    begins = [0] * len(kernels)
    for index in used:
        if len(kernels[index]) > depth:
            raise UopError(
                f"uops: kernel of {name(index)} must have at most {depth} micro-ops, got {len(kernels[index])}"
            )
    while used:
        count, image = _longest_run(depth, used, numbers, unique)
        batches.append(Batch(used[0] if batches else 0, len(table), len(image.uops)))
        table += image.uops
        for index in used[:count]:
            begins[index] = image.begins[numbers[index]]
        used = used[count:]
    return UopPlan(tuple(table), tuple(batches), tuple(begins), tuple(unique[number] for number in numbers))


def _intern(kernels: Iterable[Kernel]) -> tuple[list[int], list[Kernel]]:
    """The number of each operation's kernel, and the distinct kernels."""
    by_value: dict[Kernel, int] = {}
    by_object: dict[int, int] = {}  # hashing a long tuple once for each operation that shares it would show
    numbers = []
    for kernel in kernels:
        if id(kernel) not in by_object:
            by_object[id(kernel)] = by_value.setdefault(kernel, len(by_value))
        numbers.append(by_object[id(kernel)])
    return numbers, list(by_value)


# --- images of the buffer --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Image:
    """What one LOAD brings: micro-ops, and where in them each kernel begins."""

    uops: tuple[MicroOp, ...]
    begins: dict[int, int]


def _longest_run(
    depth: int, used: Sequence[int], numbers: Sequence[int], unique: Sequence[Kernel]
) -> tuple[int, _Image]:
    """How many of the operations `used` can run on one image of the buffer, and the image."""
    every = _pack({numbers[index] for index in used}, unique)
    if len(every.uops) <= depth:
        return len(used), every
    image = _Image((), {})
    for count, index in enumerate(used):
        if numbers[index] not in image.begins:
            larger = _pack({*image.begins, numbers[index]}, unique)
            if len(larger.uops) > depth:
                return count, image
            image = larger
    return len(used), image


def _pack(wanted: Iterable[int], unique: Sequence[Kernel]) -> _Image:
    """The wanted kernels, the longest first, each stored unless it is already part of what is."""
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
    """The index, in int32 elements, of `needle` in `haystack`."""
    at = haystack.find(needle)
    while at > 0 and at % 4:
        at = haystack.find(needle, at + 1)
    return None if at < 0 else at // 4
