# SPDX-License-Identifier: Apache-2.0
"""The copy that the axes of a block index: windows as a matrix."""

import numpy as np
import pytest

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule, ScheduleError

X = np.arange(9, dtype=np.int32) ** 2


def windows(term=lambda x, i, t: x[i * 2 + t], extent=9):
    x, t = te.placeholder((extent,), "int32", "x"), te.reduce_axis(3, "t")
    value = te.compute((4,), lambda i: te.sum(term(x, i, t), axis=t), "c")
    return te.create_function([x], [value], "f")


def test_a_tile_of_windows_computes_the_same():
    s = Schedule(windows())
    copy = s.reindex("c", "x", "shared")
    outer, _ = s.split("i", factor=2)
    s.compute_at(copy, outer)
    assert s.fn.buffers[copy].shape == (3, 4)  # reduce axes first
    np.testing.assert_array_equal(interpret(s.fn, {"x": X})["c"], [X[2 * i : 2 * i + 3].sum() for i in range(4)])


@pytest.mark.parametrize(
    ("term", "rule"),
    [
        (lambda x, i, t: x[i] * x[t], "the block must read the buffer at one index, got 2"),
        (
            lambda x, i, t: te.select(i + t < 4, x[i + t], 0),
            r"the index must stay inside of the buffer, got vi \+ vt",
        ),
    ],
)
def test_other_reads_are_refused(term, rule: str):
    with pytest.raises(ScheduleError, match=f"^reindex of x for c: {rule}$"):
        Schedule(windows(term, 4)).reindex("c", "x", "shared")
