"""Machines with extensions that have datapaths: simulator against RTL on random verified programs.

The machines are those of the worked examples that have RTL, and one of small extensions that
together read all that a datapath can; each on three configurations and with four memories. Every
machine costs a build of the RTL.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from vdla.benchmarks import equality
from vdla.benchmarks.evaluate import examples
from vdla.benchmarks.evaluate.part import BenchmarkPart
from vdla.benchmarks.generated_tests.planted import datapath_machine
from vdla.benchmarks.harness import Progress
from vdla.benchmarks.programs.cases import ProgramCase, random_batches
from vdla.benchmarks.programs.random_machines import DRAMS
from vdla.compiler.extensions import ExtensionError, extend
from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_ports import datapath_units

_TINY = Config.preset("tiny")
PLAIN = (
    _TINY,
    replace(_TINY, name="tiny_batch", batch=2, block_in=8, inp_kib=2, acc_kib=2),
    replace(_TINY, name="tiny_int4", block_in=16, block_out=8, inp_bits=4, wgt_bits=4, acc_kib=2),
)
MEMORIES = DRAMS[:4]
EACH, EACH_LONG = 12, 2000
"""Programs of each machine with each memory."""


def mismatches(progress: Progress, seed: int, each: int = EACH) -> BenchmarkPart:
    """`each` programs on every machine with every memory."""
    with tempfile.TemporaryDirectory(prefix="vdla-datapaths-") as folder:
        machines = list(machines_with_rtl(Path(folder)))
        found = equality.run(progress, seed, batches=_batches(machines, seed, each))
    figures = {"rtl_machines": len(machines), "rtl_programs": found.figures["programs"]}
    details = {"mismatches": found.receipt["found"]}
    return BenchmarkPart({**figures, "mismatches": found.figures["mismatches"]}, found.rows, details)


def machines_with_rtl(folder: Path) -> Iterator[Config]:
    """The machines with the memory of `tiny`; files of examples are written into `folder`."""
    sources = [str(examples.write_file(name, folder)) for name in examples.pages()]
    for plain in PLAIN:
        yield datapath_machine(plain)
        yield from (machine for source in sources if (machine := _extended(plain, source)) is not None)


def _extended(plain: Config, source: str) -> Config | None:
    """A machine with an example, None where it has no RTL or is for other machines."""
    try:
        config = extend(plain, source)
    except ExtensionError:
        return None
    units = datapath_units(config)
    return config if units and all(unit.datapath is not None for unit in units) else None


def _batches(machines: Sequence[Config], seed: int, each: int) -> list[list[ProgramCase]]:
    found = []
    for number, machine in enumerate(machines):
        for memory, dram in enumerate(MEMORIES):
            first = ((seed * len(machines) + number) * len(MEMORIES) + memory) * EACH_LONG
            found += random_batches(replace(machine, dram=dram), first, each, random_start=memory % 2 > 0)
    return found
