# SPDX-License-Identifier: Apache-2.0
"""A loaded extension is asked once for each machine, and anew when it is loaded anew."""

from __future__ import annotations

import pytest
from helpers.extensions import sad

import vdla
from vdla.compiler.extensions import ExtensionError
from vdla.compiler.extensions.extension import Extension
from vdla.hardware.config import Config

TINY, PYNQ = Config.preset("tiny"), Config.preset("pynq_z1")


def test_a_machine_is_read_again_without_asking() -> None:
    asked: list[str] = []

    def declare(config: Config) -> Extension:
        asked.append(config.name)
        return sad(config)

    machine = vdla.extend(TINY, declare)
    for _ in range(3):
        assert Config.from_dict(machine.to_dict()) == machine
    assert asked == ["tiny"]
    vdla.extend(PYNQ, declare)
    assert asked == ["tiny", "pynq_z1"]
    vdla.load_extension(declare)
    Config.from_dict(machine.to_dict())
    assert asked == ["tiny", "pynq_z1", "tiny"]


def test_a_refusal_is_said_again() -> None:
    asked: list[str] = []

    def declare(config: Config) -> Extension:
        asked.append(config.name)
        raise ValueError("no such machine")

    loaded = vdla.load_extension(declare)
    said = []
    for _ in range(2):
        with pytest.raises(ExtensionError) as failure:
            loaded.plug_ins(TINY)
        said.append(str(failure.value))
    assert said == [f"{__file__}:{declare.__code__.co_firstlineno + 2}: ValueError: no such machine"] * 2
    assert asked == ["tiny"]
