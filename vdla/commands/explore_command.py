# SPDX-License-Identifier: Apache-2.0
"""`vdla explore`: machines of many sizes for some layers or a network, on a part."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.console import progress
from vdla.commands.device_options import part_named
from vdla.commands.energy_tables import add_energy_argument, chosen_coefficients
from vdla.commands.files import check_outputs, write_study
from vdla.commands.layer_options import add_layer_arguments, chosen_layers
from vdla.commands.machine_options import (
    add_dram_arguments,
    add_machine_arguments,
    integer,
    key_and_value,
    machine,
    with_dram,
)
from vdla.commands.options import add_options
from vdla.commands.search_options import add_worker_arguments, opened_workers

if TYPE_CHECKING:
    from vdla.runtime.tune.tune import TuningProgress

EXAMPLES = """\
  vdla explore --model resnet18 --sweep block_in=8,16 batch=1,2 axi_bits=64,128
  vdla explore --layers C2-C12 --sweep wgt_kib=64,256 dram.read_latency=20,60
  vdla explore --layers C5 --sweep block_out=8,16 extensions=none,int4.py
  vdla explore --layers C5 --energy 45nm     with energy, estimated
  vdla explore --model resnet18 --max lut=0.8 --min fps=30 --energy 45nm \\
      --objective fps_per_watt           within limits, by frames a joule
  vdla explore --layers C5 --extension int4.py --sweep extensions=with,without
  vdla explore --layers C5 --part mine.json --clock estimated
  vdla explore --preset zcu104 --sweep block_in=16,32,64 --html zcu104.html
"""

LOG = Path("explore.jsonl")
TIMEOUT_S = 600
DEFAULT_SWEEP = ("block_in=8,16,32", "block_out=8,16", "axi_bits=64,128")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The layers, the sweep, the part, who measures, what is written."""
    add_layer_arguments(parser)
    text = f"a field of the machine and its values (default {' '.join(DEFAULT_SWEEP)})"
    add_options(parser, {"--sweep FIELD=V,V...": text}, _fields, default=DEFAULT_SWEEP)
    add_options(
        parser,
        {
            "--part NAME": "the FPGA, or FILE.json with yours (default that of the preset's board)",
            "--trials N": "measure N machines (default all)",
        },
    )
    figures = "vdla.runtime.studies.figures:FIGURES"
    options = {
        "--max NAME=N...": "at most so much of a figure, as lut=0.8 latency_ms=20; shares of the part up to 1",
        "--min NAME=N...": "at least so much of a figure, as fps=30",
        "--objective NAME...": "what the front is of, beside resources: the first sorts (default fps)",
    }
    add_options(parser, options, figures)
    text = "given: that of the preset (default); estimated: that of the longest path, synthesised"
    add_options(parser, {"--clock NAME = given": text}, "vdla.runtime.studies.explored_machine:CLOCKS")
    searches = "vdla.runtime.studies.sweep_task:SEARCHES"
    add_options(parser, {"--search NAME = exhaustive": "how they are chosen (exhaustive)"}, searches)
    add_options(
        parser,
        {
            "--seed SEED = 0": "seed of the search (default 0)",
            f"--log FILE = {LOG}": f"append every machine to FILE ({LOG})",
        },
    )
    add_worker_arguments(parser, TIMEOUT_S)
    add_energy_argument(parser)
    add_options(
        parser,
        {
            "--all": "show every machine and every reason",
            "--html FILE": "write a page with table and picture to FILE",
            "--picture FILE": "draw speed against area, as .svg or .png",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )
    add_machine_arguments(parser)
    add_dram_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explore, then show and write."""
    from vdla.commands.explore_tables import show_exploration
    from vdla.runtime.studies.explore import explore
    from vdla.runtime.studies.sweep_task import MachineMeasurer

    check_outputs("explore", arguments, "log", "html", "picture", "json")
    coefficients = chosen_coefficients(arguments)
    base = with_dram(machine(arguments), arguments.dram)
    layers = chosen_layers("explore", arguments)
    values = sweep_of(arguments.sweep)
    name = arguments.model or " ".join(arguments.layers or ["layers"])
    with progress("explore") as show, opened_workers(arguments, MachineMeasurer(), alone_inline=True) as workers:

        def shown(now: TuningProgress) -> None:
            best = "none so far" if now.best is None else f"best {now.best.cost:,.0f} cycles"
            show(best, now.done, now.total)

        exploration = explore(
            layers,
            base,
            values,
            part=part_named("explore", arguments.part, base),
            beside=arguments.extension,
            trials=arguments.trials,
            search=arguments.search,
            seed=arguments.seed,
            clock=arguments.clock,
            most=bounds_of("--max", arguments.max),
            least=bounds_of("--min", arguments.min),
            objectives=arguments.objective or ("fps",),
            energy=coefficients,
            workers=workers,
            log=arguments.log,
            name=name,
            progress=shown,
            synthesis=show,
        )
    write_study(arguments, exploration, lambda: show_exploration(exploration, arguments.all))
    return OK


def sweep_of(words: Sequence[str]) -> dict[str, list[Any]]:
    """The values of each field; integers, except for extensions."""
    values: dict[str, list[Any]] = {}
    for word in words:
        name, text = key_and_value("--sweep", word)
        if name in values:
            raise CommandError(f"--sweep: {name} must be given once, got it twice")
        listed = text.split(",")
        values[name] = listed if name == "extensions" else [integer(f"--sweep: {name}", one) for one in listed]
    return values


def bounds_of(option: str, words: Sequence[str]) -> dict[str, float]:
    """The bound of each figure."""
    bounds: dict[str, float] = {}
    for word in words:
        name, text = key_and_value(option, word)
        if name in bounds:
            raise CommandError(f"{option}: {name} must be given once, got it twice")
        try:
            bounds[name] = float(text)
        except ValueError:
            raise CommandError(f"{option}: {name} must be a number, got {text!r}") from None
    return bounds


def _fields() -> list[str]:
    from vdla.runtime.studies.sweep import swept_fields

    return [f"{name}=" for name in swept_fields()]
