# SPDX-License-Identifier: Apache-2.0
"""`vdla config`: the presets in a table, or one of them in full."""

from __future__ import annotations

import argparse

from rich.table import Table

from vdla.commands import OK
from vdla.commands.console import output, table
from vdla.commands.files import write_json
from vdla.commands.options import add_options
from vdla.hardware.config import PRESETS, Config

EXAMPLES = """\
  vdla config                 all presets, one a line
  vdla config pynq_z1         one of them in full
  vdla config pynq_z1 --json  the same for a program to read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One optional preset."""
    add_options(parser, {"preset PRESET": "one preset in full (default: a line each)"}, nargs="?")
    add_options(parser, {"--json": "write JSON to FILE, or to standard output in place of tables"})


def run(arguments: argparse.Namespace) -> int:
    """Print the presets."""
    chosen = [Config.preset(arguments.preset)] if arguments.preset else list(PRESETS.values())
    documents = [{**config.to_dict(), "fingerprint": config.fingerprint} for config in chosen]
    if not write_json(arguments.json, documents[0] if arguments.preset else documents):
        output().print(_details(chosen[0]) if arguments.preset else _overview(chosen))
    return OK


def _overview(configs: list[Config]) -> Table:
    result = table("presets", "name", "batch x in x out", "inp, wgt", "AXI bits", "MHz", "GOPS", "fingerprint")
    for config in configs:
        shape = f"{config.batch} x {config.block_in} x {config.block_out}"
        types = f"{config.inp_dtype}, {config.wgt_dtype}"
        speed = (f"{config.axi_bits}", f"{config.clock_mhz:.0f}", f"{config.peak_gops:.1f}")
        result.add_row(config.name, shape, types, *speed, config.fingerprint)
    return result


def _details(config: Config) -> Table:
    result = table(f"{config.name}, fingerprint {config.fingerprint}", "field", "value")
    for name, value in config.to_dict().items():
        fields = {f"dram.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
        for field, shown in fields.items():
            result.add_row(field, str(shown))
    result.add_row("macs_per_cycle", str(config.macs_per_cycle), style="dim")
    result.add_row("peak_gops", f"{config.peak_gops:g}", style="dim")
    return result
