# SPDX-License-Identifier: Apache-2.0
"""Grouped convolutions as sections of groups: a convolution whose groups are the sections.

A section is as many groups as fill blocks best. Its weights are dense over its blocks, with zeros
between its groups, so groups of few channels share the multipliers that a block has in any case.
Where sections are whole blocks, channels lie as in any other activation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.operators.vdla.operator import Array


def blocks(extent: int, block: int) -> int:
    """Blocks that hold `extent` elements."""
    return -(-extent // block)


def pad_to(array: Array, shape: tuple[int, ...]) -> Array:
    """`array` with zeros added at the end of each dimension."""
    return np.pad(array, [(0, new - old) for old, new in zip(array.shape, shape, strict=True)])


@dataclass(frozen=True, slots=True)
class ChannelSections:
    """`groups` of `inputs` and `outputs` channels; `merged` of them form a section.

    The last section may have fewer groups; `lanes` are channels of a block of inputs and of
    outputs.
    """

    groups: int
    inputs: int
    outputs: int
    merged: int
    lanes: tuple[int, int]

    @property
    def count(self) -> int:
        """Sections."""
        return blocks(self.groups, self.merged)

    @property
    def channels(self) -> tuple[int, int]:
        """Input and output channels of a whole section."""
        return self.inputs * self.merged, self.outputs * self.merged

    @property
    def gaps(self) -> tuple[bool, bool]:
        """Whether input channels, and output channels, have padding between sections."""
        inputs, outputs = (count % block > 0 for count, block in zip(self.channels, self.lanes, strict=True))
        return self.count > 1 and inputs, self.count > 1 and outputs

    @property
    def cost(self) -> tuple[int, bool]:
        """Pairs of blocks that are multiplied; whether channels have padding between sections."""
        inputs, outputs = (blocks(count, block) for count, block in zip(self.channels, self.lanes, strict=True))
        return self.count * inputs * outputs, any(self.gaps)

    # --- arrays

    def whole(self, array: Array, axis: int, side: int) -> Array:
        """`array` with zeros for the groups that the last section lacks; the channels along an axis
        are inputs on side 0 and outputs on side 1.
        """
        shape = [*array.shape]
        shape[axis] = self.count * self.channels[side]
        return pad_to(array, tuple(shape))

    def dense(self, weight: Array) -> Array:
        """[outputs, inputs of a group, ...] as [outputs, inputs of a section, ...]."""
        if self.groups == 1:
            return weight
        inputs, outputs = self.channels
        result = np.zeros((self.count, outputs, inputs, *weight.shape[2:]), weight.dtype)
        for group in range(self.groups):
            section, at = divmod(group, self.merged)
            rows, columns = (slice(at * n, (at + 1) * n) for n in (self.outputs, self.inputs))
            result[section, rows, columns] = weight[group * self.outputs : (group + 1) * self.outputs]
        return result.reshape(-1, *result.shape[2:])


def best_sections(groups: int, inputs: int, outputs: int, lanes: tuple[int, int]) -> ChannelSections:
    """The sections with the fewest steps; of these, whole blocks."""
    forms: Sequence[ChannelSections] = [
        ChannelSections(groups, inputs, outputs, merged, lanes) for merged in range(1, min(groups, max(lanes)) + 1)
    ]
    return min(forms, key=lambda sections: sections.cost)
