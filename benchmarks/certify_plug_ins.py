# SPDX-License-Identifier: Apache-2.0
"""Programs of the plug-ins that come with the toolkit, against the definitions of their layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vdla.benchmarks.harness import Section
from vdla.compiler import te
from vdla.compiler.certificates.certify import certify
from vdla.compiler.extensions import LayerError, extend
from vdla.compiler.layer_programs import LayerProgram
from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition
from vdla.compiler.operators.definitions.definition import requantised_by
from vdla.compiler.plug_ins import norm, softmax, transpose
from vdla.hardware.config import Config
from vdla.support.progress import Progress, numbered

_Write = Callable[[Definition, Config], LayerProgram]
PLUG_INS = ("softmax", "norm", "transpose")
_ROWS = {"matrices": 2, "rows": 13}
_LENGTHS = (1, 16, 37)


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


def scaled_factor(layer: Definition) -> te.Tensor:
    """What the program of a second factor computes for any scale."""
    elements = layer.output
    wide = te.compute(elements.shape, lambda m, k, n: te.cast("int32", elements[m, k, n]), "wide")
    return requantised_by(wide, (1,), lambda _: (te.const(0, "int32"),))[1]
