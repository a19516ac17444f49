# SPDX-License-Identifier: Apache-2.0
"""`vdla compare --random`: two devices on random programs that are aimed at a field."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.console import progress
from vdla.commands.files import require_folder
from vdla.commands.machine_options import machine, with_dram
from vdla.commands.options import refuse
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.runtime.devices import MemoryDevice
    from vdla.verification.programs.aimed_search import AimedDifference, AimedSearch

_PROGRAMS = 100
_OF_PROGRAMS = ("input", "timeout", "bitstream", "results_only", "waves", "view")
"""Options of a program that is given."""
LOCAL = ("sim", "rtl")
"""Devices whose runs can be repeated a hundred times, buffers included."""
OF_RANDOM = ("preset", "config", "programs", "output")
"""Options of random programs."""


def run_random(arguments: argparse.Namespace) -> int:
    """Run random programs on both devices; exit code 1 when they differ on one."""
    from vdla.verification.programs.aimed_programs import aim_of
    from vdla.verification.programs.aimed_search import aimed_search

    if arguments.program is not None:
        raise CommandError(f"compare: PROGRAM must be left out with --random, got {arguments.program}")
    refuse("compare", arguments, _OF_PROGRAMS, "with --random")
    for name in (arguments.first, arguments.second):
        if name not in LOCAL:
            raise CommandError(f"compare: devices must be of {', '.join(LOCAL)} with --random, got {name}")
    output = arguments.output or Path(f"{arguments.random}.s")
    require_folder("compare", "--output", output)
    config = with_dram(machine(arguments), arguments.dram)
    aim = aim_of(config, arguments.random)
    count = arguments.programs or _PROGRAMS
    with progress(f"compare {aim}") as show:
        search = aimed_search(
            config, aim, lambda nbytes: _open_pair(config, arguments, nbytes), arguments.seed, count, show
        )
    if search.difference is None:
        print(f"equal: {search}")
        return OK
    _report(search, search.difference, arguments, output)
    return FINDING


@contextmanager
def _open_pair(
    config: Config, arguments: argparse.Namespace, nbytes: int
) -> Iterator[tuple[MemoryDevice, MemoryDevice]]:
    from vdla.runtime.devices import MemoryDevice, open_device

    with ExitStack() as stack:
        devices = []
        for name in (arguments.first, arguments.second):
            options: dict[str, Any] = {"memory_bytes": nbytes}
            if name == "rtl":
                options["assertions"] = arguments.assertions
            device = stack.enter_context(open_device(name, config, **options))
            assert isinstance(device, MemoryDevice), "each of LOCAL has its memory here"
            devices.append(device)
        yield devices[0], devices[1]


def _report(search: AimedSearch, difference: AimedDifference, arguments: argparse.Namespace, output: Path) -> None:
    """The smallest program that differs: how, its instructions, its file, what to do next."""
    from vdla.hardware.asm import disassemble
    from vdla.hardware.asm.disassembler import row_text

    print(f"different: {search}; the program of seed {difference.seed} differs")
    print(difference.comparison)
    count = len(difference.smallest)
    print(f"shrunk from {len(difference.program)} instructions to {count}:")
    for k in range(count):
        print(f"  {row_text(difference.smallest, k)}")
    write_text(output, disassemble(difference.smallest))
    print(f"wrote {output}; vdla compare {arguments.first} {arguments.second} {output} runs it again")
