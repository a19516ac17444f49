# SPDX-License-Identifier: Apache-2.0
"""`vdla board selftest`: what works on a device, and a DRAM model measured on it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from vdla.commands import FINDING, OK
from vdla.commands.console import output, progress, table
from vdla.commands.files import require_folder
from vdla.commands.machine_options import add_dram_arguments, add_machine_arguments, machine, with_dram
from vdla.commands.options import add_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vdla.runtime.devices import Device
    from vdla.runtime.diagnosis.device_checks import CheckOutcome
    from vdla.runtime.diagnosis.memory_measurement import MemoryMeasurement

EXAMPLES = """\
  vdla board selftest                                the simulator, as pynq_z1
  vdla board selftest --device rtl --preset tiny --dram read_latency=200
  vdla board selftest --device pynq --bitstream pynq_z2.bit -o measured.json
  vdla board selftest --device farm.toml --preset ultra96
  vdla run c2.vdla --dram measured.json              simulate that memory
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The device, its configuration, the file of the DRAM model."""
    add_options(parser, {"--device NAME = sim": "the device to check (default sim)"})
    add_machine_arguments(parser)
    add_options(
        parser,
        {
            "--bitstream FILE": "the bitstream to load, for a board",
            "--repeats N = 3": "runs of each measurement (default 3)",
            "-o --output FILE.json": "write the measured DRAM model to FILE.json",
        },
    )
    add_dram_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check, then measure; exit code 1 when something does not work."""
    from vdla.runtime.devices import open_device

    if arguments.output:
        require_folder("board selftest", "--output", arguments.output)
    config = with_dram(machine(arguments), arguments.dram)
    options = {} if arguments.bitstream is None else {"bitstream": arguments.bitstream}
    with open_device(arguments.device, config, **options) as device:
        return _selftest(device, arguments)


def _selftest(device: Device, arguments: argparse.Namespace) -> int:
    from vdla.runtime.diagnosis.check_programs import simulated_programs
    from vdla.runtime.diagnosis.device_checks import check_device
    from vdla.runtime.diagnosis.memory_measurement import measure

    outcomes = []
    with progress("self-test") as show:
        for outcome in check_device(device, simulated_programs(device.config)):
            outcomes.append(outcome)
            show(outcome.name, len(outcomes), 0)
    _show_outcomes(arguments.device, device.config.name, outcomes)
    if any(outcome.failed for outcome in outcomes):
        output().print("memory: not measured, since something does not work")
        return FINDING
    with progress("measure") as show:
        measurement = measure(device, arguments.repeats, show)
    _show_measurement(measurement)
    if arguments.output:
        measurement.model(arguments.device).save(arguments.output)
        output().print(f"wrote {arguments.output}", soft_wrap=True)
    return OK


def _show_outcomes(device: str, config: str, outcomes: Sequence[CheckOutcome]) -> None:
    listing = table(f"self-test of {device} as {config}", "what", "state", "cycles")
    for outcome in outcomes:
        cycles = "" if outcome.cycles is None else f"{outcome.cycles:,}"
        listing.add_row(outcome.name, outcome.verdict.value, cycles, style="red" if outcome.failed else None)
    console: Any = output()
    console.print(listing)
    for outcome in outcomes:
        if outcome.detail:
            console.print(f"{outcome.name}: {outcome.detail}", soft_wrap=True)
    failed = sum(outcome.failed for outcome in outcomes)
    console.print(f"{failed} of {len(outcomes)} failed" if failed else "everything works")


def _show_measurement(measurement: MemoryMeasurement) -> None:
    dram, clock, beat = measurement.fit.dram, measurement.config.clock_mhz, measurement.config.axi_bytes
    listing = table(f"memory at {clock:g} MHz", "figure", "cycles", "is")
    for name in ("read", "write"):
        latency = getattr(dram, f"{name}_latency")
        listing.add_row(f"{name} latency", str(latency), f"{1000 * latency / clock:,.0f} ns")
    listing.add_row("from beat to beat", str(dram.beat_cycles), "")
    listing.add_row("more from burst to burst", str(dram.burst_gap), "")
    for name in ("read", "write"):
        rate, speed = getattr(measurement, f"{name}_bytes_per_cycle") / beat, getattr(measurement, f"{name}_mb_s")
        listing.add_row(f"{name} bandwidth", f"{rate:.3f} beats a cycle", f"{speed:,.0f} MB/s")
    for name in ("reads", "writes"):
        listing.add_row(f"outstanding {name} that help", "", str(getattr(dram, f"outstanding_{name}")))
    output().print()
    output().print(listing)
    error = "in every cycle" if not measurement.fit.error else f"to {100 * measurement.fit.error:.2f} %"
    output().print(f"the model agrees with the device {error}; runs differed by {100 * measurement.spread:.2f} %")
