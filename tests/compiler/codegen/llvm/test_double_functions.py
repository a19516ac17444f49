# SPDX-License-Identifier: Apache-2.0
"""erf, sin, cos and pow of float64 without a C library, against NumPy's long double."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.vector_functions import SPECIAL, run, units

from vdla.compiler.codegen.llvm import functions
from vdla.compiler.codegen.llvm.double_functions import two_over_pi_words

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
MOST = 2.5  # units in the last place


@pytest.fixture(autouse=True)
def of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of a GPU on this CPU."""
    monkeypatch.setattr(functions, "DOUBLE_FROM_C_LIBRARY", functions.DOUBLE_ON_GPU)
    monkeypatch.setattr(functions, "_SINGLE", {**functions._SINGLE, **functions._SINGLE_ON_GPU})


def numbers(low: float, high: float, count: int = 2000) -> np.ndarray:
    return np.concatenate([SPECIAL, np.random.default_rng(7).uniform(low, high, count)])


def of_any_size(exponents: tuple[int, int], count: int = 4000) -> np.ndarray:
    random = np.random.default_rng(8)
    return np.concatenate([SPECIAL, np.ldexp(random.uniform(-1, 1, count), random.integers(*exponents, count))])


def test_erf() -> None:
    x = numbers(-6.5, 6.5)
    assert units(run("erf", "float64", x), np.vectorize(math.erf)(x)) <= MOST


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sines_of_small_and_large_angles(name: str) -> None:
    nearest = 6381956970095103.0 * 2.0**797  # of all float64, nearest to a multiple of pi / 2
    x = np.concatenate([numbers(-70000, 70000), of_any_size((-1000, 1024)), [nearest, -nearest]])
    assert units(run(name, "float64", x), getattr(np, name)(x.astype(np.longdouble))) <= MOST
    x = of_any_size((-100, 128)).astype(np.float32)
    assert units(run(name, "float32", x), getattr(np, name)(x.astype(np.longdouble))) <= MOST


def test_pow() -> None:
    edges = [*SPECIAL, 3, -3, 2.0**53 - 1, 2.0**60]
    grid = np.array([(a, b) for a in edges for b in edges])
    random = np.random.default_rng(9)
    a = np.concatenate([grid[:, 0], random.uniform(0, 3, 4000), random.uniform(0.99, 1.01, 4000)])
    b = np.concatenate([grid[:, 1], random.uniform(-600, 600, 4000), random.uniform(-60000, 60000, 4000)])
    assert units(run("pow", "float64", a, b), np.power(a.astype(np.longdouble), b.astype(np.longdouble))) <= MOST


def test_the_table_has_the_bits_of_2_over_pi() -> None:
    words = two_over_pi_words()
    assert words[:2] == (0, 0xA2F9836E4E441529)  # 0.6366197723675814 of 2**64
    assert words[1] / 2**64 == 2 / math.pi
