# SPDX-License-Identifier: Apache-2.0
"""Resident tensors and their parts: what may be declared, where parts may lie, files and texts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.resident_programs import APPEND, append

from vdla.hardware.asm import assemble, disassemble
from vdla.hardware.program import STREAM, Program, ProgramError, allocated_sizes, place, with_parts

PROGRAM = append()
ROW = PROGRAM.tensor("row")
ROLES = "input, weight, constant, output, scratch, resident, part"


def changed(**fields):
    """The program with another row."""
    return replace(PROGRAM, tensors=tuple(replace(t, **fields) if t.name == "row" else t for t in PROGRAM.tensors))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"whole": ""}, "tensor row: whole must name a resident tensor, got ''"),
        ({"role": "output"}, "tensor row: whole must be empty for role output, got 'sums'"),
        ({"role": "piece"}, f"tensor row: role must be one of {ROLES}, got piece"),
        ({"whole": "x"}, "program append: whole of row must be a resident tensor, got x, input"),
        ({"whole": "none"}, "program append: whole of row must be a resident tensor, got none, no tensor"),
        ({"whole": "row"}, "program append: whole of row must be a resident tensor, got row, part"),
        ({"dtype": "int8", "shape": (16,)}, "program append: row must have the int32 of sums, got int8"),
        (
            {"shape": (9, 4), "nbytes": 144},
            "program append: row must have at most the 128 bytes of sums, got 144",
        ),
    ],
)
def test_a_part_must_be_declared_of_a_resident_tensor_that_holds_it(fields, message):
    with pytest.raises(ProgramError) as error:
        changed(**fields)
    assert str(error.value) == message


def test_a_part_has_no_memory_of_its_own():
    assert allocated_sizes(PROGRAM).keys() == {"x", "sums", "total", "uops", STREAM}
    addresses, end = place(PROGRAM, 1 << 20, {"row": 48})
    assert addresses["row"] == addresses["sums"] + 48
    assert end == addresses[STREAM] + PROGRAM.words.nbytes
    assert place(PROGRAM)[0]["row"] == place(PROGRAM)[0]["sums"]


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ({"row": 116}, "offset of row in sums must be a multiple of 4 from 0 to 112, got 116"),
        ({"row": -4}, "offset of row in sums must be a multiple of 4 from 0 to 112, got -4"),
        ({"row": 6}, "offset of row in sums must be a multiple of 4 from 0 to 112, got 6"),
        ({"row": 4.0}, "offset of row in sums must be a multiple of 4 from 0 to 112, got 4.0"),
        ({"sums": 4}, "offsets must be of row, got sums"),
        ({"rwo": 4}, "offsets must be of row, got rwo (did you mean row?)"),
        ([4], "offsets must be a mapping from parts to bytes, got list"),
    ],
)
def test_an_offset_must_keep_a_part_in_its_whole(offsets, message):
    with pytest.raises(ProgramError) as error:
        with_parts(PROGRAM, place(PROGRAM)[0], offsets)
    assert str(error.value) == f"program append: {message}"


@pytest.mark.parametrize("shift", [-4, 116, 1 << 20])
def test_no_program_is_linked_with_a_part_outside_of_its_whole(shift):
    addresses, _ = place(PROGRAM, 1 << 16)
    start = addresses["sums"] + shift
    with pytest.raises(ProgramError) as error:
        PROGRAM.link({**addresses, "row": start})
    first = addresses["sums"]
    assert str(error.value) == (
        f"program append: place of row must be inside of sums, "
        f"got bytes {start} to {start + 15} of {first} to {first + 127}"
    )


def test_other_tensors_may_still_not_overlap():
    addresses, _ = place(PROGRAM, 1 << 16)
    with pytest.raises(ProgramError, match=r"places of sums and total must not overlap"):
        PROGRAM.link({**addresses, "total": addresses["row"]})


def test_files_and_texts_keep_parts(tmp_path):
    PROGRAM.save(tmp_path / "append.vdla")
    loaded = Program.load(tmp_path / "append.vdla")
    assert loaded.tensors == PROGRAM.tensors
    assert loaded.hash == PROGRAM.hash
    assert assemble(disassemble(PROGRAM)).to_bytes() == PROGRAM.to_bytes()


def test_what_a_resident_tensor_begins_with_is_kept():
    program = append(APPEND, (".uop first last\n", f".data sums {'07' * 128}\n.uop first last\n"))
    assert program.tensor("sums").data == bytes([7] * 128)
    assert Program.from_bytes(program.to_bytes(), "file").tensor("sums").data == bytes([7] * 128)


def test_hashes_depend_on_the_whole_of_a_part():
    text = APPEND.replace(".tensor row", ".tensor more role=resident dtype=int32 shape=8x4\n.tensor row")
    one, other = append(text), append(text, ("whole=sums", "whole=more"))
    assert one.hash != other.hash
    assert one.structure != other.structure
