"""Tensors of a chain that lie behind one another in a larger one, which is read as a whole.

So a concatenation of the outermost dimension costs nothing: those who write the parts write into
the whole. Parts are whole entries of a buffer, and these are whole beats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.codegen.vdla.errors import LoweringError
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.hardware.config import Config

Joined = Mapping[str, Sequence[str]]
"""The parts of each whole, in order; a part may itself be a whole."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part begins: the tensor of the program, and the byte in it."""

    tensor: str
    byte: int


def places_of(where: str, joined: Joined, nbytes: Mapping[str, int]) -> dict[str, Place]:
    """The place of every part; `nbytes` has the sizes of the tensors that functions write.

    Raises:
        LoweringError: a part is in two wholes, or has no size.
    """
    places: dict[str, Place] = {}
    sizes = dict(nbytes)
    for whole, parts in joined.items():
        at = 0
        for part in parts:
            if part in places:
                raise LoweringError(f"{where}: part {part} must be in one whole, got {places[part].tensor} and {whole}")
            if part not in sizes:
                raise LoweringError(f"{where}: part {part} must be written or a whole before {whole}, got neither")
            places[part] = Place(whole, at)
            at += sizes[part]
        sizes[whole] = at
    return {part: _outermost(places, place) for part, place in places.items()}


def _outermost(places: Mapping[str, Place], place: Place) -> Place:
    while place.tensor in places:
        outer = places[place.tensor]
        place = Place(outer.tensor, outer.byte + place.byte)
    return place


def in_wholes(config: Config, ops: MacroOps, tensors: Mapping[str, str], places: Mapping[str, Place]) -> MacroOps:
    """The operations with the addresses of parts, where `tensors` are the chain's names."""
    names = [tensors.get(form.tensor or "", "") for form in ops.forms]
    beats = np.array([places[name].byte // config.axi_bytes if name in places else 0 for name in names], np.int64)
    return replace(ops, dram=ops.dram + beats[ops.form]) if beats.any() else ops
