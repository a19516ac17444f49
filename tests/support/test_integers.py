# SPDX-License-Identifier: Apache-2.0
"""Values accepted as integers, and the conversion of NumPy scalars to Python numbers."""

from dataclasses import dataclass

import numpy as np
import pytest

from vdla.support.integers import fields_to_python, is_int, to_python


@pytest.mark.parametrize("value", [0, -1, 1 << 70, np.int8(3), np.uint64(1 << 63)])
def test_integers_of_python_and_numpy_count(value):
    assert is_int(value)


@pytest.mark.parametrize("value", [True, np.True_, 1.0, np.float32(1), "1", None, np.array(1)])
def test_bools_floats_and_arrays_do_not(value):
    assert not is_int(value)


def test_only_numpy_scalars_are_converted():
    assert type(to_python(np.int16(5))) is int
    assert type(to_python(np.float32(0.5))) is float
    array = np.array(5)
    assert to_python(array) is array


def test_the_fields_of_a_frozen_dataclass_are_converted():
    @dataclass(frozen=True)
    class Size:
        rows: int
        name: str

        def __post_init__(self) -> None:
            fields_to_python(self)

    size = Size(np.int64(3), "s")
    assert type(size.rows) is int
    assert size == Size(3, "s")
