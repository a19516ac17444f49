# SPDX-License-Identifier: Apache-2.0
"""Compiling kernels in advance: every part that is not in the disk cache."""

import pytest

from vdla.simulator import warm_up


@pytest.mark.parametrize("part", ["timing", "function", "vector"])
def test_a_part_is_on_disk_after_its_compilation(part):
    warm_up.compile_part(part)
    assert warm_up.is_warm(part)


def test_warm_up_starts_no_process_if_everything_is_compiled():
    for part in warm_up.USUAL:
        warm_up.compile_part(part)
    warming = warm_up.warm_up()
    assert warming.processes == []
    warming.wait()


def test_a_part_that_another_process_compiled_meanwhile_is_not_compiled_again(monkeypatch, tmp_path):
    states = iter([False, True])
    monkeypatch.setattr(warm_up, "user_cache", lambda kind: tmp_path / kind)
    monkeypatch.setattr(warm_up, "is_warm", lambda part: next(states))
    monkeypatch.setattr(warm_up, "compile_part", lambda part: pytest.fail("compiled twice"))
    warm_up.prepare("timing")
    assert next(states, None) is None
