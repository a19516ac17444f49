# SPDX-License-Identifier: Apache-2.0
"""How often registers switch: a file read by hand, and of the RTL on data that do and do not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from vdla.hardware.config import Config
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.run import run
from vdla.runtime.devices.switching import Switching, read_switching
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program
from vdla.verification.programs.random_data import random_arrays

TINY = Config.preset("tiny")

FILE = """\
// Generated
(SAIFILE
(SAIFVERSION "2.0")
(DIVIDER / )
(DURATION 40)
 (INSTANCE TOP
  (NET
   (clk_i (T0 20) (T1 20) (TZ 0) (TX 0) (TB 0) (TC 40))
   (other_q (T0 20) (T1 20) (TZ 0) (TX 0) (TB 0) (TC 1))
  )
  (INSTANCE vdla
   (NET
    (clk_i (T0 20) (T1 20) (TZ 0) (TX 0) (TB 0) (TC 40))
    (state_q\\[0\\] (T0 30) (T1 10) (TZ 0) (TX 0) (TB 0) (TC 3))
    (state_q\\[1\\] (T0 30) (T1 10) (TZ 0) (TX 0) (TB 0) (TC 4))
    (state_d (T0 30) (T1 10) (TZ 0) (TX 0) (TB 0) (TC 90))
   )
   (INSTANCE u_core
    (NET
     (sum_q\\[1\\]\\[7\\] (T0 30) (T1 10) (TZ 0) (TX 0) (TB 0) (TC 5))
    )
   )
   (INSTANCE u_axil
    (NET
     (valid_q (T0 30) (T1 10) (TZ 0) (TX 0) (TB 0) (TC 2))
    )
   )
  )
 )
)
"""


def test_bits_of_registers_are_summed(tmp_path: Path) -> None:
    path = tmp_path / "run.saif"
    path.write_text(FILE)
    found = read_switching(path)
    registers = {"other_q": 1, "vdla.state_q": 7, "vdla.u_core.sum_q": 5, "vdla.u_axil.valid_q": 2}
    assert found == Switching(20, Counter(registers))
    assert found.by_unit(1) == {"": 1, "vdla": 14}
    assert found.by_unit(2) == {"": 1, "vdla": 7, "vdla.u_core": 5, "vdla.u_axil": 2}
    assert str(found) == "15 toggles of registers in 20 cycles, resets included"


@pytest.mark.parametrize(("content", "got"), [("", "nothing"), ("$date today\n", "$date today")])
def test_other_files_are_refused(content: str, got: str, tmp_path: Path) -> None:
    path = tmp_path / "run.saif"
    path.write_text(content)
    with pytest.raises(DeviceError) as error:
        read_switching(path)
    assert str(error.value) == f"switching {path}: file must be SAIF, got {got}"
    with pytest.raises(DeviceError, match=r"file must be SAIF, got .*No such file"):
        read_switching(tmp_path / "none.saif")


@pytest.mark.rtl
@pytest.mark.long
def test_random_data_switch_more_registers_than_zeros(tmp_path: Path) -> None:
    program, path = gemm_program(GemmTiling(TINY, 6, 8, 8, 2, 1)), tmp_path / "run.saif"
    arrays = random_arrays(program, 1)
    found, cycles = [], []
    for data in (arrays, {name: np.zeros_like(array) for name, array in arrays.items()}, arrays):
        with RtlDevice(TINY, 1 << 24, waves=path) as device:
            cycles.append(run(program, data, device).statistics.total_cycles)
        found.append(read_switching(path))
    busy, idle, again = found
    assert busy == again and cycles[0] == cycles[1]
    assert busy.cycles == idle.cycles > cycles[0]
    assert busy.total > 1.2 * idle.total
    assert idle.by_unit(1)["vdla"] > 0
