# SPDX-License-Identifier: Apache-2.0
"""The mapper: its cycles over the templates', on three machines, and operators without a template.

A layer's choice is the best of its first 8 candidates by exact cycles. `over_template` is the
geometric mean over layers and machines, `over_template_worst` the largest ratio. `operators` counts
kinds of operators, each compared with the interpreter on several shapes. `seconds` is the CPU time
of C2 to C12 on the first machine, from the expression to the verified program.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from vdla.benchmarks.harness import BenchmarkResult, Row, receipt
from vdla.benchmarks.mapped_layers import MappedLayer, mapped_layers
from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.map import candidates
from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition
from vdla.compiler.operators.workloads import resnet18_layers
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale
from vdla.runtime.tune.mapping import explore_mappings
from vdla.simulator.simulate import simulate
from vdla.simulator.timing import time_program
from vdla.simulator.verify import verify
from vdla.support.progress import Progress, numbered, silent

PRESETS = ("pynq_z1", "ultra96", "batch4")
SHAPES = 3
"""Shapes of each kind of operator."""


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """Maps every layer on every machine, then checks the kinds of operators."""
    layers, rows, exact = mapped_layers(), [], []
    step = numbered(progress, len(PRESETS) * len(layers) + len(KINDS_OF_OPERATORS))
    for preset in PRESETS:
        for layer in layers:
            step(f"{layer.name} on {preset}")
            rows.append(_layer_row(layer, Config.preset(preset)))
    for kind in KINDS_OF_OPERATORS:
        step(kind)
        exact.append(_is_exact(kind, seed))
    step("done")
    ratios = [row["over_template"] for row in rows]
    timed = {layer.name for layer in resnet18_layers()}
    first = [row["seconds"] for row in rows if row["machine"] == PRESETS[0] and row["layer"] in timed]
    figures = {
        "over_template": round(statistics.geometric_mean(ratios), 5),
        "over_template_worst": max(ratios),
        "operators": sum(exact),
        "all_exact": int(all(exact)),
        "seconds": round(sum(first), 2),
    }
    command = f"vdla bench map --seed {seed} --json -"
    return BenchmarkResult("map", figures, rows, receipt(Config.preset(PRESETS[0]), [], seed, command))


def _layer_row(layer: MappedLayer, config: Config) -> Row:
    """Cycles of the template and of the mapper's choice, which is verified.

    The mapper comes first: the template may search for tiles of the same problem.
    """
    start = time.process_time()
    report = explore_mappings(layer.definition(config).output, config)
    verify(report.operators[0].program).raise_if_bad()
    seconds = time.process_time() - start
    template = time_program(layer.template(config).program).total_cycles
    return {
        "layer": layer.name,
        "machine": config.name,
        "template_cycles": template,
        "cycles": min(report.cycles),
        "over_template": round(min(report.cycles) / template, 5),
        "mappings": len(report.operators),
        "seconds": round(seconds, 2),
    }


# --- kinds of operators ---------------------------------------------------------------------------


def _sizes(rng: Generator, *limits: int) -> list[int]:
    return [int(rng.integers(1, limit + 1)) for limit in limits]


def _random_convolution(rng: Generator, axes: int, groups: int = 1, dilation: int = 1) -> Definition:
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


def _random_window(rng: Generator, kind: str) -> Definition:
    """A transposed or depthwise convolution, or a pooling."""
    kernel = [int(rng.integers(1, 4)) for _ in range(2)]
    batch, inputs, outputs = _sizes(rng, 2, 9, 9)
    size = [k + int(rng.integers(1, 3)) for k in kernel]
    options: dict[str, Any] = {"batch": batch, "kernel": kernel, "raw": bool(rng.integers(2))}
    options["strides"] = [int(rng.integers(1, 4)) for _ in kernel]
    match kind:
        case "depthwise convolution":
            return definitions.depthwise_convolution(channels=inputs, size=size, **options)
        case "transposed convolution":
            return definitions.transposed_convolution(in_channels=inputs, out_channels=outputs, size=size, **options)
        case "dilated transposed convolution":
            options["dilations"] = [int(rng.integers(2, 4)) for _ in kernel]
            return definitions.transposed_convolution(in_channels=inputs, out_channels=outputs, size=size, **options)
    pads = [int(rng.integers(0, k)) for k in kernel]
    which, counted = kind.removesuffix(" pooling"), bool(rng.integers(2))
    return definitions.pooling(kind=which, channels=inputs, size=size, pads=pads, count_include_pad=counted, **options)


def _random_element_wise(rng: Generator, kind: str) -> Definition:
    batch, channels, height, width = _sizes(rng, 2, 9, 5, 5)
    factors = [int(factor) for factor in rng.integers(1, 100, 2)]
    zero_points = [int(zero) for zero in rng.integers(-9, 9, 2)]
    options: dict[str, Any] = {"batch": batch, "channels": channels, "size": (height, width)}
    options["raw"] = bool(rng.integers(2))
    match kind:
        case "residual addition":
            return definitions.residual_addition(factors=factors, zero_points=zero_points, **options)
        case "extremum":
            return definitions.extremum(kind="maximum", factors=factors, zero_points=zero_points, **options)
        case "rescaling":
            return definitions.rescaling(zero_point=zero_points[0], **options)
    return definitions.leaky_relu(factors=factors, zero_point=zero_points[0], **options)


def _random_product(rng: Generator, kind: str) -> Definition:
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
_WINDOWS = (
    "depthwise convolution", "max pooling", "average pooling", "transposed convolution",
    "dilated transposed convolution",
)  # fmt: skip
_ELEMENT_WISE = ("residual addition", "extremum", "leaky relu", "rescaling")
KINDS_OF_OPERATORS = (*_CONVOLUTIONS, *_PRODUCTS, *_WINDOWS, *_ELEMENT_WISE)


def random_definition(rng: Generator, kind: str) -> Definition:
    """An operator of a kind, of a random shape."""
    if kind in _CONVOLUTIONS:
        return _random_convolution(rng, **_CONVOLUTIONS[kind])
    if kind in _WINDOWS:
        return _random_window(rng, kind)
    return _random_element_wise(rng, kind) if kind in _ELEMENT_WISE else _random_product(rng, kind)


def _is_exact(kind: str, seed: int) -> bool:
    """Whether random mappings of random shapes equal the interpreter."""
    rng = default_rng([seed, *kind.encode()])
    config = Config.preset("tiny")
    for _ in range(SHAPES):
        definition = random_definition(rng, kind)
        arrays = {tensor.name: _array(rng, tensor) for tensor in definition.inputs}
        function = te.create_function(list(definition.inputs), [definition.output], "definition")
        wanted = interpret(function, arrays)[definition.output.name]
        operators = candidates(definition.output, config).found
        operator = operators[int(rng.integers(len(operators)))]
        outputs = simulate(operator.program, operator.pack(**arrays)).outputs
        if not np.array_equal(operator.unpack(outputs), wanted):
            return False
    return True


def _array(rng: Generator, tensor: te.Tensor) -> Any:  # noqa: ANN401  an array
    if tensor.dtype == "int64":
        lanes = (rng.integers(-99, 99, tensor.shape), rng.integers(1, 999, tensor.shape), np.full(tensor.shape, 16))
        return pack_scale(*lanes).view(np.int64)
    return rng.integers(-128, 128, tensor.shape).astype(np.int8)
