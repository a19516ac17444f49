"""The mapper: its cycles over the templates', on three machines, and operators without a template.

A layer's choice is the best of its first 8 candidates by exact cycles. `over_template` is the
geometric mean over layers and machines, `over_template_worst` the largest ratio. `operators` counts
kinds of operators, each compared with the interpreter on several shapes.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Progress, receipt, silent
from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.map import candidates
from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition
from vdla.compiler.operators.workloads import Workload, resnet18_layers, workload
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale
from vdla.runtime.layers import layer_operator
from vdla.runtime.mapping import explore_mappings
from vdla.simulator.simulate import simulate
from vdla.simulator.timing import time_program

PRESETS = ("pynq_z1", "ultra96", "batch4")
THREADS = 2
SHAPES = 3
"""Shapes of each kind of operator."""


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Maps C1 to C12 on every machine, then checks the kinds of operators."""
    layers = [*resnet18_layers(), workload("C1")]
    rows: list[dict[str, Any]] = []
    total = len(PRESETS) * len(layers) + len(_KINDS)
    for preset in PRESETS:
        for layer in layers:
            progress(f"{layer.name} on {preset}", len(rows), total)
            rows.append(_layer_row(layer, Config.preset(preset)))
    exact: list[bool] = []
    for kind in _KINDS:
        progress(kind, len(rows) + len(exact), total)
        exact.append(_is_exact(kind, seed))
    progress("done", total, total)
    ratios = [row["over_template"] for row in rows]
    first = [row["seconds"] for row in rows if row["machine"] == PRESETS[0] and row["layer"] != "C1"]
    figures = {
        "over_template": round(statistics.geometric_mean(ratios), 5),
        "over_template_worst": max(ratios),
        "operators": sum(exact),
        "all_exact": int(all(exact)),
        "seconds": round(sum(first), 2),
    }
    command = f"vdla bench map --seed {seed} --json -"
    return BenchmarkResult("map", figures, rows, receipt(Config.preset(PRESETS[0]), [], seed, command))


def _layer_row(layer: Workload, config: Config) -> dict[str, Any]:
    """Cycles of the template and of the mapper's choice."""
    template = time_program(layer_operator(layer, config, THREADS).program).total_cycles
    start = time.process_time()
    report = explore_mappings(_convolution(layer, config).output, config, THREADS)
    seconds = time.process_time() - start
    return {
        "layer": layer.name,
        "machine": config.name,
        "template_cycles": template,
        "cycles": min(report.cycles),
        "over_template": round(min(report.cycles) / template, 5),
        "mappings": len(report.operators),
        "seconds": round(seconds, 2),
    }


def _convolution(layer: Workload, config: Config) -> Definition:
    return definitions.convolution(
        batch=layer.batch,
        in_channels=layer.in_channels,
        out_channels=layer.out_channels,
        size=(layer.height, layer.width),
        kernel=layer.kernel,
        strides=layer.strides,
        pads=layer.pads,
        raw=False,
        dtype=config.inp_dtype,
        weight_dtype=config.wgt_dtype,
    )


# --- kinds of operators ---------------------------------------------------------------------------


def _sizes(rng: np.random.Generator, *limits: int) -> list[int]:
    return [int(rng.integers(1, limit + 1)) for limit in limits]


def _random_convolution(rng: np.random.Generator, axes: int, groups: int = 1, dilation: int = 1) -> Definition:
    kernel = [int(rng.integers(1, 4)) for _ in range(axes)]
    batch, inputs, outputs = _sizes(rng, 2, 9, 9)
    return definitions.convolution(
        batch=batch,
        in_channels=groups * inputs,
        out_channels=groups * outputs,
        size=[(k - 1) * dilation + int(rng.integers(1, 5)) for k in kernel],
        kernel=kernel,
        strides=int(rng.integers(1, 3)),
        pads=[int(rng.integers(0, k)) for k in kernel],
        dilations=dilation,
        groups=groups,
        raw=bool(rng.integers(2)),
    )


def _random_product(rng: np.random.Generator, kind: str) -> Definition:
    a, b, c, d = _sizes(rng, 3, 9, 9, 9)
    match kind:
        case "batched product":
            return definitions.batched_product(batch=a, rows=b, depth=c, columns=d)
        case "matrix times vector":
            return definitions.matrix_vector(rows=b, columns=c)
        case "attention scores":
            return definitions.attention_scores(batch=a, heads=2, tokens=b, size=c)
        case "attention values":
            return definitions.attention_values(batch=a, heads=2, tokens=b, size=c)
        case "LSTM gates":
            return definitions.lstm_gates(batch=a, inputs=b, hidden=c)
        case "correlation":
            return definitions.correlation(batch=a, channels=b, height=3, width=4, reach=a)
    return definitions.dense(rows=b, in_features=c, out_features=d, raw=bool(rng.integers(2)))


_CONVOLUTIONS: dict[str, dict[str, int]] = {
    "1-D convolution": {"axes": 1},
    "2-D convolution": {"axes": 2},
    "3-D convolution": {"axes": 3},
    "dilated 1-D convolution": {"axes": 1, "dilation": 2},
    "dilated 3-D convolution": {"axes": 3, "dilation": 2},
    "grouped 1-D convolution": {"axes": 1, "groups": 3},
    "grouped 2-D convolution": {"axes": 2, "groups": 2},
    "grouped 3-D convolution": {"axes": 3, "groups": 2},
}
_PRODUCTS = (
    "dense", "batched product", "matrix times vector", "attention scores", "attention values", "LSTM gates",
    "correlation",
)  # fmt: skip
_KINDS = (*_CONVOLUTIONS, *_PRODUCTS)


def _is_exact(kind: str, seed: int) -> bool:
    """Whether random mappings of random shapes equal the interpreter."""
    rng = np.random.default_rng([seed, *kind.encode()])
    config = Config.preset("tiny")
    for _ in range(SHAPES):
        options = _CONVOLUTIONS.get(kind)
        definition = _random_product(rng, kind) if options is None else _random_convolution(rng, **options)
        arrays = {tensor.name: _array(rng, tensor) for tensor in definition.inputs}
        function = te.create_function(list(definition.inputs), [definition.output], "definition")
        wanted = interpret(function, arrays)[definition.output.name]
        found = candidates(definition.output, config).found
        operator = found[int(rng.integers(len(found)))]
        outputs = simulate(operator.program, operator.pack(**arrays)).outputs
        if not np.array_equal(operator.unpack(outputs), wanted):
            return False
    return True


def _array(rng: np.random.Generator, tensor: te.Tensor) -> Any:  # noqa: ANN401  an array
    if tensor.dtype == "int64":
        lanes = (rng.integers(-99, 99, tensor.shape), rng.integers(1, 999, tensor.shape), np.full(tensor.shape, 16))
        return pack_scale(*lanes).view(np.int64)
    return rng.integers(-128, 128, tensor.shape).astype(np.int8)
