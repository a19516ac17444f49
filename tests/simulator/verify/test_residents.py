# SPDX-License-Identifier: Apache-2.0
"""The verifier on parts of resident tensors: what accesses a part may access all of its whole."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.hand_programs import messages
from helpers.resident_programs import APPEND, append, keys_program

from vdla.hardware.config import Config
from vdla.simulator.verify import verify
from vdla.simulator.verify.clear import clear
from vdla.simulator.verify.tokens import token_run
from vdla.verification.adversary import Harm, attack
from vdla.verification.programs.mutation import mutants

ALONE = ((" signal=compute", ""), (" wait=store", ""))  # no token from the STORE to the LOAD


@pytest.mark.parametrize("preset", ["tiny", "pynq_z1", "kv260"])
def test_a_load_of_the_whole_behind_a_store_of_a_part_is_verified(preset):
    program = keys_program(Config.preset(preset), 3, 2)
    assert verify(program).ok
    assert verify(program).warnings == ()
    assert attack(program).harm == Harm.NONE


def test_a_load_of_the_whole_that_no_token_orders_is_a_race():
    program = append(APPEND, *ALONE)
    assert messages(verify(program))[0] == (
        "race: instruction 3 (STORE in store) writes sums[0..31] and instruction 4 (LOAD acc in compute) reads it; "
        "no token orders them (read after write)"
    )
    assert attack(program).harm == Harm.TIMING


def test_a_part_may_lie_where_another_access_is_that_it_does_not_overlap_at_its_first_place():
    text = APPEND.replace("load acc dram=sums x_size=8", "load acc dram=sums+0x1c x_size=1")
    program = append(text, ("loop1=8 ", ""), ("x_size=32", "x_size=4"), *ALONE)
    assert "no token orders them" in messages(verify(program))[0]
    assert attack(program).harm == Harm.TIMING


def test_two_parts_of_a_tensor_may_overlap():
    text = APPEND.replace(".tensor total", ".tensor other role=part whole=sums dtype=int32 shape=8x4\n.tensor total")
    program = append(text, ("load acc dram=sums", "load acc dram=other"))
    assert verify(program).ok
    assert not verify(append(text, ("load acc dram=sums", "load acc dram=other"), *ALONE)).ok


def test_an_earlier_run_has_written_a_resident_tensor():
    text = APPEND.replace(
        "store dram=row x_size=4 wait=compute signal=compute", "sync store wait=compute signal=compute"
    )
    assert verify(append(text)).ok
    scratch = append(
        text, ("role=resident", "role=scratch"), (".tensor row role=part whole=sums", ".tensor row role=scratch")
    )
    assert "sums[0..31] must be written before it is read" in messages(verify(scratch))[0]


@pytest.mark.parametrize("role", ["input", "weight"])
def test_other_tensors_are_not_written(role):
    program = append(APPEND, ("role=part whole=sums", f"role={role}"))
    assert messages(verify(program)) == [
        "bounds: instruction 3 (STORE in store): tensor must have role output, scratch, resident or part to be "
        f"written, got {role} row"
    ]


@pytest.mark.parametrize("change", [(), ALONE, ((" wait=store", ""),), (("x_size=8 wait", "x_size=9 wait"),)])
def test_the_check_on_whole_arrays_agrees(change):
    program = append(APPEND, *change)
    found = clear(program, token_run(program.columns))
    assert (found is not None) == verify(program).ok


@pytest.mark.parametrize("program", [append(), keys_program(Config.preset("tiny"), 3, 2)], ids=["append", "keys"])
def test_no_mutant_that_is_verified_can_be_harmed(program):
    refused = 0
    for mutant in mutants(program, 120, np.random.default_rng(7)):
        verdict = verify(mutant.program)
        refused += not verdict.ok
        assert not (verdict.ok and attack(mutant.program, count=2).harmful), mutant
    assert refused > 20
