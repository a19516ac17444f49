# SPDX-License-Identifier: Apache-2.0
"""DRAM models as files, and `--dram`: round trip, replaced fields, the text of every error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from vdla.commands import CommandError
from vdla.commands.machine_options import with_dram
from vdla.hardware.config import Config, Dram
from vdla.hardware.dram_model import DramModel, DramModelError

TINY = Config.preset("tiny")
DRAM = Dram(33, 21, 5, 3, 2, 7)
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
    assert with_dram(TINY, [str(file), "read_latency=9"]).dram == Dram(9, 21, 5, 3, 2, 7)
    assert with_dram(TINY, ["read_latency=9"]).dram == replace(TINY.dram, read_latency=9)


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
