# SPDX-License-Identifier: Apache-2.0
"""Who accessed the elements of a buffer since the last barrier: threads that run at once may not
access one element, one of them to write it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vdla.support.errors import Error

_Ints = npt.NDArray[np.int64]
_Places = tuple[_Ints, ...]
"""The indices of accesses, each `[accesses]`."""
_NOBODY, _SEVERAL = -1, -2
_WARPS = -3  # the number of a warp w, all of whose threads may access an element, is -3 - w


class RaceError(Error, ValueError):
    """Two threads that access one element; the message says which element."""


class AccessNotes:
    """The threads that wrote, read and updated each element. `warp` threads in a row may order
    their accesses by a barrier of their own.
    """

    def __init__(self, shape: tuple[int, ...], warp: int = 1) -> None:
        self._warp = warp
        self._writers, self._readers, self._updaters = (_Accesses(shape, warp) for _ in range(3))

    def forget(self) -> None:
        """Note a barrier of all threads."""
        for accesses in (self._writers, self._readers, self._updaters):
            accesses.forget()

    def forget_within_warps(self) -> None:
        """Note a barrier of the threads of each warp."""
        for accesses in (self._writers, self._readers, self._updaters):
            accesses.forget_within_warps()

    def read(self, places: _Places, threads: _Ints) -> None:
        """Note reads of elements by threads, all at once.

        Raises:
            RaceError: another thread wrote or updated one.
        """
        self._note(places, threads, self._readers, (self._writers, self._updaters))

    def update(self, places: _Places, threads: _Ints) -> None:
        """Note atomic updates, which may meet each other; as `read`."""
        self._note(places, threads, self._updaters, (self._writers, self._readers))

    def write(self, places: _Places, threads: _Ints) -> None:
        """Note writes, which may meet nothing; as `read`."""
        self._note(places, threads, self._writers, (self._readers, self._updaters))
        _refuse(places, ~self._writers.only_by(places, threads))

    @staticmethod
    def _note(places: _Places, threads: _Ints, where: _Accesses, others: tuple[_Accesses, _Accesses]) -> None:
        for accesses in others:
            _refuse(places, ~accesses.only_by(places, threads))
        where.note(places, threads)


class _Accesses:
    """The thread that accessed each element in one way, and its warp."""

    def __init__(self, shape: tuple[int, ...], warp: int) -> None:
        self._warp = warp
        self._thread = np.full(shape, _NOBODY, np.int64)
        self._warp_of = np.full(shape, _NOBODY, np.int64)

    def forget(self) -> None:
        self._thread.fill(_NOBODY)
        self._warp_of.fill(_NOBODY)

    def forget_within_warps(self) -> None:
        self._thread = np.where(self._warp_of >= 0, _WARPS - self._warp_of, self._thread)

    def note(self, places: _Places, threads: _Ints) -> None:
        others = ~self.only_by(places, threads)
        _set(self._thread, places, np.where(others, _SEVERAL, threads))
        warps = threads // self._warp
        noted = self._warp_of[places]
        _set(self._warp_of, places, np.where((noted == _NOBODY) | (noted == warps), warps, _SEVERAL))

    def only_by(self, places: _Places, threads: _Ints) -> npt.NDArray[np.bool_]:
        """Whether nobody else accessed an element, but for the warp before its last barrier."""
        noted = self._thread[places]
        return np.asarray((noted == _NOBODY) | (noted == threads) | (noted == _WARPS - threads // self._warp))


def _set(notes: _Ints, places: _Places, values: _Ints) -> None:
    """Notes values, `_SEVERAL` for an element with several of them."""
    notes[places] = values
    mixed = notes[places] != values
    notes[tuple(place[mixed] for place in places)] = _SEVERAL


def _refuse(places: _Places, wrong: npt.NDArray[np.bool_]) -> None:
    if wrong.any():
        first = int(np.argmax(wrong))
        raise RaceError(", ".join(str(int(place.flat[first])) for place in places))
