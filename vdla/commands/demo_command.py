"""`vdla demo`: a whole network; with --layer, one layer of ResNet-18 in two variants.

Both are checked and timed; the layer runs with two virtual threads and with one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.completion import complete_with
from vdla.commands.console import output, progress
from vdla.commands.files import require_folder
from vdla.commands.machine_options import add_machine_arguments, machine, natural
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.compiler.operators.workload_bound import MachineBound
    from vdla.compiler.operators.workloads import Workload
    from vdla.hardware.config import Config
    from vdla.runtime.layers import LayerRun

EXAMPLES = """\
  vdla demo                     a network for digits, on pynq_z1
  vdla demo --layer C6          a layer of ResNet-18, with and without threads
  vdla demo --preset ultra96    another machine
  vdla demo --trace c6.json     where the trace goes; open it in ui.perfetto.dev
  vdla demo --html demo.html    a page with roofline and timeline
"""

_THREADS = {"two threads": 2, "one thread": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The layer, the machine, the files."""
    layer = parser.add_argument("--layer", metavar="NAME", help="one convolution instead, C1 to C12")
    complete_with(layer, lambda: [f"C{number}" for number in range(1, 13)])
    add_machine_arguments(parser)
    parser.add_argument("--trace", type=Path, metavar="FILE", help="the Perfetto trace (default: demo.trace.json)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with roofline and timeline there")
    parser.add_argument("--seed", type=natural, default=0, help="seed of the random data (default 0)")


def run(arguments: argparse.Namespace) -> int:
    """Print the tables, write the files; exit code 1 when a result is not exact."""
    if arguments.html:
        require_folder("demo", "--html", arguments.html)
    if arguments.layer is None:
        from vdla.commands.demo_network import demo_network

        return demo_network(arguments)
    return _demo_layer(arguments)


def _demo_layer(arguments: argparse.Namespace) -> int:
    from vdla.compiler.operators.workload_bound import bound
    from vdla.compiler.operators.workloads import workload

    layer, config = workload(arguments.layer), machine(arguments)
    if layer.operator != "conv2d":
        raise CommandError(f"demo: layer must be a convolution, C1 to C12, got {layer.name} ({layer.operator})")
    runs, limit = _measure(layer, config, arguments.seed), bound(layer, config)
    _show(layer, config, limit, runs)
    _trace(runs["two threads"], arguments.trace or Path("demo.trace.json"))
    if arguments.html:
        _page(arguments.html, layer, config, limit, runs)
    return OK if all(run.exact for run in runs.values()) else FINDING


def _measure(layer: Workload, config: Config, seed: int) -> dict[str, LayerRun]:
    from vdla.runtime.layers import layer_operator, measure
    from vdla.simulator.warm_up import warm_up

    with progress("demo") as show:
        warming = warm_up()  # on the other cores, after an installation
        operators = {}
        for index, (label, threads) in enumerate(_THREADS.items()):
            show(f"compile {layer.name}, {label}", index, 5)
            operators[label] = layer_operator(layer, config, threads)
            _ = operators[label].program
        show("compile the simulator, once after an installation", 2, 5)
        warming.wait()
        runs = {}
        for index, (label, operator) in enumerate(operators.items()):
            show(f"run {layer.name}, {label}", 3 + index, 5)
            runs[label] = measure(layer, operator, seed)
    return runs


def _show(layer: Workload, config: Config, limit: MachineBound, runs: Mapping[str, LayerRun]) -> None:
    from vdla.commands import run_tables

    stats = {label: run.stats for label, run in runs.items()}
    console = output()
    for line in (_headline(layer, config), *_notes(limit)):
        console.print(line)
    console.print()
    console.print(run_tables.comparison("result", stats, run_tables.FIGURES, _result_rows(limit, runs)))
    console.print()
    console.print(run_tables.comparison("roofline", stats, run_tables.ROOFLINE))
    for label, run in runs.items():
        console.print()
        console.print(run_tables.stalls(label, run.stats))


def _notes(limit: MachineBound) -> tuple[str, str]:
    return (
        f"lower bound: {limit.cycles:,} cycles, for {_bound_by(limit)}",
        "two virtual threads overlap loads with computation, one does not",
    )


def _result_rows(limit: MachineBound, runs: Mapping[str, LayerRun]) -> dict[str, list[str]]:
    """Rows of the table of results: the comparison with NumPy and with the bound."""
    return {
        "compared with NumPy": ["exact" if run.exact else "WRONG" for run in runs.values()],
        "cycles / bound": [f"{run.stats.total_cycles / limit.cycles:.3f}" for run in runs.values()],
    }


def _page(path: Path, layer: Workload, config: Config, limit: MachineBound, runs: Mapping[str, LayerRun]) -> None:
    from vdla.commands.run_page import run_page

    programs = {label: (run.program, run.stats) for label, run in runs.items()}
    rows = list(_result_rows(limit, runs).items())
    write_text(path, run_page(_headline(layer, config), _notes(limit), rows, programs))
    output().print(f"\ncharts of both runs: {path}", soft_wrap=True)


def _headline(layer: Workload, config: Config) -> str:
    channels = f"{layer.in_channels} to {layer.out_channels} channels"
    kernel = f"{layer.kernel}x{layer.kernel} kernel"
    image = f"{layer.height}x{layer.width}"
    return f"{layer.name} of ResNet-18: {image}, {channels}, {kernel}, {config.inp_dtype}, on {config.name}"


def _bound_by(limit: MachineBound) -> str:
    texts = {
        "compute": f"{limit.macs:,} multiply-accumulates",
        "reads": f"{limit.read_bytes:,} bytes read",
        "writes": f"{limit.written_bytes:,} bytes written",
    }
    return texts[limit.limited_by]


def _trace(run: LayerRun, path: Path) -> None:
    from vdla.simulator.stats import RunTrace

    RunTrace(run.program, run.stats).write(path)
    output().print(f"\ntrace of the run with two threads: {path}\nopen it in https://ui.perfetto.dev", soft_wrap=True)
