# SPDX-License-Identifier: Apache-2.0
"""Where programs may lie: tensors and stream are apart, and end within the machine's addresses."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Load, columns, encode
from vdla.hardware.isa.instructions import Buffer
from vdla.hardware.program import STREAM, Program, ProgramError, ProgramTensor, place, placed_sizes, require_apart
from vdla.simulator.timing import time_program
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program

TINY = Config.preset("tiny")
PROGRAM = gemm_program(GemmTiling(TINY, 6, 8, 8, 2, 1))
SIZES = placed_sizes(PROGRAM)
BEAT = TINY.axi_bytes


def one(config, words, tensor):
    """A program of one instruction on one tensor."""
    index = np.zeros(1, np.int32)
    return Program(
        config=config, name="one", words=words, tensors=(tensor,), tensor_of=index, source_lines=("",), source_of=index
    )


def refused(link, addresses, message):
    with pytest.raises(ProgramError) as error:
        link(addresses)
    assert str(error.value) == f"program {PROGRAM.name}: {message}"


@pytest.mark.parametrize("link", [PROGRAM.link, PROGRAM.linked_columns, lambda a: time_program(PROGRAM, TINY, a)])
@pytest.mark.parametrize(("first", "second"), list(permutations(SIZES, 2)))
def test_no_two_of_tensors_and_stream_may_overlap(first, second, link):
    addresses, _ = place(PROGRAM, 1 << 20)
    start, nbytes = addresses[first], SIZES[first]
    for after in sorted({start + BEAT, start + nbytes - BEAT}):
        message = f"places of {first} and {second} must not overlap, got {ranges(start, first, after, second)}"
        refused(link, {**addresses, second: after}, message)
    one, other = sorted((first, second), key=lambda name: (SIZES[name], name))  # of two at one address
    message = f"places of {one} and {other} must not overlap, got {ranges(start, one, start, other)}"
    refused(link, {**addresses, second: start}, message)


def ranges(start, name, after, other):
    """Two ranges as the message names them."""
    return f"bytes {start} to {start + SIZES[name] - 1} and {after} to {after + SIZES[other] - 1}"


@pytest.mark.parametrize("order", [list(SIZES), list(SIZES)[::-1]])
def test_places_may_touch(order):
    addresses, end = {}, 0
    for name in order:
        addresses[name], end = end, end + SIZES[name]
    assert len(PROGRAM.link(addresses)) == len(PROGRAM)


def test_a_program_without_instructions_has_no_stream_to_overlap():
    none = np.zeros(0, np.int32)
    empty = replace(PROGRAM, words=PROGRAM.words[:0], tensors=PROGRAM.tensors[:1], tensor_of=none, source_of=none)
    addresses = {empty.tensors[0].name: 0, STREAM: 0}
    require_apart(empty, addresses)
    assert len(empty.link(addresses)) == 0


@pytest.mark.parametrize("preset", ["tiny", "pynq_z1", "ultra96", "pynq_z1_512x2"])
def test_a_tensor_ends_at_the_last_beat_or_before(preset):
    config = Config.preset(preset)
    width, size = config.axi_bytes, 8 * config.axi_bytes
    tensor = ProgramTensor(name="x", role="input", shape=(size,), dtype="int8", layout="C", nbytes=size)
    words = encode(config, [Load(Buffer.INP, dram=1)])
    program = one(config, words, tensor)
    last = (width << 32) - size
    assert columns(config, program.link({"x": last}))[0, COL["dram"]] == (1 << 32) - 7
    for address in (last + width, width << 32):
        with pytest.raises(ProgramError) as error:
            program.link({"x": address})
        assert str(error.value) == (
            f"program one: address of x must be at most {last}, so that its {size} bytes lie in the "
            f"{width << 32} that the machine addresses, got {address}"
        )


def test_an_instruction_of_an_unverified_program_addresses_a_beat_that_exists():
    tensor = ProgramTensor(name="x", role="input", shape=(8,), dtype="int8", layout="C", nbytes=8)
    words = encode(TINY, [Load(Buffer.INP, dram=2)])
    program = one(TINY, words, tensor)
    with pytest.raises(ProgramError) as error:
        program.link({"x": (BEAT << 32) - 8})
    assert str(error.value) == "program one: instruction 0 must address a beat below 4294967296, got 4294967296"
