# SPDX-License-Identifier: Apache-2.0
"""Numbers are printed by the shortest decimals that read back as them."""

import numpy as np
import pytest

from vdla.runtime.numpy_operators.casts import converted


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_floats_are_printed_by_their_shortest_decimals(kind):
    x = np.array([0.1, -2.7, 3], kind)
    texts = converted(x, np.dtype(object))
    assert texts.tolist() == ["0.1", "-2.7", "3.0"]
    np.testing.assert_array_equal(converted(texts, x.dtype), x)
