"""Random addresses for the tensors and the stream of a program: anywhere that the machine reaches.

Addresses are multiples of a beat, not of a page. Those that carry into the next bits are frequent:
across 4 GiB, across a page, and the last ones that instruction or register can hold.
"""

from __future__ import annotations

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.program import STREAM, Program
from vdla.hardware.timing import PAGE_BYTES

LOWEST = 1 << 28
"""Beyond the memory of any device that runs random programs."""
HIGHEST = 1 << 40
_WORD = 1 << 32
_SHARE = 0.75
"""The share of programs whose tensors are placed at random; a device chooses for the others."""


def random_places(program: Program, seed: int) -> dict[str, int] | None:
    """An address for each tensor and the stream (STREAM), or None to leave them to the device."""
    rng = np.random.default_rng([seed, len(program)])
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


def _address(config: Config, rng: np.random.Generator, nbytes: int, stream: bool) -> int:
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


def _before(rng: np.random.Generator, boundary: int, nbytes: int) -> int:
    """An address from which `nbytes` cross a boundary, often after a few beats."""
    return boundary - int(rng.integers(1, 1 + (nbytes if rng.random() < 0.5 else min(nbytes, 256))))
