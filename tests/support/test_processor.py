# SPDX-License-Identifier: Apache-2.0
"""Flags and model of the processor from x86's and Arm's /proc/cpuinfo."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from vdla.support import processor

X86 = "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nmodel name\t: Another\n"
ARM = "processor\t: 0\nFeatures\t: asimd asimddp\n"


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the processor is read from, which does not exist yet."""
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


@pytest.mark.parametrize(("text", "flags"), [(X86, {"fpu", "avx2"}), (ARM, {"asimd", "asimddp"}), ("", set())])
def test_flags_are_those_of_the_first_processor(text: str, flags: set[str], cpuinfo: Path) -> None:
    cpuinfo.write_text(text)
    assert processor.cpu_flags() == flags


def test_the_model_is_read_from_cpuinfo_or_from_the_platform(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "armv7l")
    assert processor.cpu_model() == "armv7l"
    cpuinfo.write_text(ARM)
    assert processor.cpu_model() == "armv7l"
    cpuinfo.write_text(X86)
    assert processor.cpu_model() == "A Processor"
