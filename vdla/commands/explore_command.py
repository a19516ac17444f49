"""`vdla explore`: machines of many sizes for some layers or a network, on a part."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.completion import complete_with
from vdla.commands.console import progress
from vdla.commands.files import require_folder, write_picture
from vdla.commands.layer_options import add_layer_arguments, chosen_layers
from vdla.commands.machine_options import (
    add_dram_arguments,
    add_machine_arguments,
    integer,
    key_and_value,
    machine,
    natural,
    positive,
    with_dram,
)
from vdla.commands.part_options import part_named, part_names
from vdla.commands.worker_options import add_worker_arguments, opened_workers
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.runtime.explore import Exploration
    from vdla.runtime.tune import TuningProgress

EXAMPLES = """\
  vdla explore --model resnet18 --sweep block_in=8,16 batch=1,2 axi_bits=64,128
  vdla explore --layers C2-C12 --sweep wgt_kib=64,256 dram.read_latency=20,60
  vdla explore --layers C5 --sweep block_out=8,16 extensions=none,int4.py
  vdla explore --preset zcu104 --sweep block_in=16,32,64 --html zcu104.html
"""

LOG = Path("explore.jsonl")
TIMEOUT_S = 600
DEFAULT_SWEEP = ("block_in=8,16,32", "block_out=8,16", "axi_bits=64,128")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The layers, the sweep, the part, who measures, what is written."""
    add_layer_arguments(parser)
    help_text = f"a field of the machine and its values (default {' '.join(DEFAULT_SWEEP)})"
    sweep = parser.add_argument("--sweep", nargs="+", default=DEFAULT_SWEEP, metavar="FIELD=V,V", help=help_text)
    complete_with(sweep, _fields)
    part = parser.add_argument("--part", metavar="NAME", help="the FPGA (default that of the preset's board)")
    complete_with(part, part_names)
    parser.add_argument("--trials", type=positive, metavar="N", help="measure so many machines (default all)")
    search = parser.add_argument("--search", default="exhaustive", metavar="NAME", help="which of them (exhaustive)")
    complete_with(search, _searches)
    parser.add_argument("--seed", type=natural, default=0, help="seed of the search (default 0)")
    parser.add_argument("--log", type=Path, default=LOG, metavar="FILE", help=f"append every machine there ({LOG})")
    add_worker_arguments(parser, TIMEOUT_S)
    parser.add_argument("--all", action="store_true", help="show every machine and every reason")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with table and picture there")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw speed against area, as .svg or .png")
    parser.add_argument("--json", metavar="FILE", help="write all machines as JSON; - is standard output")
    add_machine_arguments(parser)
    add_dram_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explore, then show and write."""
    from vdla.runtime.explore import MachineMeasurer, explore

    _check(arguments)
    base = with_dram(machine(arguments), arguments.dram)
    layers = chosen_layers("explore", arguments)
    values = sweep_of(arguments.sweep)
    name = arguments.model or " ".join(arguments.layers or ["layers"])
    with progress("explore") as show, opened_workers(arguments, MachineMeasurer(), alone_inline=True) as workers:

        def shown(now: TuningProgress) -> None:
            best = "none so far" if now.best is None else f"best {now.best.cost:,.0f} cycles"
            show(best, now.done, now.total)

        found = explore(
            base,
            layers,
            values,
            part_named("explore", arguments.part, base),
            workers,
            log=arguments.log,
            sources=arguments.extension,
            trials=arguments.trials,
            search=arguments.search,
            seed=arguments.seed,
            name=name,
            show=shown,
        )
    _write(arguments, found)
    return OK


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options before the work starts."""
    for option in ("log", "html", "picture", "json"):
        path = getattr(arguments, option)
        if path not in (None, "-"):
            require_folder("explore", f"--{option}", Path(path))
    if arguments.picture and arguments.picture.suffix not in (".svg", ".png"):
        raise CommandError(f"explore: --picture must end in .svg or .png, got {arguments.picture}")


def sweep_of(words: Sequence[str]) -> dict[str, list[Any]]:
    """The values of each field; integers, but for extensions."""
    values: dict[str, list[Any]] = {}
    for word in words:
        name, text = key_and_value("--sweep", word)
        if name in values:
            raise CommandError(f"--sweep: {name} must be given once, got it twice")
        listed = text.split(",")
        values[name] = listed if name == "extensions" else [integer(f"--sweep: {name}", one) for one in listed]
    return values


def _write(arguments: argparse.Namespace, found: Exploration) -> None:
    from vdla.commands.explore_page import exploration_page, exploration_picture
    from vdla.commands.explore_tables import report_of_exploration, show_exploration

    if arguments.html:
        write_text(arguments.html, exploration_page(found))
    if arguments.picture:
        write_picture(arguments.picture, exploration_picture(found))
    text = json.dumps(report_of_exploration(found), indent=2) + "\n"
    if arguments.json == "-":
        print(text, end="")
        return
    if arguments.json:
        write_text(Path(arguments.json), text)
    show_exploration(found, arguments.all)
    written = [str(path) for path in (arguments.html, arguments.picture, arguments.json) if path]
    if written:
        print(f"\nwrote {', '.join(written)}")


def _fields() -> list[str]:
    from vdla.runtime.explore import swept_fields

    return [f"{name}=" for name in swept_fields()]


def _searches() -> list[str]:
    from vdla.runtime.explore import SEARCHES

    return list(SEARCHES)
