# SPDX-License-Identifier: Apache-2.0
"""Parts in files of users, and the clock by their speed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vdla.hardware.config import Config
from vdla.hardware.fpga.area import CLOCK, FAST_CLOCK, Area
from vdla.hardware.fpga.clock import estimated_clock_mhz
from vdla.hardware.fpga.logic_path import LogicPath, PathReport
from vdla.hardware.fpga.part_file import load_part, part_named
from vdla.hardware.fpga.parts import FAMILIES, PARTS, FpgaPart, PartError

MINE: dict[str, Any] = {
    "name": "mine", "family": "xc7", "lut": 1000, "lut_memory": 300, "ff": 2000, "dsp": 10, "bram36": 7.5,
}  # fmt: skip
FIELDS = "name, family, lut, lut_memory, ff, dsp, bram36, uram, speed"


def test_a_file_is_a_part(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(MINE))
    assert load_part(path) == FpgaPart(**MINE)
    path.write_text(json.dumps(MINE | {"uram": 4, "speed": 1.2}))
    assert part_named(path, "tiny") == FpgaPart(**MINE, uram=4, speed=1.2)
    assert part_named(None, "zcu104") is part_named("zu7ev", "tiny") is PARTS["zu7ev"]
    assert part_named(PARTS["zu3eg"], "tiny") is PARTS["zu3eg"]


def test_families_are_those_of_all_parts() -> None:
    assert set(FAMILIES) == {part.family for part in PARTS.values()}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"luts": 3}, f"field must be one of {FIELDS}, got luts (did you mean lut?)"),
        ({"name": ""}, "name must be a text, got ''"),
        ({"family": "xc6"}, "family must be one of xc7, xcup, got xc6 (did you mean xc7?)"),
        ({"lut": 1.5}, "lut must be an integer from 0, got 1.5"),
        ({"dsp": True}, "dsp must be an integer from 0, got True"),
        ({"ff": -1}, "ff must be an integer from 0, got -1"),
        ({"bram36": "7"}, "bram36 must be a number from 0, got '7'"),
        ({"speed": 0}, "speed must be a number over 0, got 0"),
        ({"speed": float("inf")}, "speed must be a number over 0, got inf"),
    ],
)
def test_a_wrong_part_is_refused(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(MINE | change))
    with pytest.raises(PartError) as error:
        load_part(path)
    assert str(error.value) == f"part {path}: {text}"


def test_other_files_and_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    for content, text in (("[", "content must be JSON, got "), ("[]", "content must be a table of fields, got []")):
        path.write_text(content)
        with pytest.raises(PartError) as error:
            load_part(path)
        assert str(error.value).startswith(f"{path}: {text}")
    with pytest.raises(PartError) as error:
        load_part(tmp_path / "mine.jsn")
    assert str(error.value) == f"{tmp_path / 'mine.jsn'}: no such file (did you mean mine.json?)"
    path.write_text(json.dumps({name: value for name, value in MINE.items() if name != "dsp"}))
    with pytest.raises(PartError) as error:
        load_part(path)
    assert str(error.value) == f"part {path}: dsp must be given, got name, family, lut, lut_memory, ff, bram36"
    with pytest.raises(PartError) as error:
        part_named("xc7z21", "tiny")
    assert str(error.value).startswith(f"part: name must be one of {', '.join(PARTS)} or FILE.json, got xc7z21 (did")


def synthesised(config: Config, speed: float, **ns: float) -> Area:
    """A machine with a longest path of each clock, and shortest periods of blocks."""
    paths = {
        ends: (LogicPath(ns[name], 1, "a", "b", ()),)
        for name, ends in (("slow", f"{CLOCK} {CLOCK}"), ("fast", f"{FAST_CLOCK} {FAST_CLOCK}"))
        if name in ns
    }
    periods = {clock: ns[name] for name, clock in (("block", CLOCK), ("fast_block", FAST_CLOCK)) if name in ns}
    part = FpgaPart(**MINE, speed=speed)
    return Area(config, part, (), PathReport(paths, period_ns=periods), "yosys")


def test_the_clock_is_that_of_the_longest_path() -> None:
    config = Config.preset("tiny")
    assert estimated_clock_mhz(synthesised(config, 1.0, slow=8.0)) == 125
    assert estimated_clock_mhz(synthesised(config, 1.2, slow=8.0)) == 150
    assert estimated_clock_mhz(synthesised(config, 1.0, slow=8.0, block=10.0)) == 100
    double = replace(Config.preset("pynq_z1"), array_rate=2)
    assert estimated_clock_mhz(synthesised(double, 1.0, slow=4.0, fast=2.5)) == 200
    assert estimated_clock_mhz(synthesised(double, 1.0, slow=4.0, fast=1.5, fast_block=4.0)) == 125
