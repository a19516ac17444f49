# SPDX-License-Identifier: Apache-2.0
"""The area model against what Yosys 0.70 found for machines of all kinds, and by hand."""

from __future__ import annotations

import pytest

from vdla.hardware.config import Config
from vdla.hardware.fpga.area_model import LUT_ERROR, estimated_usage
from vdla.hardware.fpga.parts import PARTS, part_of_preset

SYNTHESISED = {  # LUTs, DSP slices, block RAMs, UltraRAMs; batch4 has no part in the fit of the LUTs
    "pynq_z1": (30_232, 212, 117, 0),
    "pynq_z1_512": (31_204, 212, 117, 0),
    "pynq_z1_512x2": (32_193, 212, 114.5, 0),
    "pynq_z1_lm": (31_109, 212, 114, 0),
    "ultra96": (34_270, 212, 114, 0),
    "zcu104": (77_457, 676, 261, 52),
    "kv260": (76_635, 676, 133, 52),
    "tiny": (13_552, 31, 1, 0),
    "batch4": (45_870, 420, 141, 0),
}


@pytest.mark.parametrize("name", SYNTHESISED)
def test_the_model_is_as_near_as_it_says(name: str) -> None:
    lut, dsp, bram36, uram = SYNTHESISED[name]
    found = estimated_usage(Config.preset(name), part_of_preset(name))
    assert found.lut == pytest.approx(lut, rel=LUT_ERROR)
    assert found.dsp == pytest.approx(dsp, abs=1)
    assert found.bram36 == pytest.approx(bram36, abs=0.5)
    assert found.uram == uram


def test_resources_grow_with_what_they_are_made_of() -> None:
    part, base = PARTS["xc7z020"], Config()
    wider = estimated_usage(Config(block_in=32), part)
    deeper = estimated_usage(Config(wgt_kib=512), part)
    assert wider.dsp - estimated_usage(base, part).dsp == 16 * 16 / 2
    assert deeper.bram36 - estimated_usage(base, part).bram36 == 256 / 4
    assert deeper.lut == estimated_usage(base, part).lut
