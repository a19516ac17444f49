# SPDX-License-Identifier: Apache-2.0
"""store_at and whole: where a buffer is allocated, and copies of whole entries."""

import pytest

from vdla.compiler import te
from vdla.compiler.schedule import Schedule, ScheduleError


def copied() -> Schedule:
    """y[r, i] = x[i], of which only nine elements are read."""
    x = te.placeholder((16,), "int8", "x")
    y = te.compute((4, 9), lambda r, i: x[i], "y")
    s = Schedule(te.create_function([x], [y], "copy"))
    s.compute_at(s.cache_read("y", "x", "wgt"), "r")
    return s


def extents(s: Schedule, block: str) -> list[int]:
    from vdla.compiler.analysis import block_path, loops_on

    return [loop.extent for loop in loops_on(block_path(s.fn, block, "test"))]


def test_full_extent_copies_the_whole_axis():
    s = copied()
    assert extents(s, "x_wgt") == [4, 9]
    s.full_extent("x_wgt", "vi")
    assert extents(s, "x_wgt") == [4, 16]


def test_full_extent_names_the_axes_of_the_block():
    with pytest.raises(ScheduleError) as error:
        copied().full_extent("x_wgt", "vk")
    assert str(error.value) == "full_extent of x_wgt over vk: the axis must be one of vi, got 'vk'"


def test_full_extent_needs_an_axis_with_its_own_loop():
    s = copied()
    s.split(s.loops("x_wgt")[-1], factor=3)
    with pytest.raises(ScheduleError) as error:
        s.full_extent("x_wgt", "vi")
    assert str(error.value).startswith(
        "full_extent of x_wgt over vi: the axis must be driven by a loop of its own, got "
    )


def test_store_at_marks_the_loop_or_the_root():
    s = copied()
    s.store_at("x_wgt", "r")
    assert "# store_at=r" in str(s)
    s.store_at("x_wgt", None)
    assert "# store_at=root" in str(s)


def test_store_at_needs_a_loop_around_the_block():
    with pytest.raises(ScheduleError) as error:
        copied().store_at("x_wgt", "i")
    assert str(error.value).startswith("store_at of x_wgt: the loop must be one of r, ")
