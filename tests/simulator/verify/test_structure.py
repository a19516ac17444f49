# SPDX-License-Identifier: Apache-2.0
"""Programs that differ in the numbers that they compute with only are verified once."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from helpers.hand_programs import DATA, PIPELINE, PRODUCT, changed, program

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, MicroOp, with_fields
from vdla.hardware.program import Program
from vdla.simulator.timing import time_program
from vdla.simulator.verify import VerifyError, accept_verified, require_verified, verify
from vdla.verification.programs.random_programs import random_verified_program

verifier = importlib.import_module("vdla.simulator.verify.verify")

PLAIN = program(*PIPELINE)
PRODUCT_AT = PIPELINE.index(PRODUCT)
ALIKE = [changed(PRODUCT_AT, zero_point=3), changed(PRODUCT_AT, clip_lo=-5, clip_hi=7)]
PADDED = [changed(PIPELINE.index(DATA), x_size=8, x_after=8, pad_value=value) for value in (0, 5)]


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that are verified; none is remembered from before."""
    programs: list[Program] = []

    def noted(program: Program, config: Config | None = None) -> object:
        programs.append(program)
        return verify(program, config)

    monkeypatch.setattr(verifier, "_VERIFIED", OrderedDict())
    monkeypatch.setattr(verifier, "verify", noted)
    return programs


def test_programs_alike_are_verified_once(verified: list[Program]) -> None:
    for one in (PLAIN, *ALIKE, PLAIN, *PADDED):
        require_verified(one)
    assert verified == [PLAIN, PADDED[0]]


def test_the_words_of_each_are_checked(verified: list[Program]) -> None:
    require_verified(PLAIN)
    ones = np.ones(len(PLAIN), np.int64)
    bad = replace(PLAIN, words=with_fields(PLAIN.config, PLAIN.words, {"pad_value": ones}))
    assert bad.structure == PLAIN.structure
    with pytest.raises(VerifyError, match="pad_value must be 0 unless there is padding, got 1"):
        require_verified(bad)


@pytest.mark.parametrize("fields", [{"acc0": 4}, {"pop_prev": 0}, {"loop0": 17}, {"emit": 0}])
def test_what_makes_a_program_unsafe_makes_it_another(fields: dict[str, int], verified: list[Program]) -> None:
    require_verified(PLAIN)
    with pytest.raises(VerifyError):
        require_verified(changed(PRODUCT_AT, **fields))


def test_what_is_trusted_vouches_for_itself_only(verified: list[Program]) -> None:
    accept_verified(PLAIN)
    require_verified(PLAIN)
    assert verified == []
    require_verified(ALIKE[0])
    assert verified == [ALIKE[0]]


def test_sizes_roles_and_micro_ops_count() -> None:
    one = PLAIN.tensors[0]
    others = [
        replace(PLAIN, tensors=(replace(one, role="weight"), *PLAIN.tensors[1:])),
        replace(PLAIN, tensors=(replace(one, nbytes=one.nbytes + 64, shape=(one.nbytes + 64,)), *PLAIN.tensors[1:])),
        replace(PLAIN, tensor_of=np.where(PLAIN.tensor_of == 5, 6, PLAIN.tensor_of).astype(np.int32)),
        program(*PIPELINE, uops=(MicroOp(last=1),)),
    ]
    assert len({item.structure for item in (PLAIN, *others)}) == 1 + len(others)


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("preset", ["tiny", "pynq_z1"])
def test_verdicts_and_times_are_those_of_the_structure(preset: str, seed: int) -> None:
    one = random_verified_program(Config.preset(preset), seed, 40)
    numbers = {name: (one.columns[:, COL[name]] != 0).astype(np.int64) for name in ("imm", "zero_point", "pad_value")}
    other = replace(one, words=with_fields(one.config, one.words, numbers))
    assert one.hash != other.hash
    assert one.structure == other.structure
    assert verify(other).ok
    times = [time_program(item) for item in (one, other)]
    assert np.array_equal(times[0].ends, times[1].ends)
