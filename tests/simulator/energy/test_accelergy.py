# SPDX-License-Identifier: Apache-2.0
"""Estimates as YAML in the form of Accelergy's files: what it reads back to, and its sums."""

from __future__ import annotations

from typing import Any

import pytest

from vdla.hardware.config import Config
from vdla.simulator.energy import Action, Energy, MachineEvent, activity_of, energy_of
from vdla.simulator.energy.coefficients import NM_45
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program

PYNQ = Config.preset("pynq_z1")

WRITTEN = """\
# estimated: 106 pJ estimated (56 to 206) by 45nm
# M. Horowitz, "Computing's energy problem", ISSCC 2014, figure 1.1.9: 45 nm, 0.9 V; picojoules, those on the chip within a factor of 2
# without a coefficient, in no table: mine step, reads burst
action_counts:
  version: 0.3
  subtree:
    - name: pynq_z1
      local:
        - name: array
          action_counts:
            - name: multiply
              arguments:
                width: 8
                other_width: 8
              counts: 30
        - name: inp
          action_counts:
            - name: read
              arguments:
                width: 64
              counts: 5
ERT:
  version: 0.3
  tables:
    - name: pynq_z1.array
      actions:
        - name: multiply
          arguments:
            width: 8
            other_width: 8
          energy: 0.2
    - name: pynq_z1.inp
      actions:
        - name: read
          arguments:
            width: 64
          energy: 20.0
energy_estimation:
  version: 0.3
  components:
    - name: pynq_z1.array
      energy: 6.0
    - name: pynq_z1.inp
      energy: 100.0
"""  # noqa: E501  a line of the file


def small() -> Energy:
    counts = {
        MachineEvent("array", Action.MULTIPLY, 8, 8): 30,
        MachineEvent("inp", Action.READ, 64): 5,
        MachineEvent("reads", Action.BURST): 2,
        MachineEvent("mine", Action.STEP): 3,
    }
    return energy_of(counts, PYNQ, NM_45)


def test_the_file_is_written_as_accelergy_has_it() -> None:
    lines = small().to_accelergy().splitlines()
    assert lines[3:] == WRITTEN.splitlines()[3:]
    assert lines[0].startswith("# estimated: 106 pJ estimated (")
    assert lines[2] == WRITTEN.splitlines()[2]


def test_counts_times_energies_are_the_estimate() -> None:
    yaml = pytest.importorskip("yaml")
    program = gemm_program(GemmTiling(PYNQ, 6, 32, 32, 2, 1))
    energy = energy_of(activity_of(program).total, PYNQ, NM_45)
    read: dict[str, Any] = yaml.safe_load(energy.to_accelergy())
    (machine,) = read["action_counts"]["subtree"]
    assert machine["name"] == "pynq_z1"
    prices = {
        (table["name"], action["name"], str(action["arguments"])): action["energy"]
        for table in read["ERT"]["tables"]
        for action in table["actions"]
    }
    components = {item["name"]: item["energy"] for item in read["energy_estimation"]["components"]}
    for part in machine["local"]:
        name = f"pynq_z1.{part['name']}"
        total = sum(
            item["counts"] * prices[name, item["name"], str(item["arguments"])] for item in part["action_counts"]
        )
        assert components[name] == pytest.approx(total)
    assert sum(components.values()) == pytest.approx(energy.total.middle)
