# SPDX-License-Identifier: Apache-2.0
"""DRAM models as files, and `--dram`: round trip, replaced fields, the text of every error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from vdla.commands import CommandError
from vdla.commands.machine_options import with_dram
from vdla.hardware.config import Config, ConfigError, Dram
from vdla.hardware.dram_model import DramModel, DramModelError

TINY = Config.preset("tiny")
DRAM = Dram(read_latency=33, write_latency=21, outstanding_reads=5, outstanding_writes=3, beat_cycles=2, burst_gap=7)
MODEL = DramModel(DRAM, {"device": "pynq", "clock_mhz": 100})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    MODEL.save(tmp_path / "measured.json")
    return tmp_path / "measured.json"


def test_a_model_survives_its_file(file: Path) -> None:
    assert DramModel.load(file) == MODEL
    assert json.loads(file.read_text())["measured"]["device"] == "pynq"


def test_a_file_replaces_the_model_and_keys_replace_its_fields(file: Path) -> None:
    assert with_dram(TINY, [str(file)]).dram == DRAM
    assert with_dram(TINY, [str(file), "read_latency=9"]).dram == Dram(
        read_latency=9, write_latency=21, outstanding_reads=5, outstanding_writes=3, beat_cycles=2, burst_gap=7
    )
    assert with_dram(TINY, ["read_latency=9"]).dram == replace(TINY.dram, read_latency=9)


def test_a_memory_behind_the_ports_follows_the_clock_and_keys_replace_its_fields() -> None:
    dram = with_dram(Config.preset("kv260"), ["ddr4-2400-x64", "read_latency=9"]).dram
    assert dram == replace(
        Config.preset("kv260").dram, read_latency=9, bus_bytes=115, banks=8, page_bytes=8192, page_miss=5,
        refresh_interval=1300, refresh_cycles=59, turnaround=2,
    )  # fmt: skip
    assert TINY.dram.with_part("ddr3-1050-x16", 100).bus_bytes == 21


def test_a_model_with_pages_survives_its_file(tmp_path: Path) -> None:
    model = DramModel(DRAM.with_part("ddr3-1050-x32", 100), {})
    model.save(tmp_path / "pages.json")
    assert DramModel.load(tmp_path / "pages.json") == model


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bus_bytes": 8}, "banks must be an integer from 1 to 256, got 0"),
        ({"page_bytes": 3000}, "page_bytes must be a power of two, got 3000"),
        ({"refresh_cycles": 780}, "refresh_interval must be longer than the 780 refresh_cycles, got 780"),
        ({"turnaround": -1}, "turnaround must be an integer from 0 to 1024, got -1"),
        (
            {"bus_bytes": 0},
            "banks must be 0 where bus_bytes is 0, got 8 (pages, refresh and turnaround need bus_bytes, the bytes "
            "that the memory moves in a cycle)",
        ),
    ],
)
def test_pages_that_cannot_be(fields: dict[str, int], message: str) -> None:
    base = Dram() if fields == {"bus_bytes": 8} else Dram().with_part("ddr3-1050-x32", 100)
    with pytest.raises(ConfigError) as error:
        replace(base, **fields)
    assert str(error.value) == f"config dram: {message}"


def test_an_unknown_memory() -> None:
    with pytest.raises(ConfigError) as error:
        Dram().with_part("ddr4-2400", 100)
    assert str(error.value) == (
        "config dram: part must be one of ddr3-1050-x16, ddr3-1050-x32, ddr4-2400-x64, got ddr4-2400 "
        "(did you mean ddr4-2400-x64?)"
    )


def document(**changes: object) -> str:
    return json.dumps({**MODEL.to_dict(), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "m.json: format must be vdla-dram, got []"),
        ("{}", "m.json: format must be vdla-dram, got None"),
        (document(version=2), "m.json: version must be 1, got 2"),
        (document(measured=3), "m.json: measured must be a table, got 3"),
        (
            document(dram={"read_latency": 1}),
            "m.json: dram must have the fields read_latency, write_latency, outstanding_reads, outstanding_writes, "
            "beat_cycles, burst_gap, got read_latency",
        ),
        (
            document(dram={**MODEL.to_dict()["dram"], "beat_cycles": 0}),
            "m.json: config dram: beat_cycles must be an integer from 1 to 256, got 0",
        ),
        ("{", "m.json: content must be JSON, got Expecting property name enclosed in double quotes: "
              "line 1 column 2 (char 1)"),
    ],
)  # fmt: skip
def test_wrong_files(text: str, message: str) -> None:
    with pytest.raises(DramModelError) as error:
        DramModel.from_text(text, "m.json")
    assert str(error.value) == message


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(DramModelError) as error:
        with_dram(TINY, ["none.json"])
    assert str(error.value) == "none.json: no such file"


def test_a_file_comes_first(file: Path) -> None:
    with pytest.raises(CommandError) as error:
        with_dram(TINY, ["read_latency=9", "m.json"])
    assert str(error.value) == "--dram: a file must be the first word, got m.json after read_latency=9"
