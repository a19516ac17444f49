# SPDX-License-Identifier: Apache-2.0
"""The collector's thresholds within contexts, which may overlap, and after the last one."""

import gc
from contextlib import ExitStack

import pytest

from vdla.support.rare_collections import rare_collections


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_the_thresholds_return_at_the_end_of_the_last_context():
    gc.set_threshold(700, 11, 12)
    first, second = ExitStack(), ExitStack()
    first.enter_context(rare_collections())
    second.enter_context(rare_collections())
    first.close()
    assert gc.get_threshold() == (200_000, 11, 12)
    second.close()
    assert gc.get_threshold() == (700, 11, 12)


def test_an_error_restores_them_too():
    gc.set_threshold(700, 11, 12)
    with pytest.raises(ValueError, match="no"), rare_collections():
        raise ValueError("no")
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("given", [0, 500_000])
def test_a_collector_that_is_off_or_as_rare_stays_so(given):
    gc.set_threshold(given, 11, 12)
    with rare_collections():
        assert gc.get_threshold()[0] == given
    assert gc.get_threshold() == (given, 11, 12)
