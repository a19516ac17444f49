# SPDX-License-Identifier: Apache-2.0
"""Programs of the plug-ins that come with the toolkit, against the definitions of their layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vdla.benchmarks.harness import Section
from vdla.compiler import te
from vdla.compiler.certificates.certify import certify
from vdla.compiler.extensions import ExtensionError, LayerError, extend
from vdla.compiler.layer_programs import LayerProgram
from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition
from vdla.compiler.operators.definitions.definition import requantised, requantised_by
from vdla.compiler.plug_ins import int4_group, norm, softmax, transpose
from vdla.hardware.config import Config
from vdla.support.progress import Progress, numbered

_Write = Callable[[Definition, Config], LayerProgram]
PLUG_INS = ("softmax", "norm", "transpose")
_BITS_OF_FACTORS = 31
_ROWS = {"matrices": 2, "rows": 13}
_LENGTHS = (1, 16, 37)
_FEATURES = (32, 70, 160)


def certified_plug_ins(progress: Progress, seed: int, presets: tuple[str, ...]) -> Section:
    """Programs for rows of several lengths, on presets whose batch is 1."""
    step = numbered(progress, len(presets))
    certified, refused = 0, []
    for preset in presets:
        step(preset)
        for name, program, wanted in programs_of_plug_ins(Config.preset(preset)):
            if certify(program, wanted, seed=seed, explain=False).holds:
                certified += 1
            else:
                refused.append(f"{name} on {preset}")
    return Section({"plug_ins": certified, "plug_ins_refused": len(refused)}, (), {"refused_plug_ins": refused})


def programs_of_plug_ins(config: Config) -> Iterator[tuple[str, LayerProgram, te.Tensor]]:
    """The name, the program and the result of layers that a machine with all plug-ins can run."""
    if config.batch > 1:
        return
    machine = extend(config, *PLUG_INS)
    yield from _of_four_bits(config)
    for length in _LENGTHS:
        shares = definitions.row_softmax(**_ROWS, keys=length, factor=5000)
        centred, others = (
            definitions.row_norm(**_ROWS, features=length, centred=centred, least=3) for centred in (True, False)
        )
        turned, straight = (
            definitions.second_factor(matrices=2, rows=13, columns=length, transposed=transposed)
            for transposed in (True, False)
        )
        cases: tuple[tuple[str, _Write, Definition, te.Tensor], ...] = (
            (f"softmax of {length}", softmax.program, shares, shares.output),
            (f"norm of {length}", norm.program, centred, centred.output),
            (f"norm of {length}, not centred", norm.program, others, others.output),
            (f"transpose of {length}, by rows", transpose.program, turned, scaled_factor(turned)),
            (f"transpose of {length}", transpose.program, straight, scaled_factor(straight)),
        )
        for name, write, layer, wanted in cases:
            try:
                yield name, write(layer, machine), wanted
            except LayerError:  # such as a row that does not fit the buffers
                continue


def _of_four_bits(config: Config) -> Iterator[tuple[str, LayerProgram, te.Tensor]]:
    """Layers with weights of four bits and a factor for each group of them, where they fit."""
    for features in _FEATURES:
        layer = grouped_layer(rows=3, features=features, outputs=21)
        try:
            machine = extend(config, "int4_group")
            (program, *_) = int4_group.programs(layer, machine)
        except (LayerError, ExtensionError):
            continue
        yield f"weights of four bits, {features} features", program, layer.output


def grouped_layer(rows: int, features: int, outputs: int) -> Definition:
    """A dense layer as `int4_group` has it; factors are the low bits of their elements."""
    groups = -(-features // int4_group.GROUP)
    data = te.placeholder((rows, features), "int8", "data")
    weights = te.placeholder((outputs, groups, int4_group.GROUP), "int4", "numbers")
    factors = te.placeholder((outputs, groups), "int8", "factors")
    g, i = te.reduce_axis(groups, "g"), te.reduce_axis(int4_group.GROUP, "i")

    def value(m: te.Value, n: te.Value) -> te.Value:
        at = g * int4_group.GROUP + i
        x = te.cast("int32", te.select(at < features, data[m, at], te.const(0, "int8")))
        factor = te.cast("int32", factors[n, g]) & _BITS_OF_FACTORS
        return te.sum(x * te.cast("int32", weights[n, g, i]) * factor, axis=[g, i])

    scale, result = requantised(te.compute((rows, outputs), value, "sums"), 1)
    return Definition("grouped", (data, weights, factors, scale), result)


def scaled_factor(layer: Definition) -> te.Tensor:
    """What the program of a second factor computes for any scale."""
    elements = layer.output
    wide = te.compute(elements.shape, lambda m, k, n: te.cast("int32", elements[m, k, n]), "wide")
    return requantised_by(wide, (1,), lambda _: (te.const(0, "int32"),))[1]
