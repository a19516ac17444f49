# SPDX-License-Identifier: Apache-2.0
"""A partition of an index space into parts such that each of the given sets is a union of parts.

A history of accesses then needs one row for each part instead of one for each index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vdla.hardware.isa.index_set import Indices, Where, numbered, shift


@dataclass(frozen=True, slots=True)
class Places:
    """Sets of indices: set `k` is `shapes[shape[k]]`, shifted by `distance[k]`."""

    shapes: Sequence[Where]
    shape: Indices
    distance: Indices

    @staticmethod
    def distinct(shapes: Sequence[Where], shape: Indices, distance: Indices) -> tuple[Places, Indices]:
        """The distinct pairs of a shape and a distance, and the number of each pair among them."""
        distances, which = numbered(distance)
        used, number = numbered(shape * len(distances) + which)
        return Places(shapes, used // max(1, len(distances)), distances[used % max(1, len(distances))]), number

    def __len__(self) -> int:
        return len(self.shape)

    def __getitem__(self, k: int) -> Where:
        return shift(self.shapes[self.shape[k]], int(self.distance[k]))


@dataclass(frozen=True, slots=True)
class Partition:
    """`sizes` are the numbers of indices in the parts; set `k` is the union of the distinct parts
    `parts[starts[k] : starts[k + 1]]`.

    Indices `cuts[i]` up to `cuts[i + 1]` belong to part `label[i]`; a part may be in no set.
    """

    sizes: Indices
    starts: Indices
    parts: Indices
    cuts: Indices
    label: Indices

    @property
    def count(self) -> int:
        """The number of parts."""
        return len(self.sizes)

    def of(self, sets: Indices) -> tuple[Indices, Indices]:
        """All parts of a sequence of sets: the position in the sequence and the part, in order."""
        return spread(self.starts, self.parts, sets)

    def histories(self, sets: Indices) -> tuple[Indices, Indices, Indices]:
        """The pairs of `of`, sorted by part, then by position; and the first pair of each part."""
        position, part = self.of(sets)
        order = np.argsort(part.astype(np.uint16) if self.count <= 1 << 16 else part, kind="stable")  # by radix
        position, part = position[order], part[order]
        begins = np.flatnonzero(np.diff(part, prepend=-1))
        return position, part, np.repeat(begins, np.diff(begins, append=len(part)))


def spread(starts: Indices, members: Indices, chosen: Indices) -> tuple[Indices, Indices]:
    """The members of chosen groups: the position in `chosen` and the member, in order.

    Group `k` is `members[starts[k] : starts[k + 1]]`.
    """
    sizes = np.diff(starts)[chosen]
    position = np.repeat(np.arange(len(chosen)), sizes)
    within = np.arange(len(position)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return position, members[starts[chosen][position] + within]


def partition(places: Places) -> Partition:
    """The partition for these sets: their runs cut at all ends, equal pieces merged."""
    owner, begins, ends = _runs(places)
    cuts = np.unique(np.concatenate([begins, ends]))
    first, last = np.searchsorted(cuts, begins), np.searchsorted(cuts, ends)
    sizes = last - first
    pieces = np.arange(int(sizes.sum())) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
    starts, label = _starts(np.repeat(owner, sizes), len(places)), np.arange(max(0, len(cuts) - 1))
    unmerged = Partition(sizes=np.diff(cuts), starts=starts, parts=pieces, cuts=cuts, label=label)
    several_runs = len(owner) > len(places)
    return _merged(unmerged) if several_runs else unmerged


def _starts(owner: Indices, count: int) -> Indices:
    """Where the members of each group start; `owner` has the group of each member, sorted."""
    return np.searchsorted(owner, np.arange(count + 1))


def _runs(places: Places) -> tuple[Indices, Indices, Indices]:
    """The set, the first index and the end of every maximal run of contiguous indices."""
    used, shape = numbered(places.shape)
    shapes = [places.shapes[number] for number in used.tolist()]
    listed = [np.arange(0) if isinstance(item, slice) else item for item in shapes]
    every, sizes = np.concatenate([np.arange(0), *listed]), np.array([len(item) for item in listed], np.intp)
    starts = np.cumsum(sizes) - sizes
    apart = np.diff(every, prepend=-2) != 1
    apart[starts[sizes > 0]] = True
    first = np.flatnonzero(apart)
    ranges = [(number, item.start, item.stop) for number, item in enumerate(shapes) if isinstance(item, slice)]
    whole = np.array([item for item in ranges if item[1] < item[2]], np.int64).reshape(-1, 3).T
    number = np.concatenate([np.repeat(np.arange(len(used)), sizes)[first], whole[0]])
    order = np.argsort(number, kind="stable")
    begins = np.concatenate([every[first], whole[1]])[order]
    ends = np.concatenate([every[np.append(first[1:], len(every))[: len(first)] - 1] + 1, whole[2]])[order]
    owner, run = spread(_starts(number[order], len(used)), np.arange(len(order)), shape)
    distance = places.distance[owner]
    return owner, begins[run] + distance, ends[run] + distance


def _merged(fine: Partition) -> Partition:
    """The partition after merging the parts that lie in the same sets.

    Parts are compared by the sum of a random number for each of their sets, then set by set.
    """
    sets = len(fine.starts) - 1
    owner = np.repeat(np.arange(sets), np.diff(fine.starts))
    numbers = np.random.default_rng(0).random(sets)
    sums = np.bincount(fine.parts, numbers[owner], fine.count)  # equal for equal sets: added in their order
    _, first, label = np.unique(sums, return_index=True, return_inverse=True)
    if not _alike(fine, owner, first[label]):
        return fine
    firsts = np.zeros(fine.count, np.bool_)  # a part of each label, which stands for all of them
    firsts[first] = True
    chosen = firsts[fine.parts]
    sizes = np.bincount(label, weights=fine.sizes).astype(np.int64)
    starts = _starts(owner[chosen], sets)
    return Partition(sizes=sizes, starts=starts, parts=label[fine.parts[chosen]], cuts=fine.cuts, label=label)


def _alike(fine: Partition, owner: Indices, other: Indices) -> bool:
    """Whether parts lie in the same sets as their `other` ones; `owner` is the set of each pair."""
    counts = np.bincount(fine.parts, minlength=fine.count)
    if (counts != counts[other]).any():
        return False
    sets = owner[np.argsort(fine.parts, kind="stable")]  # of the parts, one after the other
    begins = np.cumsum(counts) - counts
    places = np.repeat(begins[other] - begins, counts) + np.arange(len(sets))
    return bool((sets[places] == sets).all())
