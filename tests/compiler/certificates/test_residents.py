# SPDX-License-Identifier: Apache-2.0
"""Programs on symbols whose parts of resident tensors are updates of them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.resident_programs import APPEND, append, keys_program, row_offset

from vdla.compiler.certificates.elementwise import numbers, unknowns
from vdla.compiler.certificates.program_run import run_program
from vdla.compiler.certificates.symbols import OPAQUE
from vdla.hardware.config import Config

TINY = Config.preset("tiny")


def same(one, other):
    """Whether symbols are equal, by element."""
    return one["value"] == other["value"]


@pytest.mark.parametrize("preset", ["tiny", "pynq_z1"])
@pytest.mark.parametrize("place", [0, 5])
def test_a_stored_key_is_an_update_of_its_row_alone(preset, place):
    config = Config.preset(preset)
    program = keys_program(config, 2, 3)
    given = {name: unknowns(name, program.tensor(name).shape, "int8", 0) for name in ("key", "query", "keys")}
    results = run_program(program, given, {"row": row_offset(config, place, 3)})
    group, row = divmod(place, config.block_out)
    updated = given["keys"].copy()
    updated.view(OPAQUE)[group, :, row] = given["key"].view(OPAQUE)
    assert same(results["keys"], updated).all()
    assert not same(results["keys"], given["keys"]).all()


def test_scores_are_those_of_the_updated_keys():
    program, rng = keys_program(TINY, 2, 3), np.random.default_rng(0)
    key, query = (rng.integers(-128, 128, (3, 4), np.int8) for _ in range(2))
    keys = rng.integers(-128, 128, (2, 3, 4, 4), np.int8)
    given = {"key": numbers(key), "query": numbers(query), "keys": numbers(keys)}
    results = run_program(program, given, {"row": row_offset(TINY, 6, 3)})
    keys[1, :, 2] = key
    expected = np.einsum("gbpk,bk->gp", keys.astype(int), query.astype(int))
    assert (results["scores"]["low"] == expected).all()
    assert (results["keys"]["low"] == keys).all()


def test_a_load_before_the_store_reads_what_an_earlier_run_left():
    early = "load acc dram=sums x_size=8 sram=1\nload acc dram=x"
    program = append(
        APPEND,
        ("load acc dram=sums x_size=8 wait=store\n", ""),
        ("load acc dram=x", early),
        (
            "vector max operand=imm imm=-9 loop1=8 acc1=1 emit",
            "vector max operand=imm imm=-9 loop1=8 acc=1 acc1=1 emit",
        ),
        ("wait=compute signal=compute", "wait=compute"),
    )
    sums = np.arange(32).reshape(8, 4)
    given = {"x": numbers(np.full((1, 4), 99)), "sums": numbers(sums)}
    results = run_program(program, given, {"row": 16})
    assert (results["total"]["low"] == sums).all()
    assert (results["sums"]["low"][1] == 99).all()


def test_what_a_resident_tensor_begins_with_is_no_number_of_later_runs():
    program = append(APPEND, (".uop first last\n", f".data sums {'07' * 128}\n.uop first last\n"))
    results = run_program(program, {"x": numbers(np.zeros((1, 4)))}, {"row": 0})
    assert (results["sums"]["low"][1:] < results["sums"]["high"][1:]).all()
