# SPDX-License-Identifier: Apache-2.0
"""What a machine says that it is: each mismatch names its remedy."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from vdla.hardware.config import Config
from vdla.hardware.generate.build_hash import build_hash
from vdla.hardware.generate.registers import ID, VERSION
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.driver import Builds, Identity, require_identity, source_build

TINY = Config.preset("tiny")
BUILD = 0xABCDEF012345
GOOD = Identity(ID, VERSION, int(TINY.fingerprint, 16), BUILD)
HEX = "abcdef012345"


def refusal(identity: Identity, builds: Builds | None = None, config: Config = TINY) -> str:
    with pytest.raises(DeviceError) as error:
        require_identity("device pynq", identity, config, builds or Builds())
    return str(error.value)


@pytest.mark.parametrize(
    "builds",
    [
        Builds(),
        Builds(HEX, TINY.fingerprint, HEX),
        Builds(handoff="0" * 12),
        Builds(sources="1" * 12, accepted=HEX),
    ],
)
def test_the_machine_that_is_meant_passes(builds):
    require_identity("device pynq", GOOD, TINY, builds)


def test_a_machine_that_does_not_know_its_build_passes():
    require_identity("device pynq", replace(GOOD, build=0), TINY, Builds(HEX, None, HEX))


def test_something_else_at_the_address():
    assert refusal(replace(GOOD, id=0)) == (
        "device pynq: register ID must be 0x56444c41, got 0x0; no VDLA is at this address: load a bitstream of VDLA"
    )


@pytest.mark.parametrize(
    ("version", "age"),
    [(VERSION - 1, "an older release: build the bitstream again"), (VERSION + 1, "a newer release: update vdla")],
)
def test_another_register_table(version, age):
    assert refusal(replace(GOOD, version=version)) == (
        f"device pynq: register VERSION must be {VERSION}, the register table of this release, got {version}; "
        f"the bitstream is of {age}"
    )


def test_the_hardware_of_another_preset_is_named():
    other = Config.preset("pynq_z1").fingerprint
    assert refusal(replace(GOOD, fingerprint=int(other, 16))) == (
        f"device pynq: fingerprint must be {TINY.fingerprint} (tiny), got {other}, preset pynq_z1's; "
        "compile for preset pynq_z1, or load the bitstream of tiny"
    )


def test_the_hardware_of_no_preset():
    assert refusal(replace(GOOD, fingerprint=5)) == (
        f"device pynq: fingerprint must be {TINY.fingerprint} (tiny), got 000000000005, which is no preset's; "
        "compile for the configuration of the bitstream, or load the bitstream of tiny"
    )


def test_a_bitstream_beside_the_handoff_file_of_another_build():
    assert refusal(GOOD, Builds(handoff="1" * 12)) == (
        "device pynq: build must be 111111111111, as the .hwh file says, got abcdef012345; "
        "the .bit and the .hwh are of different builds: copy both from the same one"
    )
    assert refusal(GOOD, Builds(handoff_fingerprint="2" * 12)) == (
        f"device pynq: fingerprint must be 222222222222, as the .hwh file says, got {TINY.fingerprint}; "
        "the .bit and the .hwh are of different builds: copy both from the same one"
    )


@pytest.mark.parametrize("accepted", [None, "2" * 12])
def test_a_bitstream_of_other_sources(accepted):
    assert refusal(GOOD, Builds(HEX, None, "1" * 12, accepted)) == (
        "device pynq: build must be 111111111111, that of this release's sources for tiny, got abcdef012345; "
        "build the bitstream again (vdla board vivado), or accept this one with accept_build='abcdef012345'"
    )


def test_the_build_of_this_installation(monkeypatch, tmp_path):
    assert source_build(TINY) == build_hash(TINY)
    monkeypatch.setattr("vdla.hardware.generate.rtl_files.FOLDER", tmp_path / "none")
    assert source_build(TINY) is None


def test_a_board_without_the_generator_has_no_build(monkeypatch):
    monkeypatch.setitem(sys.modules, "vdla.hardware.generate.build_hash", None)
    assert source_build(TINY) is None
