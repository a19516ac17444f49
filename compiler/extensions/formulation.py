# SPDX-License-Identifier: Apache-2.0
"""Layers of networks as an author formulates them, in the terms of an instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from vdla.compiler import te

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class NetworkLayer:
    """A layer of a network: a `Definition`, and what a network knows beyond it.

    `constants` has the arrays of inputs that are constants, by name; `values` the integers, in
    order, that the elements of each other input can be.
    """

    definition: Any
    constants: Mapping[str, Array]
    values: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Formulation:
    """The result of a layer computed in another way, as an instruction has it.

    Placeholders of `output` are inputs of the layer by name, or constants, whose integers are in
    `constants`. `packed` has tensors that the host lays out: computed ones, each with elements of
    one input of the layer, or constants, under the name of its placeholder. `bits` has placeholders
    of bytes that the host packs from an input of the layer or one of `packed`, by name: bit k of
    byte i along the last dimension says whether element 8 * i + k is positive.
    """

    output: te.Tensor
    constants: Mapping[str, Array] = field(default_factory=dict)
    bits: Mapping[str, str] = field(default_factory=dict)
    packed: Sequence[te.Tensor] = ()


def packed_bits(array: Array) -> Array:
    """Bytes int8 [..., n / 8] of the signs of [..., n] elements."""
    return np.packbits(array > 0, axis=-1, bitorder="little").view(np.int8)
