"""A partition of an index space into parts of which each of some given sets is a union.

A history of accesses then needs one row for each part instead of one for each index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vdla.hardware.isa.index_set import Indices, Where

_CODE_BITS = 62
_MOST_CODES = 1 << 23
"""Above this number of parts times groups of _CODE_BITS sets, equal parts are not merged."""


@dataclass(frozen=True, slots=True)
class Partition:
    """`sizes` are the numbers of indices in the parts; set `k` is the union of the distinct parts
    `parts[starts[k] : starts[k + 1]]`.
    """

    sizes: Indices
    starts: Indices
    parts: Indices

    @property
    def count(self) -> int:
        """The number of parts."""
        return len(self.sizes)

    def of(self, sets: Indices) -> tuple[Indices, Indices]:
        """All parts of a sequence of sets: the position in the sequence and the part, in order."""
        return spread(self.starts, self.parts, sets)


def spread(starts: Indices, members: Indices, chosen: Indices) -> tuple[Indices, Indices]:
    """The members of chosen groups: the position in `chosen` and the member, in order.

    Group `k` is `members[starts[k] : starts[k + 1]]`.
    """
    sizes = np.diff(starts)[chosen]
    position = np.repeat(np.arange(len(chosen)), sizes)
    within = np.arange(len(position)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return position, members[starts[chosen][position] + within]


def partition(places: Sequence[Where]) -> Partition:
    """The partition for these sets: their runs cut at all ends, equal pieces merged."""
    owner, begins, ends = _runs(places)
    cuts = np.unique(np.concatenate([begins, ends]))
    first, last = np.searchsorted(cuts, begins), np.searchsorted(cuts, ends)
    sizes = last - first
    pieces = np.arange(int(sizes.sum())) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, weights=sizes, minlength=len(places)))]).astype(np.int64)
    unmerged = Partition(np.diff(cuts), starts, pieces)
    several_runs = len(owner) > len(places)
    return _merged(unmerged) if several_runs and _worthwhile(unmerged) else unmerged


def _worthwhile(parts: Partition) -> bool:
    """Whether merging takes a time in proportion to the sets."""
    return parts.count * (len(parts.starts) // _CODE_BITS + 1) <= _MOST_CODES


def _runs(places: Sequence[Where]) -> tuple[Indices, Indices, Indices]:
    """The set, the first index and the end of every maximal run of contiguous indices."""
    owner, begins, ends = list[Indices](), list[Indices](), list[Indices]()
    for number, place in enumerate(places):
        if isinstance(place, slice):
            begin, end = np.array([place.start], np.int64), np.array([place.stop], np.int64)
        else:
            gaps = np.flatnonzero(np.diff(place) != 1)
            begin, end = place[np.append(0, gaps + 1)[: len(place)]], place[np.append(gaps, -1)[: len(place)]] + 1
        full = begin < end
        owner.append(np.full(int(full.sum()), number, np.int64))
        begins.append(begin[full])
        ends.append(end[full])
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *owner]), np.concatenate([none, *begins]), np.concatenate([none, *ends])


def _merged(fine: Partition) -> Partition:
    """The partition after merging the parts that lie in the same sets."""
    label = np.zeros(fine.count, np.int64)
    bounds: list[int] = fine.starts.tolist()
    sets = len(bounds) - 1
    for group in range(0, sets, _CODE_BITS):
        code = np.zeros(fine.count, np.int64)
        for bit, k in enumerate(range(group, min(group + _CODE_BITS, sets))):
            code[fine.parts[bounds[k] : bounds[k + 1]]] |= 1 << bit
        _, code = np.unique(code, return_inverse=True)
        _, label = np.unique(label * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    members = [np.unique(label[fine.parts[bounds[k] : bounds[k + 1]]]) for k in range(sets)]
    starts = np.cumsum([0, *map(len, members)]).astype(np.int64)
    sizes = np.bincount(label, weights=fine.sizes).astype(np.int64)
    return Partition(sizes, starts, np.concatenate([label[:0], *members]))
