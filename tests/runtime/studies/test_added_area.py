# SPDX-License-Identifier: Apache-2.0
"""The area that an extension adds: a difference of two machines, or why it is not known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from vdla.compiler import te
from vdla.compiler.extensions import Extension, extend
from vdla.hardware.config import Config
from vdla.hardware.fpga.area import Usage
from vdla.hardware.fpga.parts import PARTS
from vdla.hardware.fpga.yosys import YosysError
from vdla.hardware.isa import Datapath
from vdla.runtime.studies.added_area import added_area

PART = PARTS["xc7z020"]
TINY = Config.preset("tiny")


def declare(config: Config) -> Extension:
    old = te.placeholder((config.batch, config.block_out), "int32", "old")
    output = te.compute(old.shape, lambda b, o: te.abs(old[b, o]), "acc")
    scopes = {"old": "acc", "acc": "acc"}
    return Extension(name="own", doc="Magnitudes.", output=output, scopes=scopes, in_place="old")


AFTER = extend(TINY, declare)
DATAPATH = Datapath("module ext_own; endmodule", "own.py:1")
WITH_DATAPATH = tuple(replace(each, datapath=DATAPATH) for each in AFTER.extensions)


def synthesised(config: Config, *given: Any) -> Any:
    return SimpleNamespace(total=Usage(lut=130, dsp=3, ff=50) if config.extensions else Usage(lut=100, dsp=3, ff=20))


def test_the_difference_of_two_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("area", "cached_area"):
        monkeypatch.setattr(f"vdla.runtime.studies.added_area.{name}", synthesised)
    assert added_area(TINY, AFTER, WITH_DATAPATH, PART).usage == Usage(lut=30, ff=30)
    assert added_area(TINY, AFTER, WITH_DATAPATH, PART, lambda *given: None).usage == Usage(lut=30, ff=30)


def test_what_the_part_has_too_little_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def large(config: Config, *given: Any) -> Any:
        return SimpleNamespace(total=Usage(lut=100, dsp=356 if config.extensions else 212, bram36=140.5))

    monkeypatch.setattr("vdla.runtime.studies.added_area.cached_area", large)
    found = added_area(TINY, AFTER, WITH_DATAPATH, PART)
    assert found.usage == Usage(dsp=144) and found.excess == ("356 of 220 dsp", "140.5 of 140 bram36")


def test_why_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert added_area(TINY, AFTER, AFTER.extensions, PART).reason == "a what-if without a datapath of own"
    monkeypatch.setattr("vdla.runtime.studies.added_area.cached_area", lambda config, part: None)
    assert added_area(TINY, AFTER, WITH_DATAPATH, PART).reason == "not synthesised yet (--area)"

    def fails(*given: object) -> None:
        raise YosysError("yosys: absent")

    monkeypatch.setattr("vdla.runtime.studies.added_area.cached_area", fails)
    assert added_area(TINY, AFTER, WITH_DATAPATH, PART).reason == "yosys: absent"
