# SPDX-License-Identifier: Apache-2.0
"""Windows over images, compared with an enumeration of their places and taps."""

import itertools

import numpy as np
import pytest

from vdla.support.window import AUTO_PADS, Window, window_of


def _window(size: int, taps: int, stride: int, pads: tuple[int, int], gap: int, *, rounds_up: bool = False) -> Window:
    before, after = pads
    return Window(
        size=(size,),
        taps=(taps,),
        strides=(stride,),
        before=(before,),
        after=(after,),
        dilations=(gap,),
        rounds_up=rounds_up,
    )


CASES = [
    _window(size, taps, stride, pads, gap)
    for size, taps, stride, pads, gap in itertools.product((4, 7), (1, 3), (1, 2, 3), ((0, 0), (1, 0), (2, 3)), (1, 2))
    if (taps - 1) * gap < size + sum(pads)
]


@pytest.mark.parametrize("window", CASES)
def test_reads_are_those_of_every_place_and_tap(window: Window) -> None:
    (size,), (taps,), (stride,), (before,), (after,), (gap,) = (
        window.size, window.taps, window.strides, window.before, window.after, window.dilations,
    )  # fmt: skip
    starts = range(0, size + before + after - (taps - 1) * gap, stride)
    positions = [[start + tap * gap - before for tap in range(taps)] for start in starts]
    assert window.places == (len(positions),)
    assert [[window.position(0, place, tap) for tap in range(taps)] for place in range(len(positions))] == positions
    assert np.array_equal(window.reads_image(0), [[0 <= at < size for at in row] for row in positions])
    every = [at for row in positions for at in row]
    assert window.leaves_image == (before > 0 or max(every) >= size)
    assert window.last(0) == max(every)
    assert window.overhang == (max(0, max(every) + 1 - size),)
    (step,), sampled = window.steps, window.sampled
    read = [[sampled.position(0, place, tap) * step - before for tap in range(taps)] for place in range(len(positions))]
    assert read == positions
    assert sampled.places == window.places


def test_a_window_that_is_rounded_up_begins_in_the_image_or_before() -> None:
    assert _window(5, 2, 2, (0, 0), 1).places == (2,)
    assert _window(5, 2, 2, (0, 0), 1, rounds_up=True).places == (3,)
    assert _window(4, 2, 3, (0, 2), 1, rounds_up=True).places == (2,)


@pytest.mark.parametrize("auto_pad", AUTO_PADS)
def test_same_padding_gives_a_place_a_stride(auto_pad: str) -> None:
    for size, taps, stride in itertools.product((5, 8), (2, 3), (1, 2, 3)):
        window = window_of({"auto_pad": auto_pad, "strides": (stride,)}, (size,), (taps,))
        assert window.places == (-(-size // stride),)
        first, second = (window.before, window.after) if auto_pad == "SAME_UPPER" else (window.after, window.before)
        assert first <= second
