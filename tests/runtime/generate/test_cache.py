# SPDX-License-Identifier: Apache-2.0
"""Caches of keys and values: int8 against numbers one at a time, places, sizes."""

import math

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vdla.runtime.generate.cache import cache_of, rounded

FLOATS = st.floats(-1e6, 1e6, width=32)


@given(
    arrays(np.float32, st.tuples(st.just(1), st.integers(1, 3), st.integers(1, 4), st.integers(1, 9)), elements=FLOATS)
)
@example(np.full((1, 1, 1, 1), 7.36e-43, np.float32))  # whose scale is rounded to a few bits
def test_a_head_of_a_token_has_numbers_and_a_scale(values):
    numbers, scales = rounded(values)
    for at in np.ndindex(values.shape[:3]):
        scale = np.float32(max(abs(float(value)) for value in values[at])) / np.float32(127)
        assert scales[at][0] == scale
        for number, value in zip(numbers[at], values[at], strict=True):
            wanted = 0 if scale == 0 else np.clip(np.rint(value / scale), -127, 127)
            assert -127 <= number == wanted <= 127


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 99))
def test_tokens_keep_their_places_and_their_numbers(counts, seed):
    rng, shapes = np.random.default_rng(seed), {"key": (1, 2, 12, 4), "value": (1, 2, 12, 4)}
    exact, short = cache_of("float32", shapes), cache_of("int8", shapes)
    first, before = 0, {}
    for count in counts:
        new = {name: rng.standard_normal((1, 2, count, 4)).astype(np.float32) for name in shapes}
        exact.append(first, new)
        short.append(first, new)
        first += count
        read = short.read(first)
        for name, array in exact.read(first).items():
            np.testing.assert_array_equal(array[:, :, first - count :], new[name])
            numbers, scales = rounded(array)
            np.testing.assert_array_equal(read[name], numbers * scales)
        for name, array in before.items():
            np.testing.assert_array_equal(read[name][:, :, : array.shape[2]], array)
        before = read
    assert (exact.nbytes, short.nbytes) == (2 * math.prod((2, 12, 4, 4)), 2 * 2 * 12 * (4 + 4))
