"""Compiling ahead of use."""

import pytest

from vdla.simulator import warm


@pytest.mark.parametrize("part", warm.PARTS)
def test_a_part_compiled_here_is_on_disk(part):
    warm.compile_part(part)
    assert warm.is_warm(part)


def test_nothing_is_started_when_all_is_compiled():
    for part in warm.USUAL:
        warm.compile_part(part)
    warming = warm.begin()
    assert warming.processes == []
    warming.wait()
