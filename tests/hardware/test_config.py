# SPDX-License-Identifier: Apache-2.0
"""Configurations: presets, rules with their exact messages, fingerprint, files."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from helpers.extensions import lut
from helpers.random_config import random_config
from helpers.stateful import negated

from vdla.hardware.config import NOT_IN_FINGERPRINT, PRESETS, Buffer, Config, ConfigError, Dram

PYNQ = Config.preset("pynq_z1")


def test_pynq_z1_has_the_documented_sizes():
    assert PYNQ.entry_bytes == (16, 256, 128, 8, 64, 16)
    assert PYNQ.depths == (2048, 1024, 64, 4096, 2048, 2048)
    assert (PYNQ.inp_vectors, PYNQ.wgt_vectors, PYNQ.out_slots) == (2048, 16384, 512)
    assert (PYNQ.macs_per_cycle, PYNQ.axi_bytes, PYNQ.peak_gops) == (256, 8, 51.2)


def test_named_properties_agree_with_the_tuples():
    for config in PRESETS.values():
        for buffer in Buffer:
            name = buffer.name.lower()
            assert getattr(config, f"{name}_entry_bytes") == config.entry_bytes[buffer]
            assert getattr(config, f"{name}_depth") == config.depths[buffer]


def test_entries_of_int4_elements_are_half_as_large():
    config = Config.preset("int4")
    assert (config.inp_entry_bytes, config.wgt_entry_bytes, config.out_entry_bytes) == (8, 128, 8)
    assert (config.inp_dtype, config.wgt_dtype, config.out_dtype, config.acc_dtype) == ("int4", "int4", "int4", "int32")


def test_entry_sizes_scale_with_batch_and_blocks():
    config = Config.preset("batch4")
    assert (config.inp_entry_bytes, config.wgt_entry_bytes, config.acc_entry_bytes) == (64, 128, 128)
    assert config.inp_vectors == 2 * config.inp_depth


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_configurations_round_trip_through_json(config):
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_configuration_from_another_process_is_found_in_a_cache():
    script = "import pickle, sys; from vdla.hardware.config import Config; tiny = Config.preset('tiny'); hash(tiny);"
    script += "sys.stdout.buffer.write(pickle.dumps(tiny))"
    seed = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=seed)
    assert {Config.preset("tiny"): True}[pickle.loads(done.stdout)]


def test_the_table_of_presets_is_complete():
    assert all(name == config.name for name, config in PRESETS.items())
    boards = ["pynq_z1", "pynq_z2", "pynq_z1_512", "pynq_z1_512x2", "pynq_z1_lm"]
    boards += ["ultra96", "zcu104", "kv260", "kv260_lm"]
    assert list(PRESETS) == [*boards, "osdi18", "tiny", "int4", "batch4"]


OTHER = {
    "name": "x",
    "batch": 2,
    "block_in": 32,
    "block_out": 32,
    "inp_bits": 4,
    "wgt_bits": 4,
    "array_rate": 2,
    "command_depth": 5,
    "token_depth": 9,
    "axi_bits": 32,
    "axi_ports": 2,
    "burst_beats": 8,
    "dram": Dram(read_latency=7),
    "clock_mhz": 50,
    "extensions": (lut(Config.preset("pynq_z1")).plug_in(Config.preset("pynq_z1")),),
    "stage": negated(Config.preset("pynq_z1")).plug_in_stage(Config.preset("pynq_z1"), "negated"),
}


@pytest.mark.parametrize("name", [field.name for field in fields(Config)])
def test_the_fingerprint_covers_all_that_programs_depend_on(name):
    changed = replace(PYNQ, **{name: OTHER.get(name, 512)})
    assert (changed.fingerprint == PYNQ.fingerprint) == (name in NOT_IN_FINGERPRINT)
    assert (PYNQ.mismatch(changed) is None) == (name in NOT_IN_FINGERPRINT)
    assert changed != PYNQ
    assert hash(changed) != hash(PYNQ)


def test_mismatch_names_the_fields():
    wide = replace(PYNQ, block_out=32)
    assert PYNQ.mismatch(wide) == "program was compiled for block_out=16, device has 32"
    both = replace(wide, wgt_kib=64)
    assert PYNQ.mismatch(both) == (
        "program was compiled for block_out=16, wgt_kib=256, device has block_out=32, wgt_kib=64"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 3}, "config pynq_z1: batch must be a power of two from 1 to 64, got 3"),
        ({"block_in": 0}, "config pynq_z1: block_in must be a power of two from 1 to 256, got 0"),
        ({"block_out": "16"}, "config pynq_z1: block_out must be a power of two from 1 to 256, got '16'"),
        ({"inp_bits": 16}, "config pynq_z1: inp_bits must be a power of two from 2 to 8, got 16"),
        ({"array_rate": 3}, "config pynq_z1: array_rate must be a power of two from 1 to 2, got 3"),
        ({"batch": True}, "config pynq_z1: batch must be a power of two from 1 to 64, got True"),
        ({"axi_bits": 1024}, "config pynq_z1: axi_bits must be a power of two from 32 to 512, got 1024"),
        ({"axi_ports": 3}, "config pynq_z1: axi_ports must be a power of two from 1 to 4, got 3"),
        (
            {"axi_ports": 4},
            "config pynq_z1: a port must have at least 32 bits, got axi_bits 64 for 4 ports",
        ),
        (
            {"axi_ports": 2, "burst_beats": 129},
            "config pynq_z1: a burst must have at most 256 beats of a port, got burst_beats 129 for 2 ports",
        ),
        ({"burst_beats": 257}, "config pynq_z1: burst_beats must be an integer from 1 to 256, got 257"),
        ({"command_depth": 3}, "config pynq_z1: command_depth must be an integer from 4 to 4096, got 3"),
        ({"token_depth": 7}, "config pynq_z1: token_depth must be an integer from 8 to 4096, got 7"),
        ({"dram": {}}, "config pynq_z1: dram must be a Dram, got {}"),
        ({"clock_mhz": 0}, "config pynq_z1: clock_mhz must be a number above 0 and at most 10000, got 0"),
        ({"name": ""}, "config: name must be a printable string of 1 to 64 characters, got ''"),
        (
            {"block_in": 4, "inp_bits": 4},
            "config pynq_z1: an entry of the inp buffer must be a whole number of 64-bit AXI beats, got 16 bits",
        ),
        (
            {"wgt_kib": 1, "block_in": 64},
            "config pynq_z1: wgt_kib must hold at least 4 entries of 1024 bytes, got 1",
        ),
        (
            {"block_in": 256, "block_out": 1, "wgt_bits": 4},
            "config pynq_z1: a vector of block_out weights must fill a byte, got 4 bits",
        ),
        (
            {"out_kib": 1, "block_in": 32, "block_out": 256, "wgt_kib": 512, "inp_bits": 2},
            "config pynq_z1: out_kib must hold at least 4 raw int32 results, got 1",
        ),
        (
            {"inp_kib": 1, "block_out": 256, "wgt_kib": 512, "batch": 2},
            "config pynq_z1: inp_kib must hold at least 4 vectors of batch x block_out elements, got 2",
        ),
    ],
)
def test_invalid_configurations_are_refused(change, message):
    with pytest.raises(ConfigError) as error:
        replace(PYNQ, **change)
    assert str(error.value) == message


def test_a_configuration_whose_instruction_fields_overflow_is_refused():
    with pytest.raises(ConfigError) as error:
        replace(PYNQ, inp_kib=65536, wgt_kib=65536, acc_kib=65536)
    assert str(error.value) == "config pynq_z1: micro-op field first must end within 64 bits, got 65"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dram": {"read_latency": 0}}, "config dram: read_latency must be an integer from 1 to 65536, got 0"),
        ({"dram": 5}, "config: dram must be a table of fields, got 5"),
        ([], "config: description must be a table of fields, got []"),
        (
            {"dram": {"speed": 1}},
            "config dram: field must be one of banks, beat_cycles, burst_gap, bus_bytes, outstanding_reads, "
            "outstanding_writes, page_bytes, page_miss, read_latency, refresh_cycles, refresh_interval, turnaround, "
            "write_latency, got speed",
        ),
    ],
)
def test_invalid_descriptions_are_refused(values, message):
    with pytest.raises(ConfigError) as error:
        Config.from_dict(values)
    assert str(error.value) == message


def test_unknown_names_list_the_choices_and_the_nearest():
    with pytest.raises(ConfigError, match=r"^config: field must be one of acc_kib, .*, got blok_in \(did you mean"):
        Config.from_dict({"blok_in": 16})
    with pytest.raises(ConfigError, match=r"^config: preset must be one of pynq_z1, .*, got pynq \(did you mean"):
        Config.preset("pynq")


def test_configurations_are_loaded_from_files(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"name": "mine", "block_out": 32, "dram": {"read_latency": 9}}')
    assert Config.load(path) == replace(PYNQ, name="mine", block_out=32, dram=Dram(read_latency=9))
    path.write_text('{"batch": 3}')
    with pytest.raises(ConfigError) as error:
        Config.load(path)
    assert str(error.value) == f"{path}: config custom: batch must be a power of two from 1 to 64, got 3"
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"content must be JSON, got an error in line 1: Expecting property name"):
        Config.load(path)
    with pytest.raises(ConfigError, match=r"no such file"):
        Config.load(tmp_path / "none.json")


def test_random_configurations_differ_where_it_matters():
    configs = [random_config(np.random.default_rng(seed)) for seed in range(60)]
    assert {c.inp_bits for c in configs} == {c.wgt_bits for c in configs} == {2, 4, 8}
    assert any(c.block_in > c.block_out for c in configs)
    assert any(c.block_in < c.block_out for c in configs)
    assert {c.axi_bits for c in configs} == {32, 64, 128, 256}
