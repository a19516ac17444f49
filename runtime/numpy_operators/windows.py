"""The elements under the taps of windows over [N, C, spatial...]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from vdla.runtime.numpy_operators.function import Array
from vdla.support.window import Window


def pad_image(window: Window, x: Array, value: float) -> Array:
    """The image with padding, as far as windows reach."""
    after = map(max, window.after, window.overhang)
    widths = [(0, 0), (0, 0), *zip(window.before, after, strict=True)]
    return np.pad(x, widths, constant_values=np.asarray(value).astype(x.dtype))


def under_tap(window: Window, image: Array, tap: Sequence[int]) -> Array:
    """[N, C, places...]: the elements of the padded image under one tap."""
    axes = zip(tap, window.dilations, window.places, window.strides, strict=True)
    places = [slice(t * gap, t * gap + max((count - 1) * stride + 1, 0), stride) for t, gap, count, stride in axes]
    return image[(slice(None), slice(None), *places)]


def by_tap(window: Window, image: Array) -> Iterator[Array]:
    """The elements of the padded image under one tap after the other."""
    return (under_tap(window, image, tap) for tap in np.ndindex(*window.taps))
