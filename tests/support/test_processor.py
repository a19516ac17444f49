"""Flags and model of the processor from x86's and Arm's /proc/cpuinfo."""

from __future__ import annotations

from pathlib import Path

import pytest

from vdla.support import processor

X86 = "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nmodel name\t: Another\n"
ARM = "processor\t: 0\nFeatures\t: asimd asimddp\n"


@pytest.mark.parametrize(("text", "flags"), [(X86, {"fpu", "avx2"}), (ARM, {"asimd", "asimddp"}), ("", set())])
def test_flags_and_model_are_read_from_cpuinfo(
    text: str, flags: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    assert processor.cpu_flags() == flags
    assert processor.cpu_model() == "A Processor" if text == X86 else processor.cpu_model()
