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
from vdla.compiler.operators.vdla.packing import blocks, pad_to


@dataclass(frozen=True, slots=True)
class ChannelSections:
    """`groups` of `inputs` and `outputs` channels, of which `merged` are a section.

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
    def padded(self) -> tuple[int, int]:
        """Input and output channels of a section in whole blocks."""
        both = zip(self.channels, self.lanes, strict=True)
        channels, results = (blocks(count, block) * block for count, block in both)
        return channels, results

    @property
    def cost(self) -> tuple[int, bool]:
        """Pairs of blocks that are multiplied; whether channels have padding between sections."""
        pairs = zip(self.padded, self.lanes, strict=True)
        steps = [count // block for count, block in pairs]
        return self.count * steps[0] * steps[1], self.count > 1 and self.padded != self.channels

    # --- arrays

    def spread(self, array: Array, axis: int, side: int) -> Array:
        """`array` with the channels along an axis, inputs on side 0 or outputs on side 1, padded to
        whole blocks in each section.
        """
        if self.count == 1:
            return array  # packing fills the blocks
        channels, moved = self.channels[side], np.moveaxis(array, axis, 0)
        whole = pad_to(moved, (self.count * channels, *moved.shape[1:]))
        by_section = whole.reshape(self.count, channels, *moved.shape[1:])
        padded = pad_to(by_section, (self.count, self.padded[side], *moved.shape[1:]))
        return np.moveaxis(padded.reshape(-1, *moved.shape[1:]), 0, axis)

    def joined(self, array: Array) -> Array:
        """[N, C, ...] without the padding that `spread` adds to outputs."""
        batch, _, *places = array.shape
        kept = array.reshape(batch, self.count, self.padded[1], *places)[:, :, : self.channels[1]]
        whole = kept.reshape(batch, self.count * self.channels[1], *places)
        return np.ascontiguousarray(whole[:, : self.groups * self.outputs])

    def dense(self, weight: Array) -> Array:
        """[outputs, inputs of a group, ...] as [outputs, inputs of a section, ...], in whole
        blocks.
        """
        if self.groups == 1:
            return weight
        found = np.zeros((self.count, self.padded[1], self.padded[0], *weight.shape[2:]), weight.dtype)
        for group in range(self.groups):
            section, at = divmod(group, self.merged)
            rows, columns = (slice(at * n, (at + 1) * n) for n in (self.outputs, self.inputs))
            found[section, rows, columns] = weight[group * self.outputs : (group + 1) * self.outputs]
        return found.reshape(-1, *found.shape[2:])

    def split(self, array: Array, axis: int) -> Array:
        """`array` with an axis of blocks as [sections, blocks], if there are several sections."""
        before, after = array.shape[:axis], array.shape[axis + 1 :]
        return array if self.count == 1 else array.reshape(*before, self.count, -1, *after)

    def merge(self, array: Array, axis: int) -> Array:
        """The inverse of `split`."""
        before, after = array.shape[:axis], array.shape[axis + 2 :]
        return array if self.count == 1 else array.reshape(*before, -1, *after)


def best_sections(groups: int, inputs: int, outputs: int, lanes: tuple[int, int]) -> ChannelSections:
    """The sections with the fewest steps; of these, whole blocks."""
    forms: Sequence[ChannelSections] = [
        ChannelSections(groups, inputs, outputs, merged, lanes) for merged in range(1, min(groups, max(lanes)) + 1)
    ]
    return min(forms, key=lambda sections: sections.cost)
