# SPDX-License-Identifier: Apache-2.0
"""Programs are verified, then timed once the event loop is compiled; those alike once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.hand_programs import PIPELINE, PRODUCT, changed, program
from helpers.small_programs import small_gemm

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.network import build as program_timer
from vdla.runtime.network.build import ProgramTimer
from vdla.simulator import timing
from vdla.simulator.timing import time_program
from vdla.support.background import Background

TINY = Config.preset("tiny")


@pytest.mark.parametrize("prepared", [False, True])
def test_times_are_those_of_the_simulator(prepared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    program = small_gemm(TINY)[0]
    monkeypatch.setattr(timing, "is_prepared", lambda: prepared)
    with Background(0) as background:
        found = ProgramTimer(TINY, background)(program)
    assert found.total_cycles == time_program(program).total_cycles


def test_an_unsafe_program_does_not_wait_for_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(program: object) -> None:
        raise ValueError("not safe")

    monkeypatch.setattr(timing, "is_prepared", lambda: False)
    monkeypatch.setattr(program_timer, "require_verified", refuse)
    with Background(0) as background:
        timer = ProgramTimer(TINY, background)
        with pytest.raises(ValueError, match="not safe"):
            timer(small_gemm(TINY)[0])
        assert timer._preparation[0].outcome is None


def test_times_are_taken_once_and_have_the_name_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Program] = []
    monkeypatch.setattr(timing, "time_program", lambda one: calls.append(one) or time_program(one))
    plain, named = program(*PIPELINE), replace(changed(PIPELINE.index(PRODUCT), zero_point=3), name="other")
    with Background(0) as background:
        timer = ProgramTimer(plain.config, background)
        first, second = timer(plain), timer(named)
    assert calls == [plain]
    assert (second.program, second.program_hash) == ("other", named.hash)
    assert second.total_cycles == first.total_cycles == time_program(named).total_cycles
