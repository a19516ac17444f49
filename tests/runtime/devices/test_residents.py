# SPDX-License-Identifier: Apache-2.0
"""Resident tensors keep their bytes from run to run, on every device."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
from helpers.resident_programs import APPEND, append, keys_program, row_offset

from vdla.hardware.config import Config
from vdla.hardware.program import ProgramError
from vdla.runtime.devices import DEVICES, open_device
from vdla.runtime.devices.residents import Residents
from vdla.runtime.devices.run import run, upload
from vdla.runtime.diagnosis.comparison import compare
from vdla.simulator.simulate import simulate
from vdla.support.errors import Error

TINY = Config.preset("tiny")
PROGRAM = append()
REMOTE = "pynq://"  # a simulator behind a server
PRESENT = [pytest.param(name, marks=[pytest.mark.rtl] if name == "rtl" else []) for name in (*DEVICES, REMOTE)]


@pytest.fixture(params=PRESENT)
def device(request):
    if request.param == REMOTE:
        from vdla.runtime.remote.server import RemoteServer

        with RemoteServer("sim", TINY, "127.0.0.1:0") as server, open_device(str(server.address), TINY) as opened:
            yield opened
        return
    if request.param == "pynq":
        request.getfixturevalue("pynq_board")
    with open_device(request.param, TINY) as opened:
        yield opened


def keys_of(program, device, rng, kept, known, place):
    """Append a random key; the scores, the expected ones, and the cycles."""
    blocks, size = program.tensor("key").shape
    key, query = (rng.integers(-128, 128, (blocks, size), np.int8) for _ in range(2))
    known[place] = key.ravel()
    given = {"key": key, "query": query}
    offsets = {"row": row_offset(program.config, place, blocks)}
    result = run(program, given, device, residents=kept, offsets=offsets)
    return result.outputs["scores"].ravel(), known @ query.ravel().astype(int), result.statistics.total_cycles


def test_keys_are_appended_in_place_and_read_as_weights(device):
    program, rng = keys_program(TINY, 2, 3), np.random.default_rng(0)
    known = np.zeros((8, 12), int)
    with Residents(device, [program]) as kept:
        for place in rng.permutation(8)[:5].tolist():
            got, expected, cycles = keys_of(program, device, rng, kept, known, place)
            assert (got == expected).all()
            if device.name != "pynq":
                assert cycles == simulate(program, mode="timing").statistics.total_cycles
        assert (kept.read("keys").swapaxes(1, 2).reshape(8, 12) == known).all()
        kept.restart()
        assert not kept.read("keys").any()
        kept.write("keys", np.ones((2, 3, 4, 4), np.int8))
        assert (kept.read("keys") == 1).all()


def test_no_device_runs_a_part_outside_of_its_whole(device):
    short, long = keys_program(TINY, 1, 3), keys_program(TINY, 3, 3)
    given = {name: np.ones((3, 4), np.int8) for name in ("key", "query")}
    with Residents(device, [short, long]) as kept, ExitStack() as stack:
        held = kept.addresses(short, device)
        addresses = upload(short, given, device, stack, held=held)
        with pytest.raises(Error, match=r"place of row must be inside of keys, got bytes"):
            device.run(short, {**addresses, "row": addresses["keys"] + 96})
        assert not kept.read("keys").any()
        device.run(short, addresses)
        assert kept.read("keys").any()


@pytest.mark.rtl
def test_cycles_agree_wherever_a_part_lies():
    program, rng = keys_program(TINY, 2, 3), np.random.default_rng(1)
    times = []
    for name in ("sim", "rtl"):
        known = np.zeros((8, 12), int)
        with open_device(name, TINY) as device, Residents(device, [program]) as kept:
            times.append([keys_of(program, device, rng, kept, known, place)[2] for place in range(8)])
    assert times[0] == times[1]


@pytest.mark.rtl
def test_a_program_with_a_part_is_compared():
    with open_device("sim", TINY) as sim, open_device("rtl", TINY) as rtl:
        result = compare(PROGRAM, {"x": np.full((1, 4), 5, np.int8)}, (sim, rtl))
    assert result.equal


def test_programs_of_several_lengths_share_a_tensor():
    short, long = keys_program(TINY, 1, 3), keys_program(TINY, 3, 3)
    rng, known = np.random.default_rng(0), np.zeros((12, 12), int)
    with open_device("sim", TINY) as device, Residents(device, [short, long]) as kept:
        assert kept.read("keys").shape == (3, 3, 4, 4)
        got, expected, _ = keys_of(short, device, rng, kept, known, 2)
        assert (got == expected[:4]).all()
        got, expected, _ = keys_of(long, device, rng, kept, known, 9)
        assert (got == expected).all()


def test_without_residents_every_run_begins_anew():
    inputs = {"x": np.full((1, 4), 5, np.int8)}
    program = append(APPEND, (".uop first last\n", f".data sums {'07000000' * 32}\n.uop first last\n"))
    expected = np.full((8, 4), 7, np.int32)
    for row in (2, 3):
        expected[...], expected[row] = 7, 5
        for result in (
            run(program, inputs, offsets={"row": 16 * row}),
            simulate(program, inputs, offsets={"row": 16 * row}),
        ):
            assert (result.outputs["total"] == expected).all()
    with open_device("sim", TINY) as device, Residents(device, [program]) as kept:
        run(program, inputs, device, residents=kept, offsets={"row": 0})
        run(program, inputs, device, residents=kept, offsets={"row": 112})
        assert (kept.read("sums")[1:7] == 7).all()
        assert (kept.read("sums")[[0, 7]] == 5).all()
        kept.restart()
        assert (kept.read("sums") == 7).all()


def message(call, *arguments, **options):
    with pytest.raises(ProgramError) as error:
        call(*arguments, **options)
    return str(error.value)


def test_what_does_not_fit_is_refused():
    short, longer, inputs = keys_program(TINY, 1, 3), keys_program(TINY, 3, 3), {"x": np.zeros((1, 4), np.int8)}
    begun = append(APPEND, (".uop first last\n", f".data sums {'07' * 128}\n.uop first last\n"))
    with open_device("sim", TINY) as device, open_device("sim", TINY) as second, Residents(device, [short]) as kept:
        assert message(kept.addresses, longer, device) == (
            "program keys: residents must have keys, int8 of at least 144 bytes, got int8 of 48 bytes; "
            "give all programs to Residents"
        )
        assert message(run, PROGRAM, inputs, device, residents=kept) == (
            "program append: residents must have sums, int32 of at least 128 bytes, got none; "
            "give all programs to Residents"
        )
        assert message(run, PROGRAM, inputs, device, residents={}) == (
            "program append: residents must be vdla.devices.Residents, got dict"
        )
        assert message(kept.addresses, short, second) == (
            "program keys: residents must be on the device sim of the run, got another device sim"
        )
        assert message(kept.read, "x") == "residents: name must be one of keys, got x"
        assert message(Residents, device, [PROGRAM, begun]) == (
            "program append: resident sums must begin alike in every program, got another byte 0"
        )
        narrow = append(
            APPEND.replace("int32 shape=8x4\n.tensor row", "int8 shape=8x4\n.tensor row"),
            ("whole=sums dtype=int32", "whole=sums dtype=int8"),
        )
        assert message(Residents, device, [PROGRAM, narrow]) == (
            "program append: resident sums must be int32 in every program, got int8"
        )
        assert message(run, PROGRAM, inputs, device, offsets={"row": 128}) == (
            "program append: offset of row in sums must be a multiple of 4 from 0 to 112, got 128"
        )
