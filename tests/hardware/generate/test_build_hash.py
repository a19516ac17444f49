# SPDX-License-Identifier: Apache-2.0
"""The hash of a build changes with the RTL and the machine, and with nothing else."""

import re
import shutil
from dataclasses import replace

import pytest

from vdla.hardware.config import Config, Dram
from vdla.hardware.generate.build_hash import build_hash
from vdla.hardware.generate.rtl_files import FOLDER
from vdla.hardware.generate.verilog_wrapper import render_wrapper
from vdla.runtime.devices import open_device

TINY = Config.preset("tiny")


def test_a_hash_is_twelve_hex_digits():
    assert re.fullmatch(r"[0-9a-f]{12}", build_hash(TINY))


@pytest.mark.parametrize("change", [{"array_rate": 2}, {"token_depth": 16}, {"inp_kib": 2}])
def test_another_machine_has_another_hash(change):
    assert build_hash(replace(TINY, **change)) != build_hash(TINY)


def test_name_memory_and_clock_do_not_change_the_hardware():
    assert build_hash(replace(TINY, name="other", dram=Dram(read_latency=7), clock_mhz=10)) == build_hash(TINY)


def test_another_source_has_another_hash(tmp_path):
    folder = shutil.copytree(FOLDER, tmp_path / "rtl")
    assert build_hash(TINY, folder) == build_hash(TINY)
    with (folder / "vdla_fifo.sv").open("a") as file:
        file.write("// changed\n")
    assert build_hash(TINY, folder) != build_hash(TINY)


def test_the_wrapper_hands_the_hash_to_the_machine():
    assert f".Build(48'h{build_hash(TINY)})" in render_wrapper(TINY)


@pytest.mark.rtl
def test_the_registers_of_the_model_show_the_hash():
    with open_device("rtl", TINY) as device:
        assert f"{device.driver.read_wide('BUILD'):012x}" == build_hash(TINY)
