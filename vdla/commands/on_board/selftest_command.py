# SPDX-License-Identifier: Apache-2.0
"""`vdla_board selftest`: registers, memory, and programs whose results the wheel brings."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from vdla.commands import FINDING, OK
from vdla.commands.files import write_json
from vdla.commands.on_board.device_choice import (
    add_device_arguments,
    add_machine_arguments,
    device_options,
    machine,
)
from vdla.commands.options import add_options
from vdla.commands.plain_table import plain_table
from vdla.hardware.config import Config
from vdla.runtime.devices import open_device
from vdla.runtime.devices.installed_overlays import installed_bitstreams
from vdla.runtime.diagnosis.device_checks import CheckOutcome, check_device
from vdla.runtime.diagnosis.known_program import KnownProgram, read_known

KNOWN_PROGRAMS = Path(__file__).resolve().parent / "programs"
"""The folder with a file of known programs for each machine, in the wheel for boards."""

EXAMPLES = """\
  python3 -m vdla_board selftest                     the bitstream at hand
  python3 -m vdla_board selftest --bitstream pynq_z2.bit --json
  python3 -m vdla_board selftest --device pynq://127.0.0.1:7968 --preset pynq_z2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The device and its machine."""
    add_device_arguments(parser)
    add_machine_arguments(parser)
    add_options(parser, {"--json": "write JSON to FILE, or to standard output in place of a table"})


def run(arguments: argparse.Namespace) -> int:
    """Check; exit code 1 when something does not work."""
    config, options = machine("selftest", arguments), device_options("selftest", arguments)
    programs = known_programs(config)
    with open_device(arguments.device, config, **options) as device:
        outcomes = list(check_device(device, programs))
    failed = sum(outcome.failed for outcome in outcomes)
    document = {outcome.name: {"state": outcome.verdict.value, "detail": outcome.detail} for outcome in outcomes}
    if not write_json(arguments.json, document):
        _show(f"self-test of {arguments.device} as {config.name}", outcomes)
        if not programs:
            print(f"programs: not run, since this package has none for {config.name}; vdla board selftest has")
        print(f"{failed} of {len(outcomes)} failed" if failed else "everything works")
    return FINDING if failed else OK


def known_programs(config: Config) -> Sequence[KnownProgram]:
    """The programs for a machine, of this wheel or of that of a bitstream; none for one that
    neither knows.
    """
    name = f"{config.fingerprint}.npz"
    files = [KNOWN_PROGRAMS / name, *(bitstream.with_name(name) for bitstream in installed_bitstreams())]
    return next((read_known(file) for file in files if file.is_file()), [])


def _show(title: str, outcomes: Iterable[CheckOutcome]) -> None:
    rows = [
        (outcome.name, outcome.verdict.value, "" if outcome.cycles is None else f"{outcome.cycles:,}")
        for outcome in outcomes
    ]
    print(plain_table(title, ("what", "state", "cycles"), rows))
    for outcome in outcomes:
        if outcome.detail:
            print(f"{outcome.name}: {outcome.detail}")
