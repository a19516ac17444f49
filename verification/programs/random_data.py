# SPDX-License-Identifier: Apache-2.0
"""Random tensor contents: extreme values are frequent; scales of every kind."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.numerics import MULT_BITS, SHIFT_MAX, pack_scale
from vdla.hardware.program import STREAM, Program, input_tensors
from vdla.hardware.timing import PAGE_BYTES
from vdla.support.arrays import Array, Ints

STYLES = 3


def random_words(rng: Generator, nbytes: int, kind: type[np.signedinteger[Any]]) -> Array:
    """An array of `nbytes` bytes in stretches of uniform, extreme or small numbers."""
    info = np.iinfo(kind)
    count = nbytes // info.dtype.itemsize
    extremes = np.array([info.min, info.max, 0, -1, 1, info.min + 1, info.max - 1], np.int64)
    drawn = np.stack(
        [
            rng.integers(info.min, info.max + 1, count),
            extremes[rng.integers(0, len(extremes), count)],
            rng.integers(-33, 34, count),
        ]
    )
    stretch = np.repeat(rng.integers(0, STYLES, count // 16 + 1), 16)[:count]
    return drawn[stretch, np.arange(count)].astype(kind)


def random_scales(rng: Generator, lanes: int) -> NDArray[np.uint64]:
    """Requantisation parameters: extremes of each part, realistic ones, and random words."""
    high = (1 << MULT_BITS) - 1
    bias = _of(rng, lanes, (-(1 << 31), (1 << 31) - 1, 0, -1, 1), (-(1 << 31), 1 << 31))
    mult = _of(rng, lanes, (0, 1, high, high - 1, 1 << (MULT_BITS - 1)), (0, high + 1))
    shift = _of(rng, lanes, (0, 1, 31, 32, 33, SHIFT_MAX), (0, SHIFT_MAX + 1))
    useful = pack_scale(
        rng.integers(-1000, 1000, lanes), rng.integers(1 << 20, high, lanes), rng.integers(20, 50, lanes)
    )
    words = rng.integers(0, 1 << 64, lanes, np.uint64)
    drawn = np.stack([pack_scale(bias, mult, shift), useful, words])
    return np.asarray(drawn[rng.integers(0, 3, lanes), np.arange(lanes)], np.uint64)


def _of(rng: Generator, count: int, extremes: tuple[int, ...], span: tuple[int, int]) -> Ints:
    chosen = np.array(extremes, np.int64)[rng.integers(0, len(extremes), count)]
    return np.where(rng.random(count) < 0.6, chosen, rng.integers(*span, count))


def bytes_of(array: Array) -> bytes:
    """The bytes of an array in DRAM order."""
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def random_arrays(program: Program, seed: int) -> dict[str, Array]:
    """An array for each tensor that the caller provides; int64 holds packed scales."""
    rng = default_rng(seed)
    return {tensor.name: random_array(tensor.shape, tensor.dtype, rng) for tensor in input_tensors(program)}


def random_array(shape: tuple[int, ...], dtype: str, rng: Generator) -> Array:
    """An array of a type of integers; int64 holds packed scales."""
    count = prod(shape)
    if dtype == "int64":
        return random_scales(rng, count).view(np.int64).reshape(shape)
    bits = {"int2": 2, "int4": 4}.get(dtype)
    stored = np.dtype("int8" if bits else dtype)
    words = random_words(rng, count * stored.itemsize, stored.type)
    return (words if bits is None else words >> (8 - bits)).reshape(shape)


# --- places ---------------------------------------------------------------------------------------
# Random addresses for the tensors and the stream of a program: anywhere that the machine reaches.
#
# Addresses are multiples of a beat, not of a page. Those that carry into the next bits are
# frequent: across 4 GiB, across a page, and the last ones that instruction or register can hold.


LOWEST = 1 << 28
"""Beyond the memory of any device that runs random programs."""
HIGHEST = 1 << 40
_WORD = 1 << 32
_SHARE = 0.75
"""The share of programs whose tensors are placed at random; a device chooses for the others."""


def random_places(program: Program, seed: int) -> dict[str, int] | None:
    """An address for each tensor and the stream (STREAM), or None to leave them to the device."""
    rng = default_rng([seed, len(program)])
    if rng.random() >= _SHARE:
        return None
    sizes = {tensor.name: tensor.nbytes for tensor in program.tensors} | {STREAM: max(1, program.words.nbytes)}
    places: dict[str, int] = {}
    for name, nbytes in sizes.items():
        while name not in places:
            address = _address(program.config, rng, nbytes, stream=name == STREAM)
            if all(address + nbytes <= at or at + sizes[other] <= address for other, at in places.items()):
                places[name] = address
    return places


def _address(config: Config, rng: Generator, nbytes: int, stream: bool) -> int:
    beat = config.axi_bytes
    end = HIGHEST if stream else min(HIGHEST, _WORD * beat)  # an instruction holds 32 bits of the beat
    last = (end - nbytes) // beat * beat
    anywhere = int(rng.integers(LOWEST, last + 1))
    choices = [
        anywhere,
        int(rng.integers(LOWEST, _WORD - nbytes)),
        last,
        last,
        _before(rng, int(rng.integers(1, end // _WORD)) * _WORD, nbytes),
        _before(rng, anywhere // PAGE_BYTES * PAGE_BYTES, nbytes),
    ]
    address = choices[int(rng.integers(len(choices)))] // beat * beat
    return min(max(address, LOWEST), last)


def _before(rng: Generator, boundary: int, nbytes: int) -> int:
    """An address from which `nbytes` cross a boundary, often after a few beats."""
    return boundary - int(rng.integers(1, 1 + (nbytes if rng.random() < 0.5 else min(nbytes, 256))))
