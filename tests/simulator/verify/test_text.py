# SPDX-License-Identifier: Apache-2.0
"""The text of a verdict, its length, and the cost of verifying huge programs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.hand_programs import DATA, ONE, PIPELINE, PRODUCT, RESULT, SCALE, UOPS, WEIGHT, program

from vdla.hardware.isa import Gemm, Sync, Unit
from vdla.simulator.verify import Range, VerifyError, verify


def test_the_text_names_the_schedule_lines():
    lines = ["load the micro-ops", "load the weights", "load the scales", "load the data", "multiply", "store"]
    bad = program(UOPS, WEIGHT, SCALE, replace(DATA, push_next=0), replace(PRODUCT, pop_prev=0), RESULT, lines=lines)
    verdict = verify(bad)
    assert str(verdict) == (
        "program hand: refused, 3 findings in 6 instructions\n"
        "  race: instruction 1 (LOAD wgt in load) writes wgt[0] and instruction 4 (GEMM in compute) reads it; "
        "no token orders them (read after write)\n"
        "    schedule: load the weights\n"
        "    schedule: multiply\n"
        "  race: instruction 2 (LOAD scl in load) writes scl[0] and instruction 4 (GEMM in compute) reads it; "
        "no token orders them (read after write)\n"
        "    schedule: load the scales\n"
        "    schedule: multiply\n"
        "  race: instruction 3 (LOAD inp in load) writes inp[0..15] and instruction 4 (GEMM in compute) reads it; "
        "no token orders them (read after write)\n"
        "    schedule: load the data\n"
        "    schedule: multiply"
    )
    with pytest.raises(VerifyError) as caught:
        verdict.raise_if_bad()
    assert str(caught.value) == str(verdict)
    assert caught.value.verdict is verdict


def test_the_text_shortens_long_schedule_lines():
    line = "for " + "x" * 200
    verdict = verify(program(replace(DATA, dram=99), lines=[line]))
    assert verdict.findings[0].schedule == (line,)
    assert str(verdict).split("\n")[2] == f"    schedule: {line[:92]} ..."


def test_many_findings_are_counted_not_listed():
    bad = program(UOPS, *[replace(DATA, dram=64, push_next=0)] * 20)
    verdict = verify(bad)
    assert len(verdict.findings) == 8
    assert verdict.more == 12
    assert str(verdict).startswith("program hand: refused, 20 findings in 21 instructions\n")
    assert str(verdict).endswith("\n  and 12 findings more")


def test_a_huge_tensor_costs_only_its_accessed_beats():
    beats = {"tmp": 1 << 33, "data": 64, "weight": 64, "scale": 64, "bias": 64, "out": 16}
    far = replace(RESULT, dram=(1 << 32) - 16)
    good = program(*PIPELINE[:5], (replace(far, push_prev=1), "tmp"), Sync(Unit.COMPUTE, pop_next=1), beats=beats)
    assert verify(good).ok
    back = (replace(DATA, sram=16, dram=(1 << 32) - 15, x_size=4, push_next=0), "tmp")
    bad = program(*PIPELINE[:5], (far, "tmp"), back, beats=beats)
    assert verify(bad).findings[0].ranges == (Range("tmp", (1 << 32) - 15, (1 << 32) - 12),)


def test_huge_loop_counts_are_verified_quickly():
    many = Gemm(loop0=256, loop1=511, init=1, pop_prev=1, uop_end=128)
    steps = (replace(UOPS, x_size=128), WEIGHT, SCALE, DATA, many)
    assert verify(program(*steps, uops=ONE * 128)).ok
