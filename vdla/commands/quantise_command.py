# SPDX-License-Identifier: Apache-2.0
"""`vdla quantise`: a float model as an int8 model, and what every layer costs."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.charts.blocks import ChartBlock, Row, RowChart
from vdla.commands import OK
from vdla.commands.console import output, table
from vdla.commands.files import calibration_data, require_folder
from vdla.commands.model_shapes import shapes_of
from vdla.commands.options import add_options
from vdla.commands.placement_tables import shortened
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from rich.table import Table

    from vdla.runtime.network.quantisation_report import LayerReport, QuantisationReport

_MOST_DB = 60.0  # in the chart: beyond it, errors are those of float32 for all purposes

EXAMPLES = """\
  vdla quantise model.onnx --calibration images.npy      writes model_int8.onnx
  vdla quantise model.onnx --calibration a.npz b.npz     inputs by name
  vdla quantise model.onnx --calibration images.npy --method percentile
  vdla quantise model.onnx --calibration x.npy --float conv1 --picture all.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the data, how it is quantised, where the results go."""
    add_options(parser, {"model MODEL": "the float model, an .onnx, a .tflite or a .pt2 file"})
    add_options(parser, {"--shape NAME=NxN...": "shapes of inputs: x=1x3x48x192"}, action="extend")
    parser.add_argument(
        "--calibration", type=Path, nargs="+", required=True, metavar="FILE",
        help="calibration data: .npy of one input, or .npz of inputs by name",
    )  # fmt: skip
    add_options(
        parser,
        {
            "-o --output FILE": "file of the result (MODEL_int8.onnx)",
            "--method METHOD = auto": "auto (default), minmax, percentile, mse or entropy",
            "--float NODE...": "layers that stay float",
            "--per-tensor": "one scale for each weight",
            "--equalise": "balance the channels of consecutive layers",
            "--fast": "do not measure what each layer costs alone",
            "--picture FILE.svg": "draw the layers",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Quantise, write the model, print the table."""
    from vdla.compiler.graph.quantise import QuantiseWarning
    from vdla.runtime.network.quantise import quantise

    path = arguments.output or arguments.model.with_name(f"{arguments.model.stem}_int8.onnx")
    for option, file in (("--output", path), ("--picture", arguments.picture)):
        if file is not None:
            require_folder("quantise", option, file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuantiseWarning)  # the report has its own
        made = quantise(
            str(arguments.model),
            calibration=[calibration_data(file) for file in arguments.calibration],
            method=arguments.method,
            keep_float=arguments.float,
            per_channel=not arguments.per_tensor,
            equalise_layers=arguments.equalise,
            shapes=shapes_of("quantise", arguments.shape),
        )
    made.save(path)
    report = made.report(sensitivity=not arguments.fast)
    output().print(layer_table(report))
    if arguments.picture is not None:
        write_text(arguments.picture, layer_chart(report))
    for text in (*report.notes, *(f"warning: {warning}" for warning in report.warnings)):
        print(text)
    print(f"{path}: {len(made.layers)} layers quantised, ranges by {made.method}")
    return OK


def layer_table(report: QuantisationReport) -> Table:
    """The layers: signal to noise in the network and alone, saturated results, range."""
    listing = table(report.network, "layer", "operator", "SNR dB", "alone dB", "saturated", "range")
    for layer in report.layers:
        alone = "-" if layer.alone_db is None else f"{layer.alone_db:.1f}"
        span = f"{layer.low:.3g} .. {layer.high:.3g}"
        listing.add_row(layer.name, layer.op, f"{layer.snr_db:.1f}", alone, f"{100 * layer.saturated:.3f} %", span)
    for name, ratio in report.outputs.items():
        listing.add_row(name, "output", f"{ratio:.1f}", "", "", "")
    return listing


def layer_chart(report: QuantisationReport) -> str:
    """A bar of the signal-to-noise ratio of each layer in the network, where errors add up.

    A bar below it is that of the network's outputs if only this layer is quantised.
    """
    title = f"signal to noise of the layers of {report.network}: in the network (blue)"
    if any(layer.alone_db is not None for layer in report.layers):
        title += ", quantised alone (orange)"
    chart = RowChart(title=title, high=_MOST_DB, left=240, pitch=26, bar=18, unit="dB")
    return chart.draw([Row(shortened(layer.name, 32), list(_bars(layer))) for layer in report.layers], alone=True)


def _bars(layer: LayerReport) -> Iterator[list[ChartBlock]]:
    tip = f"{layer.op}: {layer.snr_db:.1f} dB, {100 * layer.saturated:.3f} % saturated"
    yield [ChartBlock(0, layer.snr_db, "network", tip)]
    if layer.alone_db is not None:
        yield [ChartBlock(0, layer.alone_db, "alone", f"{layer.op} alone: {layer.alone_db:.1f} dB")]
