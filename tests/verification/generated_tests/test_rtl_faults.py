# SPDX-License-Identifier: Apache-2.0
"""Faults in the RTL of extensions: each edit changes what is built; a built one is named."""

import pytest

from vdla.benchmarks.evaluate import on_rtl
from vdla.hardware.generate.extension_files import machine_files
from vdla.verification.generated_tests.planted import RTL_FAULTS, plant_in_rtl, sample_machine

FILES = machine_files(sample_machine())


@pytest.mark.parametrize("fault", RTL_FAULTS, ids=[fault.name for fault in RTL_FAULTS])
def test_a_fault_changes_one_file(fault):
    with fault.planted():
        broken = machine_files(fault.machine(sample_machine()))
    assert [name for name, content in broken.items() if content != FILES[name]] != []
    assert len([name for name, content in broken.items() if content != FILES[name]]) == 1
    assert machine_files(sample_machine()) == FILES


@pytest.mark.rtl
@pytest.mark.long
def test_a_fault_is_named_by_the_rtl():
    outcome = plant_in_rtl(RTL_FAULTS[0], most=20)
    assert outcome.caught, outcome.finding


def test_machines_with_rtl_are_of_three_configurations(tmp_path):
    machines = list(on_rtl.machines_with_rtl(tmp_path))
    assert {machine.plain for machine in machines} == set(on_rtl.PLAIN)
    assert any(machine.batch > 1 for machine in machines)
    for plain in on_rtl.PLAIN:
        found = {plug_in.name for each in machines if each.plain == plain for plug_in in each.extensions}
        assert {"rise", "sad", "dw", "int4", "lut_load"} <= found
    assert all(plug_in.datapath for machine in machines for plug_in in machine.extensions)
