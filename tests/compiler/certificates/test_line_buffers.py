# SPDX-License-Identifier: Apache-2.0
"""Certificates of instructions that move pixels through a line buffer and a window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.compiler.certificates import state_sequence
from vdla.compiler.certificates.certify import certify
from vdla.compiler.extensions import extend
from vdla.compiler.extensions.load import extension_of
from vdla.compiler.layer_programs import LayerProgram, written_programs
from vdla.compiler.operators.definitions import Definition, depthwise_convolution, scaling
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, EXTENSION, EXTENSION_COLUMN, isa_of, with_fields

MACHINE = extend(Config.preset("pynq_z1"), Path(__file__).parents[3] / "examples" / "depthwise" / "depthwise.py")


def case(size: int, kernel: int, strides: int) -> tuple[LayerProgram, Definition]:
    """A program of a layer of two blocks of channels, with padding that is not zero."""
    sizes: dict[str, Any] = {"size": (size, size), "kernel": kernel, "strides": strides, "pads": kernel // 2}
    layer = depthwise_convolution(batch=1, channels=24, **sizes, raw=False, fill=-5)
    declared = [extension_of(MACHINE, plug_in) for plug_in in MACHINE.extensions]
    return written_programs(declared[:1], layer, MACHINE)[0].programs[-1], layer


@pytest.mark.parametrize("shape", [(12, 3, 1), (13, 3, 2), (9, 5, 1), (10, 5, 2)])
def test_pixels_are_moved_for_many_steps_at_once(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    layer, wanted = case(*shape)
    evaluated, outputs = list[int](), state_sequence.StepBehaviour.outputs

    def counted(behaviour: state_sequence.StepBehaviour, count: int, *given: Any) -> Any:
        evaluated.append(count)
        return outputs(behaviour, count, *given)

    monkeypatch.setattr(state_sequence.StepBehaviour, "outputs", counted)
    certificate = certify(layer, wanted.output)
    assert certificate.holds, certificate
    assert sum(evaluated) > 4 * len(evaluated)  # 200 to 1,000 steps, and what a step moves


FAULTS = [("dw", "src0", 1), ("dw", "src", 1), ("dw", "fill", 1), ("dw_taps", "acc0", -1)]


@pytest.mark.parametrize(("name", "field", "more"), FAULTS)
def test_a_field_that_is_wrong_does_not_hold(name: str, field: str, more: int) -> None:
    layer, wanted = case(12, 3, 1)
    program, words = layer.program, layer.program.words.copy()
    number = [plug_in.name for plug_in in program.config.extensions].index(name)
    columns, places = program.columns, isa_of(program.config).col
    column = places.get(f"{name}.{field}", places.get(field))
    steps = (columns[:, COL["opcode"]] == EXTENSION) & (columns[:, EXTENSION_COLUMN] == number)
    index = int(np.flatnonzero(steps & (columns[:, column] != 0))[-1])
    value = columns[index, column] + more
    words[index] = with_fields(program.config, words[index : index + 1], {field: np.array([value])})[0]
    assert not certify(layer, wanted.output, program=replace(program, words=words), explain=False).holds


@pytest.mark.parametrize("zeros", [(0, 0), (-5, 3), (-128, -128)])
def test_halves_and_lowest_bit_of_a_factor_are_the_factor(zeros: tuple[int, int]) -> None:
    """Squeeze-and-excite: a pixel times two halves of the factor and its lowest bit."""
    layer = scaling(batch=1, channels=24, size=(3, 3), by_channel=True, zero_points=zeros, raw=False, dtype="int8")
    declared = [extension_of(MACHINE, plug_in) for plug_in in MACHINE.extensions]
    certificate = certify(written_programs(declared[:1], layer, MACHINE)[0].programs[0], layer.output)
    assert certificate.holds, certificate
